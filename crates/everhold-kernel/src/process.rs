//! Processes and clocks.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A process that is known by more than its number: when it has ended, the handle says so, even if
/// the number was given to another one.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens a handle of a process.
    ///
    /// # Errors
    ///
    /// If there is no such process.
    pub fn open(process: u32) -> io::Result<ProcessHandle> {
        // SAFETY: this call takes no addresses.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(ProcessHandle(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns whether the process has ended. It does not wait.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one structure, and it outlives the call, which does not wait.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0
    }
}

/// Raises the number of files that this process may have open to what it may raise it to; returns the
/// number.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let before = std::mem::replace(&mut limit.rlim_cur, limit.rlim_max);
    // SAFETY: the structure outlives the call, which raises a limit to its maximum.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => limit.rlim_max,
        _ => before,
    }
}

/// Nanoseconds of the monotonic clock, which BPF programs read as well.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
