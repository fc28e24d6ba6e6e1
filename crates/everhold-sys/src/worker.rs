//! A process of one thread in which hosts run.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use libc::c_int;

/// The exit code of a worker that panicked.
const PANICKED: i32 = 101;

/// The process ended before it gave its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Died {
    /// The signal that ended it, or zero.
    pub signal: i32,
    /// Its exit code, if no signal ended it.
    pub code: i32,
}

impl fmt::Display for Died {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.signal {
            0 => write!(f, "ended with the exit code {}", self.code),
            libc::SIGSEGV => f.write_str("was ended by a segmentation fault (signal 11)"),
            libc::SIGABRT => f.write_str("aborted (signal 6)"),
            libc::SIGALRM => f.write_str("took too long and was ended (signal 14)"),
            signal => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// Does `work` in a copy of this process that has this thread only, and returns its result.
///
/// # Errors
///
/// If no process can be made, or it died; the inner error says how.
pub fn in_worker(work: impl FnOnce() -> Vec<u8>) -> io::Result<Result<Vec<u8>, Died>> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Another thread that prints now would keep these locks in the copy for ever; those that this
    // thread holds are its own there.
    let output = (io::stdout().lock(), io::stderr().lock());
    // SAFETY: the copy only runs `work`, writes its result and ends.
    let process = unsafe { libc::fork() };
    if process != 0 {
        drop(output);
    }
    match process {
        -1 => Err(io::Error::last_os_error()),
        0 => child(ends, work),
        process => {
            // SAFETY: the descriptor is ours and not used again.
            unsafe { libc::close(ends[1]) };
            // SAFETY: the descriptor is ours; the file closes it.
            let mut pipe = unsafe { std::fs::File::from_raw_fd(ends[0]) };
            let mut result = Vec::new();
            pipe.read_to_end(&mut result)?;
            Ok(status_of(process)?.map_or(Ok(result), Err))
        }
    }
}

/// Waits for a process; how it died, if it did.
fn status_of(process: libc::pid_t) -> io::Result<Option<Died>> {
    let mut status: c_int = 0;
    loop {
        // SAFETY: there is a place for the status.
        if unsafe { libc::waitpid(process, &raw mut status, 0) } == process {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let signal = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 };
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 0 };
    Ok((signal != 0 || code != 0).then_some(Died { signal, code }))
}

fn child(ends: [c_int; 2], work: impl FnOnce() -> Vec<u8>) -> ! {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let code = match result {
        Ok(bytes) => i32::from(!write_all(ends[1], &bytes)),
        Err(_) => PANICKED,
    };
    // SAFETY: ends the process without the test harness's own handlers.
    unsafe { libc::_exit(code) }
}

fn write_all(to: c_int, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: the bytes are valid for reading.
        let written = unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = &bytes[written..],
            _ => return false,
        }
    }
    true
}
