//! Descriptors that count: eventfd and timerfd.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold_node::Time;

use crate::abi::epoll::{EPOLLERR, EPOLLIN, EPOLLOUT};
use crate::abi::open::{EFD_SEMAPHORE, O_CLOEXEC, O_NONBLOCK, O_RDWR, TFD_TIMER_ABSTIME};
use crate::abi::{ClockId, Errno};
use crate::descriptor::{Fd, Kind, Open};
use crate::host::{Alarm, Host};
use crate::slab::Id;
use crate::thread::{Answer, Deadline};

/// The file of an eventfd.
#[derive(Debug)]
pub(crate) struct Counter {
    value: u64,
    is_semaphore: bool,
}

impl Counter {
    pub(crate) fn readiness(&self) -> u32 {
        let readable = if self.value > 0 { EPOLLIN } else { 0 };
        let writable = if self.value < u64::MAX - 1 { EPOLLOUT } else { 0 };
        let overflown = if self.value == u64::MAX { EPOLLERR } else { 0 };
        readable | writable | overflown
    }
}

/// The file of a timerfd.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: ClockId,
    due: Option<Time>,
    interval: Duration,
    expirations: u64,
}

impl Timer {
    pub(crate) fn readiness(&self) -> u32 {
        if self.expirations > 0 { EPOLLIN } else { 0 }
    }

    pub(crate) fn disarm(&self, open: Id<Open>, alarms: &mut BTreeSet<(Time, Alarm)>) {
        if let Some(due) = self.due {
            alarms.remove(&(due, Alarm::Timer(open)));
        }
    }
}

/// The setting of a timerfd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSetting {
    /// The time between expirations, zero for one only.
    pub interval: Duration,
    /// When the first one comes; zero never.
    pub value: Duration,
}

impl Host {
    /// An eventfd.
    pub fn eventfd(&mut self, value: u32, flags: i32) -> Result<Fd, Errno> {
        if flags & !(EFD_SEMAPHORE | O_NONBLOCK | O_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let is_semaphore = flags & EFD_SEMAPHORE != 0;
        let counter = Counter { value: u64::from(value), is_semaphore };
        self.add_open(Kind::Counter(counter), O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC)))
    }

    pub(crate) fn counter_read(&mut self, fd: Fd, bytes: &mut [u8]) -> Answer<usize> {
        let out = bytes.get_mut(..8).ok_or(Errno::EINVAL)?;
        let open = self.open_of(fd)?;
        let counter = self.counter(open);
        if counter.value == 0 {
            return Err(self.await_data(fd));
        }
        let taken = if counter.is_semaphore { 1 } else { counter.value };
        counter.value -= taken;
        out.copy_from_slice(&taken.to_ne_bytes());
        self.notify(open, EPOLLOUT);
        Ok(8)
    }

    pub(crate) fn counter_write(&mut self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        let added = u64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EINVAL)?);
        if added == u64::MAX {
            return Err(Errno::EINVAL.into());
        }
        let open = self.open_of(fd)?;
        let counter = self.counter(open);
        if u64::MAX - counter.value <= added {
            return Err(self.await_room(fd));
        }
        counter.value += added;
        self.notify(open, EPOLLIN);
        Ok(8)
    }

    fn counter(&mut self, open: Id<Open>) -> &mut Counter {
        match &mut self.open[open].kind {
            Kind::Counter(counter) => counter,
            _ => unreachable!("the file is an eventfd"),
        }
    }

    /// A timerfd.
    pub fn timerfd_create(&mut self, clock: i32, flags: i32) -> Result<Fd, Errno> {
        let clock = match clock {
            0 | 1 | 7 | 8 | 9 => ClockId::parse(clock)?,
            _ => return Err(Errno::EINVAL),
        };
        if flags & !(O_NONBLOCK | O_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let timer = Timer { clock, due: None, interval: Duration::ZERO, expirations: 0 };
        self.add_open(Kind::Timer(timer), O_RDWR | flags)
    }

    /// Sets a timerfd, and says what was left of its last setting.
    pub fn timerfd_settime(
        &mut self,
        fd: Fd,
        flags: i32,
        new: TimerSetting,
    ) -> Result<TimerSetting, Errno> {
        let before = self.timerfd_gettime(fd)?;
        let open = self.open_of(fd)?;
        let now = self.now();
        let clock = self.timer(open).clock;
        let due = match new.value {
            Duration::ZERO => None,
            at if flags & TFD_TIMER_ABSTIME != 0 => Some(self.time_of(Deadline::At(clock, at))),
            after => Some(now + after),
        };
        let Host { open: files, alarms, .. } = self;
        let Kind::Timer(timer) = &mut files[open].kind else { unreachable!("it is a timer") };
        timer.disarm(open, alarms);
        *timer = Timer { clock, due, interval: new.interval, expirations: 0 };
        match due {
            Some(due) if due <= now => self.timer_expired(open),
            Some(due) => drop(self.alarms.insert((due, Alarm::Timer(open)))),
            None => {}
        }
        Ok(before)
    }

    /// The rest of the setting of a timerfd.
    pub fn timerfd_gettime(&self, fd: Fd) -> Result<TimerSetting, Errno> {
        let Kind::Timer(timer) = &self.open[self.open_of(fd)?].kind else {
            return Err(Errno::EINVAL);
        };
        let value = timer.due.map_or(Duration::ZERO, |due| due - self.now());
        Ok(TimerSetting { interval: timer.interval, value })
    }

    pub(crate) fn timer_read(&mut self, fd: Fd, bytes: &mut [u8]) -> Answer<usize> {
        let out = bytes.get_mut(..8).ok_or(Errno::EINVAL)?;
        let open = self.open_of(fd)?;
        let timer = self.timer(open);
        if timer.expirations == 0 {
            return Err(self.await_event(fd, EPOLLIN, "the timer"));
        }
        out.copy_from_slice(&std::mem::take(&mut timer.expirations).to_ne_bytes());
        Ok(8)
    }

    pub(crate) fn timer_expired(&mut self, open: Id<Open>) {
        let now = self.now();
        let timer = self.timer(open);
        let Some(due) = timer.due else { return };
        timer.expirations += 1;
        timer.due = None;
        if !timer.interval.is_zero() {
            // An absolute setting in the past has expired several times already.
            let missed = (now - due).as_nanos() / timer.interval.as_nanos();
            timer.expirations += missed as u64;
            let steps = u32::try_from(missed + 1).unwrap_or(u32::MAX);
            let next = due + timer.interval.saturating_mul(steps);
            timer.due = Some(next);
            self.alarms.insert((next, Alarm::Timer(open)));
        }
        self.notify(open, EPOLLIN);
    }

    fn timer(&mut self, open: Id<Open>) -> &mut Timer {
        match &mut self.open[open].kind {
            Kind::Timer(timer) => timer,
            _ => unreachable!("the file is a timerfd"),
        }
    }
}
