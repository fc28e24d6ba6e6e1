//! Identities, limits and counts of a host's process. Every host is that of an ordinary user on a
//! small machine.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use libc::{gid_t, mode_t, pid_t, rlimit, rusage, timeval, uid_t};

use crate::hooks::interpose;
use crate::kernel::Kernel;

const USER: i64 = 1_000;
const UMASK: i64 = 0o22;
const DESCRIPTORS: u64 = 65_536;
const MEMORY: u64 = 8 << 30;

/// The limit of a resource: only descriptors and stacks have one.
fn limit_of(resource: u32) -> u64 {
    match resource {
        libc::RLIMIT_NOFILE => DESCRIPTORS,
        libc::RLIMIT_STACK => 8 << 20,
        _ => libc::RLIM_INFINITY,
    }
}

/// # Safety
///
/// There must be a place for the answer, or none.
unsafe fn put_limit(resource: u32, into: *mut rlimit) -> i64 {
    if !into.is_null() {
        let limit = limit_of(resource);
        // SAFETY: the caller answers for the place.
        unsafe { *into = rlimit { rlim_cur: limit, rlim_max: limit } };
    }
    0
}

/// The time since the host was started, as the time that its processor worked.
fn worked(kernel: &dyn Kernel) -> Duration {
    kernel.clock(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

interpose! {
    fn getuid(_kernel) -> uid_t { Ok(USER) }
    fn geteuid(_kernel) -> uid_t { Ok(USER) }
    fn getgid(_kernel) -> gid_t { Ok(USER) }
    fn getegid(_kernel) -> gid_t { Ok(USER) }
    fn getpgid(kernel, _process: pid_t) -> pid_t { Ok(kernel.process_id().into()) }
    fn getpgrp(kernel) -> pid_t { Ok(kernel.process_id().into()) }
    fn getsid(kernel, _process: pid_t) -> pid_t { Ok(kernel.process_id().into()) }
    fn umask(_kernel, _mask: mode_t) -> mode_t { Ok(UMASK) }
    fn getrlimit(_kernel, resource: libc::__rlimit_resource_t, into: *mut rlimit) -> c_int {
        // SAFETY: the caller passes a place for the answer.
        Ok(unsafe { put_limit(resource, into) })
    }
    fn getrlimit64(_kernel, resource: libc::__rlimit_resource_t, into: *mut rlimit) -> c_int {
        // SAFETY: the caller passes a place for the answer.
        Ok(unsafe { put_limit(resource, into) })
    }
    fn setrlimit(_kernel, _resource: libc::__rlimit_resource_t, _new: *const rlimit) -> c_int {
        Ok(0)
    }
    fn setrlimit64(_kernel, _resource: libc::__rlimit_resource_t, _new: *const rlimit) -> c_int {
        Ok(0)
    }
    fn prlimit(
        _kernel,
        _process: pid_t,
        resource: libc::__rlimit_resource_t,
        _new: *const rlimit,
        old: *mut rlimit
    ) -> c_int {
        // SAFETY: the caller passes a place for the answer, or null.
        Ok(unsafe { put_limit(resource, old) })
    }
    fn getrusage(kernel, _who: c_int, into: *mut rusage) -> c_int {
        let worked = worked(kernel);
        // SAFETY: the caller passes a place for the answer.
        unsafe {
            std::ptr::write_bytes(into, 0, 1);
            (*into).ru_utime = timeval {
                tv_sec: worked.as_secs() as i64,
                tv_usec: worked.subsec_micros().into(),
            };
        }
        Ok(0)
    }
    fn times(kernel, into: *mut libc::tms) -> libc::clock_t {
        if !into.is_null() {
            // SAFETY: the caller passes a place for the answer.
            unsafe { std::ptr::write_bytes(into, 0, 1) };
        }
        Ok((worked(kernel).as_millis() / 10) as i64)
    }
    fn sysinfo(kernel, into: *mut libc::sysinfo) -> c_int {
        let uptime = worked(kernel).as_secs() as i64;
        // SAFETY: the caller passes a place for the answer.
        unsafe {
            std::ptr::write_bytes(into, 0, 1);
            (*into).uptime = uptime;
            (*into).totalram = MEMORY;
            (*into).freeram = MEMORY / 2;
            (*into).procs = 1;
            (*into).mem_unit = 1;
        }
        Ok(0)
    }
    fn sched_setaffinity(_kernel, _process: pid_t, _length: usize, _set: *const c_void) -> c_int {
        Ok(0)
    }
    fn getpriority(_kernel, _which: libc::__priority_which_t, _who: libc::id_t) -> c_int { Ok(0) }
    fn setpriority(
        _kernel,
        _which: libc::__priority_which_t,
        _who: libc::id_t,
        _value: c_int
    ) -> c_int {
        Ok(0)
    }
    fn getloadavg(_kernel, into: *mut f64, count: c_int) -> c_int {
        let count = count.clamp(0, 3);
        for at in 0..count as usize {
            // SAFETY: the caller passes room for so many numbers.
            unsafe { *into.add(at) = 0.0 };
        }
        Ok(count.into())
    }
    // Names of threads and the like are taken and forgotten.
    fn prctl(
        _kernel,
        option: c_int,
        second: usize,
        _third: usize,
        _fourth: usize,
        _fifth: usize
    ) -> c_int {
        match option {
            libc::PR_SET_NAME | libc::PR_SET_PDEATHSIG | libc::PR_SET_DUMPABLE => Ok(0),
            libc::PR_GET_DUMPABLE => Ok(1),
            libc::PR_GET_NAME => {
                // SAFETY: the caller passes room for sixteen bytes.
                unsafe { std::ptr::write_bytes(second as *mut c_char, 0, 16) };
                Ok(0)
            }
            _ => Err(libc::EINVAL),
        }
    }
    fn usleep(kernel, time: libc::useconds_t) -> c_int {
        kernel.sleep(crate::Timeout::After(Duration::from_micros(time.into()))).map(|()| 0)
    }
    fn sleep(kernel, time: libc::c_uint) -> libc::c_uint {
        kernel.sleep(crate::Timeout::After(Duration::from_secs(time.into()))).map(|()| 0)
    }
}
