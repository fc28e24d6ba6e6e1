//! The limits of simulated hosts. Each test asserts today's answer and fails on the day it changes.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use everhold_host::{Net, Outcome, Preemption, hosts};
use everhold_sim::Search;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup)
        .preemption(Preemption::Atomics)
        .explorer(|e| e.executions(executions).search(Search::Random).regressions(false))
        .run()
}

/// Threads are not preempted at plain loads and stores, which atomic ones are on this processor.
#[test]
fn a_race_of_loads_and_stores_is_not_seen() {
    let outcome = check(300, |net| {
        net.client("adder", || {
            let total = Arc::new(AtomicU32::new(0));
            let add = |total: &AtomicU32| {
                let read = total.load(Ordering::Relaxed);
                total.store(read + 1, Ordering::Relaxed);
            };
            let other = Arc::clone(&total);
            let worker = thread::spawn(move || add(&other));
            add(&total);
            worker.join().unwrap();
            assert_eq!(total.load(Ordering::Relaxed), 2);
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

/// Unix sockets carry streams only.
#[test]
fn there_are_no_unix_datagrams() {
    let outcome = check(1, |net| {
        net.client("one", || assert!(UnixDatagram::unbound().is_err()));
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}
