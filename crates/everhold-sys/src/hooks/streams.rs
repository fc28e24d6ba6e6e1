//! Descriptors: reading and writing whatever is behind them.

use std::ffi::{c_int, c_ulong, c_void};

use libc::{iovec, off_t, ssize_t};

use crate::hooks::{bytes, bytes_mut, interpose};
use crate::kernel::{Answer, Kernel};
use crate::mappings;

/// Writes to a descriptor; 1 and 2 are the host's output.
fn write_to(kernel: &dyn Kernel, descriptor: c_int, bytes: &[u8]) -> Answer<i64> {
    if matches!(descriptor, 1 | 2) {
        kernel.output(descriptor, bytes);
        return Ok(bytes.len() as i64);
    }
    mappings::before(kernel);
    let written = kernel.write(descriptor, bytes);
    mappings::after(kernel, descriptor);
    written.map(|written| written as i64)
}

/// Reads from a descriptor; 0 is an empty input.
fn read_from(kernel: &dyn Kernel, descriptor: c_int, bytes: &mut [u8]) -> Answer<i64> {
    if descriptor == 0 {
        return Ok(0);
    }
    mappings::before(kernel);
    kernel.read(descriptor, bytes).map(|read| read as i64)
}

/// The pieces of a vector, joined.
///
/// # Safety
///
/// The vector must describe valid memory.
pub(crate) unsafe fn gather(vector: *const iovec, count: usize) -> Vec<u8> {
    // SAFETY: the caller answers for the vector.
    let pieces = unsafe { std::slice::from_raw_parts(vector, count) };
    // SAFETY: and for the memory that it describes.
    pieces
        .iter()
        .flat_map(|piece| unsafe { bytes(piece.iov_base, piece.iov_len) })
        .copied()
        .collect()
}

/// A buffer as large as a vector has room.
///
/// # Safety
///
/// The vector must be valid.
pub(crate) unsafe fn room(vector: *const iovec, count: usize) -> Vec<u8> {
    // SAFETY: the caller answers for the vector.
    let pieces = unsafe { std::slice::from_raw_parts(vector, count) };
    vec![0; pieces.iter().map(|piece| piece.iov_len).sum()]
}

/// Spreads bytes over the pieces of a vector.
///
/// # Safety
///
/// The vector must describe valid memory with room for the bytes.
pub(crate) unsafe fn scatter(vector: *const iovec, count: usize, mut from: &[u8]) {
    // SAFETY: the caller answers for the vector.
    for piece in unsafe { std::slice::from_raw_parts(vector, count) } {
        let (first, rest) = from.split_at(from.len().min(piece.iov_len));
        // SAFETY: and for the memory that it describes.
        unsafe { bytes_mut(piece.iov_base, first.len()) }.copy_from_slice(first);
        from = rest;
    }
}

/// # Safety
///
/// The vector must describe valid memory.
unsafe fn read_vector(
    kernel: &dyn Kernel,
    descriptor: c_int,
    vector: *const iovec,
    count: usize,
    at: off_t,
) -> Answer<i64> {
    // SAFETY: the caller answers for the vector.
    unsafe {
        let mut whole = room(vector, count);
        let read = kernel.read_at(descriptor, &mut whole, at)?;
        scatter(vector, count, &whole[..read]);
        Ok(read as i64)
    }
}

/// `fcntl`: a lock of a part of a file belongs to the process, which is the only one of the host.
///
/// # Safety
///
/// The argument must be one for the command.
unsafe fn controlled(
    kernel: &dyn Kernel,
    descriptor: c_int,
    command: c_int,
    argument: i64,
) -> Answer<i64> {
    match command {
        libc::F_GETLK | libc::F_OFD_GETLK => {
            // SAFETY: these take a description of a lock.
            unsafe { (*(argument as *mut libc::flock)).l_type = libc::F_UNLCK as i16 };
            Ok(0)
        }
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            // SAFETY: as above.
            let alone = unsafe { (*(argument as *const libc::flock)).l_type };
            if alone == libc::F_UNLCK as i16 {
                return Ok(0);
            }
            kernel.lock_record(descriptor, alone == libc::F_WRLCK as i16).map(|()| 0)
        }
        _ => kernel.fcntl(descriptor, command, argument).map(i64::from),
    }
}

interpose! {
    fn read(kernel, descriptor: c_int, buffer: *mut c_void, length: usize) -> ssize_t {
        // SAFETY: the caller passes room for so many bytes.
        read_from(kernel, descriptor, unsafe { bytes_mut(buffer, length) })
    }
    fn write(kernel, descriptor: c_int, buffer: *const c_void, length: usize) -> ssize_t {
        // SAFETY: the caller passes so many bytes.
        write_to(kernel, descriptor, unsafe { bytes(buffer, length) })
    }
    fn readv(kernel, descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        let mut whole = unsafe { room(vector, count as usize) };
        let read = read_from(kernel, descriptor, &mut whole)?;
        // SAFETY: as above; no more is read than there is room for.
        unsafe { scatter(vector, count as usize, &whole[..read as usize]) };
        Ok(read)
    }
    fn writev(kernel, descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        write_to(kernel, descriptor, &unsafe { gather(vector, count as usize) })
    }
    fn close(kernel, descriptor: c_int) -> c_int {
        if (0..3).contains(&descriptor) {
            return Ok(0);
        }
        kernel.close(descriptor).map(|()| 0)
    }
    fn dup(kernel, descriptor: c_int) -> c_int { kernel.dup(descriptor).map(i64::from) }
    fn fcntl(kernel, descriptor: c_int, command: c_int, argument: i64) -> c_int {
        // SAFETY: the argument is one for this command.
        unsafe { controlled(kernel, descriptor, command, argument) }
    }
    fn fcntl64(kernel, descriptor: c_int, command: c_int, argument: i64) -> c_int {
        // SAFETY: the argument is one for this command.
        unsafe { controlled(kernel, descriptor, command, argument) }
    }
    fn preadv(kernel, descriptor: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        unsafe { read_vector(kernel, descriptor, vector, count as usize, at) }
    }
    fn preadv64(kernel, descriptor: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        unsafe { read_vector(kernel, descriptor, vector, count as usize, at) }
    }
    fn pwritev(kernel, descriptor: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        let whole = unsafe { gather(vector, count as usize) };
        kernel.write_at(descriptor, &whole, at).map(|n| n as i64)
    }
    fn pwritev64(kernel, descriptor: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: the caller passes a vector of so many pieces.
        let whole = unsafe { gather(vector, count as usize) };
        kernel.write_at(descriptor, &whole, at).map(|n| n as i64)
    }
    fn ioctl(kernel, descriptor: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
        if (0..3).contains(&descriptor) {
            return Err(libc::ENOTTY);
        }
        let known = matches!(request, libc::FIONBIO | libc::FIONREAD);
        if !known || argument.is_null() {
            return Err(libc::ENOTTY);
        }
        // SAFETY: these requests take a place for a number.
        kernel.ioctl(descriptor, request, unsafe { &mut *argument }).map(i64::from)
    }
    fn isatty(_kernel, _descriptor: c_int) -> c_int { Err(libc::ENOTTY) }
}
