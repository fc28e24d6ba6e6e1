//! Clocks, sleeping and randomness.

use std::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

use libc::{clockid_t, time_t, timespec, timeval};

use crate::hooks::threads::interpose_numbered;
use crate::hooks::{bytes_mut, interpose};
use crate::kernel::Timeout;

/// # Safety
///
/// `at` must be null or point to a time.
pub(crate) unsafe fn duration(at: *const timespec) -> Option<Duration> {
    if at.is_null() {
        return None;
    }
    // SAFETY: see above.
    let time = unsafe { *at };
    Some(Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32))
}

pub(crate) fn timespec_of(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs() as time_t, tv_nsec: time.subsec_nanos().into() }
}

/// The wait of a call that takes milliseconds, of which negative ones mean for ever.
pub(crate) fn milliseconds(timeout: c_int) -> Timeout {
    u64::try_from(timeout)
        .map_or(Timeout::Never, |milliseconds| Timeout::After(Duration::from_millis(milliseconds)))
}

interpose! {
    fn clock_gettime(kernel, clock: clockid_t, time: *mut timespec) -> c_int {
        let now = kernel.clock(clock)?;
        // SAFETY: the caller passes a place for the time.
        unsafe { *time = timespec_of(now) };
        Ok(0)
    }
    fn clock_getres(_kernel, _clock: clockid_t, time: *mut timespec) -> c_int {
        if !time.is_null() {
            // SAFETY: the caller passes a place for the time.
            unsafe { *time = timespec { tv_sec: 0, tv_nsec: 1 } };
        }
        Ok(0)
    }
    fn gettimeofday(kernel, time: *mut timeval, _zone: *mut c_void) -> c_int {
        let now = kernel.clock(libc::CLOCK_REALTIME)?;
        // SAFETY: the caller passes a place for the time.
        unsafe {
            *time = timeval { tv_sec: now.as_secs() as time_t, tv_usec: now.subsec_micros().into() };
        }
        Ok(0)
    }
    fn time(kernel, time: *mut time_t) -> time_t {
        let now = kernel.clock(libc::CLOCK_REALTIME)?.as_secs() as time_t;
        if !time.is_null() {
            // SAFETY: the caller passes a place for the time.
            unsafe { *time = now };
        }
        Ok(now)
    }
    fn nanosleep(kernel, time: *const timespec, _rest: *mut timespec) -> c_int {
        // SAFETY: the caller passes a time.
        let time = unsafe { duration(time) }.ok_or(libc::EFAULT)?;
        kernel.sleep(Timeout::After(time)).map(|()| 0)
    }
    fn getrandom(kernel, buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
        // SAFETY: the caller passes room for so many bytes.
        kernel.random(unsafe { bytes_mut(buffer, length) });
        Ok(length as i64)
    }
    fn getentropy(kernel, buffer: *mut c_void, length: usize) -> c_int {
        // SAFETY: the caller passes room for so many bytes.
        kernel.random(unsafe { bytes_mut(buffer, length) });
        Ok(0)
    }
}

interpose_numbered! {
    fn clock_nanosleep(
        kernel,
        clock: clockid_t,
        flags: c_int,
        time: *const timespec,
        _rest: *mut timespec
    ) {
        // SAFETY: the caller passes a time.
        let time = unsafe { duration(time) }.ok_or(libc::EFAULT)?;
        let absolute = flags & libc::TIMER_ABSTIME != 0;
        kernel.sleep(if absolute { Timeout::At(clock, time) } else { Timeout::After(time) })
    }
}
