//! Files that hosts map into memory: copies at fixed addresses. What a program changes there reaches
//! the file at the next call that could notice, and what it writes to the file appears in the copy.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fiber::{enter, is_simulated};
use crate::hooks::{host, set_errno};
use crate::kernel::{Answer, Kernel};
use crate::own::own;
use crate::{raw, statics};

/// Where the copies lie.
const REGION: usize = 0x6200_0000_0000;
const SIZE: usize = 64 << 30;
const PAGE: usize = 4096;
/// The unit in which changes are written.
const SECTOR: usize = 512;
/// The descriptors that keep mapped files open begin here.
const DESCRIPTORS: i64 = 1_000;

own! {
    ALL: Vec<Mapping> = Vec::new();
    NEXT: usize = REGION;
}

/// A part of a file in memory.
struct Mapping {
    /// The number of the image of the host that mapped it.
    owner: u64,
    start: usize,
    length: usize,
    protection: c_int,
    inode: u64,
    descriptor: i32,
    offset: u64,
    /// The contents at the last look, if the program may change them.
    seen: Option<Vec<u8>>,
}

/// The request of a call.
pub(crate) struct Request {
    pub(crate) length: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) descriptor: c_int,
    pub(crate) offset: i64,
}

/// A number for an image of statics, which no other image has.
pub(crate) fn new_owner() -> u64 {
    static OWNERS: AtomicU64 = AtomicU64::new(1);
    OWNERS.fetch_add(1, Ordering::Relaxed)
}

fn all() -> &'static mut Vec<Mapping> {
    // SAFETY: only the one thread that runs hosts is here, and never twice at once: none of the
    // functions below lets another fiber run while it holds this.
    unsafe { &mut *ALL.place() }
}

/// Forgets the mappings of the execution before.
pub(crate) fn reset() {
    all().clear();
    let used = NEXT.replace(REGION) - REGION;
    if used > 0 {
        // SAFETY: nobody refers to mappings of an execution that is over.
        unsafe { raw::call(libc::SYS_munmap, [REGION as i64, used as i64, 0, 0, 0, 0]) };
    }
}

/// Maps a part of a file; the address.
pub(crate) fn map(kernel: &dyn Kernel, request: &Request) -> Answer<usize> {
    let Request { length, protection, flags, descriptor, offset } = *request;
    if flags & libc::MAP_FIXED != 0 {
        return host::refuse(kernel, "mmap of a file at a fixed address").map(|_| 0);
    }
    let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
    if length == 0 || !offset.is_multiple_of(PAGE as u64) {
        return Err(libc::EINVAL);
    }
    write_back(kernel, statics::owner());
    let inode = kernel.status(descriptor)?.inode;
    let access = kernel.fcntl(descriptor, libc::F_GETFL, 0)? & libc::O_ACCMODE;
    let is_shared = flags & libc::MAP_PRIVATE == 0;
    let writes = is_shared && protection & libc::PROT_WRITE != 0;
    if access == libc::O_WRONLY || (writes && access != libc::O_RDWR) {
        return Err(libc::EACCES);
    }
    let start = NEXT.get();
    let room = length.next_multiple_of(PAGE);
    if start + room > REGION + SIZE {
        return Err(libc::ENOMEM);
    }
    reserve(start, room)?;
    NEXT.set(start + room + PAGE);
    let descriptor = kernel.fcntl(descriptor, libc::F_DUPFD, DESCRIPTORS)?;
    let mut mapping = Mapping {
        owner: statics::owner(),
        start,
        length: room,
        protection,
        inode,
        descriptor,
        offset,
        seen: None,
    };
    mapping.load(kernel, 0, room);
    if !is_shared {
        kernel.close(descriptor)?;
        mapping.protect(protection);
        return Ok(start);
    }
    mapping.seen = writes.then(|| mapping.bytes().to_vec());
    mapping.protect(protection);
    all().push(mapping);
    Ok(start)
}

fn reserve(start: usize, length: usize) -> Answer<()> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [start as i64, length as i64, writable.into(), flags.into(), -1, 0];
    // SAFETY: a new mapping at an address where nothing is, or the call fails.
    let mapped = unsafe { raw::call(libc::SYS_mmap, arguments) };
    if mapped == start as i64 { Ok(()) } else { Err(libc::ENOMEM) }
}

impl Mapping {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the range is mapped while this exists, and the program does not run now.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.length) }
    }

    fn protect(&self, protection: c_int) {
        let arguments = [self.start as i64, self.length as i64, protection.into(), 0, 0, 0];
        // SAFETY: the range is that of this mapping.
        unsafe { raw::call(libc::SYS_mprotect, arguments) };
    }

    /// Reads a part of the file into memory that can be written now.
    fn load(&self, kernel: &dyn Kernel, from: usize, length: usize) {
        let end = (from + length).min(self.length);
        // SAFETY: the range lies within this mapping, and the program does not run now.
        let memory =
            unsafe { std::slice::from_raw_parts_mut((self.start + from) as *mut u8, end - from) };
        let offset = (self.offset + from as u64) as i64;
        let read = kernel.read_at(self.descriptor, memory, offset).unwrap_or(0);
        memory[read..].fill(0);
    }

    /// Writes what has changed to the file.
    fn store(&mut self, kernel: &dyn Kernel) {
        let Some(mut seen) = self.seen.take() else { return };
        for (at, old) in seen.chunks_mut(SECTOR).enumerate() {
            let from = at * SECTOR;
            let new = &self.bytes()[from..from + old.len()];
            if old != new {
                // What lies beyond the end of the file is lost, as on a real disk.
                let _ = kernel.write_back(self.descriptor, self.offset + from as u64, new);
                old.copy_from_slice(new);
            }
        }
        self.seen = Some(seen);
    }
}

/// Writes to their files what a host's program has changed in memory.
pub(crate) fn write_back(kernel: &dyn Kernel, owner: u64) {
    for mapping in all().iter_mut().filter(|mapping| mapping.owner == owner) {
        mapping.store(kernel);
    }
}

/// A call of the host that runs reads or syncs files: what is in memory counts.
pub(crate) fn before(kernel: &dyn Kernel) {
    if !all().is_empty() {
        write_back(kernel, statics::owner());
    }
}

/// A call of the host that runs has changed a file: memory has it too.
pub(crate) fn after(kernel: &dyn Kernel, descriptor: c_int) {
    if all().is_empty() {
        return;
    }
    let Ok(status) = kernel.status(descriptor) else { return };
    let owner = statics::owner();
    let is_meant = |mapping: &&mut Mapping| mapping.owner == owner && mapping.inode == status.inode;
    for mapping in all().iter_mut().filter(is_meant) {
        mapping.protect(libc::PROT_READ | libc::PROT_WRITE);
        mapping.load(kernel, 0, mapping.length);
        mapping.protect(mapping.protection);
        if mapping.seen.is_some() {
            mapping.seen = Some(mapping.bytes().to_vec());
        }
    }
}

/// Whether a range begins within the region of mapped files.
fn is_ours(at: usize) -> bool {
    (REGION..REGION + SIZE).contains(&at)
}

/// `munmap`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, length: usize) -> c_int {
    if is_simulated() && is_ours(at as usize) {
        let gone = enter(|kernel| unmap(kernel, at as usize, length));
        if let Err(number) = gone {
            set_errno(number);
            return -1;
        }
    }
    // SAFETY: the caller's own memory.
    match unsafe { raw::call(libc::SYS_munmap, [at as i64, length as i64, 0, 0, 0, 0]) } {
        0 => 0,
        error => {
            set_errno(-error as c_int);
            -1
        }
    }
}

fn unmap(kernel: &dyn Kernel, at: usize, length: usize) -> Answer<()> {
    let end = at + length.next_multiple_of(PAGE);
    before(kernel);
    let touches = |mapping: &Mapping| mapping.start < end && at < mapping.start + mapping.length;
    let is_whole = |mapping: &Mapping| at <= mapping.start && mapping.start + mapping.length <= end;
    if all().iter().any(|mapping| touches(mapping) && !is_whole(mapping)) {
        return host::refuse(kernel, "munmap of a part of a mapped file").map(|_| ());
    }
    let gone: Vec<i32> = all()
        .extract_if(.., |mapping| touches(mapping))
        .map(|mapping| mapping.descriptor)
        .collect();
    gone.into_iter().try_for_each(|descriptor| kernel.close(descriptor))
}

/// `msync`: what was changed in memory is durable.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(at: *mut c_void, length: usize, flags: c_int) -> c_int {
    if !is_simulated() {
        let next =
            crate::hooks::next!(msync: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int);
        // SAFETY: the caller's own arguments.
        return unsafe { next(at, length, flags) };
    }
    let (start, end) = (at as usize, at as usize + length);
    let done = enter(|kernel| {
        before(kernel);
        if flags & libc::MS_SYNC == 0 {
            return Ok(());
        }
        let meant = all()
            .iter()
            .filter(|mapping| mapping.start < end && start < mapping.start + mapping.length);
        let files: Vec<i32> = meant.map(|mapping| mapping.descriptor).collect();
        files.into_iter().try_for_each(|file| kernel.sync(file))
    });
    match done {
        Ok(()) => 0,
        Err(number) => {
            set_errno(number);
            -1
        }
    }
}

/// `mremap`: mapped files stay where they are and as long as they are.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the meaning of the C library's function, and its calling convention on this target.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    at: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let result = if is_simulated() && is_ours(at as usize) {
        -i64::from(libc::ENOMEM)
    } else {
        let arguments = [at as i64, old as i64, new as i64, flags.into(), to as i64, 0];
        // SAFETY: the caller's own memory.
        unsafe { raw::call(libc::SYS_mremap, arguments) }
    };
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return libc::MAP_FAILED;
    }
    result as *mut c_void
}
