//! Files and directories.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::time::Duration;

use libc::{AT_FDCWD, mode_t, off_t, ssize_t};

use crate::hooks::{bytes, bytes_mut, interpose};
use crate::kernel::{Answer, FileStatus, Kernel};
use crate::mappings::{self, Request};

/// # Safety
///
/// `at` must be a text that ends with a zero.
pub(crate) unsafe fn path<'a>(at: *const c_char) -> Answer<&'a [u8]> {
    if at.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller passes a text.
    Ok(unsafe { CStr::from_ptr(at) }.to_bytes())
}

/// # Safety
///
/// As for [`path`].
unsafe fn open_at(
    kernel: &dyn Kernel,
    at: c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> Answer<i64> {
    // SAFETY: the caller answers for the name.
    kernel.open(at, unsafe { path(name) }?, flags, mode).map(i64::from)
}

/// The status of a name, or of a descriptor if the name is empty and that is asked for.
///
/// # Safety
///
/// As for [`path`].
unsafe fn status_at(
    kernel: &dyn Kernel,
    at: c_int,
    name: *const c_char,
    flags: c_int,
) -> Answer<FileStatus> {
    // SAFETY: the caller answers for the name.
    let name = if name.is_null() { &[] } else { unsafe { path(name) }? };
    if name.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        return kernel.status(at);
    }
    kernel.status_at(at, name, flags & libc::AT_SYMLINK_NOFOLLOW == 0)
}

fn times(time: Duration) -> (i64, i64) {
    (time.as_secs() as i64, time.subsec_nanos().into())
}

/// # Safety
///
/// There must be a place for the answer.
unsafe fn put_stat(status: &FileStatus, into: *mut libc::stat) -> i64 {
    let (seconds, nanos) = times(status.modified);
    // SAFETY: the caller answers for the place.
    unsafe {
        std::ptr::write_bytes(into, 0, 1);
        let into = &mut *into;
        into.st_ino = status.inode;
        into.st_nlink = status.links;
        into.st_mode = status.mode;
        into.st_size = status.size as off_t;
        into.st_blksize = 4096;
        into.st_blocks = status.size.div_ceil(512) as i64;
        (into.st_mtime, into.st_mtime_nsec) = (seconds, nanos);
        (into.st_atime, into.st_atime_nsec) = (seconds, nanos);
        (into.st_ctime, into.st_ctime_nsec) = (seconds, nanos);
    }
    0
}

/// # Safety
///
/// There must be a place for the answer.
unsafe fn put_statx(status: &FileStatus, into: *mut libc::statx) -> i64 {
    let (seconds, nanos) = times(status.modified);
    // SAFETY: the caller answers for the place.
    unsafe {
        std::ptr::write_bytes(into, 0, 1);
        let into = &mut *into;
        into.stx_mask = libc::STATX_BASIC_STATS;
        into.stx_ino = status.inode;
        into.stx_nlink = status.links as u32;
        into.stx_mode = status.mode as u16;
        into.stx_size = status.size;
        into.stx_blksize = 4096;
        into.stx_blocks = status.size.div_ceil(512);
        for time in [&mut into.stx_mtime, &mut into.stx_atime, &mut into.stx_ctime] {
            time.tv_sec = seconds;
            time.tv_nsec = nanos as u32;
        }
    }
    0
}

/// Declares functions that have a second name for large files.
macro_rules! interpose_both {
    ($(fn $name:ident, $large:ident($kernel:ident $(, $argument:ident: $type:ty)*) -> $result:ty $body:block)*) => {
        interpose! { $(
            fn $name($kernel $(, $argument: $type)*) -> $result $body
            fn $large($kernel $(, $argument: $type)*) -> $result $body
        )* }
    };
}

interpose_both! {
    fn open, open64(kernel, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: the caller passes a text.
        unsafe { open_at(kernel, AT_FDCWD, name, flags, mode) }
    }
    fn openat, openat64(kernel, at: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: the caller passes a text.
        unsafe { open_at(kernel, at, name, flags, mode) }
    }
    fn creat, creat64(kernel, name: *const c_char, mode: mode_t) -> c_int {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        // SAFETY: the caller passes a text.
        unsafe { open_at(kernel, AT_FDCWD, name, flags, mode) }
    }
    fn stat, stat64(kernel, name: *const c_char, into: *mut libc::stat) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe { Ok(put_stat(&status_at(kernel, AT_FDCWD, name, 0)?, into)) }
    }
    fn lstat, lstat64(kernel, name: *const c_char, into: *mut libc::stat) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe {
            Ok(put_stat(&status_at(kernel, AT_FDCWD, name, libc::AT_SYMLINK_NOFOLLOW)?, into))
        }
    }
    fn fstat, fstat64(kernel, descriptor: c_int, into: *mut libc::stat) -> c_int {
        // SAFETY: the caller passes a place for the answer.
        unsafe { Ok(put_stat(&kernel.status(descriptor)?, into)) }
    }
    fn fstatat, fstatat64(
        kernel,
        at: c_int,
        name: *const c_char,
        into: *mut libc::stat,
        flags: c_int
    ) -> c_int {
        // SAFETY: the caller passes a text and a place for the answer.
        unsafe { Ok(put_stat(&status_at(kernel, at, name, flags)?, into)) }
    }
    fn lseek, lseek64(kernel, descriptor: c_int, offset: off_t, whence: c_int) -> off_t {
        kernel.seek(descriptor, offset, whence).map(|at| at as i64)
    }
    fn pread, pread64(
        kernel,
        descriptor: c_int,
        buffer: *mut c_void,
        length: usize,
        offset: off_t
    ) -> ssize_t {
        // SAFETY: the caller passes room for so many bytes.
        let room = unsafe { bytes_mut(buffer, length) };
        mappings::before(kernel);
        kernel.read_at(descriptor, room, offset).map(|n| n as i64)
    }
    fn pwrite, pwrite64(
        kernel,
        descriptor: c_int,
        buffer: *const c_void,
        length: usize,
        offset: off_t
    ) -> ssize_t {
        // SAFETY: the caller passes so many bytes.
        let data = unsafe { bytes(buffer, length) };
        mappings::before(kernel);
        let written = kernel.write_at(descriptor, data, offset);
        mappings::after(kernel, descriptor);
        written.map(|n| n as i64)
    }
    fn ftruncate, ftruncate64(kernel, descriptor: c_int, length: off_t) -> c_int {
        mappings::before(kernel);
        let cut = kernel.truncate(descriptor, length);
        mappings::after(kernel, descriptor);
        cut.map(|()| 0)
    }
    fn fallocate, fallocate64(
        kernel,
        descriptor: c_int,
        mode: c_int,
        offset: off_t,
        length: off_t
    ) -> c_int {
        kernel.allocate(descriptor, mode, offset, length).map(|()| 0)
    }
}

interpose! {
    fn statx(
        kernel,
        at: c_int,
        name: *const c_char,
        flags: c_int,
        _mask: c_uint,
        into: *mut libc::statx
    ) -> c_int {
        // SAFETY: the caller passes a text or null, and a place for the answer.
        unsafe { Ok(put_statx(&status_at(kernel, at, name, flags)?, into)) }
    }
    fn fsync(kernel, descriptor: c_int) -> c_int {
        mappings::before(kernel);
        kernel.sync(descriptor).map(|()| 0)
    }
    fn fdatasync(kernel, descriptor: c_int) -> c_int {
        mappings::before(kernel);
        kernel.sync(descriptor).map(|()| 0)
    }
    fn sync_file_range(
        _kernel,
        _descriptor: c_int,
        _offset: off_t,
        _length: off_t,
        _flags: c_uint
    ) -> c_int {
        Ok(0)
    }
    fn flock(kernel, descriptor: c_int, operation: c_int) -> c_int {
        kernel.lock_file(descriptor, operation).map(|()| 0)
    }
    fn unlink(kernel, name: *const c_char) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.remove(AT_FDCWD, unsafe { path(name) }?, false).map(|()| 0)
    }
    fn rmdir(kernel, name: *const c_char) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.remove(AT_FDCWD, unsafe { path(name) }?, true).map(|()| 0)
    }
    fn unlinkat(kernel, at: c_int, name: *const c_char, flags: c_int) -> c_int {
        let directory = flags & libc::AT_REMOVEDIR != 0;
        // SAFETY: the caller passes a text.
        kernel.remove(at, unsafe { path(name) }?, directory).map(|()| 0)
    }
    fn mkdir(kernel, name: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.make_directory(AT_FDCWD, unsafe { path(name) }?, mode).map(|()| 0)
    }
    fn mkdirat(kernel, at: c_int, name: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: the caller passes a text.
        kernel.make_directory(at, unsafe { path(name) }?, mode).map(|()| 0)
    }
    fn rename(kernel, from: *const c_char, to: *const c_char) -> c_int {
        // SAFETY: the caller passes two texts.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        kernel.rename((AT_FDCWD, from), (AT_FDCWD, to), false).map(|()| 0)
    }
    fn renameat(
        kernel,
        from_at: c_int,
        from: *const c_char,
        to_at: c_int,
        to: *const c_char
    ) -> c_int {
        // SAFETY: the caller passes two texts.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        kernel.rename((from_at, from), (to_at, to), false).map(|()| 0)
    }
    fn renameat2(
        kernel,
        from_at: c_int,
        from: *const c_char,
        to_at: c_int,
        to: *const c_char,
        flags: c_uint
    ) -> c_int {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller passes two texts.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        let keeps = flags & libc::RENAME_NOREPLACE != 0;
        kernel.rename((from_at, from), (to_at, to), keeps).map(|()| 0)
    }
    fn link(kernel, from: *const c_char, to: *const c_char) -> c_int {
        // SAFETY: the caller passes two texts.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        kernel.link((AT_FDCWD, from), (AT_FDCWD, to)).map(|()| 0)
    }
    fn linkat(
        kernel,
        from_at: c_int,
        from: *const c_char,
        to_at: c_int,
        to: *const c_char,
        _flags: c_int
    ) -> c_int {
        // SAFETY: the caller passes two texts.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        kernel.link((from_at, from), (to_at, to)).map(|()| 0)
    }
    // Programs do without these: they copy by reading and writing.
    fn copy_file_range(
        _kernel,
        _from: c_int,
        _from_at: *mut off_t,
        _to: c_int,
        _to_at: *mut off_t,
        _length: usize,
        _flags: c_uint
    ) -> ssize_t {
        Err(libc::ENOSYS)
    }
    fn sendfile(_kernel, _to: c_int, _from: c_int, _at: *mut off_t, _length: usize) -> ssize_t {
        Err(libc::ENOSYS)
    }
    fn sendfile64(_kernel, _to: c_int, _from: c_int, _at: *mut off_t, _length: usize) -> ssize_t {
        Err(libc::ENOSYS)
    }
    fn splice(
        _kernel,
        _from: c_int,
        _from_at: *mut off_t,
        _to: c_int,
        _to_at: *mut off_t,
        _length: usize,
        _flags: c_uint
    ) -> ssize_t {
        Err(libc::ENOSYS)
    }
}

/// `mmap` and `mmap64`: memory is real, and mapped files are copies of those of the host.
macro_rules! interpose_mapping {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, as a host sees it.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            descriptor: c_int,
            offset: off_t,
        ) -> *mut c_void {
            if crate::fiber::is_simulated() && flags & libc::MAP_ANONYMOUS == 0 {
                let request = Request { length, protection, flags, descriptor, offset };
                return match crate::fiber::enter(|kernel| mappings::map(kernel, &request)) {
                    Ok(place) => place as *mut c_void,
                    Err(number) => {
                        crate::hooks::set_errno(number);
                        libc::MAP_FAILED
                    }
                };
            }
            let arguments = [
                at as c_long,
                length as c_long,
                protection.into(),
                flags.into(),
                descriptor.into(),
                offset,
            ];
            // SAFETY: the caller's own arguments.
            let mapped = unsafe { crate::raw::call(libc::SYS_mmap, arguments) };
            if (-4095..0).contains(&mapped) {
                crate::hooks::set_errno(-mapped as c_int);
                return libc::MAP_FAILED;
            }
            mapped as *mut c_void
        }
    )* };
}
interpose_mapping! { mmap mmap64 }
