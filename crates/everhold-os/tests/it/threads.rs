//! Threads, futexes, time and timers: who waits, and who is woken when.

use std::time::Duration;

use everhold_node::Time;
use everhold_os::abi::epoll::{EPOLL_CTL_ADD, EPOLLIN};
use everhold_os::abi::open::O_NONBLOCK;
use everhold_os::abi::signal::{
    SA_RESETHAND, SA_RESTART, SIG_BLOCK, SIG_UNBLOCK, SIGCHLD, SIGKILL, SIGTERM, SIGUSR1,
};
use everhold_os::{
    Action, Choices, ClockId, Clocks, Deadline, Delivery, Errno, Event, FUTEX_ANY, Host, Reason,
    Settings, Stop, ThreadId, TimerSetting,
};

/// The last answer of each domain.
#[derive(Debug)]
struct Last;

impl Choices for Last {
    fn choose(&mut self, _: &str, domain: u32) -> u32 {
        domain - 1
    }
    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(4);
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn at(count: u64) -> Time {
    Time::ZERO + seconds(count)
}

/// A host with threads 1 to `count` that wait at address 8, each with the bit of its number.
fn waiting(mut host: Host, count: u32) -> Host {
    for number in 1..=count {
        let thread = host.spawn();
        assert_eq!(thread, ThreadId(number));
        host.enter(thread);
        assert_eq!(host.futex_wait(8, 7, 7, 1 << number, None), Err(Stop::Blocked));
    }
    host.enter(ThreadId(0));
    host.take_woken();
    host
}

#[track_caller]
fn check(mut host: Host, act: impl FnOnce(&mut Host) -> u32, count: u32, woken: &[u32]) {
    assert_eq!(act(&mut host), count);
    let threads: Vec<u32> = host.take_woken().into_iter().map(|thread| thread.0).collect();
    assert_eq!(threads, woken);
}

#[test]
fn wake_ups_reach_those_who_wait() {
    let usual = || waiting(Host::for_tests(), 3);
    let other = || waiting(Host::new(Settings::default(), Box::new(Last)), 3);
    check(usual(), |host| host.futex_wake(8, 1, FUTEX_ANY), 1, &[1]);
    check(other(), |host| host.futex_wake(8, 1, FUTEX_ANY), 1, &[3]);
    check(usual(), |host| host.futex_wake(8, 9, FUTEX_ANY), 3, &[1, 2, 3]);
    check(usual(), |host| host.futex_wake(8, 9, 1 << 2), 1, &[2]);
    check(usual(), |host| host.futex_wake(9, 9, FUTEX_ANY), 0, &[]);
    let moved = |host: &mut Host| {
        assert_eq!(host.futex_requeue(8, 1, 16, 1), 2);
        assert_eq!(host.futex_waiters(8), [ThreadId(3)]);
        assert_eq!(host.waiting(ThreadId(2)), Some(&Reason::Futex(16)));
        host.futex_wake(16, 9, FUTEX_ANY)
    };
    check(usual(), moved, 1, &[1, 2]);
}

#[test]
fn a_wait_ends_by_its_word_its_time_or_a_signal() {
    let mut host = Host::for_tests();
    let wait = |host: &mut Host, word: u32, deadline: Option<Deadline>| {
        host.futex_wait(8, word, 7, FUTEX_ANY, deadline)
    };
    assert_eq!(wait(&mut host, 6, None), Err(Stop::Failed(Errno::EAGAIN)));
    assert_eq!(host.futex_wait(8, 7, 7, 0, None), Err(Stop::Failed(Errno::EINVAL)));
    let soon = Some(Deadline::After(seconds(3)));
    assert_eq!(wait(&mut host, 7, soon), Err(Stop::Blocked));
    assert_eq!(host.next_deadline(), Some(at(3)));
    host.advance(at(2));
    assert!(!host.is_runnable(ThreadId(0)));
    host.advance(at(4));
    // The word has changed meanwhile, which does not matter any more.
    assert_eq!(wait(&mut host, 6, soon), Err(Stop::Failed(Errno::ETIMEDOUT)));
    assert_eq!((host.futex_waiters(8), host.next_deadline()), (vec![], None));
    assert_eq!(wait(&mut host, 7, None), Err(Stop::Blocked));
    host.interrupt(ThreadId(0));
    assert_eq!(wait(&mut host, 7, None), Err(Stop::Failed(Errno::EINTR)));
    let past = Some(Deadline::At(ClockId::Monotonic, seconds(1)));
    assert_eq!(wait(&mut host, 7, past), Err(Stop::Failed(Errno::ETIMEDOUT)));
    assert_eq!(wait(&mut host, 7, None), Err(Stop::Blocked), "nothing is left of earlier calls");
}

#[test]
fn threads_sleep_and_join_in_virtual_time() {
    let mut host = Host::for_tests();
    let sleeper = host.spawn();
    assert_eq!(host.join(sleeper), Err(Stop::Blocked));
    host.enter(sleeper);
    let three_hours = Deadline::After(seconds(10_800));
    assert_eq!(host.sleep(three_hours), Err(Stop::Blocked));
    let due = host.next_deadline().expect("somebody sleeps");
    host.advance(due);
    assert_eq!(host.sleep(three_hours), Ok(()));
    assert_eq!(host.sleep(Deadline::After(Duration::ZERO)), Ok(()));
    host.exit_thread();
    host.enter(ThreadId(0));
    assert_eq!(host.join(sleeper), Ok(()));
    assert_eq!(host.join(ThreadId(0)), Err(Stop::Failed(Errno::EDEADLK)));
}

#[test]
fn clocks_differ_between_hosts_by_their_skew() {
    let clocks = Clocks { epoch: seconds(1_000), skew: -5_000_000_000, uptime: seconds(7) };
    let settings = Settings { clocks, ..Settings::default() };
    let mut host = Host::new(settings, Box::new(Last));
    host.advance(at(3));
    assert_eq!(host.clock(ClockId::Realtime), seconds(998));
    assert_eq!(host.clock(ClockId::Monotonic), seconds(10));
    assert_eq!(host.sleep(Deadline::At(ClockId::Realtime, seconds(999))), Err(Stop::Blocked));
    assert_eq!(host.next_deadline(), Some(at(4)));
}

#[test]
fn a_timer_expires_again_and_again() {
    let mut host = Host::for_tests();
    let timer = host.timerfd_create(1, O_NONBLOCK).expect("a clock");
    let epoll = host.epoll_create(0).expect("room");
    let event = Event { events: EPOLLIN, data: 5 };
    host.epoll_ctl(epoll, EPOLL_CTL_ADD, timer, event).expect("both are open");
    let setting = TimerSetting { interval: seconds(2), value: seconds(1) };
    assert_eq!(host.timerfd_settime(timer, 0, setting), Ok(TimerSetting::default()));
    let wait = |host: &mut Host| host.epoll_wait(epoll, 4, Some(seconds(60)));
    assert_eq!(wait(&mut host), Err(Stop::Blocked));
    assert_eq!(host.next_deadline(), Some(at(1)));
    host.advance(at(1));
    assert_eq!(wait(&mut host), Ok(vec![event]));
    host.advance(at(6));
    let mut count = [0; 8];
    assert_eq!(host.read(timer, &mut count), Ok(8));
    assert_eq!(u64::from_ne_bytes(count), 3);
    let left = TimerSetting { interval: seconds(2), value: seconds(1) };
    assert_eq!(host.timerfd_gettime(timer), Ok(left));
    assert_eq!(host.read(timer, &mut count), Err(Stop::Failed(Errno::EAGAIN)));
    host.close(timer).expect("it is open");
    assert_eq!(host.next_deadline(), None);
}

#[test]
fn whoever_waits_for_events_is_woken_by_them_or_by_time() {
    let mut host = Host::for_tests();
    let event = host.eventfd(0, O_NONBLOCK).expect("room");
    let epoll = host.epoll_create(0).expect("room");
    let of = Event { events: EPOLLIN, data: 9 };
    host.epoll_ctl(epoll, EPOLL_CTL_ADD, event, of).expect("both are open");
    let waiter = host.spawn();
    host.enter(waiter);
    assert_eq!(host.epoll_wait(epoll, 4, None), Err(Stop::Blocked));
    host.enter(ThreadId(0));
    host.take_woken();
    host.write(event, &1_u64.to_ne_bytes()).expect("there is room");
    assert_eq!(host.take_woken(), [waiter]);
    host.enter(waiter);
    assert_eq!(host.epoll_wait(epoll, 4, None), Ok(vec![of]));
    host.read(event, &mut [0; 8]).expect("it was written");
    assert_eq!(host.epoll_wait(epoll, 4, Some(seconds(5))), Err(Stop::Blocked));
    host.advance(at(5));
    assert_eq!(host.epoll_wait(epoll, 4, Some(seconds(5))), Ok(vec![]));
}

#[test]
fn signals_end_a_process_run_a_handler_or_do_nothing() {
    let mut host = Host::for_tests();
    let action = Action { handler: 99, flags: SA_RESTART | SA_RESETHAND, mask: 0 };
    assert_eq!(host.sigaction(SIGTERM, Some(action)), Ok(Action::default()));
    assert_eq!(host.sigaction(SIGKILL, Some(action)), Err(Errno::EINVAL));
    assert_eq!(host.kill(65), Err(Errno::EINVAL));
    for signal in [0, SIGTERM, SIGTERM, SIGCHLD, SIGUSR1] {
        assert_eq!(host.kill(signal), Ok(()));
    }
    // The handler is forgotten after it ran once.
    let expected =
        [Delivery::Handler(SIGTERM, action), Delivery::End(SIGTERM), Delivery::End(SIGUSR1)];
    assert_eq!(host.take_deliveries(), expected);
}

#[test]
fn a_signal_that_all_threads_block_waits_for_one_that_does_not() {
    let mut host = Host::for_tests();
    let set = 1 << (SIGTERM - 1);
    assert_eq!(host.sigprocmask(SIG_BLOCK, Some(set)), Ok(0));
    // A new thread blocks what its maker blocks.
    let other = host.spawn();
    assert_eq!(host.kill(SIGTERM), Ok(()));
    assert_eq!((host.take_deliveries(), host.sigpending()), (vec![], set));
    host.enter(other);
    assert_eq!(host.sigprocmask(SIG_UNBLOCK, Some(set)), Ok(set));
    assert_eq!((host.take_deliveries(), host.sigpending()), (vec![Delivery::End(SIGTERM)], 0));
    assert_eq!(host.sigprocmask(SIG_BLOCK, Some(set)), Ok(0));
    assert_eq!(host.sigwait(set, None), Err(Stop::Blocked));
    assert_eq!(host.kill(SIGTERM), Ok(()));
    assert_eq!(host.sigwait(set, None), Ok(SIGTERM));
    assert_eq!(host.take_deliveries(), vec![]);
}

#[test]
fn a_handler_interrupts_what_linux_does_not_take_up_again() {
    for (flags, ends) in [(0, true), (SA_RESTART, false)] {
        let mut host = Host::for_tests();
        let (reader, _writer) = host.pipe(0).expect("there is room");
        let action = Action { handler: 99, flags, mask: 0 };
        host.sigaction(SIGUSR1, Some(action)).expect("it can be handled");
        assert_eq!(host.read(reader, &mut [0]), Err(Stop::Blocked));
        assert_eq!(host.kill(SIGUSR1), Ok(()));
        assert_eq!(host.is_runnable(ThreadId(0)), ends);
        if ends {
            assert_eq!(host.read(reader, &mut [0]), Err(Stop::Failed(Errno::EINTR)));
        }
    }
    let mut host = Host::for_tests();
    let action = Action { handler: 99, flags: SA_RESTART, mask: 0 };
    host.sigaction(SIGUSR1, Some(action)).expect("it can be handled");
    let soon = Deadline::After(seconds(3));
    assert_eq!(host.sleep(soon), Err(Stop::Blocked));
    assert_eq!(host.kill(SIGUSR1), Ok(()));
    assert_eq!(host.sleep(soon), Err(Stop::Failed(Errno::EINTR)));
}
