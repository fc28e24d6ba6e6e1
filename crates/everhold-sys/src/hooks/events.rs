//! Waiting for descriptors: epoll, poll, eventfd, pipes.

use std::ffi::{c_int, c_uint};

use libc::{epoll_event, nfds_t, pollfd, sigset_t};

use crate::hooks::interpose;
use crate::hooks::time::milliseconds;
use crate::kernel::{Answer, Kernel};

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

interpose! {
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
        let entries = match count {
            0 => &mut [][..],
            // SAFETY: the caller passes so many entries.
            _ => unsafe { std::slice::from_raw_parts_mut(entries, count as usize) },
        };
        let mut asked: Vec<_> = entries.iter().map(|e| (e.fd, e.events, 0)).collect();
        let ready = kernel.poll(&mut asked, milliseconds(timeout))?;
        for (entry, (_, _, found)) in entries.iter_mut().zip(asked) {
            entry.revents = found;
        }
        Ok(ready as i64)
    }
}
