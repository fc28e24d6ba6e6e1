//! Signals: how they reach the process of a host, and what it does with them.
//!
//! A signal is sent to the whole process. The thread that takes it is the main one unless that
//! blocks it, then the first one that does not. Its handler is run by whoever runs the threads
//! ([`Delivery::Handler`]), on a thread of its own: it sees the process as it is between two calls.

use crate::abi::Errno;
use crate::abi::signal::{
    SA_RESETHAND, SA_RESTART, SIG_BLOCK, SIG_DFL, SIG_IGN, SIG_SETMASK, SIG_UNBLOCK, SIGCHLD,
    SIGCONT, SIGKILL, SIGPIPE, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH,
};
use crate::host::Host;
use crate::thread::{Answer, Deadline, Reason, ThreadId};

/// The largest number of a signal.
const LARGEST: i32 = 64;

/// A set of signals: bit 0 is signal 1.
pub type SignalSet = u64;

/// The reaction of a process to a signal, in the form of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// The address of the handler, or 0 for what is usual, or 1 for nothing.
    pub handler: usize,
    /// The flags.
    pub flags: u64,
    /// The signals that the handler blocks.
    pub mask: SignalSet,
}

/// Something that a signal does to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Its handler runs.
    Handler(i32, Action),
    /// It ends the process.
    End(i32),
}

/// The signals of a host's process.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The actions that were set, by the number of the signal less one.
    actions: [Action; LARGEST as usize],
    /// Those that came and that every thread blocks.
    pending: SignalSet,
    /// The effects of the last signals.
    deliveries: Vec<Delivery>,
}

impl Default for Signals {
    /// A process that the standard library has prepared ignores `SIGPIPE`.
    fn default() -> Self {
        let mut actions = [Action::default(); LARGEST as usize];
        actions[SIGPIPE as usize - 1].handler = SIG_IGN;
        Signals { actions, pending: 0, deliveries: Vec::new() }
    }
}

fn bit(signal: i32) -> SignalSet {
    1 << (signal - 1)
}

fn check(signal: i32) -> Result<usize, Errno> {
    if (1..=LARGEST).contains(&signal) { Ok(signal as usize - 1) } else { Err(Errno::EINVAL) }
}

/// Whether the usual action is none.
fn is_harmless(signal: i32) -> bool {
    matches!(signal, SIGCHLD | SIGCONT | SIGURG | SIGWINCH)
}

/// Whether the usual action stops the process, which hosts do not do.
fn stops(signal: i32) -> bool {
    matches!(signal, SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU)
}

impl Host {
    /// The action for a signal, and a new one if it is to change.
    ///
    /// # Errors
    ///
    /// EINVAL for numbers of no signal, and for a change of those that no process can handle.
    pub fn sigaction(&mut self, signal: i32, new: Option<Action>) -> Result<Action, Errno> {
        let at = check(signal)?;
        let before = self.signals.actions[at];
        if let Some(new) = new {
            if matches!(signal, SIGKILL | SIGSTOP) {
                return Err(Errno::EINVAL);
            }
            self.signals.actions[at] = new;
            if self.is_ignored(signal) {
                self.signals.pending &= !bit(signal);
            }
        }
        Ok(before)
    }

    /// The signals that the calling thread blocks, and a change of them.
    ///
    /// # Errors
    ///
    /// EINVAL for an unknown change.
    pub fn sigprocmask(&mut self, how: i32, set: Option<SignalSet>) -> Result<SignalSet, Errno> {
        let current = self.threads.current;
        let before = self.threads.mask(current);
        if let Some(set) = set {
            let set = set & !(bit(SIGKILL) | bit(SIGSTOP));
            let after = match how {
                SIG_BLOCK => before | set,
                SIG_UNBLOCK => before & !set,
                SIG_SETMASK => set,
                _ => return Err(Errno::EINVAL),
            };
            self.threads.set_mask(current, after);
            let due = self.signals.pending & !after;
            for signal in (1..=LARGEST).filter(|signal| due & bit(*signal) != 0) {
                self.signals.pending &= !bit(signal);
                self.signal_arrives(signal);
            }
        }
        Ok(before)
    }

    /// The signals that came and that the process blocks.
    #[must_use]
    pub fn sigpending(&self) -> SignalSet {
        self.signals.pending
    }

    /// A signal for the process. Signal 0 only tests whether it could be sent.
    ///
    /// # Errors
    ///
    /// EINVAL for numbers of no signal.
    pub fn kill(&mut self, signal: i32) -> Result<(), Errno> {
        if signal != 0 {
            check(signal)?;
            self.signal_arrives(signal);
        }
        Ok(())
    }

    /// The effects of signals since the last call, in their order.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.signals.deliveries)
    }

    /// A new thread that runs a handler. No signal reaches it.
    pub fn spawn_handler(&mut self) -> ThreadId {
        let thread = self.spawn();
        self.threads.set_mask(thread, SignalSet::MAX);
        thread
    }

    /// Waits until one of some signals comes, and takes it; an empty set waits for a handler.
    pub fn sigwait(&mut self, set: SignalSet, deadline: Option<Deadline>) -> Answer<i32> {
        self.begin(deadline);
        let found = self.signals.pending & set;
        let answer = match found {
            0 => Err(self.park(Reason::Signal(set), &[], Errno::EAGAIN)),
            found => {
                let signal = found.trailing_zeros() as i32 + 1;
                self.signals.pending &= !bit(signal);
                Ok(signal)
            }
        };
        self.settle(answer)
    }

    fn is_ignored(&self, signal: i32) -> bool {
        match self.signals.actions[signal as usize - 1].handler {
            SIG_IGN => true,
            SIG_DFL => is_harmless(signal),
            _ => false,
        }
    }

    fn signal_arrives(&mut self, signal: i32) {
        let awaited = (0..self.thread_count()).map(ThreadId).find(|thread| {
            matches!(self.waiting(*thread), Some(Reason::Signal(set)) if set & bit(signal) != 0)
        });
        if let Some(thread) = awaited {
            self.signals.pending |= bit(signal);
            return self.unpark(thread);
        }
        let taker = (0..self.thread_count())
            .map(ThreadId)
            .find(|thread| self.threads.takes(*thread, bit(signal)));
        let Some(taker) = taker.or((signal == SIGKILL).then_some(ThreadId(0))) else {
            self.signals.pending |= bit(signal);
            return;
        };
        if !self.is_ignored(signal) {
            self.signal_acts(signal, taker);
        }
    }

    fn signal_acts(&mut self, signal: i32, taker: ThreadId) {
        let place = &mut self.signals.actions[signal as usize - 1];
        let action = *place;
        if action.handler == SIG_DFL {
            if !stops(signal) {
                self.signals.deliveries.push(Delivery::End(signal));
            }
            return;
        }
        if action.flags & SA_RESETHAND != 0 {
            *place = Action::default();
        }
        self.signals.deliveries.push(Delivery::Handler(signal, action));
        // Linux takes up again what waits for data or a lock, but not what waits for an event, a
        // time or a signal.
        let restarts = match self.waiting(taker) {
            Some(Reason::Sleep | Reason::Poll | Reason::Signal(_)) => false,
            Some(Reason::Descriptor("an event", _)) => false,
            _ => action.flags & SA_RESTART != 0,
        };
        if !restarts {
            self.interrupt(taker);
        }
    }
}
