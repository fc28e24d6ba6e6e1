//! The inputs of hosts and their states: environments, files, clocks, and states that
//! properties look at.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use everhold_host::{Net, Outcome, Shown, hosts, show, shown};
use everhold_live::Probe;
use everhold_trace::NodeId;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

#[test]
fn each_host_has_its_environment_and_files() {
    let outcome = check(20, |net| {
        for (name, port) in [("one", "81"), ("two", "82")] {
            net.client(name, move || {
                assert_eq!(std::env::var("PORT").as_deref(), Ok(port));
                thread::yield_now();
                assert!(std::env::vars().any(|(name, value)| name == "PORT" && value == port));
                assert_eq!(std::fs::read_to_string("/etc/app/config.toml").unwrap(), port);
                assert!(std::fs::read_to_string("/etc/hosts").unwrap().contains("two"));
                assert!(std::env::var("PATH").is_ok());
            });
            net.environment(name, "PORT", port);
            net.file(name, "/etc/app/config.toml", port);
        }
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert!(std::env::var("PORT").is_err());
}

#[test]
fn clocks_of_hosts_differ_if_they_may() {
    let compare = |net: &mut Net<'_>| {
        net.host("server", || {
            for stream in TcpListener::bind("0.0.0.0:37").unwrap().incoming() {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let _ = stream.unwrap().write_all(&now.as_secs().to_be_bytes());
            }
        });
        net.client("user", || {
            thread::sleep(Duration::from_secs(1));
            let start = Instant::now();
            let mut bytes = [0; 8];
            TcpStream::connect("server:37").unwrap().read_exact(&mut bytes).unwrap();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert!(start.elapsed() < Duration::from_secs(5));
            let difference = now.as_secs().abs_diff(u64::from_be_bytes(bytes));
            assert!(difference < 60, "the clocks differ");
        });
    };
    let outcome = check(50, compare);
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    let outcome = check(50, move |net| {
        compare(net);
        net.clock_skew(Duration::from_secs(600));
    });
    assert!(outcome.report.contains("the clocks differ"), "{}", outcome.report);
}

/// Three replicas of a number; the user's writes reach them one after the other.
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

#[test]
fn a_lost_wake_up_is_named() {
    let outcome = check(200, |net| {
        net.client("waiter", || {
            let ready = Arc::new((Mutex::new(false), Condvar::new()));
            let other = Arc::clone(&ready);
            let worker = thread::spawn(move || {
                *other.0.lock().unwrap() = true;
                other.1.notify_one();
            });
            let is_ready = *ready.0.lock().unwrap();
            println!("ready: {is_ready}");
            if !is_ready {
                // The lock was free meanwhile.
                drop(ready.1.wait(ready.0.lock().unwrap()).unwrap());
            }
            worker.join().unwrap();
        });
    });
    let failed = outcome.failed.expect("the notification comes before the wait");
    assert!(failed.contains("woke nobody there before"), "{failed}\n{}", outcome.report);
}
