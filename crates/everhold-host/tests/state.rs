//! The inputs of hosts: environments, files, clocks; and waits that nobody ends.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use everhold_host::{Net, Outcome, Shown, hosts, show};

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

/// The search over a host that shows two values, one after the other.
fn shows(values: [u64; 2]) -> Outcome {
    let setup = move |net: &mut Net<'_>| {
        net.host("replica", move || {
            for value in values {
                show("value", &value);
                thread::sleep(Duration::from_secs(1));
            }
        });
        net.client("user", || thread::sleep(Duration::from_secs(10)));
        net.eventually("the value becomes 2", |s| {
            s.all::<Shown>().any(|(_, shown)| shown.int("value") == Some(2))
        });
        net.property("always \"values are small\": forall r in replica nodes: r.value < 9");
    };
    hosts(setup).explorer(|e| e.executions(20).regressions(false)).run()
}

#[test]
fn properties_about_the_course_of_executions() {
    assert_eq!(shows([1, 2]).failed, None);
    let never = shows([1, 3]).failed.unwrap_or_default();
    assert!(never.contains("the value becomes 2"), "{never}");
    let large = shows([2, 9]).failed.unwrap_or_default();
    assert!(large.contains("values are small"), "{large}");
}
