//! Waiting for descriptors: epoll, poll, eventfd, pipes.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{epoll_event, fd_set, itimerspec, nfds_t, pollfd, sigset_t, timespec, timeval};

use crate::hooks::interpose;
use crate::hooks::time::{duration, milliseconds, timespec_of};
use crate::kernel::{Answer, Kernel, Timeout};

fn wait(
    kernel: &dyn Kernel,
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> Answer<i64> {
    let most = usize::try_from(most).ok().filter(|most| *most > 0).ok_or(libc::EINVAL)?;
    let found = kernel.epoll_wait(epoll, most, milliseconds(timeout))?;
    for (at, (flags, data)) in found.iter().take(most).enumerate() {
        // SAFETY: the caller passes room for so many events.
        unsafe { *events.add(at) = epoll_event { events: *flags, u64: *data } };
    }
    Ok(found.len().min(most) as i64)
}

fn wait_for(kernel: &dyn Kernel, entries: &mut [pollfd], timeout: Timeout) -> Answer<i64> {
    let mut asked: Vec<_> = entries.iter().map(|e| (e.fd, e.events, 0)).collect();
    let ready = kernel.poll(&mut asked, timeout)?;
    for (entry, (_, _, found)) in entries.iter_mut().zip(asked) {
        entry.revents = found;
    }
    Ok(ready as i64)
}

/// # Safety
///
/// There must be so many entries.
unsafe fn entries_of<'a>(entries: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    match count {
        0 => &mut [],
        // SAFETY: the caller answers for them.
        _ => unsafe { std::slice::from_raw_parts_mut(entries, count as usize) },
    }
}

/// The sets of `select`: to be read, to be written, and with exceptions.
type Sets = [*mut fd_set; 3];
/// The events of poll that each of them stands for, asked for and answered.
const EVENTS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// # Safety
///
/// Each set must be null or valid.
unsafe fn select_of(
    kernel: &dyn Kernel,
    count: c_int,
    sets: Sets,
    timeout: Timeout,
) -> Answer<i64> {
    // SAFETY: the caller answers for the sets.
    let is_in = |set: *mut fd_set, fd| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) };
    let mut entries = Vec::new();
    for fd in 0..count.clamp(0, libc::FD_SETSIZE as c_int) {
        let asked = sets.iter().zip(EVENTS).filter(|(set, _)| is_in(**set, fd));
        let events = asked.fold(0, |events, (_, (asked, _))| events | asked);
        if events != 0 {
            entries.push(pollfd { fd, events, revents: 0 });
        }
    }
    wait_for(kernel, &mut entries, timeout)?;
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(libc::EBADF);
    }
    let mut found = 0;
    for (set, (_, answered)) in sets.into_iter().zip(EVENTS).filter(|(set, _)| !set.is_null()) {
        for entry in &entries {
            let is_ready = entry.revents & answered != 0;
            if is_in(set, entry.fd) && is_ready {
                found += 1;
            } else {
                // SAFETY: the set is valid, and the number within it.
                unsafe { libc::FD_CLR(entry.fd, set) };
            }
        }
    }
    Ok(found)
}

fn times_of(setting: &itimerspec) -> [Duration; 2] {
    [&setting.it_interval, &setting.it_value].map(|time| {
        Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
    })
}

/// # Safety
///
/// There must be a place for the answer, or none.
unsafe fn put_setting([interval, value]: [Duration; 2], into: *mut itimerspec) {
    if !into.is_null() {
        let (it_interval, it_value) = (timespec_of(interval), timespec_of(value));
        // SAFETY: the caller answers for the place.
        unsafe { *into = itimerspec { it_interval, it_value } };
    }
}

interpose! {
    fn timerfd_create(kernel, clock: c_int, flags: c_int) -> c_int {
        kernel.timer(clock, flags).map(i64::from)
    }
    fn timerfd_settime(
        kernel,
        descriptor: c_int,
        flags: c_int,
        new: *const itimerspec,
        old: *mut itimerspec
    ) -> c_int {
        // SAFETY: the caller passes a setting, and a place for the old one or null.
        unsafe {
            let new = new.as_ref().ok_or(libc::EFAULT)?;
            let before = kernel.timer_setting(descriptor, flags, Some(times_of(new)))?;
            put_setting(before, old);
        }
        Ok(0)
    }
    fn timerfd_gettime(kernel, descriptor: c_int, into: *mut itimerspec) -> c_int {
        let now = kernel.timer_setting(descriptor, 0, None)?;
        // SAFETY: the caller passes a place for the answer.
        unsafe { put_setting(now, into) };
        Ok(0)
    }
    fn select(
        kernel,
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int {
        // SAFETY: the caller passes sets and a time, or null.
        unsafe {
            let timeout = timeout.as_ref().map_or(Timeout::Never, |time| {
                let micros = (time.tv_usec.max(0) as u64).saturating_mul(1_000);
                Timeout::After(Duration::new(time.tv_sec.max(0) as u64, 0) + Duration::from_nanos(micros))
            });
            select_of(kernel, count, [read, write, except], timeout)
        }
    }
    fn pselect(
        kernel,
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        _mask: *const sigset_t
    ) -> c_int {
        // SAFETY: the caller passes sets and a time, or null.
        unsafe {
            let timeout = duration(timeout).map_or(Timeout::Never, Timeout::After);
            select_of(kernel, count, [read, write, except], timeout)
        }
    }
    fn ppoll(
        kernel,
        entries: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        _mask: *const sigset_t
    ) -> c_int {
        // SAFETY: the caller passes so many entries, and a time or null.
        unsafe {
            let timeout = duration(timeout).map_or(Timeout::Never, Timeout::After);
            wait_for(kernel, entries_of(entries, count), timeout)
        }
    }
    fn dup2(kernel, descriptor: c_int, to: c_int) -> c_int {
        if descriptor == to {
            kernel.status(descriptor)?;
            return Ok(to.into());
        }
        kernel.dup_to(descriptor, to, 0).map(i64::from)
    }
    fn dup3(kernel, descriptor: c_int, to: c_int, flags: c_int) -> c_int {
        kernel.dup_to(descriptor, to, flags).map(i64::from)
    }
    fn epoll_create(kernel, _size: c_int) -> c_int { kernel.epoll(0).map(i64::from) }
    fn epoll_create1(kernel, flags: c_int) -> c_int { kernel.epoll(flags).map(i64::from) }
    fn epoll_ctl(
        kernel,
        epoll: c_int,
        operation: c_int,
        descriptor: c_int,
        event: *mut epoll_event
    ) -> c_int {
        // SAFETY: the caller passes an event unless the operation needs none.
        let entry = unsafe { event.as_ref() }.map_or((0, 0), |event| (event.events, event.u64));
        kernel.epoll_control(epoll, operation, descriptor, entry).map(|()| 0)
    }
    fn epoll_wait(
        kernel,
        epoll: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: c_int
    ) -> c_int {
        wait(kernel, epoll, events, most, timeout)
    }
    fn epoll_pwait(
        kernel,
        epoll: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: c_int,
        _mask: *const sigset_t
    ) -> c_int {
        wait(kernel, epoll, events, most, timeout)
    }
    fn eventfd(kernel, value: c_uint, flags: c_int) -> c_int {
        kernel.event(value, flags).map(i64::from)
    }
    fn pipe2(kernel, ends: *mut c_int, flags: c_int) -> c_int {
        let pair = kernel.pipe(flags)?;
        // SAFETY: the caller passes room for two descriptors.
        unsafe { *ends.cast::<[c_int; 2]>() = pair };
        Ok(0)
    }
    fn pipe(kernel, ends: *mut c_int) -> c_int {
        let pair = kernel.pipe(0)?;
        // SAFETY: the caller passes room for two descriptors.
        unsafe { *ends.cast::<[c_int; 2]>() = pair };
        Ok(0)
    }
    fn poll(kernel, entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the caller passes so many entries.
        wait_for(kernel, unsafe { entries_of(entries, count) }, milliseconds(timeout))
    }
}
