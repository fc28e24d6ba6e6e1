//! System calls by their numbers: what programs ask for through `syscall`.

use std::ffi::{c_int, c_long};

use libc::timespec;

use crate::fiber::{enter, is_simulated};
use crate::hooks::time::duration;
use crate::hooks::{answer, calls, events, files, host, net, streams, threads, time};
use crate::kernel::{Answer, Kernel, Timeout, Watched};
use crate::raw;

/// `syscall`. The C function takes any number of arguments, which are passed as if it took six.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the meaning of the C library's function, and its calling convention on this target.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: i64,
    b: i64,
    c: i64,
    d: i64,
    e: i64,
    f: i64,
) -> c_long {
    // SAFETY: the caller's own arguments.
    unsafe { dispatch(number, [a, b, c, d, e, f]) }
}

/// Carries out a system call, for a host or for others.
///
/// # Safety
///
/// The arguments must be right for the call.
pub(crate) unsafe fn dispatch(number: c_long, arguments: [i64; 6]) -> c_long {
    if !is_simulated() {
        // SAFETY: the caller answers for the arguments.
        return unsafe { really(number, arguments) };
    }
    if number == libc::SYS_futex {
        // SAFETY: the caller answers for the arguments.
        return answer(enter(|kernel| unsafe { futex(kernel, arguments) }));
    }
    // SAFETY: the caller answers for the arguments.
    unsafe { by_number(number, arguments) }
}

/// # Safety
///
/// The arguments must be right for the call.
unsafe fn by_number(number: c_long, arguments: [i64; 6]) -> c_long {
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        of_process(number, arguments)
            .or_else(|| of_streams(number, arguments))
            .or_else(|| of_files(number, arguments))
            .or_else(|| of_memory(number, arguments))
            .or_else(|| calls::of_descriptors(number, arguments))
            .or_else(|| calls::of_names(number, arguments))
            .or_else(|| calls::of_limits(number, arguments))
    };
    result.unwrap_or_else(|| {
        let name = match calls::name_of(number) {
            Some(name) => format!("system call {number} ({name})"),
            None => format!("system call {number}"),
        };
        answer(enter(|kernel| host::refuse(kernel, &name)))
    })
}

/// Time, randomness, identity.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn of_process(number: c_long, [a, b, c, d, ..]: [i64; 6]) -> Option<c_long> {
    let (fd, second) = (a as c_int, b as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_getrandom => time::getrandom(a as _, b as _, c as _) as c_long,
            libc::SYS_gettid => host::gettid().into(),
            libc::SYS_getpid => host::getpid().into(),
            libc::SYS_sched_yield => threads::sched_yield().into(),
            libc::SYS_clock_gettime => time::clock_gettime(fd, b as _).into(),
            libc::SYS_gettimeofday => time::gettimeofday(a as _, b as _).into(),
            libc::SYS_time => time::time(a as _),
            libc::SYS_nanosleep => time::nanosleep(a as _, b as _).into(),
            libc::SYS_clock_nanosleep => match time::clock_nanosleep(fd, second, c as _, d as _) {
                0 => 0,
                number => host::failed(number),
            },
            _ => return None,
        }
    };
    Some(result)
}

/// Sockets and whatever else is read and written.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn of_streams(number: c_long, [a, b, c, d, e, f]: [i64; 6]) -> Option<c_long> {
    let (fd, second, third) = (a as c_int, b as c_int, c as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_read => streams::read(fd, b as _, c as _) as c_long,
            libc::SYS_write => streams::write(fd, b as _, c as _) as c_long,
            libc::SYS_readv => streams::readv(fd, b as _, third) as c_long,
            libc::SYS_writev => streams::writev(fd, b as _, third) as c_long,
            libc::SYS_close => streams::close(fd).into(),
            libc::SYS_dup => streams::dup(fd).into(),
            libc::SYS_fcntl => streams::fcntl(fd, second, c).into(),
            libc::SYS_ioctl => streams::ioctl(fd, b as _, c as _).into(),
            libc::SYS_socket => net::socket(fd, second, third).into(),
            libc::SYS_bind => net::bind(fd, b as _, c as _).into(),
            libc::SYS_listen => net::listen(fd, second).into(),
            libc::SYS_accept => net::accept(fd, b as _, c as _).into(),
            libc::SYS_accept4 => net::accept4(fd, b as _, c as _, d as _).into(),
            libc::SYS_connect => net::connect(fd, b as _, c as _).into(),
            libc::SYS_shutdown => net::shutdown(fd, second).into(),
            libc::SYS_sendto => net::sendto(fd, b as _, c as _, d as _, e as _, f as _) as c_long,
            libc::SYS_recvfrom => {
                net::recvfrom(fd, b as _, c as _, d as _, e as _, f as _) as c_long
            }
            libc::SYS_sendmsg => net::sendmsg(fd, b as _, third) as c_long,
            libc::SYS_recvmsg => net::recvmsg(fd, b as _, third) as c_long,
            libc::SYS_getsockopt => net::getsockopt(fd, second, third, d as _, e as _).into(),
            libc::SYS_setsockopt => net::setsockopt(fd, second, third, d as _, e as _).into(),
            libc::SYS_getsockname => net::getsockname(fd, b as _, c as _).into(),
            libc::SYS_getpeername => net::getpeername(fd, b as _, c as _).into(),
            libc::SYS_socketpair => net::socketpair(fd, second, third, d as _).into(),
            libc::SYS_pipe2 => events::pipe2(a as _, second).into(),
            libc::SYS_eventfd2 => events::eventfd(a as _, second).into(),
            libc::SYS_poll => events::poll(a as _, b as _, third).into(),
            libc::SYS_epoll_create1 => events::epoll_create1(fd).into(),
            libc::SYS_epoll_ctl => events::epoll_ctl(fd, second, third, d as _).into(),
            libc::SYS_epoll_wait => events::epoll_wait(fd, b as _, third, d as _).into(),
            libc::SYS_epoll_pwait => events::epoll_pwait(fd, b as _, third, d as _, e as _).into(),
            _ => return None,
        }
    };
    Some(result)
}

/// Files.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn of_files(number: c_long, [a, b, c, d, e, _]: [i64; 6]) -> Option<c_long> {
    let (fd, second, third) = (a as c_int, b as c_int, c as c_int);
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            libc::SYS_open => files::open(a as _, second, c as _).into(),
            libc::SYS_openat => files::openat(fd, b as _, third, d as _).into(),
            libc::SYS_stat => files::stat(a as _, b as _).into(),
            libc::SYS_lstat => files::lstat(a as _, b as _).into(),
            libc::SYS_fstat => files::fstat(fd, b as _).into(),
            libc::SYS_newfstatat => files::fstatat(fd, b as _, c as _, d as _).into(),
            libc::SYS_statx => files::statx(fd, b as _, third, d as _, e as _).into(),
            libc::SYS_lseek => files::lseek(fd, b, third),
            libc::SYS_pread64 => files::pread(fd, b as _, c as _, d) as c_long,
            libc::SYS_pwrite64 => files::pwrite(fd, b as _, c as _, d) as c_long,
            libc::SYS_ftruncate => files::ftruncate(fd, b).into(),
            libc::SYS_fallocate => files::fallocate(fd, second, c, d).into(),
            libc::SYS_fsync | libc::SYS_fdatasync => files::fsync(fd).into(),
            libc::SYS_flock => files::flock(fd, second).into(),
            libc::SYS_unlink => files::unlink(a as _).into(),
            libc::SYS_unlinkat => files::unlinkat(fd, b as _, third).into(),
            libc::SYS_rmdir => files::rmdir(a as _).into(),
            libc::SYS_mkdir => files::mkdir(a as _, b as _).into(),
            libc::SYS_mkdirat => files::mkdirat(fd, b as _, c as _).into(),
            libc::SYS_rename => files::rename(a as _, b as _).into(),
            libc::SYS_renameat => files::renameat(fd, b as _, third, d as _).into(),
            _ => return None,
        }
    };
    Some(result)
}

/// Memory, which is real, and calls without which programs can do.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn of_memory(number: c_long, [a, b, c, d, e, f]: [i64; 6]) -> Option<c_long> {
    let third = c as c_int;
    // SAFETY: the caller answers for the arguments.
    let result = unsafe {
        match number {
            // Memory is real.
            libc::SYS_munmap => crate::mappings::munmap(a as _, b as _).into(),
            libc::SYS_msync => crate::mappings::msync(a as _, b as _, third).into(),
            libc::SYS_mremap => {
                crate::mappings::mremap(a as _, b as _, c as _, d as _, e as _) as c_long
            }
            libc::SYS_mprotect | libc::SYS_madvise | libc::SYS_brk | libc::SYS_arch_prctl => {
                really(number, [a, b, c, d, e, f])
            }
            libc::SYS_mmap => files::mmap(a as _, b as _, third, d as _, e as _, f) as c_long,
            libc::SYS_getcpu => {
                if a != 0 {
                    *(a as *mut u32) = 0;
                }
                0
            }
            // Programs ask for these and do without them.
            libc::SYS_io_uring_setup
            | libc::SYS_epoll_pwait2
            | libc::SYS_copy_file_range
            | libc::SYS_openat2
            | libc::SYS_close_range
            | libc::SYS_pidfd_open
            | libc::SYS_membarrier
            | libc::SYS_rseq => host::failed(libc::ENOSYS),
            _ => return None,
        }
    };
    Some(result)
}

/// A call that the real kernel carries out.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn really(number: c_long, arguments: [i64; 6]) -> c_long {
    // SAFETY: the caller answers for the arguments.
    let result = unsafe { raw::call(number, arguments) };
    if (-4095..0).contains(&result) { host::failed(-result as i32) } else { result }
}

/// Waiting on and waking by words of memory, in all the forms that locks use.
///
/// # Safety
///
/// The arguments must be right for the call.
unsafe fn futex(
    kernel: &dyn Kernel,
    [word, operation, value, timeout, other, last]: [i64; 6],
) -> Answer<i64> {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let operation = operation as c_int;
    let value = value as u32;
    // SAFETY: the caller passes a time or null, where the operation takes one.
    let limit = || unsafe { duration(timeout as *const timespec) };
    let clock = match operation & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    };
    // SAFETY: the caller passes the address of a word.
    let watched = || unsafe { Watched::new(word as usize) };
    match operation & !flags {
        libc::FUTEX_WAIT => {
            let timeout = limit().map_or(Timeout::Never, Timeout::After);
            kernel.futex_wait(&watched(), value, u32::MAX, timeout).map(|()| 0)
        }
        libc::FUTEX_WAIT_BITSET => {
            let timeout = limit().map_or(Timeout::Never, |time| Timeout::At(clock, time));
            kernel.futex_wait(&watched(), value, last as u32, timeout).map(|()| 0)
        }
        libc::FUTEX_WAKE => Ok(kernel.futex_wake(word as usize, value, u32::MAX).into()),
        libc::FUTEX_WAKE_BITSET => Ok(kernel.futex_wake(word as usize, value, last as u32).into()),
        libc::FUTEX_REQUEUE => {
            Ok(kernel.futex_requeue(word as usize, value, other as usize, timeout as u32).into())
        }
        libc::FUTEX_CMP_REQUEUE if watched().read() != last as u32 => Err(libc::EAGAIN),
        libc::FUTEX_CMP_REQUEUE => {
            Ok(kernel.futex_requeue(word as usize, value, other as usize, timeout as u32).into())
        }
        other => host::refuse(kernel, &format!("futex operation {other}")),
    }
}
