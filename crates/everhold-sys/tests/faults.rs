//! Programs that do what a process is ended for, or never come to an end: findings like others.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use everhold_host::hosts;

/// The failure of a program in its first execution.
fn check(program: impl Fn() + Clone + Send + Sync + 'static, message: &str) {
    let outcome = hosts(move |net| {
        net.host("server", || thread::sleep(Duration::from_secs(3_600)));
        net.client("user", program.clone());
    })
    .explorer(|e| e.executions(1).regressions(false).shrink_time(Duration::ZERO))
    .run();
    let failed = outcome.failed.unwrap_or_default();
    assert!(failed.contains(message), "{failed}\n{}", outcome.report);
    assert!(outcome.schedule.is_some(), "it can be replayed");
}

#[test]
fn a_stack_overflow_is_a_finding() {
    fn deep(levels: u64) -> u64 {
        std::hint::black_box(if levels == 0 { 0 } else { deep(levels - 1) + levels })
    }
    let overflows = || {
        let worker = thread::spawn(|| std::hint::black_box(deep)(u64::MAX));
        worker.join().unwrap();
    };
    check(overflows, "(user) was ended by a stack overflow in thread 1");
}

#[test]
fn a_segmentation_fault_is_a_finding() {
    let reads = || {
        let nowhere = std::ptr::without_provenance::<u64>(std::hint::black_box(4_096));
        // SAFETY: there is nothing; the process is ended for it.
        println!("{}", unsafe { nowhere.read_volatile() });
    };
    check(reads, "(user) was ended by a segmentation fault in thread 0");
}

#[test]
fn an_abort_is_a_finding() {
    check(|| std::process::abort(), "(user) ended with the exit code 134");
}

#[test]
fn a_thread_that_spins_for_ever_is_a_finding() {
    let spins = || {
        let never = AtomicBool::new(false);
        while !never.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    check(spins, "(user) was ended by an endless loop without a call in thread 0");
}

/// Without a call, a thread lets others go first after a second of the processor.
#[test]
fn a_thread_that_spins_lets_others_go_on() {
    let outcome = hosts(|net| {
        net.client("user", || {
            let flag = Arc::new(AtomicBool::new(false));
            let other = Arc::clone(&flag);
            let setter = thread::spawn(move || other.store(true, Ordering::Release));
            while !flag.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            setter.join().unwrap();
        });
    })
    .explorer(|e| e.executions(3).regressions(false))
    .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}
