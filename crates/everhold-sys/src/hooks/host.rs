//! The process of a host: its program, its name and its end.

use std::ffi::{c_char, c_int, c_long};

use crate::fiber::{enter, is_simulated, keep_panic};
use crate::hooks::{interpose, next, set_errno};

/// Something that the code around a host's `main` tells the kernel.
#[derive(Debug)]
pub enum Report<'a> {
    /// A thread panics.
    Panicked {
        /// The message.
        message: &'a str,
        /// The place in the source.
        place: &'a str,
    },
    /// The host's `main` returned.
    Returned {
        /// The exit code.
        code: i32,
    },
    /// The host's `main` ended by a panic.
    MainPanicked,
    /// A signal for another host.
    Signal {
        /// The name of the host.
        host: &'a str,
        /// The number.
        signal: i32,
    },
    /// Something that the program shows of its state.
    Shown(&'a dyn std::any::Any),
    /// Another host starts again, as soon as its process has ended.
    Start {
        /// The name of the host.
        host: &'a str,
    },
}

/// Tells the kernel something about the host whose code calls. If the kernel itself panics, in a
/// host's call, the panic is kept for the explorer.
pub fn call(report: Report<'_>) {
    if is_simulated() {
        enter(|kernel| kernel.report(report));
    } else if let Report::Panicked { message, place } = report {
        keep_panic(format!("{message} ({place})"));
    }
}

interpose! {
    fn getpid(kernel) -> libc::pid_t { Ok(kernel.process_id().into()) }
    fn getppid(_kernel) -> libc::pid_t { Ok(1) }
    fn gettid(kernel) -> libc::pid_t { Ok(kernel.thread_id().into()) }
    fn gethostname(kernel, name: *mut c_char, length: usize) -> c_int {
        let text = kernel.host_name();
        if text.len() >= length {
            return Err(libc::ENAMETOOLONG);
        }
        // SAFETY: the caller passes room for so many bytes.
        unsafe { put_text(name, &text) };
        Ok(0)
    }
    fn uname(kernel, into: *mut libc::utsname) -> c_int {
        // SAFETY: the caller passes a place for the answer, whose parts hold 65 bytes.
        unsafe {
            std::ptr::write_bytes(into, 0, 1);
            put_text((&raw mut (*into).sysname).cast(), "Linux");
            put_text((&raw mut (*into).release).cast(), "6.0.0");
            put_text((&raw mut (*into).version).cast(), "simulated");
            put_text((&raw mut (*into).machine).cast(), "x86_64");
            let name: String = kernel.host_name().chars().take(60).collect();
            put_text((&raw mut (*into).nodename).cast(), &name);
        }
        Ok(0)
    }
    fn fork(kernel) -> libc::pid_t { refuse(kernel, "fork") }
    fn vfork(kernel) -> libc::pid_t { refuse(kernel, "vfork") }
    fn execvp(kernel, _file: *const c_char, _arguments: *const *const c_char) -> c_int {
        refuse(kernel, "execvp")
    }
    fn waitpid(kernel, _process: libc::pid_t, _status: *mut c_int, _options: c_int) -> libc::pid_t {
        refuse(kernel, "waitpid")
    }
    fn sigaltstack(_kernel, _new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
        if !old.is_null() {
            // SAFETY: the caller passes a place for the answer.
            unsafe {
                std::ptr::write_bytes(old, 0, 1);
                (*old).ss_flags = libc::SS_DISABLE;
            }
        }
        Ok(0)
    }
    fn sched_getaffinity(kernel, _process: libc::pid_t, length: usize, set: *mut libc::cpu_set_t) -> c_int {
        // SAFETY: the caller passes room for a set of this length.
        let set = unsafe { crate::hooks::bytes_mut(set.cast(), length) };
        set.fill(0);
        for processor in 0..kernel.processors().min(length * 8) {
            set[processor / 8] |= 1 << (processor % 8);
        }
        Ok(0)
    }
}

/// Tells the kernel that a host asked for something that is not simulated.
pub(crate) fn refuse(kernel: &dyn crate::Kernel, call: &str) -> crate::Answer<i64> {
    kernel.refused(call);
    Err(libc::ENOSYS)
}

/// # Safety
///
/// There must be room for the text and a zero.
unsafe fn put_text(at: *mut c_char, text: &str) {
    // SAFETY: see above.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), at, text.len());
        *at.add(text.len()) = 0;
    }
}

macro_rules! interpose_spawn {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`: hosts have no child processes.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_int {
            if is_simulated() {
                enter(|kernel| kernel.refused(stringify!($name)));
                return libc::ENOSYS;
            }
            let next = next!($name: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> c_int);
            // SAFETY: the caller's own arguments, for the function that it called.
            unsafe { next(a, b, c, d, e, f) }
        }
    )* };
}
interpose_spawn! { posix_spawn posix_spawnp }

/// `sysconf`: the number of processors is that of the host.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    if is_simulated() && matches!(name, libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF) {
        return enter(|kernel| kernel.processors()) as c_long;
    }
    let next = next!(sysconf: unsafe extern "C" fn(c_int) -> c_long);
    // SAFETY: the caller's own argument.
    unsafe { next(name) }
}

/// `exit`: ends the host's process, without the handlers of the whole program.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exit(code: c_int) -> ! {
    if is_simulated() {
        enter(|kernel| kernel.exit(code));
    }
    let next = next!(exit: unsafe extern "C" fn(c_int) -> !);
    // SAFETY: the caller's own argument.
    unsafe { next(code) }
}

/// `_exit`: ends the host's process.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(code: c_int) -> ! {
    if is_simulated() {
        enter(|kernel| kernel.exit(code));
    }
    let next = next!(_exit: unsafe extern "C" fn(c_int) -> !);
    // SAFETY: the caller's own argument.
    unsafe { next(code) }
}

/// `abort`: ends the host's process, as the signal would.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn abort() -> ! {
    if is_simulated() {
        enter(|kernel| kernel.exit(128 + libc::SIGABRT));
    }
    let next = next!(abort: unsafe extern "C" fn() -> !);
    // SAFETY: no arguments.
    unsafe { next() }
}

/// `__register_atfork`: hosts never fork, and the C library would keep the handlers for ever.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(a: usize, b: usize, c: usize, d: usize) -> c_int {
    if is_simulated() {
        return 0;
    }
    let next = next!(__register_atfork: unsafe extern "C" fn(usize, usize, usize, usize) -> c_int);
    // SAFETY: the caller's own arguments.
    unsafe { next(a, b, c, d) }
}

/// `__cxa_atexit`: the handlers of a host would run at the end of the test.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_atexit(a: usize, b: usize, c: usize) -> c_int {
    if is_simulated() {
        return 0;
    }
    let next = next!(__cxa_atexit: unsafe extern "C" fn(usize, usize, usize) -> c_int);
    // SAFETY: the caller's own arguments.
    unsafe { next(a, b, c) }
}

/// Sets the error number for a function that answers in another way.
pub(crate) fn failed(number: i32) -> i64 {
    set_errno(number);
    -1
}
