//! The interface of the simulated kernel: the answers to the calls of a host's threads.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fiber::Routine;
use crate::hooks::host::Report;

/// A result, or an error number of the C library.
pub type Answer<T> = Result<T, i32>;

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Until it is done.
    Never,
    /// For this long.
    After(Duration),
    /// Until this clock (a number such as `CLOCK_MONOTONIC`) shows this time.
    At(i32, Duration),
}

/// A word of a host's memory on which its threads wait.
#[derive(Debug)]
pub struct Watched<'a>(&'a AtomicU32);

impl<'a> Watched<'a> {
    /// # Safety
    ///
    /// The address must be that of an aligned word which is valid during the call.
    pub(crate) unsafe fn new(address: usize) -> Watched<'a> {
        // SAFETY: the caller answers for the address; the host accesses the word atomically.
        Watched(unsafe { AtomicU32::from_ptr(address as *mut u32) })
    }

    /// The address, which distinguishes words of one host.
    #[must_use]
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The value now.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The reaction of a process to a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalAction {
    /// The address of the handler, or 0 for what is usual, or 1 for nothing.
    pub handler: usize,
    /// The flags.
    pub flags: u64,
    /// The signals that the handler blocks; bit 0 is signal 1.
    pub mask: u64,
}

/// The answer of `stat` about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Its number.
    pub inode: u64,
    /// Its kind and its permissions.
    pub mode: u32,
    /// Its names.
    pub links: u64,
    /// Its bytes.
    pub size: u64,
    /// When it was written, as the time since 1970.
    pub modified: Duration,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The number of the file.
    pub inode: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Answers the calls of the fiber that runs. A call that has to wait calls
/// [`suspend`](crate::suspend) and goes on when the fiber is run again; it must not hold a borrow
/// meanwhile.
///
/// Addresses of sockets are in the form that the C library has (`sockaddr`).
pub trait Kernel {
    /// Tells something about the host's own program.
    fn report(&self, report: Report<'_>);
    /// A call that is not simulated. The caller gets `ENOSYS`, and the execution should fail.
    fn refused(&self, call: &str);
    /// Ends the host's process; does not return to it.
    fn exit(&self, code: i32);
    /// The calling thread did something for which a process is ended, such as reading at an address
    /// where nothing is; does not return to it.
    fn fault(&self, what: &'static str);
    /// The calling thread goes on without a call for a long time, now for so many times in a row.
    fn overdue(&self, times: u32);
    /// Bytes for the standard output (1) or error (2).
    fn output(&self, descriptor: i32, bytes: &[u8]);

    /// Creates a thread; returns its handle.
    fn spawn(&self, routine: Routine) -> Answer<usize>;
    /// Waits for a thread to end; returns its result.
    fn join(&self, handle: usize) -> Answer<usize>;
    /// Whether a handle is that of a thread of this host.
    fn is_thread(&self, handle: usize) -> bool;
    /// Nobody will join this thread.
    fn detach(&self, handle: usize);
    /// Lets other threads go first.
    fn yield_now(&self);
    /// The thread is before an atomic exchange: another one may go first.
    fn preempt(&self);
    /// The thread spins until something changes.
    fn spin(&self);
    /// The number of the calling thread.
    fn thread_id(&self) -> i32;
    /// The number of the host's process.
    fn process_id(&self) -> i32;
    /// The number of processors.
    fn processors(&self) -> usize;
    /// The name of the host.
    fn host_name(&self) -> String;

    /// Waits on a word while it has the value that is expected.
    fn futex_wait(
        &self,
        word: &Watched<'_>,
        expected: u32,
        mask: u32,
        timeout: Timeout,
    ) -> Answer<()>;
    /// Wakes threads that wait on a word; returns their number.
    fn futex_wake(&self, address: usize, count: u32, mask: u32) -> u32;
    /// Wakes some threads that wait on a word, and lets others wait on another one.
    fn futex_requeue(&self, from: usize, wake: u32, to: usize, moved: u32) -> u32;

    /// The action for a signal, and a new one.
    fn signal_action(&self, signal: i32, new: Option<SignalAction>) -> Answer<SignalAction>;
    /// The signals that the calling thread blocks, and a change of them (`SIG_BLOCK` and so on).
    fn signal_mask(&self, how: i32, set: Option<u64>) -> Answer<u64>;
    /// The signals that came and are blocked.
    fn signals_pending(&self) -> u64;
    /// Sends a signal; process 0 is the caller's own.
    fn signal_send(&self, process: i32, signal: i32) -> Answer<()>;
    /// Waits for one of some signals and takes it; with none, for a handler to run.
    fn signal_wait(&self, set: u64, timeout: Timeout) -> Answer<i32>;

    /// The time on a clock.
    fn clock(&self, clock: i32) -> Answer<Duration>;
    /// Sleeps.
    fn sleep(&self, timeout: Timeout) -> Answer<()>;
    /// Random bytes.
    fn random(&self, bytes: &mut [u8]);

    /// `read`.
    fn read(&self, descriptor: i32, bytes: &mut [u8]) -> Answer<usize>;
    /// `write`.
    fn write(&self, descriptor: i32, bytes: &[u8]) -> Answer<usize>;
    /// `close`.
    fn close(&self, descriptor: i32) -> Answer<()>;
    /// `dup`.
    fn dup(&self, descriptor: i32) -> Answer<i32>;
    /// `dup3`, also for a descriptor that stays what it is.
    fn dup_to(&self, descriptor: i32, to: i32, flags: i32) -> Answer<i32>;
    /// `fcntl` with `F_SETLK` and its relatives: a lock that the whole process has.
    fn lock_record(&self, descriptor: i32, alone: bool) -> Answer<()>;
    /// `fcntl` with a number as its argument.
    fn fcntl(&self, descriptor: i32, command: i32, argument: i64) -> Answer<i32>;
    /// `ioctl` with a place for a number as its argument.
    fn ioctl(&self, descriptor: i32, request: u64, argument: &mut i32) -> Answer<i32>;

    /// `openat`.
    fn open(&self, at: i32, path: &[u8], flags: i32, mode: u32) -> Answer<i32>;
    /// `fstat`.
    fn status(&self, descriptor: i32) -> Answer<FileStatus>;
    /// `fstatat`, of what a symbolic link leads to or of the link itself.
    fn status_at(&self, at: i32, path: &[u8], follows: bool) -> Answer<FileStatus>;
    /// `chdir`.
    fn change_directory(&self, path: &[u8]) -> Answer<()>;
    /// `fchdir`.
    fn change_directory_to(&self, descriptor: i32) -> Answer<()>;
    /// `getcwd`.
    fn working_directory(&self) -> Answer<Vec<u8>>;
    /// `symlinkat`.
    fn make_symbolic_link(&self, target: &[u8], at: i32, path: &[u8]) -> Answer<()>;
    /// `readlinkat`.
    fn read_symbolic_link(&self, at: i32, path: &[u8]) -> Answer<Vec<u8>>;
    /// `realpath`.
    fn real_path(&self, path: &[u8]) -> Answer<Vec<u8>>;
    /// `fchmodat`.
    fn set_mode_at(&self, at: i32, path: &[u8], mode: u32) -> Answer<()>;
    /// `fchmod`.
    fn set_mode(&self, descriptor: i32, mode: u32) -> Answer<()>;
    /// `utimensat`, with the time since 1970, or none for now.
    fn set_modified_at(&self, at: i32, path: &[u8], time: Option<Duration>) -> Answer<()>;
    /// `futimens`.
    fn set_modified(&self, descriptor: i32, time: Option<Duration>) -> Answer<()>;
    /// All bytes of the disk, and the free ones.
    fn space(&self) -> (u64, u64);
    /// `sync`.
    fn sync_all(&self) -> Answer<()>;
    /// `lseek`.
    fn seek(&self, descriptor: i32, offset: i64, whence: i32) -> Answer<u64>;
    /// `pread`.
    fn read_at(&self, descriptor: i32, bytes: &mut [u8], offset: i64) -> Answer<usize>;
    /// `pwrite`.
    fn write_at(&self, descriptor: i32, bytes: &[u8], offset: i64) -> Answer<usize>;
    /// Writes what was changed in mapped memory, as far as the file goes.
    fn write_back(&self, descriptor: i32, offset: u64, bytes: &[u8]) -> Answer<()>;
    /// `ftruncate`.
    fn truncate(&self, descriptor: i32, length: i64) -> Answer<()>;
    /// `fallocate`.
    fn allocate(&self, descriptor: i32, mode: i32, offset: i64, length: i64) -> Answer<()>;
    /// `fsync`, and `fdatasync`.
    fn sync(&self, descriptor: i32) -> Answer<()>;
    /// `flock`.
    fn lock_file(&self, descriptor: i32, operation: i32) -> Answer<()>;
    /// `unlinkat`, of a file or of a directory.
    fn remove(&self, at: i32, path: &[u8], directory: bool) -> Answer<()>;
    /// `mkdirat`.
    fn make_directory(&self, at: i32, path: &[u8], mode: u32) -> Answer<()>;
    /// `renameat2`, which may have to keep what has the new name.
    fn rename(&self, from: (i32, &[u8]), to: (i32, &[u8]), keeps: bool) -> Answer<()>;
    /// `linkat`.
    fn link(&self, from: (i32, &[u8]), to: (i32, &[u8])) -> Answer<()>;
    /// The names in an open directory.
    fn entries(&self, descriptor: i32) -> Answer<Vec<DirectoryEntry>>;

    /// `socket`.
    fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer<i32>;
    /// `socketpair`.
    fn socket_pair(&self, domain: i32, kind: i32, protocol: i32) -> Answer<[i32; 2]>;
    /// `bind`.
    fn bind(&self, descriptor: i32, address: &[u8]) -> Answer<()>;
    /// `listen`.
    fn listen(&self, descriptor: i32, backlog: i32) -> Answer<()>;
    /// `accept4`.
    fn accept(&self, descriptor: i32, flags: i32) -> Answer<(i32, Vec<u8>)>;
    /// `connect`.
    fn connect(&self, descriptor: i32, address: &[u8]) -> Answer<()>;
    /// `shutdown`.
    fn shutdown(&self, descriptor: i32, how: i32) -> Answer<()>;
    /// `sendto`; without an address on a connected socket.
    fn send(&self, descriptor: i32, bytes: &[u8], flags: i32, to: Option<&[u8]>) -> Answer<usize>;
    /// `recvfrom`.
    fn receive(
        &self,
        descriptor: i32,
        bytes: &mut [u8],
        flags: i32,
    ) -> Answer<(usize, Option<Vec<u8>>)>;
    /// `getsockname`, or `getpeername`.
    fn socket_name(&self, descriptor: i32, peer: bool) -> Answer<Vec<u8>>;
    /// `getsockopt`; returns the length of the value.
    fn socket_option(
        &self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Answer<usize>;
    /// `setsockopt`.
    fn set_socket_option(&self, descriptor: i32, level: i32, name: i32, value: &[u8])
    -> Answer<()>;
    /// The addresses of a host.
    fn resolve(&self, name: &str) -> Vec<IpAddr>;

    /// `pipe2`.
    fn pipe(&self, flags: i32) -> Answer<[i32; 2]>;
    /// `timerfd_create`.
    fn timer(&self, clock: i32, flags: i32) -> Answer<i32>;
    /// `timerfd_settime` and `timerfd_gettime`: the interval and the value before, and new ones.
    fn timer_setting(
        &self,
        descriptor: i32,
        flags: i32,
        new: Option<[Duration; 2]>,
    ) -> Answer<[Duration; 2]>;
    /// `eventfd`.
    fn event(&self, value: u32, flags: i32) -> Answer<i32>;
    /// `epoll_create1`.
    fn epoll(&self, flags: i32) -> Answer<i32>;
    /// `epoll_ctl`, with the events and the data of the entry.
    fn epoll_control(
        &self,
        epoll: i32,
        operation: i32,
        descriptor: i32,
        entry: (u32, u64),
    ) -> Answer<()>;
    /// `epoll_wait`.
    fn epoll_wait(&self, epoll: i32, most: usize, timeout: Timeout) -> Answer<Vec<(u32, u64)>>;
    /// `poll`; descriptors with the events asked for and those that are there.
    fn poll(&self, entries: &mut [(i32, i16, i16)], timeout: Timeout) -> Answer<usize>;
}
