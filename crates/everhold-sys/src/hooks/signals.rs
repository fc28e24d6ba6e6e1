//! Signals: handlers, masks, sending and waiting.

use std::ffi::{c_int, c_void};

use libc::{pid_t, pthread_t, sighandler_t, siginfo_t, sigset_t, timespec};

use crate::fiber::{enter, is_simulated};
use crate::hooks::host::refuse;
use crate::hooks::threads::interpose_numbered;
use crate::hooks::time::duration;
use crate::hooks::{interpose, next};
use crate::kernel::{Answer, Kernel, SignalAction, Timeout};

/// Handlers that are none: what is usual, and nothing.
const DEFAULT: usize = libc::SIG_DFL;
const IGNORE: usize = libc::SIG_IGN;

/// The part of a set that has signals in it.
///
/// # Safety
///
/// `at` must be null or point to a set.
unsafe fn signals(at: *const sigset_t) -> Option<u64> {
    // SAFETY: the C library's sets begin with the 64 bits that the kernel knows.
    (!at.is_null()).then(|| unsafe { *at.cast::<u64>() })
}

/// # Safety
///
/// `at` must be null or a place for a set.
unsafe fn put_signals(at: *mut sigset_t, set: u64) {
    if !at.is_null() {
        // SAFETY: as in `signals`; the rest of a set is empty.
        unsafe {
            std::ptr::write_bytes(at, 0, 1);
            *at.cast::<u64>() = set;
        }
    }
}

/// # Safety
///
/// Each place must be null or that of a set.
unsafe fn mask(
    kernel: &dyn Kernel,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> Answer<()> {
    // SAFETY: the caller answers for both.
    unsafe {
        let before = kernel.signal_mask(how, signals(new))?;
        put_signals(old, before);
    }
    Ok(())
}

/// Waits with another mask than the thread's own.
///
/// # Safety
///
/// `set` must point to a set.
unsafe fn suspended(kernel: &dyn Kernel, set: *const sigset_t) -> Answer<i64> {
    // SAFETY: the caller answers for the set.
    let before = kernel.signal_mask(libc::SIG_SETMASK, unsafe { signals(set) })?;
    let result = kernel.signal_wait(0, Timeout::Never);
    kernel.signal_mask(libc::SIG_SETMASK, Some(before))?;
    result.map(i64::from)
}

/// # Safety
///
/// `info` must be null or a place for what is known of a signal.
unsafe fn put_info(info: *mut siginfo_t, signal: c_int) {
    if !info.is_null() {
        // SAFETY: the caller answers for the place.
        unsafe {
            std::ptr::write_bytes(info, 0, 1);
            (*info).si_signo = signal;
        }
    }
}

interpose! {
    fn sigaction(
        kernel,
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction
    ) -> c_int {
        // SAFETY: the caller passes an action or null.
        let new = unsafe { new.as_ref() }.map(|new| SignalAction {
            handler: new.sa_sigaction,
            flags: u64::from(new.sa_flags as u32),
            // SAFETY: the set is part of the action.
            mask: unsafe { signals(&raw const new.sa_mask) }.unwrap_or(0),
        });
        let before = kernel.signal_action(signal, new)?;
        if !old.is_null() {
            // SAFETY: the caller passes a place for the action before.
            unsafe {
                std::ptr::write_bytes(old, 0, 1);
                (*old).sa_sigaction = before.handler;
                (*old).sa_flags = before.flags as c_int;
                put_signals(&raw mut (*old).sa_mask, before.mask);
            }
        }
        Ok(0)
    }
    fn signal(kernel, signal: c_int, handler: sighandler_t) -> sighandler_t {
        let flags = libc::SA_RESTART as u64;
        let new = SignalAction { handler, flags, mask: 0 };
        kernel.signal_action(signal, Some(new)).map(|before| before.handler as i64)
    }
    fn kill(kernel, process: pid_t, signal: c_int) -> c_int {
        kernel.signal_send(process, signal).map(|()| 0)
    }
    fn sigprocmask(kernel, how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
        // SAFETY: the caller passes sets or null.
        unsafe { mask(kernel, how, new, old) }.map(|()| 0)
    }
    fn sigpending(kernel, set: *mut sigset_t) -> c_int {
        // SAFETY: the caller passes a place for a set.
        unsafe { put_signals(set, kernel.signals_pending()) };
        Ok(0)
    }
    fn sigsuspend(kernel, set: *const sigset_t) -> c_int {
        // SAFETY: the caller passes a set.
        unsafe { suspended(kernel, set) }
    }
    fn pause(kernel) -> c_int { kernel.signal_wait(0, Timeout::Never).map(i64::from) }
    fn sigtimedwait(
        kernel,
        set: *const sigset_t,
        info: *mut siginfo_t,
        timeout: *const timespec
    ) -> c_int {
        // SAFETY: the caller passes a set, and a place and a time or null.
        unsafe {
            let timeout = duration(timeout).map_or(Timeout::Never, Timeout::After);
            let signal = kernel.signal_wait(signals(set).unwrap_or(0), timeout)?;
            put_info(info, signal);
            Ok(signal.into())
        }
    }
    fn sigwaitinfo(kernel, set: *const sigset_t, info: *mut siginfo_t) -> c_int {
        // SAFETY: the caller passes a set, and a place or null.
        unsafe {
            let signal = kernel.signal_wait(signals(set).unwrap_or(0), Timeout::Never)?;
            put_info(info, signal);
            Ok(signal.into())
        }
    }
    fn signalfd(kernel, _descriptor: c_int, _set: *const sigset_t, _flags: c_int) -> c_int {
        refuse(kernel, "signalfd")
    }
    fn alarm(kernel, _seconds: libc::c_uint) -> libc::c_uint { refuse(kernel, "alarm") }
    fn setitimer(kernel, _which: c_int, _new: *const c_void, _old: *mut c_void) -> c_int {
        refuse(kernel, "setitimer")
    }
}

interpose_numbered! {
    fn pthread_sigmask(kernel, how: c_int, new: *const sigset_t, old: *mut sigset_t) {
        // SAFETY: the caller passes sets or null.
        unsafe { mask(kernel, how, new, old) }
    }
    fn sigwait(kernel, set: *const sigset_t, signal: *mut c_int) {
        loop {
            // SAFETY: the caller passes a set.
            let set = unsafe { signals(set) }.unwrap_or(0);
            match kernel.signal_wait(set, Timeout::Never) {
                // Signals that have handlers do not end it.
                Err(libc::EINTR) => {}
                found => {
                    // SAFETY: the caller passes a place for the signal.
                    unsafe { *signal = found? };
                    return Ok(());
                }
            }
        }
    }
    // A signal for one thread reaches the process.
    fn pthread_kill(kernel, thread: pthread_t, signal: c_int) {
        match (kernel.is_thread(thread as usize), signal) {
            (false, _) => Err(libc::ESRCH),
            (true, 0) => Ok(()),
            (true, signal) => kernel.signal_send(0, signal),
        }
    }
}

/// `raise`: the handler runs on the calling thread, before this returns.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raise(signal: c_int) -> c_int {
    if !is_simulated() {
        let next = next!(raise: unsafe extern "C" fn(c_int) -> c_int);
        // SAFETY: the caller's own argument.
        return unsafe { next(signal) };
    }
    let action = enter(|kernel| {
        let blocked = kernel.signal_mask(libc::SIG_BLOCK, None)? & (1 << (signal - 1).clamp(0, 63));
        let action = kernel.signal_action(signal, None)?;
        if blocked != 0 || matches!(action.handler, DEFAULT | IGNORE) {
            kernel.signal_send(0, signal)?;
            return Ok(None);
        }
        Ok(Some(action))
    });
    match action {
        Ok(Some(action)) => {
            // SAFETY: the program itself said that this is its handler.
            unsafe { run_handler(signal, action) };
            0
        }
        Ok(None) => 0,
        Err(number) => crate::hooks::host::failed(number) as c_int,
    }
}

/// Runs a handler of the program, in its own code.
///
/// # Safety
///
/// The action must have a handler.
pub(crate) unsafe fn run_handler(signal: c_int, action: SignalAction) {
    type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
    // SAFETY: all-zero values of these types are valid.
    let (mut info, mut context) =
        unsafe { (std::mem::zeroed::<siginfo_t>(), std::mem::zeroed::<libc::ucontext_t>()) };
    info.si_signo = signal;
    // SAFETY: a handler of either form takes a number first, and one without SA_SIGINFO ignores
    // the other registers.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(action.handler) };
    handler(signal, &raw mut info, (&raw mut context).cast());
}
