//! Calls that bypass the C library. `rustix` makes system calls with instructions of its own.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::collections::BTreeSet;
use std::time::Duration;

use everhold_host::hosts;
use rustix::time::{ClockId, clock_gettime};

#[test]
fn clocks_randomness_and_files_are_those_of_the_host() {
    let outcome = hosts(|net| {
        net.client("raw", || {
            let before = clock_gettime(ClockId::Realtime);
            std::thread::sleep(Duration::from_secs(7));
            let after = clock_gettime(ClockId::Realtime);
            assert_eq!(after.tv_sec - before.tv_sec, 7);
            let mut drawn = BTreeSet::new();
            for _ in 0..3 {
                let mut bytes = [0_u8; 8];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
                println!("{bytes:?}");
                drawn.insert(bytes);
            }
            assert_eq!(drawn.len(), 3);
            assert_eq!(rustix::process::getpid().as_raw_nonzero().get(), 100);
            assert!(rustix::fs::stat("/etc/passwd").is_err());
        });
    })
    .explorer(|e| e.executions(50).regressions(false))
    .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_call_that_is_not_simulated_is_refused_by_its_number() {
    let outcome = hosts(|net| {
        net.client("raw", || {
            let _ = rustix::process::getpriority_user(rustix::process::Uid::ROOT);
        });
    })
    .explorer(|e| e.executions(1).regressions(false))
    .run();
    assert!(outcome.failed.is_some());
    assert!(outcome.report.contains("called system call 140"), "{}", outcome.report);
}

/// Programs ask for some calls and do without them.
#[test]
fn calls_without_which_programs_can_do_are_not_there() {
    let outcome = hosts(|net| {
        net.client("raw", || {
            let own = rustix::process::getpid();
            let opened = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty());
            assert_eq!(opened.unwrap_err(), rustix::io::Errno::NOSYS);
        });
    })
    .explorer(|e| e.executions(1).regressions(false))
    .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}
