//! Segments, a full disk, merging.

use std::fs;
use std::io::BufReader;
use std::sync::mpsc;
use std::time::Duration;

use everhold_live::recording::merge;
use everhold_live::{NodeId, Probe, Recording, Report};
use everhold_trace::format::{ReadOptions, read_all};
use everhold_trace::wire::Stamp;
use everhold_trace::{EventKind, Value};

use crate::checker::Checker;
use crate::folder::Folder;

fn recorded(folder: &Folder, id: u32) -> Probe {
    let recording = Recording::into(folder.path()).segment_bytes(4_000).segments(3);
    let id = NodeId(id);
    Probe::to_checkers([])
        .node(id, &id.to_string(), "server")
        .recording(recording)
        .heartbeat(Duration::from_millis(10))
        .start()
}

#[test]
fn segments_are_bounded_and_each_begins_with_the_whole_state() {
    let folder = Folder::new();
    let probe = recorded(&folder, 1);
    let (x, y) = (probe.var("x"), probe.var("y"));
    probe.observe(y, 7);
    for n in 0..1_000 {
        probe.step(probe.var("step"));
        probe.observe(x, n);
    }
    drop(probe);
    let mut paths: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 3);
    for path in &paths {
        assert!(path.metadata().unwrap().len() < 5_000);
        let file = BufReader::new(fs::File::open(path).unwrap());
        let trace = read_all(file, &ReadOptions::strict()).unwrap();
        let states = trace.executions[0].local_states();
        let first = states.at(NodeId(0), 1).expect("the first event shows the state");
        assert_eq!(first.get("y"), Some(&Value::Int(7)));
    }
    let whole = merge([folder.path()]).unwrap();
    let execution = &whole.executions[0];
    let last = execution.local_states();
    let last = last.at(NodeId(0), execution.events().len()).unwrap();
    assert_eq!(last.get("x"), Some(&Value::Int(999)));
}

#[test]
fn recordings_of_two_nodes_become_one_execution() {
    let folder = Folder::new();
    let (a, b) = (recorded(&folder, 1), recorded(&folder, 2));
    a.event(EventKind::Start);
    b.event(EventKind::Start);
    let envelope = a.send(Some(NodeId(2)), a.var("Ping"));
    b.receive(envelope).unwrap();
    b.observe(b.var("pings"), 1);
    drop(b);
    let b = recorded(&folder, 2);
    b.event(EventKind::Restart);
    drop((a, b));
    let whole = merge([folder.path()]).unwrap();
    assert!(whole.diagnostics.is_empty(), "{:?}", whole.diagnostics);
    let execution = &whole.executions[0];
    let words: Vec<_> = execution.events().iter().map(|event| event.kind.word()).collect();
    assert_eq!(words, ["start", "start", "deliver", "crash", "restart"]);
    assert_eq!(execution.messages().len(), 1);
}

/// `/dev/full` accepts no byte, like a full disk.
#[test]
fn a_full_disk_pauses_the_recording_alone() {
    let folder = Folder::new();
    let checker = Checker::start(None);
    let (tell, told) = mpsc::channel();
    let probe = Probe::to_checkers([checker.address])
        .node(NodeId(1), "n1", "server")
        .recording(Recording::into(folder.path()))
        .heartbeat(Duration::from_millis(10))
        .report(Report::to(move |line| drop(tell.send(line.to_owned()))))
        .start();
    checker.hello();
    // A heartbeat shows that the probe knows of its audience: what comes now is sent.
    checker.listen(|heard| heard.passed > Stamp::default());
    std::os::unix::fs::symlink("/dev/full", folder.path().join("n1.000000.jsonl")).unwrap();
    for _ in 0..3 {
        probe.step(probe.var("step"));
    }
    let line = told.recv_timeout(Duration::from_secs(10)).expect("it complains");
    assert!(line.contains("pauses for 10 s") && line.contains("free some space"), "{line}");
    probe.observe(probe.var("x"), 1);
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    assert!(heard.records.len() >= 2, "the checker hears of what the recording lost");
}

/// A recording shows relations as a watch does: maps in which a key has one value, so that a
/// replaced or repeated tuple is not a second one.
#[test]
fn tuples_are_recorded_as_a_watch_sees_them() {
    let folder = Folder::new();
    let probe = recorded(&folder, 1);
    let locks = probe.var("locks");
    probe.add(locks, 7, "shared");
    probe.add(locks, 7, "exclusive");
    probe.remove(locks, 7, "shared");
    probe.add(locks, 8, ("shared", NodeId(2)));
    probe.add(locks, 9, true);
    probe.remove(locks, 9, true);
    drop(probe);
    let whole = merge([folder.path()]).unwrap();
    let execution = &whole.executions[0];
    let states = execution.local_states();
    let last = states.at(NodeId(0), execution.events().len()).unwrap();
    assert_eq!(last.to_string(), r#"{locks: {7 -> "exclusive", 8 -> ["shared", n2]}}"#);
}
