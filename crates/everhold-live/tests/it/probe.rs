//! Observations, loss, reconnecting, refusals.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use everhold_live::probe::Builder;
use everhold_live::{Envelope, NOBODY, NodeId, Probe, Report};
use everhold_trace::wire::{Encoder, Frame, Greeting, Record, Shown, Stamp, VERSION, What};
use everhold_trace::{EventKind, MessageId, Value};

use crate::checker::{AHEAD, Checker, Heard};

fn probe_to(address: SocketAddr) -> Builder {
    Probe::to_checkers([address])
        .system("bank")
        .node(NodeId(1), "teller", "server")
        .heartbeat(Duration::from_millis(10))
        .report(Report::to(|_| ()))
}

/// Waits until the probe is watched.
fn watched(probe: Probe) -> Probe {
    let begun = Instant::now();
    while !probe.is_watched() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the checker is not reached");
        thread::sleep(Duration::from_millis(1));
    }
    probe
}

#[test]
fn everything_observed_arrives_in_order() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).incarnation(4).start());
    let hello = checker.hello();
    assert_eq!((hello.system.as_str(), hello.node, hello.incarnation), ("bank", NodeId(1), 4));

    let [x, holds, step, transfer] = ["x", "holds", "step", "Transfer"].map(|name| probe.var(name));
    assert_eq!(probe.var("x"), x);
    probe.step(step);
    probe.observe(x, -5);
    probe.observe(x, "größe");
    probe.observe(x, &"long ".repeat(1_000));
    probe.observe_value(x, &vec![1, 2]);
    probe.add(holds, 7u32, "exclusive");
    probe.remove(holds, "seven", NodeId(3));
    let first = probe.send(Some(NodeId(2)), transfer);
    let second = probe.send(None, transfer);
    assert_eq!((first.seq, second.seq), (0, 1));
    assert!(second.at > first.at);
    drop(probe.scope(step));
    drop(probe);

    let heard = checker.listen(|heard| heard.bye);
    assert!(heard.records.is_sorted_by(|a, b| a.at < b.at), "each has a stamp of its own");
    assert_eq!(heard.dropped, 0);
    let local = |name: &str| What::Event(EventKind::Local { name: name.to_owned() });
    let observed = |value: Value| What::Observe(vec![("x".into(), value)]);
    let send = |to, seq| What::Send { to, seq, label: "Transfer".into() };
    let whats: Vec<_> = heard.records.into_iter().map(|record| record.what).collect();
    let tuple = |key: Value, value: Value| everhold_trace::wire::Tuple {
        relation: "holds".into(),
        key,
        value,
    };
    let expected = [
        local("step"),
        observed((-5).into()),
        observed("größe".into()),
        observed("long ".repeat(1_000).into()),
        observed(Value::list([1, 2])),
        What::Add(tuple(7u32.into(), "exclusive".into())),
        What::Remove(tuple("seven".into(), NodeId(3).into())),
        send(Some(NodeId(2)), 0),
        send(None, 1),
        local("step"),
        local("step ends"),
    ];
    assert_eq!(whats, expected);
}

/// Several threads race with the draining thread; `listen` asserts that no record comes after a
/// promise that everything before it was sent.
#[test]
fn promises_hold_while_threads_race() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).heartbeat(Duration::from_millis(1)).start());
    checker.hello();
    let (threads, each) = (4, 20_000);
    for thread in 0..threads {
        let probe = probe.clone();
        thread::spawn(move || {
            let var = probe.var(["a", "b", "c", "d"][thread]);
            for n in 0..each {
                probe.observe(var, n);
                if n % 500 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    assert_eq!(heard.records.len() as u64 + heard.dropped, threads as u64 * each as u64);
    let numbers: Vec<_> = (1..=heard.numbers.len() as u64).collect();
    assert_eq!(heard.numbers, numbers, "batches are numbered without gaps");
}

#[test]
fn a_full_ring_drops_and_says_so() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).ring_words(30).start());
    checker.hello();
    let var = probe.var("x");
    // Far more records than fit, in far less time than between two visits of the draining thread.
    (0..10_000).for_each(|n| probe.observe(var, n));
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    assert_eq!(heard.records.len() as u64 + heard.dropped, 10_000);
    assert!(heard.dropped > 5_000, "only {} were dropped", heard.dropped);
}

#[test]
fn what_no_checker_could_read_is_dropped_and_the_rest_goes_on() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    let var = probe.var("x");
    let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    for levels in [60, 70] {
        probe.record(What::Observe(vec![("x".into(), nested(levels))]));
    }
    probe.observe_value(var, &"y".repeat(2 << 20)); // more than fits into a frame
    probe.observe(var, 1);
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    assert_eq!((heard.records.len(), heard.dropped), (2, 2));
}

#[test]
fn nobody_watching_costs_nothing_and_a_late_checker_is_refreshed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let probe = probe_to(address).refresh(|probe| probe.observe(probe.var("all"), true)).start();
    assert!(!probe.is_watched());
    probe.observe(probe.var("x"), 1);
    let checker = Checker::on(TcpListener::bind(address).unwrap(), None);
    let probe = watched(probe);
    checker.hello();
    let is_whole = |record: &Record| record.what == What::Whole;
    let heard = checker.listen(|heard| heard.records.iter().any(is_whole));
    let all = What::Observe(vec![("all".into(), true.into())]);
    let told: Vec<_> = heard.records.into_iter().map(|record| record.what).collect();
    assert!(told.starts_with(&[What::Refresh, all, What::Whole]), "{told:?}");
    drop(probe);
}

#[test]
fn a_probe_that_dropped_records_tells_everything_again() {
    let checker = Checker::start(None);
    let probe = probe_to(checker.address)
        .ring_words(64)
        .refresh(|probe| probe.observe(probe.var("all"), true))
        .start();
    let probe = watched(probe);
    checker.hello();
    let wholes =
        |heard: &Heard| heard.records.iter().filter(|record| record.what == What::Whole).count();
    checker.listen(|heard| wholes(heard) > 0);
    let x = probe.var("x");
    // More than the ring holds at once.
    while probe.dropped() == 0 {
        (0..1_000).for_each(|number| probe.observe(x, number));
    }
    checker.listen(|heard| heard.dropped > 0 && wholes(heard) > 0);
    drop(probe);
}

/// Nothing is recorded while there is no connection, so a checker that comes back is told that
/// something may be missing before it is promised that nothing is.
#[test]
fn a_checker_that_comes_back_sees_a_gap_before_any_promise() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    let heard = checker.listen(|heard| heard.passed > Stamp(0));
    assert_eq!(heard.numbers, [1], "the first time, nothing was missed");
    checker.go_away();
    let begun = Instant::now();
    while probe.is_watched() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the end is noticed");
        thread::sleep(Duration::from_millis(1));
    }
    probe.observe(probe.var("x"), 1);
    checker.come_back();
    let mut frames = checker.before_promises();
    // The error of stamps is not a promise about records.
    frames.retain(|frame| !matches!(frame, Frame::Clock { .. }));
    let Some(Frame::Batch(batch)) = frames.first() else { panic!("{frames:?}") };
    assert!(batch.number > 2, "{batch:?}");
}

/// Checkers that share a log take each batch from whichever connection delivers it first.
#[test]
fn several_checkers_get_the_same_batches_under_the_same_numbers() {
    let checkers = [Checker::start(None), Checker::start(None)];
    let probe = Probe::to_checkers(checkers.each_ref().map(|checker| checker.address))
        .node(NodeId(1), "teller", "server")
        .heartbeat(Duration::from_millis(10))
        .report(Report::to(|_| ()))
        .start();
    checkers.iter().for_each(|checker| drop(checker.hello()));
    let probe = watched(probe);
    let x = probe.var("x");
    let texts = probe.var("texts");
    for number in 0..20 {
        probe.observe(x, number);
        // More than fits into one frame, with everything that is sent at once.
        probe.observe_value(texts, &"y".repeat(200_000));
    }
    drop(probe);
    let [first, second] = checkers.each_ref().map(|checker| {
        let mut batches = Vec::new();
        checker.listen_to_batches(|batch| batches.push(batch));
        batches
    });
    assert!(first.len() > 3 && second.len() > 3);
    for batch in &first {
        let same = second.iter().filter(|other| other.number == batch.number);
        assert!(same.into_iter().all(|other| other == batch), "{batch:?}");
    }
}

/// Returns what a probe reports when it meets this checker.
fn complaint(address: SocketAddr, secret: Option<&str>) -> String {
    let (tell, told) = mpsc::channel();
    let report = Report::to(move |line| drop(tell.send(line.to_owned())));
    let mut builder = probe_to(address).report(report);
    if let Some(secret) = secret {
        builder = builder.secret(secret);
    }
    let probe = builder.start();
    let line = told.recv_timeout(Duration::from_secs(10)).expect("it complains");
    probe.observe(probe.var("x"), 1);
    line
}

#[test]
fn whoever_is_no_checker_is_named_and_the_service_goes_on() {
    let says = |bytes: &'static [u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(bytes);
                thread::sleep(Duration::from_millis(200));
            }
        });
        complaint(address, None)
    };
    let line = says(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(line.contains("not Everhold's tuple protocol"), "{line}");
    let line = says(b"\x17\x00\x00\x00\x01EVHD\x09\x00aaaaaaaaaaaaaaaa");
    assert!(line.contains("version 9"), "{line}");
    let line = says(&[0xff; 64]);
    assert!(line.contains("are allowed"), "{line}");
}

#[test]
fn a_checker_that_does_not_tell_its_time_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        for frame in [
            Frame::Greeting(Greeting { version: VERSION, nonce: [0; 16] }),
            Frame::Ack { batch: 0 },
        ] {
            Encoder::default().frame(&frame, &mut bytes).unwrap();
        }
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(&bytes);
            open.push(stream);
        }
    });
    let line = complaint(address, None);
    assert!(line.contains("asked for its time"), "{line}");
}

/// A checker that knew no error of the stamps would take them to be exact.
#[test]
fn a_checker_knows_the_error_of_stamps_before_the_first_of_them() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).heartbeat(Duration::from_millis(2)).start());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let var = probe.var("x");
            for n in 0.. {
                probe.observe(var, n);
                if stop.load(Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        for _ in 0..8 {
            let frames = checker.before_promises();
            let is_first = matches!(frames.first(), Some(Frame::Clock { .. }));
            if !is_first {
                stop.store(true, Relaxed);
            }
            assert!(is_first, "{:?}", frames.first());
            checker.go_away();
            checker.come_back();
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_secret_is_asked_for() {
    let checker = Checker::start(Some(b"open sesame"));
    let line = complaint(checker.address, Some("open barley"));
    assert!(line.contains("secret is missing or wrong"), "{line}");
    let line = complaint(checker.address, None);
    assert!(line.contains("secret is missing or wrong"), "{line}");
    drop(watched(probe_to(checker.address).secret("open sesame").start()));
}

#[test]
fn a_receiver_is_after_its_sender_unless_the_clock_is_mad() {
    let a = Probe::to_checkers([]).node(NodeId(9), "n9", "server").start();
    let b = Probe::off();
    let mut envelope = a.send(None, a.var("m"));
    envelope.at = Stamp(envelope.at.0 + (1 << 40)); // about four minutes ahead
    b.receive(envelope).unwrap();
    assert!(b.send(None, b.var("m")).at > envelope.at);
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    envelope.at = Stamp::from_micros(checkers_time() + 3_600_000_000);
    let error = probe.receive(envelope).unwrap_err();
    assert!(error.to_string().contains("ahead of this node's clock"), "{error}");
    drop(probe);
    let message = MessageId { sender: NodeId(9), seq: envelope.seq };
    let heard = checker.listen(|heard| heard.bye);
    assert_eq!(heard.records[0].what, What::receive(message));
    assert!(heard.records[0].at < envelope.at);
}

/// Returns the checker's clock, in microseconds since 1970.
fn checkers_time() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + AHEAD;
    now.as_micros() as u64
}

#[test]
fn stamps_are_in_the_checkers_time_whatever_the_nodes_clock_says() {
    for offset in [0, -50_000, -5_000_000, 5_000_000, 300_000_000] {
        let checker = Checker::start(None);
        let probe = watched(probe_to(checker.address).clock_offset(offset).start());
        checker.hello();
        let x = probe.var("x");
        let mut between = Vec::new();
        for n in 0..20 {
            let before = checkers_time();
            probe.observe(x, n);
            between.push((before, checkers_time()));
            thread::sleep(Duration::from_micros(300));
        }
        let heard = checker.listen(|heard| heard.records.len() == 20 && heard.clocks.len() >= 2);
        let error = heard.clocks.iter().map(|(_, error)| *error).max().unwrap();
        for (record, (before, after)) in heard.records.iter().zip(between) {
            let at = record.at.micros();
            assert!(before <= at + error && at <= after + error, "{before} {at} {after} ± {error}");
        }
        let wall = offset - AHEAD.as_micros() as i64;
        for (ahead, error) in heard.clocks {
            assert!(ahead.abs_diff(wall) <= error + 1_000, "{ahead} is not {wall} ± {error}");
        }
    }
}

#[test]
fn a_probe_that_nobody_watches_passes_on_the_order_of_others() {
    let (checker, idle) = (Checker::start(None), Probe::off());
    let probe = watched(probe_to(checker.address).start());
    let label = probe.var("Hand");
    let first = probe.send(None, label);
    idle.receive(first).unwrap();
    let passed_on = idle.send(None, idle.var("Hand"));
    assert!(passed_on.at > first.at);
    // The probe has no time of its own, so it does not bring in a clock that was never compared.
    assert!(passed_on.at.micros() <= first.at.micros() + 1);
}

#[test]
fn a_stamp_far_ahead_of_the_checkers_time_is_not_believed() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    let envelope = |ahead: u64| Envelope {
        at: Stamp::from_micros(checkers_time() + ahead),
        sender: NodeId(7),
        seq: 0,
    };
    assert!(probe.receive(envelope(5_000_000)).is_err());
    assert!(probe.send(None, probe.var("x")).at.micros() < checkers_time() + 1_000_000);
    // A small lead is accepted, and counts as an error of the clocks.
    checker.hello();
    checker.listen(|heard| heard.clocks.len() >= 2);
    probe.receive(envelope(300_000)).unwrap();
    let heard = checker.listen(|heard| heard.clocks.len() >= 2);
    assert!(heard.clocks.iter().any(|(_, error)| *error > 200_000), "{:?}", heard.clocks);
}

#[derive(serde::Serialize)]
enum Mode {
    Shared,
    Upgrading { waits_for: Vec<NodeId> },
}

#[derive(serde::Serialize)]
struct Lease {
    mode: Mode,
    until: u64,
}

/// Keys and values may be structures, with the same meaning as in observed values.
#[test]
fn tuples_of_structures_arrive_whole() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    let leases = probe.var("leases");
    let lease = |mode| Lease { mode, until: u64::MAX };
    let upgrading = || Mode::Upgrading { waits_for: vec![NodeId(3)] };
    probe.add(leases, ("shard", 3), lease(upgrading()));
    probe.add(leases, Some("plain"), Mode::Shared);
    probe.add(leases, NodeId(4), lease(Mode::Shared));
    probe.remove(leases, ("shard", 3), lease(upgrading()));
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    let mut shown = Shown::default();
    let mut after = |record: &Record| shown.apply(&record.what).then(|| shown.state().to_string());
    let texts: Vec<String> = heard.records.iter().filter_map(&mut after).collect();
    let plain = r#""plain" -> "Shared""#;
    let node = r#"n4 -> {mode: "Shared", until: "18446744073709551615"}"#;
    assert_eq!(
        texts[0],
        r#"{leases: {["shard", 3] -> {mode: Upgrading({waits_for: [n3]}), until: "18446744073709551615"}}}"#
    );
    assert_eq!(texts.last(), Some(&format!("{{leases: {{{plain}, {node}}}}}")));
}

/// Refuses to be serialised, as a poisoned lock does.
struct Broken;

impl serde::Serialize for Broken {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("broken"))
    }
}

#[test]
fn what_does_not_serialise_is_dropped_and_counted() {
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    let x = probe.var("x");
    probe.add(x, Broken, 1);
    probe.remove(x, 1, Broken);
    probe.observe_value(x, &Broken);
    drop(probe);
    assert_eq!(checker.listen(|heard| heard.bye).dropped, 3);
}

/// The receiver of a message from a probe that is off must not take it for one of node 0.
#[test]
fn a_probe_that_is_off_or_has_no_number_sends_as_nobody() {
    let silent = Report::to(|_| {});
    let unnumbered = Probe::to_checkers([]).report(silent).start();
    for idle in [Probe::off(), unnumbered] {
        let envelope = idle.send(None, idle.var("Hand"));
        assert_eq!(envelope.sender, NOBODY);
        for copy in [
            envelope.to_string().parse().unwrap(),
            Envelope::from_bytes(&envelope.to_bytes()).unwrap().0,
        ] {
            assert_eq!(copy, envelope);
        }
    }
    let checker = Checker::start(None);
    let probe = watched(probe_to(checker.address).start());
    checker.hello();
    probe.receive(Probe::off().send(None, probe.var("Hand"))).unwrap();
    drop(probe);
    let heard = checker.listen(|heard| heard.bye);
    let input = What::Event(EventKind::Input { name: "message".to_owned() });
    let whats: Vec<&What> = heard.records.iter().map(|record| &record.what).collect();
    assert!(whats.contains(&&input), "{whats:?}");
    let deliver = |what: &&&What| matches!(what, What::Event(EventKind::Deliver { .. }));
    assert_eq!(whats.iter().find(deliver), None);
}

/// A probe without a number must not be shown as node 0, which is another node.
#[test]
fn a_probe_without_a_number_shows_nothing_and_says_so() {
    let (tell, told) = mpsc::channel();
    let checker = Checker::start(None);
    let probe = Probe::to_checkers([checker.address])
        .report(Report::to(move |line| drop(tell.send(line.to_owned()))))
        .start();
    let line = told.recv_timeout(Duration::from_secs(10)).expect("it says so");
    assert!(line.contains("no number") && line.contains("Builder::node"), "{line}");
    probe.observe(probe.var("x"), 1);
    assert!(!probe.is_watched());
}
