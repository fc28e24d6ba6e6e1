//! Preemption at atomic instructions: races that no call lies between.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use everhold_host::{Net, Outcome, Preemption, hosts};
use everhold_sim::{Schedule, Search};

fn check(
    executions: u64,
    preemption: Preemption,
    setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static,
) -> Outcome {
    hosts(setup)
        .preemption(preemption)
        .explorer(|e| e.executions(executions).search(Search::Random).regressions(false))
        .run()
}

/// Two threads read under one lock and write under another; nothing calls in between.
fn lost_update(net: &mut Net<'_>) {
    net.client("adder", || {
        let total = Arc::new(Mutex::new(0));
        let add = |total: Arc<Mutex<i32>>| {
            for _ in 0..3 {
                let read = *total.lock().unwrap();
                *total.lock().unwrap() = read + 1;
            }
        };
        let other = Arc::clone(&total);
        let worker = thread::spawn(move || add(other));
        add(Arc::clone(&total));
        worker.join().unwrap();
        assert_eq!(*total.lock().unwrap(), 6, "an update was lost");
    });
}

#[test]
fn an_update_lost_between_two_free_locks_is_found_shrunk_and_replayed() {
    let outcome = check(200, Preemption::Atomics, lost_update);
    let failed = outcome.failed.expect("the two threads meet within the loop");
    assert!(outcome.report.contains("an update was lost"), "{failed}\n{}", outcome.report);
    let schedule = Schedule::parse(&outcome.schedule.expect("it has a schedule")).unwrap();
    let replayed = hosts(lost_update)
        .preemption(Preemption::Atomics)
        .explorer(|e| e.replay(schedule).regressions(false))
        .run();
    assert!(replayed.failed.is_some(), "{}", replayed.report);
}

#[test]
fn without_preemption_at_atomics_it_is_not_found() {
    let outcome = check(200, Preemption::Calls, lost_update);
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_deadlock_between_free_locks_is_found() {
    let outcome = check(500, Preemption::Atomics, |net| {
        net.client("locks", || {
            let (one, two) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (first, second) = (Arc::clone(&one), Arc::clone(&two));
            let worker = thread::spawn(move || {
                let _first = first.lock().unwrap();
                let _second = second.lock().unwrap();
            });
            {
                let _second = two.lock().unwrap();
                let _first = one.lock().unwrap();
            }
            worker.join().unwrap();
        });
    });
    let failed = outcome.failed.expect("both orders of locking are likely");
    assert!(failed.contains("deadlock"), "{failed}\n{}", outcome.report);
}

#[test]
fn right_programs_stay_right() {
    let outcome = check(200, Preemption::Atomics, |net| {
        net.client("counters", || {
            let total = Arc::new((Mutex::new(0), AtomicU32::new(0)));
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let total = Arc::clone(&total);
                    thread::spawn(move || {
                        for _ in 0..5 {
                            *total.0.lock().unwrap() += 1;
                            let add = |now| Some(now + 1);
                            let (set, read) = (Ordering::SeqCst, Ordering::Relaxed);
                            total.1.fetch_update(set, read, add).unwrap();
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!((*total.0.lock().unwrap(), total.1.load(Ordering::SeqCst)), (15, 15));
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert_eq!(outcome.executions, 200);
}

#[test]
fn a_thread_that_spins_lets_others_go_on() {
    let outcome = check(100, Preemption::Atomics, |net| {
        net.client("spinner", || {
            let flag = Arc::new(AtomicBool::new(false));
            let other = Arc::clone(&flag);
            let worker = thread::spawn(move || other.store(true, Ordering::Release));
            while !flag.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            worker.join().unwrap();
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn tokio_works_with_two_workers() {
    let outcome = check(30, Preemption::Atomics, |net| {
        net.client("runtime", || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let sum: u32 = runtime.block_on(async {
                let tasks: Vec<_> = (0..8)
                    .map(|number| {
                        tokio::spawn(async move {
                            tokio::task::yield_now().await;
                            number
                        })
                    })
                    .collect();
                let mut sum = 0;
                for task in tasks {
                    sum += task.await.unwrap();
                }
                sum
            });
            assert_eq!(sum, 28);
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}
