//! Hosted nodes seen from outside: `watch` catches their violations, the other commands open the
//! files that it leaves, and `replay-live` repeats the run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use everhold::NodeId;
use everhold_live::host::loopback;
use everhold_live::{Client, Codec, Config};
use everhold_systems::live::Case;
use everhold_systems::lock::{CONSISTENT, Mode, Msg, RULES};

use crate::program::{check, temporary};

const PATIENCE: Duration = Duration::from_secs(20);

/// Starts `everhold watch` on a free port; returns its address.
fn watch(rules: &str, folder: &str) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["watch", "--rules", rules, "--folder", folder, "--listen", "127.0.0.1:0"])
        .args(["--json", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening for probes on"));
    let address = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    // The output is read until its end, so that the pipe never fills.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address.expect("it says where it listens"))
}

/// Two clients of the lock service hold one lock, while `checker` watches.
fn double_grant(record: &Path, checker: SocketAddr) {
    let addresses = loopback(3).expect("ports are free");
    let mut config = Config::new("lock", (0..).map(NodeId).zip(addresses.clone()));
    config.checkers = vec![checker];
    config.record = Some(record.to_owned());
    let here = [0, 1, 2].map(NodeId);
    let case = Case::find("lock").unwrap();
    let running = case.host(config, &here, "grants-before-release").unwrap();
    for (id, mode) in [(1, Mode::Exclusive), (2, Mode::Shared)] {
        let address = addresses[id as usize];
        let client = Client::connect("lock", NodeId(id), address, Codec::postcard());
        let have = client.unwrap().call(&Msg::Want(7, mode), PATIENCE).unwrap();
        assert_eq!(have, Msg::Have(7));
    }
    std::thread::sleep(Duration::from_millis(500));
    running.stop().unwrap();
}

#[test]
fn hosted_nodes_are_watched_and_replayed() {
    let folder = temporary("live");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let text = |name: &str| folder.join(name).display().to_string();
    fs::write(folder.join("lock.prop"), RULES).unwrap();
    let (mut watch, address) = watch(&text("lock.prop"), &text("watch"));
    double_grant(&folder.join("record"), address);
    let stdout = BufReader::new(watch.stdout.take().expect("it was asked for"));
    let mut lines = stdout.lines().map_while(Result::ok);
    let fired = lines.find(|line| line.contains("\"fired\"")).expect("it tells the violation");
    assert!(fired.contains(CONSISTENT), "{fired}");
    watch.kill().unwrap();
    watch.wait().unwrap();

    let violations = fs::read_dir(folder.join("watch/violations")).unwrap();
    let trace = violations.map(|entry| entry.unwrap().path()).next().expect("a trace");
    let trace = trace.display().to_string();
    check(&["show", &trace], 0, &["n1", "n2", "held"]);
    check(&["check", &text("lock.prop"), &trace], 1, &[CONSISTENT]);

    let record = text("record");
    let small = text("small.jsonl");
    check(&["replay-live", &record, "--out", &small], 1, &[CONSISTENT, "Grant"]);
    check(&["check", &text("lock.prop"), &small], 1, &[CONSISTENT]);
    check(&["replay-live", &record, "--bug", "none"], 3, &["event", "of the recording"]);
    check(&["replay-live", &record, "--bug", "no-such"], 64, &["grants-before-release"]);
    check(&["replay-live", &record, "--system", "primary-backup", "--bug", "none"], 64, &["n0"]);
}

#[test]
fn what_is_no_recording_is_refused() {
    check(&["replay-live"], 0, &["primary-backup", "answers-before-flush"]);
    check(&["replay-live", "no-such-folder"], 64, &["no-such-folder"]);
    check(&["help", "live"], 0, &["# Live", "## Replay"]);
    check(&["help", "watch"], 0, &["# Watching"]);
}
