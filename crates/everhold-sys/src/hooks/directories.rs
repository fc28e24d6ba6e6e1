//! Reading directories: `opendir` and its family.

use std::ffi::{c_char, c_int, c_long};
use std::ptr::null_mut;

use libc::{AT_FDCWD, DIR, dirent64};

use crate::fiber::{enter, is_simulated};
use crate::hooks::files::path;
use crate::hooks::{next, set_errno};
use crate::kernel::DirectoryEntry;

/// An open directory of a host.
struct Directory {
    descriptor: c_int,
    entries: Vec<DirectoryEntry>,
    at: usize,
    /// The entry that was read last, for the caller.
    shown: dirent64,
}

fn opened(descriptor: c_int) -> crate::Answer<*mut DIR> {
    enter(|kernel| {
        let entries = kernel.entries(descriptor)?;
        // SAFETY: an entry of zeros is valid.
        let shown = unsafe { std::mem::zeroed() };
        Ok(Box::into_raw(Box::new(Directory { descriptor, entries, at: 0, shown })).cast())
    })
}

fn or_null(result: crate::Answer<*mut DIR>) -> *mut DIR {
    result.unwrap_or_else(|number| {
        set_errno(number);
        null_mut()
    })
}

/// `opendir`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(name: *const c_char) -> *mut DIR {
    if !is_simulated() {
        let next = next!(opendir: unsafe extern "C" fn(*const c_char) -> *mut DIR);
        // SAFETY: the caller's own argument.
        return unsafe { next(name) };
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the caller passes a text.
    let descriptor = enter(|kernel| kernel.open(AT_FDCWD, unsafe { path(name) }?, flags, 0));
    or_null(descriptor.and_then(opened))
}

/// `fdopendir`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopendir(descriptor: c_int) -> *mut DIR {
    if !is_simulated() {
        let next = next!(fdopendir: unsafe extern "C" fn(c_int) -> *mut DIR);
        // SAFETY: the caller's own argument.
        return unsafe { next(descriptor) };
    }
    or_null(opened(descriptor))
}

/// The next entry of a directory, in the form of the C library.
///
/// # Safety
///
/// `directory` must be one that [`opened`] made.
unsafe fn advance<'a>(directory: *mut DIR) -> Option<&'a mut dirent64> {
    // SAFETY: see above.
    let directory = unsafe { &mut *directory.cast::<Directory>() };
    let entry = directory.entries.get(directory.at)?;
    directory.at += 1;
    let shown = &mut directory.shown;
    shown.d_ino = entry.inode;
    shown.d_off = directory.at as i64;
    shown.d_type = if entry.is_directory { libc::DT_DIR } else { libc::DT_UNKNOWN };
    shown.d_reclen = size_of::<dirent64>() as u16;
    let length = entry.name.len().min(shown.d_name.len() - 1);
    for (to, from) in shown.d_name.iter_mut().zip(&entry.name[..length]) {
        *to = *from as c_char;
    }
    shown.d_name[length] = 0;
    Some(shown)
}

/// The two names of each function are for entries that are the same on this target.
macro_rules! interpose_reading {
    ($($name:ident, $reentrant:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(directory: *mut DIR) -> *mut dirent64 {
            if !is_simulated() {
                let next = next!($name: unsafe extern "C" fn(*mut DIR) -> *mut dirent64);
                // SAFETY: the caller's own argument.
                return unsafe { next(directory) };
            }
            // SAFETY: a directory of a host was made by `opened`.
            unsafe { advance(directory) }.map_or(null_mut(), std::ptr::from_mut)
        }

        #[doc = concat!("`", stringify!($reentrant), "`.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reentrant(
            directory: *mut DIR,
            entry: *mut dirent64,
            result: *mut *mut dirent64,
        ) -> c_int {
            if !is_simulated() {
                let next = next!($reentrant: unsafe extern "C" fn(
                    *mut DIR,
                    *mut dirent64,
                    *mut *mut dirent64
                ) -> c_int);
                // SAFETY: the caller's own arguments.
                return unsafe { next(directory, entry, result) };
            }
            // SAFETY: a directory of a host was made by `opened`; the caller passes two places.
            unsafe {
                *result = advance(directory).map_or(null_mut(), |shown| {
                    *entry = *shown;
                    entry
                });
            }
            0
        }
    )* };
}
interpose_reading! {
    readdir, readdir_r
    readdir64, readdir64_r
}

/// `rewinddir`: what is in the directory now is read.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(directory: *mut DIR) {
    if !is_simulated() {
        let next = next!(rewinddir: unsafe extern "C" fn(*mut DIR));
        // SAFETY: the caller's own argument.
        return unsafe { next(directory) };
    }
    enter(|kernel| {
        // SAFETY: a directory of a host was made by `opened`.
        let directory = unsafe { &mut *directory.cast::<Directory>() };
        directory.entries = kernel.entries(directory.descriptor).unwrap_or_default();
        directory.at = 0;
    });
}

/// `telldir`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(directory: *mut DIR) -> c_long {
    if !is_simulated() {
        let next = next!(telldir: unsafe extern "C" fn(*mut DIR) -> c_long);
        // SAFETY: the caller's own argument.
        return unsafe { next(directory) };
    }
    // SAFETY: a directory of a host was made by `opened`.
    unsafe { (*directory.cast::<Directory>()).at as c_long }
}

/// `seekdir`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(directory: *mut DIR, at: c_long) {
    if !is_simulated() {
        let next = next!(seekdir: unsafe extern "C" fn(*mut DIR, c_long));
        // SAFETY: the caller's own arguments.
        return unsafe { next(directory, at) };
    }
    // SAFETY: a directory of a host was made by `opened`.
    unsafe { (*directory.cast::<Directory>()).at = usize::try_from(at).unwrap_or(0) }
}

/// `dirfd`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(directory: *mut DIR) -> c_int {
    if !is_simulated() {
        let next = next!(dirfd: unsafe extern "C" fn(*mut DIR) -> c_int);
        // SAFETY: the caller's own argument.
        return unsafe { next(directory) };
    }
    // SAFETY: a directory of a host was made by `opened`.
    unsafe { (*directory.cast::<Directory>()).descriptor }
}

/// `closedir`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(directory: *mut DIR) -> c_int {
    if !is_simulated() {
        let next = next!(closedir: unsafe extern "C" fn(*mut DIR) -> c_int);
        // SAFETY: the caller's own argument.
        return unsafe { next(directory) };
    }
    enter(|kernel| {
        // SAFETY: a directory of a host was made by `opened`, and is closed once.
        let directory = unsafe { Box::from_raw(directory.cast::<Directory>()) };
        kernel.close(directory.descriptor).err().map_or(0, |_| -1)
    })
}

/// `getdents64`: entries in the form of the kernel, as many as fit, from the position on.
///
/// # Safety
///
/// There must be so much room.
pub(crate) unsafe fn getdents64(descriptor: c_int, into: *mut u8, room: usize) -> isize {
    const HEADER: usize = 19;
    let result = enter(|kernel| {
        let entries = kernel.entries(descriptor)?;
        let first = kernel.seek(descriptor, 0, libc::SEEK_CUR)? as usize;
        let mut filled = 0;
        let mut next = first;
        for entry in entries.iter().skip(first) {
            let length = (HEADER + entry.name.len() + 1).next_multiple_of(8);
            if filled + length > room {
                break;
            }
            next += 1;
            let kind = if entry.is_directory { libc::DT_DIR } else { libc::DT_UNKNOWN };
            let mut bytes = vec![0; length];
            bytes[..8].copy_from_slice(&entry.inode.to_ne_bytes());
            bytes[8..16].copy_from_slice(&(next as u64).to_ne_bytes());
            bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
            bytes[18] = kind;
            bytes[HEADER..HEADER + entry.name.len()].copy_from_slice(&entry.name);
            // SAFETY: the caller answers for the room.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.add(filled), length) };
            filled += length;
        }
        if filled == 0 && first < entries.len() {
            return Err(libc::EINVAL);
        }
        kernel.seek(descriptor, next as i64, libc::SEEK_SET)?;
        Ok(filled as isize)
    });
    result.unwrap_or_else(|number| {
        set_errno(number);
        -1
    })
}
