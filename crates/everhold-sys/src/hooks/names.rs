//! Symbolic links, working directories, and what is said of files besides their contents.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use libc::{AT_FDCWD, mode_t, off_t, ssize_t, timespec};

use crate::fiber::enter;
use crate::hooks::files::path;
use crate::hooks::host::refuse;
use crate::hooks::interpose;
use crate::hooks::time::duration;
use crate::kernel::{Answer, Kernel};

/// The number of bytes of a path that a caller without a bound has room for.
const PATH_MAX: usize = 4096;
/// The size of a block, as file systems answer it.
const BLOCK: u64 = 4096;

/// Copies a path and a zero to the caller, or to a new block if the caller has none.
///
/// # Safety
///
/// There must be so much room, or `into` must be null.
unsafe fn put_path(path: &[u8], into: *mut c_char, room: usize) -> Answer<i64> {
    if path.len() + 1 > room {
        return Err(libc::ERANGE);
    }
    // SAFETY: a block of the C library, which the caller frees; otherwise there is room.
    unsafe {
        let into = if into.is_null() { libc::malloc(path.len() + 1).cast() } else { into };
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), into, path.len());
        *into.add(path.len()) = 0;
        Ok(into as i64)
    }
}

/// # Safety
///
/// `name` must be a text, and there must be so much room.
unsafe fn read_link(
    kernel: &dyn Kernel,
    at: c_int,
    name: *const c_char,
    into: *mut c_char,
    room: usize,
) -> Answer<i64> {
    // SAFETY: the caller answers for the name and the room.
    unsafe {
        let target = kernel.read_symbolic_link(at, path(name)?)?;
        let length = target.len().min(room);
        std::ptr::copy_nonoverlapping(target.as_ptr().cast(), into, length);
        Ok(length as i64)
    }
}

/// The second of two times, that of the last change: none for now.
///
/// # Safety
///
/// `times` must be null or two times.
unsafe fn modified(times: *const timespec) -> Option<Duration> {
    if times.is_null() {
        return None;
    }
    // SAFETY: the caller answers for both.
    let time = unsafe { times.add(1) };
    // SAFETY: as above.
    if unsafe { (*time).tv_nsec } == libc::UTIME_NOW {
        return None;
    }
    // SAFETY: as above.
    unsafe { duration(time) }
}

/// # Safety
///
/// `times` must be null or two times.
unsafe fn keeps_modified(times: *const timespec) -> bool {
    // SAFETY: the caller answers for both.
    !times.is_null() && unsafe { (*times.add(1)).tv_nsec } == libc::UTIME_OMIT
}

/// # Safety
///
/// There must be a place for the answer.
unsafe fn put_space(kernel: &dyn Kernel, into: *mut libc::statvfs) -> i64 {
    let (total, free) = kernel.space();
    // SAFETY: the caller answers for the place.
    unsafe {
        std::ptr::write_bytes(into, 0, 1);
        (*into).f_bsize = BLOCK;
        (*into).f_frsize = BLOCK;
        (*into).f_blocks = total / BLOCK;
        (*into).f_bfree = free / BLOCK;
        (*into).f_bavail = free / BLOCK;
        (*into).f_namemax = 255;
    }
    0
}

/// # Safety
///
/// There must be a place for the answer.
unsafe fn put_file_system(kernel: &dyn Kernel, into: *mut libc::statfs) -> i64 {
    let (total, free) = kernel.space();
    // SAFETY: the caller answers for the place.
    unsafe {
        std::ptr::write_bytes(into, 0, 1);
        (*into).f_type = libc::EXT4_SUPER_MAGIC;
        (*into).f_bsize = BLOCK as i64;
        (*into).f_frsize = BLOCK as i64;
        (*into).f_blocks = total / BLOCK;
        (*into).f_bfree = free / BLOCK;
        (*into).f_bavail = free / BLOCK;
        (*into).f_namelen = 255;
    }
    0
}

fn truncated(kernel: &dyn Kernel, name: &[u8], length: off_t) -> Answer<i64> {
    let descriptor = kernel.open(AT_FDCWD, name, libc::O_WRONLY | libc::O_CLOEXEC, 0)?;
    let result = kernel.truncate(descriptor, length);
    kernel.close(descriptor)?;
    result.map(|()| 0)
}

interpose! {
    fn symlink(kernel, target: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: the caller passes two texts.
        let (target, name) = unsafe { (path(target)?, path(name)?) };
        kernel.make_symbolic_link(target, AT_FDCWD, name).map(|()| 0)
    }
    fn symlinkat(kernel, target: *const c_char, at: c_int, name: *const c_char) -> c_int {
        // SAFETY: the caller passes two texts.
        let (target, name) = unsafe { (path(target)?, path(name)?) };
        kernel.make_symbolic_link(target, at, name).map(|()| 0)
    }
    fn readlink(kernel, name: *const c_char, into: *mut c_char, room: usize) -> ssize_t {
        // SAFETY: the caller passes a text, and so much room.
        unsafe { read_link(kernel, AT_FDCWD, name, into, room) }
    }
    fn readlinkat(
        kernel,
        at: c_int,
        name: *const c_char,
        into: *mut c_char,
        room: usize
    ) -> ssize_t {
        // SAFETY: the caller passes a text, and so much room.
        unsafe { read_link(kernel, at, name, into, room) }
    }
    fn access(kernel, name: *const c_char, _mode: c_int) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.status_at(AT_FDCWD, unsafe { path(name) }?, true).map(|_| 0)
    }
    fn faccessat(kernel, at: c_int, name: *const c_char, _mode: c_int, flags: c_int) -> c_int {
        let follows = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        // SAFETY: the caller passes a text.
        kernel.status_at(at, unsafe { path(name) }?, follows).map(|_| 0)
    }
    fn chmod(kernel, name: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.set_mode_at(AT_FDCWD, unsafe { path(name) }?, mode).map(|()| 0)
    }
    fn fchmodat(kernel, at: c_int, name: *const c_char, mode: mode_t, _flags: c_int) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.set_mode_at(at, unsafe { path(name) }?, mode).map(|()| 0)
    }
    fn fchmod(kernel, descriptor: c_int, mode: mode_t) -> c_int {
        kernel.set_mode(descriptor, mode).map(|()| 0)
    }
    fn chown(kernel, name: *const c_char, _user: libc::uid_t, _group: libc::gid_t) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.status_at(AT_FDCWD, unsafe { path(name) }?, true).map(|_| 0)
    }
    fn fchown(kernel, descriptor: c_int, _user: libc::uid_t, _group: libc::gid_t) -> c_int {
        kernel.status(descriptor).map(|_| 0)
    }
    fn utimensat(
        kernel,
        at: c_int,
        name: *const c_char,
        times: *const timespec,
        _flags: c_int
    ) -> c_int {
        // SAFETY: the caller passes two times or null, and a text or null.
        unsafe {
            if keeps_modified(times) {
                return Ok(0);
            }
            match name.is_null() {
                true => kernel.set_modified(at, modified(times)),
                false => kernel.set_modified_at(at, path(name)?, modified(times)),
            }
            .map(|()| 0)
        }
    }
    fn futimens(kernel, descriptor: c_int, times: *const timespec) -> c_int {
        // SAFETY: the caller passes two times or null.
        unsafe {
            if keeps_modified(times) {
                return Ok(0);
            }
            kernel.set_modified(descriptor, modified(times)).map(|()| 0)
        }
    }
    fn chdir(kernel, name: *const c_char) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.change_directory(unsafe { path(name) }?).map(|()| 0)
    }
    fn fchdir(kernel, descriptor: c_int) -> c_int {
        kernel.change_directory_to(descriptor).map(|()| 0)
    }
    fn chroot(kernel, _name: *const c_char) -> c_int { refuse(kernel, "chroot") }
    fn truncate(kernel, name: *const c_char, length: off_t) -> c_int {
        // SAFETY: the caller passes a text.
        truncated(kernel, unsafe { path(name) }?, length)
    }
    fn truncate64(kernel, name: *const c_char, length: off_t) -> c_int {
        // SAFETY: the caller passes a text.
        truncated(kernel, unsafe { path(name) }?, length)
    }
    fn statvfs(kernel, name: *const c_char, into: *mut libc::statvfs) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe {
            kernel.status_at(AT_FDCWD, path(name)?, true)?;
            Ok(put_space(kernel, into))
        }
    }
    fn statvfs64(kernel, name: *const c_char, into: *mut libc::statvfs) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe {
            kernel.status_at(AT_FDCWD, path(name)?, true)?;
            Ok(put_space(kernel, into))
        }
    }
    fn fstatvfs(kernel, descriptor: c_int, into: *mut libc::statvfs) -> c_int {
        kernel.status(descriptor)?;
        // SAFETY: the caller passes a place for the answer.
        Ok(unsafe { put_space(kernel, into) })
    }
    fn statfs(kernel, name: *const c_char, into: *mut libc::statfs) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe {
            kernel.status_at(AT_FDCWD, path(name)?, true)?;
            Ok(put_file_system(kernel, into))
        }
    }
    fn fstatfs(kernel, descriptor: c_int, into: *mut libc::statfs) -> c_int {
        kernel.status(descriptor)?;
        // SAFETY: the caller passes a place for the answer.
        Ok(unsafe { put_file_system(kernel, into) })
    }
    fn realpath(kernel, name: *const c_char, into: *mut c_char) -> isize {
        // SAFETY: the caller passes a text, and room for a path or null.
        unsafe { put_path(&kernel.real_path(path(name)?)?, into, PATH_MAX) }
    }
    fn getcwd(kernel, into: *mut c_char, room: usize) -> isize {
        let room = if into.is_null() { PATH_MAX } else { room };
        // SAFETY: the caller passes so much room, or null.
        unsafe { put_path(&kernel.working_directory()?, into, room) }
    }
    fn syncfs(kernel, descriptor: c_int) -> c_int {
        kernel.status(descriptor)?;
        kernel.sync_all().map(|()| 0)
    }
    fn posix_fadvise(_kernel, _fd: c_int, _at: off_t, _length: off_t, _advice: c_int) -> c_int {
        Ok(0)
    }
    fn posix_fadvise64(_kernel, _fd: c_int, _at: off_t, _length: off_t, _advice: c_int) -> c_int {
        Ok(0)
    }
    fn setxattr(
        _kernel,
        _name: *const c_char,
        _attribute: *const c_char,
        _value: *const c_void,
        _length: usize,
        _flags: c_int
    ) -> c_int {
        Err(libc::EOPNOTSUPP)
    }
}

/// `sync`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync() {
    if crate::fiber::is_simulated() {
        let _ = enter(|kernel| kernel.sync_all());
        return;
    }
    let next = crate::hooks::next!(sync: unsafe extern "C" fn());
    // SAFETY: no arguments.
    unsafe { next() }
}
