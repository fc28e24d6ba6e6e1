//! Epoll sets, and `poll`. The order of events and the rules of edges are those of Linux.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::abi::Errno;
use crate::abi::epoll::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP,
    EPOLLIN, EPOLLONESHOT, EPOLLRDNORM, EPOLLWAKEUP, POLLNVAL,
};
use crate::abi::open::{O_CLOEXEC, O_RDWR};
use crate::descriptor::{Fd, Kind, Open};
use crate::host::Host;
use crate::slab::Id;
use crate::thread::{Answer, Deadline, Reason, Stop};

/// The bits of an item that are no events.
const PRIVATE: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;

/// How deep epoll sets may watch one another.
const NESTING: u32 = 4;

/// The answer of `epoll_wait` about a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The events that hold, by the bits of epoll.
    pub events: u32,
    /// The value that the program gave with the descriptor.
    pub data: u64,
}

/// A descriptor of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor; negative ones are passed over.
    pub fd: Fd,
    /// The events in question.
    pub events: i16,
    /// Those that hold.
    pub revents: i16,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    events: u32,
    data: u64,
    is_listed: bool,
}

type Key = (Fd, Id<Open>);

/// The files that a set watches, and those of them at which something may have happened.
#[derive(Debug, Default)]
pub(crate) struct Epoll {
    items: BTreeMap<Key, Item>,
    ready: VecDeque<Key>,
}

impl Epoll {
    pub(crate) fn items(&self) -> impl Iterator<Item = Key> + '_ {
        self.items.keys().copied()
    }

    /// A file is watched no longer.
    pub(crate) fn forget(&mut self, fd: Fd, open: Id<Open>) {
        if self.items.remove(&(fd, open)).is_some_and(|item| item.is_listed) {
            self.ready.retain(|key| *key != (fd, open));
        }
    }

    /// Something happened to a file; whether that concerns whoever waits at the set.
    pub(crate) fn note(&mut self, fd: Fd, open: Id<Open>, events: u32) -> bool {
        let Some(item) = self.items.get_mut(&(fd, open)) else { return false };
        if item.events & !PRIVATE == 0 || item.events & events == 0 {
            return false;
        }
        if !item.is_listed {
            item.is_listed = true;
            self.ready.push_back((fd, open));
        }
        true
    }
}

impl Host {
    /// A new epoll set.
    pub fn epoll_create(&mut self, flags: i32) -> Result<Fd, Errno> {
        if flags & !O_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        self.add_open(Kind::Epoll(Epoll::default()), O_RDWR | flags)
    }

    /// Adds, changes or removes what a set watches.
    pub fn epoll_ctl(&mut self, epfd: Fd, op: i32, fd: Fd, event: Event) -> Result<(), Errno> {
        let set = self.open_of(epfd)?;
        let open = self.open_of(fd)?;
        if set == open || !matches!(self.open[set].kind, Kind::Epoll(_)) {
            return Err(Errno::EINVAL);
        }
        let key = (fd, open);
        let is_there = self.epoll_set(set).items.contains_key(&key);
        match op {
            EPOLL_CTL_ADD if matches!(self.open[open].kind, Kind::File(_) | Kind::Device(_)) => {
                return Err(Errno::EPERM);
            }
            EPOLL_CTL_ADD if is_there => return Err(Errno::EEXIST),
            EPOLL_CTL_ADD => {
                self.check_nesting(set, open)?;
                self.open[open].watchers.push((set, fd));
            }
            EPOLL_CTL_MOD | EPOLL_CTL_DEL if !is_there => return Err(Errno::ENOENT),
            EPOLL_CTL_MOD if event.events & EPOLLEXCLUSIVE != 0 => return Err(Errno::EINVAL),
            EPOLL_CTL_MOD => {}
            EPOLL_CTL_DEL => {
                self.open[open].watchers.retain(|watcher| *watcher != (set, fd));
                self.epoll_set(set).forget(fd, open);
                return Ok(());
            }
            _ => return Err(Errno::EINVAL),
        }
        let events = event.events | EPOLLERR | EPOLLHUP;
        let items = &mut self.epoll_set(set).items;
        let is_listed = items.get(&key).is_some_and(|item| item.is_listed);
        items.insert(key, Item { events, data: event.data, is_listed });
        let holds = self.readiness(open) & events;
        if holds != 0 && self.epoll_set(set).note(fd, open, holds) {
            self.notify(set, EPOLLIN | EPOLLRDNORM);
        }
        Ok(())
    }

    /// Up to `most` events of a set; none when the time is over.
    pub fn epoll_wait(
        &mut self,
        epfd: Fd,
        most: usize,
        timeout: Option<Duration>,
    ) -> Answer<Vec<Event>> {
        self.begin(timeout.map(Deadline::After));
        let answer = self.epoll_wait_once(epfd, most);
        self.settle(answer)
    }

    fn epoll_wait_once(&mut self, epfd: Fd, most: usize) -> Answer<Vec<Event>> {
        if most == 0 {
            return Err(Errno::EINVAL.into());
        }
        let set = self.open_of(epfd)?;
        if !matches!(self.open[set].kind, Kind::Epoll(_)) {
            return Err(Errno::EINVAL.into());
        }
        let events = self.epoll_collect(set, most);
        if !events.is_empty() {
            return Ok(events);
        }
        let wait = Reason::Descriptor("an event", epfd);
        match self.park(wait, &[(set, EPOLLIN)], Errno::ETIMEDOUT) {
            Stop::Failed(Errno::ETIMEDOUT) => Ok(Vec::new()),
            stop => Err(stop),
        }
    }

    /// Goes through the list of what may be ready. What is watched by level goes back to its end.
    fn epoll_collect(&mut self, set: Id<Open>, most: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let mut listed = std::mem::take(&mut self.epoll_set(set).ready);
        while events.len() < most {
            let Some(key) = listed.pop_front() else { break };
            let holds = self.readiness(key.1);
            let set = self.epoll_set(set);
            let item = set.items.get_mut(&key).expect("what is listed is watched");
            item.is_listed = false;
            let holds = holds & item.events & !PRIVATE;
            if holds == 0 {
                continue;
            }
            events.push(Event { events: holds, data: item.data });
            if item.events & EPOLLONESHOT != 0 {
                item.events &= PRIVATE;
            } else if item.events & EPOLLET == 0 {
                item.is_listed = true;
                set.ready.push_back(key);
            }
        }
        let ready = &mut self.epoll_set(set).ready;
        listed.append(ready);
        *ready = listed;
        events
    }

    pub(crate) fn epoll_readiness(&self, set: &Epoll) -> u32 {
        let holds = |key: &Key| self.readiness(key.1) & set.items[key].events & !PRIVATE != 0;
        if set.ready.iter().any(holds) { EPOLLIN | EPOLLRDNORM } else { 0 }
    }

    fn epoll_set(&mut self, set: Id<Open>) -> &mut Epoll {
        match &mut self.open[set].kind {
            Kind::Epoll(set) => set,
            _ => unreachable!("the file is an epoll set"),
        }
    }

    /// ELOOP if a set would watch itself, or if sets watch one another too deep.
    fn check_nesting(&self, set: Id<Open>, watched: Id<Open>) -> Result<(), Errno> {
        let depth = self.depth_below(watched, set).ok_or(Errno::ELOOP)?;
        if depth > NESTING { Err(Errno::ELOOP) } else { Ok(()) }
    }

    /// How deep sets are nested under a file; nothing if `above` is among them.
    fn depth_below(&self, file: Id<Open>, above: Id<Open>) -> Option<u32> {
        let Kind::Epoll(set) = &self.open[file].kind else { return Some(0) };
        let mut depth = 0;
        for (_, below) in set.items() {
            if below == above {
                return None;
            }
            depth = depth.max(self.depth_below(below, above)?);
        }
        Some(depth + 1)
    }

    /// Waits for an event at one of several descriptors, and says at how many there is one.
    pub fn poll(&mut self, files: &mut [PollFd], timeout: Option<Duration>) -> Answer<usize> {
        self.begin(timeout.map(Deadline::After));
        let answer = self.poll_once(files);
        self.settle(answer)
    }

    fn poll_once(&mut self, files: &mut [PollFd]) -> Answer<usize> {
        let (mut count, mut on) = (0, Vec::new());
        for file in files {
            let asked = u32::from(file.events as u16) | EPOLLERR | EPOLLHUP;
            let holds = match self.open_of(file.fd) {
                _ if file.fd < 0 => 0,
                Err(_) => POLLNVAL,
                Ok(open) => {
                    on.push((open, asked));
                    self.readiness(open) & asked
                }
            };
            file.revents = holds as i16;
            count += usize::from(holds != 0);
        }
        if count > 0 {
            return Ok(count);
        }
        match self.park(Reason::Poll, &on, Errno::ETIMEDOUT) {
            Stop::Failed(Errno::ETIMEDOUT) => Ok(0),
            stop => Err(stop),
        }
    }
}
