//! Further system calls by their numbers, for [`numbers`](super::numbers), and the names of those
//! that hosts do not have.

use std::ffi::{c_int, c_long};

use crate::hooks::host::failed;
use crate::hooks::{events, files, host, names, net, process, signals, streams};
use crate::kernel::SignalAction;

/// Descriptors and waiting.
///
/// # Safety
///
/// The arguments must be right for the call.
pub(crate) unsafe fn of_descriptors(
    number: c_long,
    [a, b, c, d, e, f]: [i64; 6],
) -> Option<c_long> {
    let (fd, second, third) = (a as c_int, b as c_int, c as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_dup2 => events::dup2(fd, second).into(),
            libc::SYS_dup3 => events::dup3(fd, second, third).into(),
            libc::SYS_pipe => events::pipe(a as _).into(),
            libc::SYS_eventfd => events::eventfd(a as _, 0).into(),
            libc::SYS_epoll_create => events::epoll_create(fd).into(),
            libc::SYS_timerfd_create => events::timerfd_create(fd, second).into(),
            libc::SYS_timerfd_settime => events::timerfd_settime(fd, second, c as _, d as _).into(),
            libc::SYS_timerfd_gettime => events::timerfd_gettime(fd, b as _).into(),
            libc::SYS_ppoll => events::ppoll(a as _, b as _, c as _, d as _).into(),
            libc::SYS_select => events::select(fd, b as _, c as _, d as _, e as _).into(),
            libc::SYS_pselect6 => {
                events::pselect(fd, b as _, c as _, d as _, e as _, f as _).into()
            }
            libc::SYS_sendmmsg => net::sendmmsg(fd, b as _, c as _, d as _).into(),
            libc::SYS_recvmmsg => net::recvmmsg(fd, b as _, c as _, d as _, e as _).into(),
            libc::SYS_preadv => streams::preadv(fd, b as _, third, d) as c_long,
            libc::SYS_pwritev => streams::pwritev(fd, b as _, third, d) as c_long,
            libc::SYS_sync => {
                names::sync();
                0
            }
            libc::SYS_syncfs => names::syncfs(fd).into(),
            libc::SYS_sync_file_range => files::sync_file_range(fd, b, c, d as _).into(),
            libc::SYS_fadvise64 => 0,
            libc::SYS_getdents64 => super::directories::getdents64(fd, b as _, c as _) as c_long,
            _ => return None,
        }
    };
    Some(result)
}

/// Names of files.
///
/// # Safety
///
/// The arguments must be right for the call.
pub(crate) unsafe fn of_names(number: c_long, [a, b, c, d, e, _]: [i64; 6]) -> Option<c_long> {
    let (fd, second, third) = (a as c_int, b as c_int, c as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_access => names::access(a as _, second).into(),
            libc::SYS_faccessat => names::faccessat(fd, b as _, third, 0).into(),
            libc::SYS_faccessat2 => names::faccessat(fd, b as _, third, d as _).into(),
            libc::SYS_symlink => names::symlink(a as _, b as _).into(),
            libc::SYS_symlinkat => names::symlinkat(a as _, second, c as _).into(),
            libc::SYS_readlink => names::readlink(a as _, b as _, c as _) as c_long,
            libc::SYS_readlinkat => names::readlinkat(fd, b as _, c as _, d as _) as c_long,
            libc::SYS_link => files::link(a as _, b as _).into(),
            libc::SYS_linkat => files::linkat(fd, b as _, third, d as _, 0).into(),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                files::open(a as _, flags, second as _).into()
            }
            libc::SYS_renameat2 => files::renameat2(fd, b as _, third, d as _, e as _).into(),
            libc::SYS_chmod => names::chmod(a as _, b as _).into(),
            libc::SYS_fchmod => names::fchmod(fd, b as _).into(),
            libc::SYS_fchmodat => names::fchmodat(fd, b as _, c as _, 0).into(),
            libc::SYS_chown | libc::SYS_lchown => names::chown(a as _, 0, 0).into(),
            libc::SYS_fchown => names::fchown(fd, 0, 0).into(),
            libc::SYS_utimensat => names::utimensat(fd, b as _, c as _, d as _).into(),
            libc::SYS_chdir => names::chdir(a as _).into(),
            libc::SYS_fchdir => names::fchdir(fd).into(),
            libc::SYS_truncate => names::truncate(a as _, b).into(),
            libc::SYS_statfs => names::statfs(a as _, b as _).into(),
            libc::SYS_fstatfs => names::fstatfs(fd, b as _).into(),
            // The kernel answers with a length, the C library with a place.
            libc::SYS_getcwd => match names::getcwd(a as _, b as _) {
                0 | -1 => -1,
                place => libc::strlen(place as _) as c_long + 1,
            },
            _ => return None,
        }
    };
    Some(result)
}

/// Signals, limits and identities.
///
/// # Safety
///
/// The arguments must be right for the call.
pub(crate) unsafe fn of_limits(number: c_long, [a, b, c, d, ..]: [i64; 6]) -> Option<c_long> {
    let (first, second) = (a as c_int, b as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_rt_sigaction => raw_sigaction(first, b as _, c as _),
            libc::SYS_rt_sigprocmask => raw_mask(first, b as _, c as _),
            libc::SYS_rt_sigsuspend => signals::sigsuspend(a as _).into(),
            libc::SYS_rt_sigtimedwait => signals::sigtimedwait(a as _, b as _, c as _).into(),
            libc::SYS_sigaltstack => host::sigaltstack(a as _, b as _).into(),
            libc::SYS_pause => signals::pause().into(),
            libc::SYS_kill => signals::kill(first, second).into(),
            libc::SYS_tkill => signals::raise(second).into(),
            libc::SYS_tgkill => signals::raise(c as c_int).into(),
            libc::SYS_exit_group => host::_exit(first),
            libc::SYS_getppid => host::getppid().into(),
            libc::SYS_getuid | libc::SYS_geteuid => process::getuid().into(),
            libc::SYS_getgid | libc::SYS_getegid => process::getgid().into(),
            libc::SYS_getpgid | libc::SYS_getpgrp | libc::SYS_getsid => process::getpgrp().into(),
            libc::SYS_umask => process::umask(a as _).into(),
            libc::SYS_uname => host::uname(a as _).into(),
            libc::SYS_getrlimit => process::getrlimit(a as _, b as _).into(),
            libc::SYS_setrlimit => 0,
            libc::SYS_prlimit64 => process::prlimit(first, b as _, c as _, d as _).into(),
            libc::SYS_getrusage => process::getrusage(first, b as _).into(),
            libc::SYS_sysinfo => process::sysinfo(a as _).into(),
            libc::SYS_times => process::times(a as _),
            libc::SYS_sched_getaffinity => {
                host::sched_getaffinity(first, b as _, c as _);
                b.min(8)
            }
            libc::SYS_sched_setaffinity => 0,
            libc::SYS_prctl => process::prctl(first, b as _, c as _, d as _, 0).into(),
            libc::SYS_clock_getres => super::time::clock_getres(first, b as _).into(),
            _ => return None,
        }
    };
    Some(result)
}

/// An action in the form of the kernel.
#[repr(C)]
struct RawAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// # Safety
///
/// Each place must be null or that of an action.
unsafe fn raw_sigaction(signal: c_int, new: *const RawAction, old: *mut RawAction) -> c_long {
    // SAFETY: the caller answers for both.
    let new = unsafe { new.as_ref() };
    let new =
        new.map(|new| SignalAction { handler: new.handler, flags: new.flags, mask: new.mask });
    let before = crate::fiber::enter(|kernel| kernel.signal_action(signal, new));
    match before {
        Err(number) => failed(number),
        Ok(SignalAction { handler, flags, mask }) => {
            if !old.is_null() {
                // SAFETY: as above.
                unsafe { *old = RawAction { handler, flags, restorer: 0, mask } };
            }
            0
        }
    }
}

/// # Safety
///
/// Each place must be null or that of 64 signals.
unsafe fn raw_mask(how: c_int, new: *const u64, old: *mut u64) -> c_long {
    // SAFETY: the caller answers for both.
    let new = unsafe { new.as_ref() }.copied();
    match crate::fiber::enter(|kernel| kernel.signal_mask(how, new)) {
        Err(number) => failed(number),
        Ok(before) => {
            if !old.is_null() {
                // SAFETY: as above.
                unsafe { *old = before };
            }
            0
        }
    }
}

macro_rules! named {
    ($($name:ident)*) => {
        /// The name of a call, if it is one that programs are known to make.
        pub(crate) fn name_of(number: c_long) -> Option<&'static str> {
            let known = [$((syscall_number!($name), stringify!($name)),)*];
            known.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
        }
    };
}

macro_rules! syscall_number {
    (clone) => {
        libc::SYS_clone
    };
    (clone3) => {
        libc::SYS_clone3
    };
    (fork) => {
        libc::SYS_fork
    };
    (vfork) => {
        libc::SYS_vfork
    };
    (execve) => {
        libc::SYS_execve
    };
    (execveat) => {
        libc::SYS_execveat
    };
    (wait4) => {
        libc::SYS_wait4
    };
    (waitid) => {
        libc::SYS_waitid
    };
    (ptrace) => {
        libc::SYS_ptrace
    };
    (signalfd4) => {
        libc::SYS_signalfd4
    };
    (inotify_init1) => {
        libc::SYS_inotify_init1
    };
    (fanotify_init) => {
        libc::SYS_fanotify_init
    };
    (memfd_create) => {
        libc::SYS_memfd_create
    };
    (alarm) => {
        libc::SYS_alarm
    };
    (setitimer) => {
        libc::SYS_setitimer
    };
    (timer_create) => {
        libc::SYS_timer_create
    };
    (mount) => {
        libc::SYS_mount
    };
    (shmget) => {
        libc::SYS_shmget
    };
    (semget) => {
        libc::SYS_semget
    };
    (msgget) => {
        libc::SYS_msgget
    };
    (mq_open) => {
        libc::SYS_mq_open
    };
    (io_setup) => {
        libc::SYS_io_setup
    };
    (bpf) => {
        libc::SYS_bpf
    };
    (perf_event_open) => {
        libc::SYS_perf_event_open
    };
    (unshare) => {
        libc::SYS_unshare
    };
    (setns) => {
        libc::SYS_setns
    };
    (seccomp) => {
        libc::SYS_seccomp
    };
    (setuid) => {
        libc::SYS_setuid
    };
    (setgid) => {
        libc::SYS_setgid
    };
    (reboot) => {
        libc::SYS_reboot
    };
    (getpriority) => {
        libc::SYS_getpriority
    };
}

named! {
    clone clone3 fork vfork execve execveat wait4 waitid ptrace signalfd4 inotify_init1
    fanotify_init memfd_create alarm setitimer timer_create mount shmget semget msgget mq_open
    io_setup bpf perf_event_open unshare setns seccomp setuid setgid reboot getpriority
}
