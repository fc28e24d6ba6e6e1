//! Programs with threads and without a network.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use everhold_host::{Net, hosts};

fn check(
    executions: u64,
    setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static,
) -> Result<(), String> {
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
    assert_eq!(outcome, Ok(()));
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
    assert_eq!(outcome, Ok(()));
}
