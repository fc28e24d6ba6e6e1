//! The answers to the calls of a host's threads.

use std::any::Any;
use std::net::IpAddr;
use std::time::Duration;

use everhold_os::abi::ClockId;
use everhold_os::{Action, Address, Deadline, Errno, Event, FileKind, Status, TimerSetting};
use everhold_sys::{
    Answer, DirectoryEntry, FileStatus, Kernel, Report, Routine, SignalAction, Timeout, Watched,
};

use everhold_trace::wire::What;

use crate::machine::Machine;
use crate::operator::Control;
use crate::packet::Packet;

/// The number of processors of every host.
const PROCESSORS: usize = 2;

/// How often a thread that goes on without a call, for a second of the processor each time, lets others
/// go first before it is taken for one that never ends, and how long it sleeps at first.
const OVERDUE_MAX: u32 = 5;
const OVERDUE_SLEEP: Duration = Duration::from_millis(5);

fn deadline(timeout: Timeout) -> Answer<Option<Deadline>> {
    Ok(match timeout {
        Timeout::Never => None,
        Timeout::After(time) => Some(Deadline::After(time)),
        Timeout::At(clock, time) => {
            Some(Deadline::At(ClockId::parse(clock).map_err(|e| e.0)?, time))
        }
    })
}

fn parse(address: &[u8]) -> Answer<Address> {
    Address::parse(address).map_err(|error| error.0)
}

/// The longest wait of a call that takes a relative one.
fn after(timeout: Timeout) -> Option<Duration> {
    match timeout {
        Timeout::Never | Timeout::At(..) => None,
        Timeout::After(time) => Some(time),
    }
}

fn status_of(status: Status) -> FileStatus {
    let Status { inode, kind, mode, links, size, modified } = status;
    let kind = match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Link => libc::S_IFLNK,
        FileKind::Other => libc::S_IFSOCK,
    };
    FileStatus { inode, mode: kind | mode, links, size, modified }
}

impl Machine {
    fn show(&self, what: &dyn Any) {
        let Some(what) = what.downcast_ref::<What>() else { return };
        if let Some(line) = self.shown.borrow_mut().take(what) {
            self.link.note(|| line);
        }
        self.shows.set(true);
    }

    fn control(&self, host: &str, control: Control) {
        match self.places.by_name.get(host) {
            Some(node) => self.link.send(*node, Packet::Control(control)),
            None => self.link.fail("a host has every name", format!("no host is named \"{host}\"")),
        }
        self.point();
    }

    /// A call that changes the disk: the machine may crash before it.
    fn quick_on_disk<T>(
        &self,
        call: impl FnOnce(&mut everhold_os::Host) -> Result<T, Errno>,
    ) -> Answer<T> {
        self.before_disk();
        self.quick(call)
    }

    /// A call that belongs to no thread, maybe after the end of all of them.
    fn at_once_or_after<T>(
        &self,
        call: impl FnOnce(&mut everhold_os::Host) -> Result<T, Errno>,
    ) -> Answer<T> {
        call(&mut self.os.borrow_mut()).map_err(|error| error.0)
    }

    /// A call that never waits.
    fn quick<T>(&self, call: impl FnOnce(&mut everhold_os::Host) -> Result<T, Errno>) -> Answer<T> {
        self.at_once(call).map_err(|error| error.0)
    }
}

impl Kernel for Machine {
    fn report(&self, report: Report<'_>) {
        match report {
            Report::Panicked { message, place } => {
                *self.panic.borrow_mut() = Some((message.to_owned(), place.to_owned()));
                self.link.note(|| format!("a thread panicked at {place}: {message}"));
            }
            Report::Returned { code } => self.end(code),
            Report::MainPanicked => self.end(101),
            Report::Signal { host, signal } => self.control(host, Control::Signal(signal)),
            Report::Shown(what) => self.show(what),
            Report::Start { host } => self.control(host, Control::Start),
        }
    }

    fn refused(&self, call: &str) {
        let message = format!("called {call}, which hosts do not have");
        self.link.fail("hosts only use what is simulated", message);
    }

    fn exit(&self, code: i32) {
        self.panic.take();
        self.end(code)
    }

    fn fault(&self, what: &'static str) {
        self.end_by(what);
    }

    fn overdue(&self, times: u32) {
        if times > OVERDUE_MAX {
            self.end_by("an endless loop without a call");
        }
        // Nobody can tell the thread that the sleep was interrupted.
        let _ = self.sleep(Timeout::After(OVERDUE_SLEEP * (1 << times)));
    }

    fn output(&self, _descriptor: i32, bytes: &[u8]) {
        self.print(bytes);
        self.point();
    }

    fn spawn(&self, routine: Routine) -> Answer<usize> {
        let handle = self.spawn(routine);
        self.point();
        Ok(handle)
    }

    fn join(&self, handle: usize) -> Answer<usize> {
        let thread = self.threads.borrow().of_handle(handle).ok_or(Errno::EINVAL.0)?;
        self.wait(|os| os.join(thread))?;
        Ok(self.threads.borrow_mut().joined(thread))
    }

    fn is_thread(&self, handle: usize) -> bool {
        self.threads.borrow().of_handle(handle).is_some()
    }

    fn detach(&self, handle: usize) {
        let mut threads = self.threads.borrow_mut();
        if let Some(thread) = threads.of_handle(handle) {
            threads.detach(thread);
        }
    }

    fn yield_now(&self) {
        self.point();
    }

    fn preempt(&self) {
        self.point();
    }

    fn spin(&self) {
        self.look_at_clock();
        self.point();
    }

    fn thread_id(&self) -> i32 {
        self.number_of(self.running.get())
    }

    fn process_id(&self) -> i32 {
        100 + self.link.node().0 as i32
    }

    fn processors(&self) -> usize {
        PROCESSORS
    }

    fn host_name(&self) -> String {
        self.name()
    }

    fn futex_wait(
        &self,
        word: &Watched<'_>,
        expected: u32,
        mask: u32,
        timeout: Timeout,
    ) -> Answer<()> {
        let deadline = deadline(timeout)?;
        self.wait(|os| os.futex_wait(word.address(), word.read(), expected, mask, deadline))
    }

    fn futex_wake(&self, address: usize, count: u32, mask: u32) -> u32 {
        let woken = self.at_once(|os| os.futex_wake(address, count, mask));
        if woken == 0 {
            self.missed.borrow_mut().insert(address, self.running.get());
        }
        self.point();
        woken
    }

    fn futex_requeue(&self, from: usize, wake: u32, to: usize, moved: u32) -> u32 {
        let woken = self.at_once(|os| os.futex_requeue(from, wake, to, moved));
        self.point();
        woken
    }

    fn signal_action(&self, signal: i32, new: Option<SignalAction>) -> Answer<SignalAction> {
        let new = new.map(|SignalAction { handler, flags, mask }| Action { handler, flags, mask });
        let Action { handler, flags, mask } = self.quick(|os| os.sigaction(signal, new))?;
        Ok(SignalAction { handler, flags, mask })
    }

    fn signal_mask(&self, how: i32, set: Option<u64>) -> Answer<u64> {
        let before = self.quick(|os| os.sigprocmask(how, set));
        self.take_signals();
        before
    }

    fn signals_pending(&self) -> u64 {
        self.os.borrow().sigpending()
    }

    fn signal_send(&self, process: i32, signal: i32) -> Answer<()> {
        if process.abs() > 1 && process != self.process_id() {
            return Err(libc::ESRCH);
        }
        self.quick(|os| os.kill(signal))?;
        self.take_signals();
        self.point();
        Ok(())
    }

    fn signal_wait(&self, set: u64, timeout: Timeout) -> Answer<i32> {
        let deadline = deadline(timeout)?;
        self.wait(|os| os.sigwait(set, deadline))
    }

    fn clock(&self, clock: i32) -> Answer<Duration> {
        let clock = ClockId::parse(clock).map_err(|error| error.0)?;
        self.look_at_clock();
        Ok(self.os.borrow().clock(clock))
    }

    fn sleep(&self, timeout: Timeout) -> Answer<()> {
        let deadline = deadline(timeout)?.ok_or(Errno::EINVAL.0)?;
        self.wait_here(|os| os.sleep(deadline))
    }

    fn random(&self, bytes: &mut [u8]) {
        self.at_once(|os| os.getrandom(bytes));
    }

    fn read(&self, descriptor: i32, bytes: &mut [u8]) -> Answer<usize> {
        self.wait(|os| os.read(descriptor, bytes))
    }

    fn write(&self, descriptor: i32, bytes: &[u8]) -> Answer<usize> {
        if self.os.borrow().fstat(descriptor).is_ok_and(|s| s.kind == FileKind::Regular) {
            self.before_disk();
        }
        self.wait(|os| os.write(descriptor, bytes))
    }

    fn close(&self, descriptor: i32) -> Answer<()> {
        self.point();
        self.quick(|os| os.close(descriptor))
    }

    fn dup(&self, descriptor: i32) -> Answer<i32> {
        self.quick(|os| os.dup(descriptor))
    }

    fn dup_to(&self, descriptor: i32, to: i32, flags: i32) -> Answer<i32> {
        self.quick(|os| os.dup3(descriptor, to, flags))
    }

    fn lock_record(&self, descriptor: i32, alone: bool) -> Answer<()> {
        self.quick(|os| os.record_lock(descriptor, alone))
    }

    fn fcntl(&self, descriptor: i32, command: i32, argument: i64) -> Answer<i32> {
        let number = argument as i32;
        self.quick(|os| match command {
            libc::F_GETFL => os.status_flags(descriptor),
            libc::F_SETFL => os.set_status_flags(descriptor, number).map(|()| 0),
            libc::F_GETFD => os.closes_on_exec(descriptor).map(i32::from),
            libc::F_SETFD => {
                os.set_closes_on_exec(descriptor, number & libc::FD_CLOEXEC != 0).map(|()| 0)
            }
            libc::F_DUPFD => os.duplicate(descriptor, number, false),
            libc::F_DUPFD_CLOEXEC => os.duplicate(descriptor, number, true),
            _ => Err(Errno::EINVAL),
        })
    }

    fn ioctl(&self, descriptor: i32, request: u64, argument: &mut i32) -> Answer<i32> {
        self.quick(|os| match request {
            libc::FIONBIO => os.set_nonblocking(descriptor, *argument != 0).map(|()| 0),
            libc::FIONREAD => {
                *argument = os.bytes_to_read(descriptor)? as i32;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        })
    }

    fn open(&self, at: i32, path: &[u8], flags: i32, mode: u32) -> Answer<i32> {
        self.quick(|os| os.openat(at, path, flags, mode))
    }

    fn status(&self, descriptor: i32) -> Answer<FileStatus> {
        self.quick(|os| os.fstat(descriptor)).map(status_of)
    }

    fn status_at(&self, at: i32, path: &[u8], follows: bool) -> Answer<FileStatus> {
        self.quick(|os| if follows { os.statat(at, path) } else { os.lstatat(at, path) })
            .map(status_of)
    }

    fn change_directory(&self, path: &[u8]) -> Answer<()> {
        self.quick(|os| os.chdir(path))
    }

    fn change_directory_to(&self, descriptor: i32) -> Answer<()> {
        self.quick(|os| os.fchdir(descriptor))
    }

    fn working_directory(&self) -> Answer<Vec<u8>> {
        self.quick(|os| os.getcwd()).map(String::into_bytes)
    }

    fn make_symbolic_link(&self, target: &[u8], at: i32, path: &[u8]) -> Answer<()> {
        self.quick_on_disk(|os| os.symlinkat(target, at, path))
    }

    fn read_symbolic_link(&self, at: i32, path: &[u8]) -> Answer<Vec<u8>> {
        self.quick(|os| os.readlinkat(at, path).map(|target| target.as_bytes().to_vec()))
    }

    fn real_path(&self, path: &[u8]) -> Answer<Vec<u8>> {
        self.quick(|os| os.real_path(everhold_os::AT_FDCWD, path)).map(String::into_bytes)
    }

    fn set_mode_at(&self, at: i32, path: &[u8], mode: u32) -> Answer<()> {
        self.quick(|os| os.chmodat(at, path, mode))
    }

    fn set_mode(&self, descriptor: i32, mode: u32) -> Answer<()> {
        self.quick(|os| os.fchmod(descriptor, mode))
    }

    fn set_modified_at(&self, at: i32, path: &[u8], time: Option<Duration>) -> Answer<()> {
        self.quick(|os| {
            let time = time.unwrap_or_else(|| os.clock(ClockId::Realtime));
            os.set_modified_at(at, path, time)
        })
    }

    fn set_modified(&self, descriptor: i32, time: Option<Duration>) -> Answer<()> {
        self.quick(|os| {
            let time = time.unwrap_or_else(|| os.clock(ClockId::Realtime));
            os.set_modified(descriptor, time)
        })
    }

    fn space(&self) -> (u64, u64) {
        let space = self.os.borrow().space();
        (space.total, space.free)
    }

    fn sync_all(&self) -> Answer<()> {
        self.quick_on_disk(|os| {
            os.sync();
            Ok(())
        })
    }

    fn seek(&self, descriptor: i32, offset: i64, whence: i32) -> Answer<u64> {
        self.quick(|os| os.lseek(descriptor, offset, whence))
    }

    fn read_at(&self, descriptor: i32, bytes: &mut [u8], offset: i64) -> Answer<usize> {
        self.quick(|os| os.pread(descriptor, bytes, offset))
    }

    fn write_at(&self, descriptor: i32, bytes: &[u8], offset: i64) -> Answer<usize> {
        self.quick_on_disk(|os| os.pwrite(descriptor, bytes, offset))
    }

    fn write_back(&self, descriptor: i32, offset: u64, bytes: &[u8]) -> Answer<()> {
        self.at_once_or_after(|os| os.write_back(descriptor, offset, bytes))
    }

    fn truncate(&self, descriptor: i32, length: i64) -> Answer<()> {
        self.quick_on_disk(|os| os.ftruncate(descriptor, length))
    }

    fn allocate(&self, descriptor: i32, mode: i32, offset: i64, length: i64) -> Answer<()> {
        self.quick_on_disk(|os| os.fallocate(descriptor, mode, offset, length))
    }

    fn sync(&self, descriptor: i32) -> Answer<()> {
        self.quick_on_disk(|os| os.fsync(descriptor))
    }

    fn lock_file(&self, descriptor: i32, operation: i32) -> Answer<()> {
        self.wait(|os| os.flock(descriptor, operation))
    }

    fn remove(&self, at: i32, path: &[u8], directory: bool) -> Answer<()> {
        self.quick_on_disk(|os| match directory {
            true => os.rmdirat(at, path),
            false => os.unlinkat(at, path),
        })
    }

    fn make_directory(&self, at: i32, path: &[u8], mode: u32) -> Answer<()> {
        self.quick_on_disk(|os| os.mkdirat(at, path, mode))
    }

    fn rename(&self, from: (i32, &[u8]), to: (i32, &[u8]), keeps: bool) -> Answer<()> {
        self.quick_on_disk(|os| os.renameat(from, to, keeps))
    }

    fn link(&self, from: (i32, &[u8]), to: (i32, &[u8])) -> Answer<()> {
        self.quick_on_disk(|os| os.linkat(from, to))
    }

    fn entries(&self, descriptor: i32) -> Answer<Vec<DirectoryEntry>> {
        let entries = self.quick(|os| os.read_directory(descriptor))?;
        let entry = |entry: everhold_os::Entry| DirectoryEntry {
            name: entry.name.into_bytes(),
            inode: entry.inode,
            is_directory: entry.kind == FileKind::Directory,
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer<i32> {
        self.quick(|os| os.socket(domain, kind, protocol))
    }

    fn socket_pair(&self, domain: i32, kind: i32, protocol: i32) -> Answer<[i32; 2]> {
        self.quick(|os| os.socketpair(domain, kind, protocol)).map(<[i32; 2]>::from)
    }

    fn bind(&self, descriptor: i32, address: &[u8]) -> Answer<()> {
        let address = parse(address)?;
        self.quick(|os| os.bind(descriptor, &address))
    }

    fn listen(&self, descriptor: i32, backlog: i32) -> Answer<()> {
        self.point();
        self.quick(|os| os.listen(descriptor, backlog))
    }

    fn accept(&self, descriptor: i32, flags: i32) -> Answer<(i32, Vec<u8>)> {
        let (accepted, from) = self.wait(|os| os.accept(descriptor, flags))?;
        Ok((accepted, from.encode()))
    }

    fn connect(&self, descriptor: i32, address: &[u8]) -> Answer<()> {
        let address = parse(address)?;
        self.wait(|os| os.connect(descriptor, &address))
    }

    fn shutdown(&self, descriptor: i32, how: i32) -> Answer<()> {
        self.point();
        self.quick(|os| os.shutdown(descriptor, how))
    }

    fn send(&self, descriptor: i32, bytes: &[u8], flags: i32, to: Option<&[u8]>) -> Answer<usize> {
        let to = to.map(parse).transpose()?;
        self.wait(|os| os.sendto(descriptor, bytes, flags, to.as_ref()))
    }

    fn receive(
        &self,
        descriptor: i32,
        bytes: &mut [u8],
        flags: i32,
    ) -> Answer<(usize, Option<Vec<u8>>)> {
        let received = self.wait(|os| os.recvfrom(descriptor, bytes, flags))?;
        Ok((received.bytes, received.from.map(|from| from.encode())))
    }

    fn socket_name(&self, descriptor: i32, peer: bool) -> Answer<Vec<u8>> {
        let name = self.quick(|os| match peer {
            false => os.getsockname(descriptor),
            true => os.getpeername(descriptor),
        })?;
        Ok(name.encode())
    }

    fn socket_option(
        &self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Answer<usize> {
        let found = self.quick(|os| os.getsockopt(descriptor, level, name))?;
        let length = found.len().min(value.len());
        value[..length].copy_from_slice(&found[..length]);
        Ok(length)
    }

    fn set_socket_option(
        &self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Answer<()> {
        self.quick(|os| os.setsockopt(descriptor, level, name, value))
    }

    fn resolve(&self, name: &str) -> Vec<IpAddr> {
        self.os.borrow().resolve(name)
    }

    fn pipe(&self, flags: i32) -> Answer<[i32; 2]> {
        self.quick(|os| os.pipe(flags)).map(<[i32; 2]>::from)
    }

    fn timer(&self, clock: i32, flags: i32) -> Answer<i32> {
        self.quick(|os| os.timerfd_create(clock, flags))
    }

    fn timer_setting(
        &self,
        descriptor: i32,
        flags: i32,
        new: Option<[Duration; 2]>,
    ) -> Answer<[Duration; 2]> {
        let before = self.quick(|os| match new {
            None => os.timerfd_gettime(descriptor),
            Some([interval, value]) => {
                os.timerfd_settime(descriptor, flags, TimerSetting { interval, value })
            }
        })?;
        Ok([before.interval, before.value])
    }

    fn event(&self, value: u32, flags: i32) -> Answer<i32> {
        self.quick(|os| os.eventfd(value, flags))
    }

    fn epoll(&self, flags: i32) -> Answer<i32> {
        self.quick(|os| os.epoll_create(flags))
    }

    fn epoll_control(
        &self,
        epoll: i32,
        operation: i32,
        descriptor: i32,
        (events, data): (u32, u64),
    ) -> Answer<()> {
        self.quick(|os| os.epoll_ctl(epoll, operation, descriptor, Event { events, data }))
    }

    fn epoll_wait(&self, epoll: i32, most: usize, timeout: Timeout) -> Answer<Vec<(u32, u64)>> {
        let events = self.wait(|os| os.epoll_wait(epoll, most, after(timeout)))?;
        Ok(events.into_iter().map(|event| (event.events, event.data)).collect())
    }

    fn poll(&self, entries: &mut [(i32, i16, i16)], timeout: Timeout) -> Answer<usize> {
        let of =
            |&(fd, events, _): &(i32, i16, i16)| everhold_os::PollFd { fd, events, revents: 0 };
        let mut files: Vec<_> = entries.iter().map(of).collect();
        let ready = self.wait(|os| os.poll(&mut files, after(timeout)))?;
        for (entry, file) in entries.iter_mut().zip(files) {
            entry.2 = file.revents;
        }
        Ok(ready)
    }
}
