//! Descriptors, and the open files behind them.

use crate::abi::Errno;
use crate::abi::epoll::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDNORM, EPOLLWRNORM};
use crate::abi::open::{O_ACCMODE, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use crate::device::Device;
use crate::epoll::Epoll;
use crate::event::{Counter, Timer};
use crate::files::OpenFile;
use crate::host::Host;
use crate::pipe::Pipe;
use crate::slab::Id;
use crate::tcp::Tcp;
use crate::thread::{Answer, Reason, Stop, ThreadId};
use crate::udp::Udp;
use crate::unix::Unix;

/// The number by which a program knows an open file.
pub type Fd = i32;

/// The object behind an open file.
#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(Id<Tcp>),
    Udp(Id<Udp>),
    Unix(Id<Unix>),
    PipeReader(Id<Pipe>),
    PipeWriter(Id<Pipe>),
    Counter(Counter),
    Timer(Timer),
    Epoll(Epoll),
    File(OpenFile),
    Device(Device),
}

/// An open file, which several descriptors may share.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) kind: Kind,
    pub(crate) nonblocking: bool,
    /// The access mode and `O_APPEND`.
    pub(crate) flags: i32,
    /// The descriptors that lead here.
    references: usize,
    /// The epoll sets that watch it, and under which descriptor.
    pub(crate) watchers: Vec<(Id<Open>, Fd)>,
    /// The threads that wait for one of its events.
    pub(crate) waiters: Vec<ThreadId>,
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    open: Id<Open>,
    closes_on_exec: bool,
}

/// The descriptors of a host's process.
#[derive(Debug)]
pub(crate) struct Descriptors {
    first: Fd,
    limit: usize,
    all: Vec<Option<Descriptor>>,
}

impl Descriptors {
    pub(crate) fn new(first: Fd, limit: usize) -> Self {
        Descriptors { first, limit, all: Vec::new() }
    }

    fn place(&self, fd: Fd) -> Option<usize> {
        usize::try_from(fd.checked_sub(self.first)?).ok()
    }

    fn get(&self, fd: Fd) -> Result<&Descriptor, Errno> {
        let place = self.place(fd).ok_or(Errno::EBADF)?;
        self.all.get(place).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    fn get_mut(&mut self, fd: Fd) -> Result<&mut Descriptor, Errno> {
        let place = self.place(fd).ok_or(Errno::EBADF)?;
        self.all.get_mut(place).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }

    /// The lowest free descriptor that is not below `least`.
    fn free_from(&self, least: Fd) -> Result<usize, Errno> {
        let from = self.place(least.max(self.first)).ok_or(Errno::EINVAL)?;
        let taken = self.all.get(from..).unwrap_or_default();
        let place = from + taken.iter().position(Option::is_none).unwrap_or(taken.len());
        if place >= self.limit { Err(Errno::EMFILE) } else { Ok(place) }
    }

    fn set(&mut self, place: usize, descriptor: Descriptor) -> Fd {
        if self.all.len() <= place {
            self.all.resize(place + 1, None);
        }
        self.all[place] = Some(descriptor);
        self.first + place as Fd
    }
}

impl Host {
    /// Opens a file under the lowest free descriptor. `flags` are those of `open`.
    pub(crate) fn add_open(&mut self, kind: Kind, flags: i32) -> Result<Fd, Errno> {
        let place = self.descriptors.free_from(self.descriptors.first)?;
        let open = self.open.add(Open {
            kind,
            nonblocking: flags & O_NONBLOCK != 0,
            flags: flags & (O_ACCMODE | O_APPEND),
            references: 1,
            watchers: Vec::new(),
            waiters: Vec::new(),
        });
        let closes_on_exec = flags & O_CLOEXEC != 0;
        Ok(self.descriptors.set(place, Descriptor { open, closes_on_exec }))
    }

    /// Whether there is room for so many further descriptors.
    pub(crate) fn check_room(&self, count: usize) -> Result<(), Errno> {
        let used = self.descriptors.all.iter().flatten().count();
        if used + count > self.descriptors.limit { Err(Errno::EMFILE) } else { Ok(()) }
    }

    pub(crate) fn open_of(&self, fd: Fd) -> Result<Id<Open>, Errno> {
        Ok(self.descriptors.get(fd)?.open)
    }

    /// Whether a descriptor leads to an open file.
    #[must_use]
    pub fn is_open(&self, fd: Fd) -> bool {
        self.descriptors.get(fd).is_ok()
    }

    /// All descriptors, in order.
    #[must_use]
    pub fn open_descriptors(&self) -> Vec<Fd> {
        let all = self.descriptors.all.iter().enumerate();
        let used = all.filter(|(_, descriptor)| descriptor.is_some());
        used.map(|(place, _)| self.descriptors.first + place as Fd).collect()
    }

    /// Closes a descriptor, and the file with the last one.
    pub fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let open = self.descriptors.get(fd)?.open;
        let place = self.descriptors.place(fd).expect("a descriptor that is open has a place");
        self.descriptors.all[place] = None;
        self.before_close(open);
        self.open[open].references -= 1;
        if self.open[open].references == 0 {
            self.release(open);
        }
        self.settle_network();
        Ok(())
    }

    /// Closes every descriptor, as the end of the process does. The machine goes on: it answers
    /// packets, and what was written before still reaches the peers.
    pub fn close_all(&mut self) {
        for fd in self.open_descriptors() {
            let closed = self.close(fd);
            debug_assert_eq!(closed, Ok(()), "descriptor {fd} is open");
        }
    }

    /// Another descriptor for the same open file.
    pub fn dup(&mut self, fd: Fd) -> Result<Fd, Errno> {
        self.duplicate(fd, self.descriptors.first, false)
    }

    /// Makes `to` another descriptor for the file of `from`; what it led to before is closed.
    pub fn dup3(&mut self, from: Fd, to: Fd, flags: i32) -> Result<Fd, Errno> {
        if flags & !O_CLOEXEC != 0 || from == to {
            return Err(Errno::EINVAL);
        }
        let open = self.open_of(from)?;
        let place = self.descriptors.place(to).filter(|place| *place < self.descriptors.limit);
        let place = place.ok_or(Errno::EBADF)?;
        self.open[open].references += 1;
        if self.is_open(to) {
            self.close(to)?;
        }
        let closes_on_exec = flags & O_CLOEXEC != 0;
        Ok(self.descriptors.set(place, Descriptor { open, closes_on_exec }))
    }

    /// `fcntl` with `F_DUPFD` or `F_DUPFD_CLOEXEC`: the lowest free descriptor from `least` on.
    pub fn duplicate(&mut self, fd: Fd, least: Fd, closes_on_exec: bool) -> Result<Fd, Errno> {
        let open = self.open_of(fd)?;
        let place = self.descriptors.free_from(least)?;
        self.open[open].references += 1;
        Ok(self.descriptors.set(place, Descriptor { open, closes_on_exec }))
    }

    /// `fcntl` with `F_GETFD`: whether the descriptor would be closed by `execve`.
    pub fn closes_on_exec(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.descriptors.get(fd)?.closes_on_exec)
    }

    /// `fcntl` with `F_SETFD`.
    pub fn set_closes_on_exec(&mut self, fd: Fd, closes: bool) -> Result<(), Errno> {
        self.descriptors.get_mut(fd)?.closes_on_exec = closes;
        Ok(())
    }

    /// `fcntl` with `F_GETFL`: the access mode, `O_APPEND` and `O_NONBLOCK`.
    pub fn status_flags(&self, fd: Fd) -> Result<i32, Errno> {
        let open = &self.open[self.open_of(fd)?];
        Ok(open.flags | if open.nonblocking { O_NONBLOCK } else { 0 })
    }

    /// `fcntl` with `F_SETFL`: only `O_NONBLOCK` and `O_APPEND` can change.
    pub fn set_status_flags(&mut self, fd: Fd, flags: i32) -> Result<(), Errno> {
        let open = self.open_of(fd)?;
        let open = &mut self.open[open];
        open.nonblocking = flags & O_NONBLOCK != 0;
        open.flags = (open.flags & O_ACCMODE) | (flags & O_APPEND);
        Ok(())
    }

    /// `ioctl` with `FIONBIO`.
    pub fn set_nonblocking(&mut self, fd: Fd, nonblocking: bool) -> Result<(), Errno> {
        let open = self.open_of(fd)?;
        self.open[open].nonblocking = nonblocking;
        Ok(())
    }

    /// `ioctl` with `FIONREAD`: the bytes that can be read at once.
    pub fn bytes_to_read(&self, fd: Fd) -> Result<usize, Errno> {
        match &self.open[self.open_of(fd)?].kind {
            Kind::Tcp(socket) => self.tcp_bytes_to_read(*socket),
            Kind::Udp(socket) => Ok(self.udp_bytes_to_read(*socket)),
            Kind::Unix(socket) => self.unix_bytes_to_read(*socket),
            Kind::PipeReader(pipe) | Kind::PipeWriter(pipe) => Ok(self.pipes[*pipe].bytes()),
            Kind::File(file) => self.file_bytes_to_read(file),
            Kind::Epoll(_) => Err(Errno::EINVAL),
            Kind::Counter(_) | Kind::Timer(_) | Kind::Device(_) => Err(Errno::ENOTTY),
        }
    }

    /// Reads up to so many bytes.
    pub fn read(&mut self, fd: Fd, bytes: &mut [u8]) -> Answer<usize> {
        let answer = self.read_once(fd, bytes);
        self.settle_network();
        self.settle(answer)
    }

    fn read_once(&mut self, fd: Fd, bytes: &mut [u8]) -> Answer<usize> {
        let id = self.open_of(fd)?;
        let open = &self.open[id];
        if open.flags & O_ACCMODE == O_WRONLY {
            return Err(Errno::EBADF.into());
        }
        match &open.kind {
            // Not even an error of the socket is reported.
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_) if bytes.is_empty() => Ok(0),
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_) => Ok(self.receive(fd, bytes, 0)?.bytes),
            Kind::PipeReader(pipe) => self.pipe_read(fd, *pipe, bytes),
            Kind::Counter(_) => self.counter_read(fd, bytes),
            Kind::Timer(_) => self.timer_read(fd, bytes),
            Kind::File(_) => Ok(self.file_read(fd, bytes)?),
            Kind::PipeWriter(_) => Err(Errno::EBADF.into()),
            Kind::Device(device) => Ok(self.device_read(*device, bytes)),
            Kind::Epoll(_) => Err(Errno::EINVAL.into()),
        }
    }

    /// Writes bytes, and says how many.
    pub fn write(&mut self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        let answer = self.write_once(fd, bytes);
        self.settle_network();
        self.settle(answer)
    }

    fn write_once(&mut self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        let id = self.open_of(fd)?;
        let open = &self.open[id];
        if open.flags & O_ACCMODE == O_RDONLY {
            return Err(Errno::EBADF.into());
        }
        match &open.kind {
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_) => self.transmit(fd, bytes, 0, None),
            Kind::PipeWriter(pipe) => self.pipe_write(fd, *pipe, bytes),
            Kind::Counter(_) => self.counter_write(fd, bytes),
            Kind::File(_) => Ok(self.file_write(fd, bytes)?),
            Kind::PipeReader(_) => Err(Errno::EBADF.into()),
            Kind::Device(_) => Ok(bytes.len()),
            Kind::Timer(_) | Kind::Epoll(_) => Err(Errno::EINVAL.into()),
        }
    }

    /// A descriptor of an open file is gone, maybe not the last one.
    fn before_close(&mut self, open: Id<Open>) {
        if self.open[open].references > 1 {
            return;
        }
        for (epoll, fd) in std::mem::take(&mut self.open[open].watchers) {
            if let Kind::Epoll(set) = &mut self.open[epoll].kind {
                set.forget(fd, open);
            }
        }
    }

    /// The last descriptor of an open file is gone.
    fn release(&mut self, id: Id<Open>) {
        // A thread that still waits here would wait on the kernel's own reference. The file stays
        // open for it in Linux; here it finds that its descriptor is gone.
        for thread in std::mem::take(&mut self.open[id].waiters) {
            self.unpark(thread);
        }
        if let Kind::File(OpenFile { file, .. }) = &self.open[id].kind {
            let file = *file;
            self.file_close(id, file);
        }
        let open = self.open.remove(id).expect("an open file exists");
        match open.kind {
            Kind::Tcp(socket) => self.tcp_close(socket),
            Kind::Udp(socket) => self.udp_close(socket),
            Kind::Unix(socket) => self.unix_close(socket),
            Kind::PipeReader(pipe) => self.pipe_close(pipe, false),
            Kind::PipeWriter(pipe) => self.pipe_close(pipe, true),
            Kind::Timer(timer) => timer.disarm(id, &mut self.alarms),
            Kind::Epoll(set) => {
                for (_, watched) in set.items() {
                    self.open[watched].watchers.retain(|(epoll, _)| *epoll != id);
                }
            }
            Kind::Counter(_) | Kind::File(_) | Kind::Device(_) => {}
        }
    }

    /// The events that hold for an open file now, by the bits of epoll.
    pub(crate) fn readiness(&self, open: Id<Open>) -> u32 {
        match &self.open[open].kind {
            Kind::Tcp(socket) => self.tcp_readiness(*socket),
            Kind::Udp(socket) => self.udp_readiness(*socket),
            Kind::Unix(socket) => self.unix_readiness(*socket),
            Kind::PipeReader(pipe) => self.pipes[*pipe].reader_readiness(),
            Kind::PipeWriter(pipe) => self.pipes[*pipe].writer_readiness(),
            Kind::Counter(counter) => counter.readiness(),
            Kind::Timer(timer) => timer.readiness(),
            Kind::Epoll(set) => self.epoll_readiness(set),
            Kind::File(_) | Kind::Device(_) => EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM,
        }
    }

    /// Something happened to an open file: `events` says what; zero is anything.
    pub(crate) fn notify(&mut self, id: Id<Open>, events: u32) {
        let Some(open) = self.open.get(id) else { return };
        if open.watchers.is_empty() && open.waiters.is_empty() {
            return;
        }
        let events = if events == 0 { u32::MAX } else { events };
        let waiting = |thread: &&ThreadId| self.waits_on(**thread, id, events);
        let woken: Vec<ThreadId> = open.waiters.iter().filter(waiting).copied().collect();
        let watchers = open.watchers.clone();
        for thread in woken {
            self.unpark(thread);
        }
        for (epoll, fd) in watchers {
            let Kind::Epoll(set) = &mut self.open[epoll].kind else { continue };
            if set.note(fd, id, events) {
                self.notify(epoll, EPOLLIN | EPOLLRDNORM);
            }
        }
    }

    /// The caller waits for an event at a descriptor, or learns that it may not.
    pub(crate) fn await_event(&mut self, fd: Fd, events: u32, what: &'static str) -> Stop {
        match self.open_of(fd) {
            Ok(open) if self.open[open].nonblocking => Errno::EAGAIN.into(),
            Ok(open) => {
                let on = [(open, events | EPOLLERR | EPOLLHUP)];
                self.park(Reason::Descriptor(what, fd), &on, Errno::EAGAIN)
            }
            Err(errno) => errno.into(),
        }
    }

    pub(crate) fn await_data(&mut self, fd: Fd) -> Stop {
        self.await_event(fd, EPOLLIN, "data")
    }

    pub(crate) fn await_room(&mut self, fd: Fd) -> Stop {
        self.await_event(fd, EPOLLOUT, "room for data")
    }
}

/// Flags of an open file that can be read and written, from those of a socket or a pipe.
pub(crate) fn both_ways(flags: i32) -> i32 {
    O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC))
}
