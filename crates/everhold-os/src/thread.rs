//! The threads of a host: who runs, who waits, and for what.

use std::fmt;
use std::time::Duration;

use everhold_node::Time;

use crate::abi::{ClockId, Errno};
use crate::descriptor::Open;
use crate::host::{Alarm, Host};
use crate::signal::SignalSet;
use crate::slab::Id;

/// A thread of a host. Its main thread is number 0, and no number is used again before a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// The reason why a system call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It failed.
    Failed(Errno),
    /// The calling thread has to wait. When it can run again it makes the same call with the same
    /// arguments once more; the host keeps what the call has done so far, and its deadline.
    Blocked,
}

/// The outcome of a system call.
pub type Answer<T> = Result<T, Stop>;

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Failed(errno)
    }
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// For this time, from the call on.
    After(Duration),
    /// Until a clock shows this.
    At(ClockId, Duration),
}

/// The reason for which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A wake-up of the futex at this address.
    Futex(usize),
    /// The time to pass.
    Sleep,
    /// The end of another thread.
    Join(ThreadId),
    /// Something at a descriptor, as the object of "waits for": "data at descriptor 4".
    Descriptor(&'static str, i32),
    /// An event at one of several descriptors, by `poll`.
    Poll,
    /// One of these signals.
    Signal(SignalSet),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Futex(address) => write!(f, "a wake-up of the futex at {address:#x}"),
            Reason::Sleep => f.write_str("the end of its sleep"),
            Reason::Join(thread) => write!(f, "the end of thread {}", thread.0),
            Reason::Descriptor(event, fd) => write!(f, "{event} at descriptor {fd}"),
            Reason::Poll => f.write_str("an event at one of several descriptors"),
            Reason::Signal(_) => f.write_str("a signal"),
        }
    }
}

/// A thread that waits.
#[derive(Debug)]
pub(crate) struct Wait {
    reason: Reason,
    /// The files any of whose events, by the bits of epoll, wake it up.
    on: Vec<(Id<Open>, u32)>,
    until: Option<Time>,
}

#[derive(Debug)]
enum State {
    Runnable,
    Parked(Wait),
    Finished,
}

/// The progress of a call that was made and has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// It has blocked before.
    pub(crate) resumed: bool,
    pub(crate) until: Option<Time>,
    pub(crate) timed_out: bool,
    pub(crate) interrupted: bool,
    /// The event for which it waited has happened, for calls that cannot see that otherwise.
    pub(crate) woken: bool,
    /// The bytes that it has moved.
    pub(crate) moved: usize,
}

#[derive(Debug)]
struct Thread {
    state: State,
    progress: Progress,
    /// The signals that it blocks.
    mask: SignalSet,
}

impl Thread {
    fn new(mask: SignalSet) -> Self {
        Thread { state: State::Runnable, progress: Progress::default(), mask }
    }
}

/// All threads of a host since it started, finished ones too.
#[derive(Debug)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    pub(crate) current: ThreadId,
    /// Those that became able to run and were not reported yet.
    woken: Vec<ThreadId>,
}

impl Default for Threads {
    fn default() -> Self {
        Threads { all: vec![Thread::new(0)], current: ThreadId(0), woken: Vec::new() }
    }
}

impl Threads {
    pub(crate) fn mask(&self, thread: ThreadId) -> SignalSet {
        self.all[thread.0 as usize].mask
    }

    pub(crate) fn set_mask(&mut self, thread: ThreadId, mask: SignalSet) {
        self.all[thread.0 as usize].mask = mask;
    }

    /// Whether a thread lives and does not block these signals.
    pub(crate) fn takes(&self, thread: ThreadId, signals: SignalSet) -> bool {
        let thread = &self.all[thread.0 as usize];
        thread.mask & signals == 0 && !matches!(thread.state, State::Finished)
    }
}

impl Host {
    /// Says which thread makes the calls from now on.
    pub fn enter(&mut self, thread: ThreadId) {
        debug_assert!(self.is_runnable(thread), "thread {} cannot run", thread.0);
        self.threads.current = thread;
    }

    /// The thread that makes the calls.
    #[must_use]
    pub fn current(&self) -> ThreadId {
        self.threads.current
    }

    /// A new thread, which can run at once. It blocks the signals that the calling thread blocks.
    pub fn spawn(&mut self) -> ThreadId {
        let thread = ThreadId(self.threads.all.len() as u32);
        let mask = self.threads.mask(self.threads.current);
        self.threads.all.push(Thread::new(mask));
        self.threads.woken.push(thread);
        thread
    }

    /// The calling thread ends. It may make no further call.
    pub fn exit_thread(&mut self) {
        let ended = self.threads.current;
        let thread = &mut self.threads.all[ended.0 as usize];
        thread.state = State::Finished;
        thread.progress = Progress::default();
        for at in 0..self.threads.all.len() {
            let joins = |wait: &Wait| wait.reason == Reason::Join(ended);
            if matches!(&self.threads.all[at].state, State::Parked(wait) if joins(wait)) {
                self.unpark(ThreadId(at as u32));
            }
        }
    }

    /// Waits until another thread has ended. EDEADLK for the caller itself.
    pub fn join(&mut self, other: ThreadId) -> Answer<()> {
        let answer = match self.threads.all.get(other.0 as usize).map(|thread| &thread.state) {
            None => Err(Errno::EINVAL.into()),
            Some(State::Finished) => Ok(()),
            Some(_) if other == self.threads.current => Err(Errno::EDEADLK.into()),
            Some(_) => {
                // A signal does not end a join.
                self.progress().interrupted = false;
                Err(self.park(Reason::Join(other), &[], Errno::ETIMEDOUT))
            }
        };
        self.settle(answer)
    }

    /// A signal for a thread: a call in which it waits fails with EINTR.
    pub fn interrupt(&mut self, thread: ThreadId) {
        if matches!(self.threads.all[thread.0 as usize].state, State::Parked(_)) {
            self.threads.all[thread.0 as usize].progress.interrupted = true;
            self.unpark(thread);
        }
    }

    /// Whether a thread can run.
    #[must_use]
    pub fn is_runnable(&self, thread: ThreadId) -> bool {
        let thread = self.threads.all.get(thread.0 as usize);
        thread.is_some_and(|thread| matches!(thread.state, State::Runnable))
    }

    /// The threads that can run, in the order of their numbers.
    pub fn runnable(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let threads = (0..self.threads.all.len() as u32).map(ThreadId);
        threads.filter(|thread| self.is_runnable(*thread))
    }

    /// The threads that became able to run since the last time, in the order in which they did.
    pub fn take_woken(&mut self) -> Vec<ThreadId> {
        std::mem::take(&mut self.threads.woken)
    }

    /// The number of threads that there were, finished ones too.
    #[must_use]
    pub fn thread_count(&self) -> u32 {
        self.threads.all.len() as u32
    }

    /// The reason for which a thread waits, if it does.
    #[must_use]
    pub fn waiting(&self, thread: ThreadId) -> Option<&Reason> {
        match &self.threads.all.get(thread.0 as usize)?.state {
            State::Parked(wait) => Some(&wait.reason),
            State::Runnable | State::Finished => None,
        }
    }

    /// Waits until the deadline.
    pub fn sleep(&mut self, deadline: Deadline) -> Answer<()> {
        self.begin(Some(deadline));
        let answer = match self.park(Reason::Sleep, &[], Errno::ETIMEDOUT) {
            Stop::Failed(Errno::ETIMEDOUT) => Ok(()),
            other => Err(other),
        };
        self.settle(answer)
    }

    /// The rest of a sleep that a signal ended, for `nanosleep`.
    #[must_use]
    pub fn remaining(&self, deadline: Deadline) -> Duration {
        self.time_of(deadline) - self.now()
    }

    /// The time of a deadline that is given now.
    pub(crate) fn time_of(&self, deadline: Deadline) -> Time {
        match deadline {
            Deadline::After(time) => self.now() + time,
            Deadline::At(clock, shown) => self.time_at(clock, shown),
        }
    }

    /// The progress of the caller's call.
    pub(crate) fn progress(&mut self) -> &mut Progress {
        &mut self.threads.all[self.threads.current.0 as usize].progress
    }

    /// A call that may wait begins, or is made again.
    pub(crate) fn begin(&mut self, deadline: Option<Deadline>) {
        if !self.progress().resumed {
            let until = deadline.map(|deadline| self.time_of(deadline));
            self.progress().until = until;
        }
    }

    /// A call has an answer, or the caller waits.
    pub(crate) fn settle<T>(&mut self, answer: Answer<T>) -> Answer<T> {
        if !matches!(answer, Err(Stop::Blocked)) {
            *self.progress() = Progress::default();
        }
        answer
    }

    /// The caller waits for one of these events, unless its time is over.
    pub(crate) fn park(&mut self, reason: Reason, on: &[(Id<Open>, u32)], late: Errno) -> Stop {
        let (now, current) = (self.now(), self.threads.current);
        let progress = self.progress();
        if progress.interrupted {
            return Errno::EINTR.into();
        }
        if progress.timed_out || progress.until.is_some_and(|until| until <= now) {
            return late.into();
        }
        progress.resumed = true;
        let until = progress.until;
        if let Some(until) = until {
            self.alarms.insert((until, Alarm::Thread(current)));
        }
        for (open, _) in on {
            self.open[*open].waiters.push(current);
        }
        let wait = Wait { reason, on: on.to_vec(), until };
        self.threads.all[current.0 as usize].state = State::Parked(wait);
        Stop::Blocked
    }

    /// A thread that waits can run again.
    pub(crate) fn unpark(&mut self, thread: ThreadId) {
        let state = &mut self.threads.all[thread.0 as usize].state;
        let State::Parked(wait) = std::mem::replace(state, State::Runnable) else {
            unreachable!("a thread that is woken up waits")
        };
        if let Some(until) = wait.until {
            self.alarms.remove(&(until, Alarm::Thread(thread)));
        }
        for (open, _) in wait.on {
            if let Some(open) = self.open.get_mut(open) {
                open.waiters.retain(|waiter| *waiter != thread);
            }
        }
        if let Reason::Futex(address) = wait.reason {
            self.futexes.leave(address, thread);
        }
        self.threads.woken.push(thread);
    }

    /// The time until which a thread waits has come.
    pub(crate) fn time_out(&mut self, thread: ThreadId) {
        self.threads.all[thread.0 as usize].progress.timed_out = true;
        self.unpark(thread);
    }

    /// Marks a thread that waits as woken for a reason that it cannot see otherwise.
    pub(crate) fn wake_for_good(&mut self, thread: ThreadId) {
        self.threads.all[thread.0 as usize].progress.woken = true;
        self.unpark(thread);
    }

    /// A thread that waits at one futex now waits at another.
    pub(crate) fn move_futex(&mut self, thread: ThreadId, to: usize) {
        if let State::Parked(wait) = &mut self.threads.all[thread.0 as usize].state {
            wait.reason = Reason::Futex(to);
        }
    }

    /// Whether one of these events of a file wakes a thread up.
    pub(crate) fn waits_on(&self, thread: ThreadId, open: Id<Open>, events: u32) -> bool {
        let State::Parked(wait) = &self.threads.all[thread.0 as usize].state else { return false };
        wait.on.iter().any(|(on, wanted)| *on == open && wanted & events != 0)
    }
}
