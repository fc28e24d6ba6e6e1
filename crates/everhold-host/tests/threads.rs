//! Programs with threads and without a network.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use everhold_host::{Net, Outcome, hosts};
use everhold_sim::Schedule;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

#[test]
fn time_is_virtual() {
    let outcome = check(20, |net| {
        net.client("sleeper", || {
            let start = Instant::now();
            for _ in 0..3 {
                thread::sleep(Duration::from_secs(3_600));
            }
            assert_eq!(start.elapsed(), Duration::from_secs(3 * 3_600));
        });
    });
    assert_eq!(outcome.failed, None);
}

#[test]
fn threads_meet_at_channels_locks_and_joins() {
    let outcome = check(100, |net| {
        net.client("threads", || {
            let (sender, receiver) = mpsc::channel();
            let total = Arc::new((Mutex::new(0), Condvar::new()));
            let workers: Vec<_> = (0..3)
                .map(|number| {
                    let (sender, total) = (sender.clone(), Arc::clone(&total));
                    thread::spawn(move || {
                        sender.send(number).unwrap();
                        *total.0.lock().unwrap() += number;
                        total.1.notify_all();
                        number * 10
                    })
                })
                .collect();
            drop(sender);
            let mut got: Vec<i32> = receiver.iter().collect();
            got.sort_unstable();
            assert_eq!(got, [0, 1, 2]);
            let mut sum = total.0.lock().unwrap();
            while *sum < 3 {
                sum = total.1.wait(sum).unwrap();
            }
            drop(sum);
            let joined: i32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
            assert_eq!(joined, 30);
        });
    });
    assert_eq!(outcome.failed, None);
    assert_eq!(outcome.executions, 100);
}

/// Two threads add to a number: what each reads may be old when it writes.
fn lost_update(net: &mut Net<'_>) {
    net.client("adder", || {
        let total = Arc::new(Mutex::new(0));
        let add = |total: Arc<Mutex<i32>>| {
            let read = *total.lock().unwrap();
            thread::yield_now();
            *total.lock().unwrap() = read + 1;
        };
        let other = Arc::clone(&total);
        let worker = thread::spawn(move || add(other));
        add(Arc::clone(&total));
        worker.join().unwrap();
        assert_eq!(*total.lock().unwrap(), 2);
    });
}

#[test]
fn a_lost_update_is_found_and_replays() {
    let outcome = check(100, lost_update);
    let failed = outcome.failed.expect("each of the two orders is likely");
    assert!(failed.contains("every program succeeds"), "{failed}\n{}", outcome.report);
    let schedule = outcome.schedule.expect("a finding has a schedule");
    let schedule = Schedule::parse(&schedule).unwrap();
    let replayed = hosts(lost_update).explorer(|e| e.replay(schedule).regressions(false)).run();
    assert!(replayed.failed.is_some(), "{}", replayed.report);
    assert_eq!(replayed.executions, 1);
    assert!(replayed.report.contains("assertion `left == right` failed"), "{}", replayed.report);
}

#[test]
fn a_deadlock_is_found_and_says_who_waits() {
    let outcome = check(200, |net| {
        net.client("locks", || {
            let (one, two) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (first, second) = (Arc::clone(&one), Arc::clone(&two));
            let worker = thread::spawn(move || {
                let _first = first.lock().unwrap();
                println!("the worker has the first");
                let _second = second.lock().unwrap();
            });
            {
                let _second = two.lock().unwrap();
                println!("the main thread has the second");
                let _first = one.lock().unwrap();
            }
            worker.join().unwrap();
        });
    });
    let failed = outcome.failed.expect("both orders of locking are likely");
    assert!(failed.contains("deadlock"), "{failed}\n{}", outcome.report);
    assert!(outcome.report.contains("waits for a wake-up of the futex"), "{}", outcome.report);
}

#[test]
fn statics_are_fresh_in_every_execution_and_every_host() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let outcome = check(50, |net| {
        for name in ["one", "two"] {
            net.client(name, || assert_eq!(STARTED.fetch_add(1, Ordering::Relaxed), 0));
        }
    });
    assert_eq!(outcome.failed, None);
    assert_eq!(STARTED.load(Ordering::Relaxed), 0);
}

#[test]
fn a_child_process_is_refused_by_name() {
    let outcome = check(1, |net| {
        net.client("parent", || drop(std::process::Command::new("true").status()));
    });
    let failed = outcome.failed.expect("hosts have no child processes");
    assert!(
        outcome.report.contains("posix_spawn") || outcome.report.contains("fork"),
        "{failed}\n{}",
        outcome.report
    );
}
