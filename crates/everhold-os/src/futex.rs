//! Futexes: queues of threads at addresses.

use std::collections::{BTreeMap, VecDeque};

use crate::abi::Errno;
use crate::host::Host;
use crate::thread::{Answer, Deadline, Reason, ThreadId};

/// The mask of waits and wake-ups that do not name one.
pub const ANY: u32 = u32::MAX;

/// The threads that wait at each address, with their masks, the one that waits longest first.
#[derive(Debug, Default)]
pub(crate) struct Futexes {
    queues: BTreeMap<usize, VecDeque<(ThreadId, u32)>>,
}

impl Futexes {
    /// A thread waits no longer.
    pub(crate) fn leave(&mut self, address: usize, thread: ThreadId) {
        let Some(queue) = self.queues.get_mut(&address) else { return };
        queue.retain(|(waiting, _)| *waiting != thread);
        if queue.is_empty() {
            self.queues.remove(&address);
        }
    }
}

impl Host {
    /// Waits at an address while its word is as expected. `word` is what the caller finds there
    /// now. EAGAIN if it differs, ETIMEDOUT at the deadline.
    ///
    /// ```
    /// use everhold_os::{Errno, FUTEX_ANY, Host, Stop, ThreadId};
    /// let mut host = Host::for_tests();
    /// let other = host.spawn();
    /// let wait = |host: &mut Host| host.futex_wait(0x1000, 1, 1, FUTEX_ANY, None);
    /// assert_eq!(wait(&mut host), Err(Stop::Blocked));
    /// host.enter(other);
    /// assert_eq!(host.futex_wake(0x1000, 1, FUTEX_ANY), 1);
    /// host.enter(ThreadId(0));
    /// assert_eq!(wait(&mut host), Ok(()));
    /// ```
    pub fn futex_wait(
        &mut self,
        address: usize,
        word: u32,
        expected: u32,
        mask: u32,
        deadline: Option<Deadline>,
    ) -> Answer<()> {
        self.begin(deadline);
        let answer = if mask == 0 {
            Err(Errno::EINVAL.into())
        } else if self.progress().woken {
            Ok(())
        } else if !self.progress().resumed && word != expected {
            Err(Errno::EAGAIN.into())
        } else {
            let stop = self.park(Reason::Futex(address), &[], Errno::ETIMEDOUT);
            if stop == crate::Stop::Blocked {
                let thread = self.current();
                self.futexes.queues.entry(address).or_default().push_back((thread, mask));
            }
            Err(stop)
        };
        self.settle(answer)
    }

    /// Wakes up to `count` threads at an address whose masks have a bit of this one, and says how
    /// many. If it is not all of them, which ones is a choice: "futex waiter".
    pub fn futex_wake(&mut self, address: usize, count: u32, mask: u32) -> u32 {
        let mut woken = 0;
        while woken < count {
            let Some(thread) = self.choose_waiter(address, count - woken, mask) else { break };
            self.wake_for_good(thread);
            woken += 1;
        }
        woken
    }

    /// Wakes up to `wake` threads at an address and moves up to `moved` others to another one.
    /// Says how many of either. The caller has compared the word, if it had to.
    pub fn futex_requeue(&mut self, from: usize, wake: u32, to: usize, moved: u32) -> u32 {
        let woken = self.futex_wake(from, wake, ANY);
        if from == to {
            return woken;
        }
        let Some(queue) = self.futexes.queues.get_mut(&from) else { return woken };
        let moved: Vec<(ThreadId, u32)> = queue.drain(..queue.len().min(moved as usize)).collect();
        if queue.is_empty() {
            self.futexes.queues.remove(&from);
        }
        let count = woken + moved.len() as u32;
        for (thread, mask) in moved {
            self.move_futex(thread, to);
            self.futexes.queues.entry(to).or_default().push_back((thread, mask));
        }
        count
    }

    /// The threads that wait at an address, the one that waits longest first.
    #[must_use]
    pub fn futex_waiters(&self, address: usize) -> Vec<ThreadId> {
        let queue = self.futexes.queues.get(&address).into_iter().flatten();
        queue.map(|(thread, _)| *thread).collect()
    }

    fn choose_waiter(&mut self, address: usize, wanted: u32, mask: u32) -> Option<ThreadId> {
        let queue = self.futexes.queues.get(&address)?;
        let mut fit = queue.iter().filter(|(_, masked)| masked & mask != 0).map(|(id, _)| *id);
        let first = fit.next()?;
        let others = fit.count() as u32;
        if others < wanted {
            return Some(first);
        }
        let answer = self.choose("futex waiter", others + 1) as usize;
        let queue = self.futexes.queues.get(&address)?;
        queue.iter().filter(|(_, masked)| masked & mask != 0).map(|(id, _)| *id).nth(answer)
    }
}
