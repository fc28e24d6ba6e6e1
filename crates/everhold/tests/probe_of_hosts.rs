//! The probe that a service has in production is its state on simulated hosts.
#![cfg(all(feature = "hosts", feature = "live"))]
#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use everhold::host::{Net, Outcome, Shown, hosts, show, shown};
use everhold::live::Probe;
use everhold::node::NodeId;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

/// Two replicas of a number; the user's writes reach them one after the other.
fn replicas(net: &mut Net<'_>) {
    for number in 0..2_u32 {
        net.host(format!("replica-{number}"), move || {
            let checker = "127.0.0.1:7117".parse().unwrap();
            let probe = Probe::to_checkers([checker])
                .system("store")
                .node(NodeId(number), "replica", "replica")
                .start();
            let (value, holds) = (probe.var("value"), probe.var("holds"));
            probe.observe(value, 0);
            for stream in TcpListener::bind("0.0.0.0:80").unwrap().incoming() {
                let mut byte = [0];
                stream.unwrap().read_exact(&mut byte).unwrap();
                probe.add(holds, "key", i64::from(byte[0]));
                probe.observe(value, i64::from(byte[0]));
            }
        });
    }
    net.client("user", || {
        thread::sleep(Duration::from_secs(1));
        for number in 0..2 {
            TcpStream::connect(format!("replica-{number}:80")).unwrap().write_all(&[7]).unwrap();
        }
        show("done", &true);
        thread::sleep(Duration::from_secs(2));
    });
}

#[test]
fn what_a_probe_shows_is_the_state_of_properties() {
    let outcome = check(50, |net| {
        replicas(net);
        net.always("replicas agree", |s| {
            let values = |shown: &Shown| shown.int("value");
            let mut values: Vec<i64> = s.all::<Shown>().filter_map(|(_, s)| values(s)).collect();
            values.dedup();
            values.len() < 2
        });
    });
    let failed = outcome.failed.expect("one replica is written first");
    assert!(failed.contains("replicas agree"), "{failed}");
    assert!(outcome.report.contains("value"), "{}", outcome.report);
    let outcome = check(50, |net| {
        replicas(net);
        net.sometimes("both are written", |s| {
            ["replica-0", "replica-1"]
                .iter()
                .all(|host| shown(s, host).and_then(|shown| shown.int("value")) == Some(7))
        });
        net.always("the relation follows", |s| {
            let of = |shown: &Shown| (shown.int("value") == Some(7), shown.get("holds").is_some());
            s.all::<Shown>().map(|(_, shown)| of(shown)).all(|(seven, holds)| holds || !seven)
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}
