//! The heap of simulated hosts: a region at a fixed address, emptied between executions.
//!
//! The allocator's functions are replaced. A request comes from the region if code of a host makes
//! it; everything else, and what the C library itself asks for while it works for a host, comes from
//! the C library's own heap: it must outlive the execution.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::fiber::{is_simulated, on_base};
use crate::own::own;
use crate::raw;

/// Where the region begins, and its size.
const REGION: usize = 0x6000_0000_0000;
const SIZE: usize = 8 << 30;
/// Blocks come in powers of two from 32 bytes on.
const CLASSES: usize = 48;
/// Before each block that is handed out: its class and generation, and its address.
const HEADER: usize = 16;
/// In every header of a block in use.
const IN_USE: usize = 0x51A1 << 16;
const IN_USE_BITS: usize = 0xFFFF << 16;
const FREED: usize = 0xDEAD;
/// The part of the region that is kept in memory between executions.
const KEPT: usize = 16 << 20;

own! {
    /// Whether the lists of blocks are being changed.
    BUSY: bool = false;
    /// The first address that was never handed out in this execution.
    TOP: usize = 0;
    /// The first free block of each class.
    FREE: [usize; CLASSES] = [0; CLASSES];
    /// The number of the execution, as blocks have it in their headers.
    GENERATION: usize = 0;
    /// The code of the C library and of the dynamic linker.
    LIBRARIES: [(usize, usize); 2] = [(0, 0); 2];
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

/// Maps the region.
pub(crate) fn check() -> Result<(), String> {
    if TOP.get() != 0 {
        return Ok(());
    }
    LIBRARIES.set(libraries()?);
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [REGION as i64, SIZE as i64, writable.into(), flags.into(), -1, 0];
    // SAFETY: a new mapping at an address where nothing is, or the call fails.
    let mapped = unsafe { raw::call(libc::SYS_mmap, arguments) };
    if mapped != REGION as i64 {
        return Err(format!("the address space at {REGION:#x} is not free for the heap of hosts"));
    }
    TOP.set(REGION);
    Ok(())
}

/// Where the code of the C library and of the dynamic linker lies.
fn libraries() -> Result<[(usize, usize); 2], String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let code = |name: &str| {
        let line = maps.lines().find(|line| line.contains(name) && line.contains("r-xp"))?;
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
    };
    match (code("/libc.so.6"), code("/ld-linux")) {
        (Some(library), Some(linker)) => Ok([library, linker]),
        _ => Err("the C library is linked statically or has an unknown name".to_owned()),
    }
}

/// Forgets all blocks.
pub(crate) fn reset() {
    let used = TOP.get() - REGION;
    if used > KEPT {
        let rest =
            [(REGION + KEPT) as i64, (used - KEPT) as i64, libc::MADV_DONTNEED.into(), 0, 0, 0];
        // SAFETY: this part of the region holds only blocks of the execution that is over.
        unsafe { raw::call(libc::SYS_madvise, rest) };
    }
    TOP.set(REGION);
    FREE.set([0; CLASSES]);
    GENERATION.set((GENERATION.get() + 1) & 0xFFFF_FFFF);
}

#[inline]
fn is_ours(block: usize) -> bool {
    block.wrapping_sub(REGION) < SIZE
}

/// Whether code of a host asks, and not the C library.
#[inline]
fn asks(caller: usize) -> bool {
    is_simulated() && !LIBRARIES.get().iter().any(|(from, to)| (*from..*to).contains(&caller))
}

fn class_of(size: usize) -> usize {
    (usize::BITS - (size.max(32) - 1).leading_zeros()) as usize
}

/// Whether the lists of blocks are being changed.
pub(crate) fn is_busy() -> bool {
    BUSY.get()
}

/// Changes the lists of blocks; a thread is not interrupted meanwhile.
fn busy<R>(work: impl FnOnce() -> R) -> R {
    BUSY.set(true);
    compiler_fence(Ordering::SeqCst);
    let result = work();
    compiler_fence(Ordering::SeqCst);
    BUSY.set(false);
    result
}

fn allocate(size: usize, alignment: usize) -> *mut c_void {
    busy(|| new_block(size, alignment))
}

fn new_block(size: usize, alignment: usize) -> *mut c_void {
    let extra = if alignment > HEADER { alignment } else { 0 };
    let Some(needed) = size.checked_add(HEADER + extra).filter(|needed| *needed < SIZE) else {
        return std::ptr::null_mut();
    };
    let class = class_of(needed);
    // SAFETY: the free list of a class has only free blocks of that class in the region.
    let Some(block) = (unsafe { take(class) }) else { return std::ptr::null_mut() };
    let data = match extra {
        0 => block + HEADER,
        _ => (block + HEADER + alignment - 1) & !(alignment - 1),
    };
    // SAFETY: the header lies within the block, before the data.
    unsafe {
        *((data - 16) as *mut usize) = class | IN_USE | GENERATION.get() << 32;
        *((data - 8) as *mut usize) = block;
    }
    data as *mut c_void
}

/// A free block of a class, or a new one.
unsafe fn take(class: usize) -> Option<usize> {
    // SAFETY: only the thread that runs hosts is here.
    let free = unsafe { &mut (*FREE.place())[class] };
    if *free != 0 {
        let block = *free;
        // SAFETY: a free block holds the address of the next one behind its header.
        *free = unsafe { *((block + HEADER) as *const usize) };
        return Some(block);
    }
    let block = TOP.get();
    let end = block + (1 << class);
    (end <= REGION + SIZE).then(|| {
        TOP.set(end);
        block
    })
}

/// # Safety
///
/// `data` must lie in the region.
unsafe fn release(data: usize) {
    // SAFETY: the caller answers for the address.
    busy(|| unsafe { free_block(data) });
}

/// # Safety
///
/// As for [`release`].
unsafe fn free_block(data: usize) {
    // SAFETY: every block in the region has a header; it is checked before it is believed.
    let (header, block) =
        unsafe { (*((data - 16) as *const usize), *((data - 8) as *const usize)) };
    let in_use = header & IN_USE_BITS == IN_USE;
    match (in_use, header >> 32 == GENERATION.get()) {
        (true, true) => {}
        (true, false) => stop("a block of an earlier execution is freed", data),
        (false, _) if header == FREED => stop("a block is freed twice", data),
        (false, _) => stop("what is freed is not a block", data),
    }
    let class = header & 63;
    // SAFETY: the block is free from here on, and the list is only used by this thread.
    unsafe {
        *((data - 16) as *mut usize) = FREED;
        *((block + HEADER) as *mut usize) = (*FREE.place())[class];
        (*FREE.place())[class] = block;
    }
}

/// The number of bytes that fit into a block.
///
/// # Safety
///
/// `data` must be a block in use.
unsafe fn room(data: usize) -> usize {
    // SAFETY: a block in use has a header.
    let (header, block) =
        unsafe { (*((data - 16) as *const usize), *((data - 8) as *const usize)) };
    block + (1 << (header & 63)) - data
}

#[cold]
fn stop(what: &str, block: usize) -> ! {
    let text = format!("everhold: in the heap of a simulated host, {what} ({block:#x})\n");
    crate::guard::let_through(true);
    // SAFETY: writes a text to standard error, then ends the process.
    unsafe {
        raw::call(libc::SYS_write, [2, text.as_ptr() as i64, text.len() as i64, 0, 0, 0]);
        libc::abort()
    }
}

/// # Safety
///
/// As for `malloc`. The C library's heap is used with the exploring thread's caches.
unsafe fn elsewhere<R>(work: impl FnOnce() -> R) -> R {
    if is_simulated() { on_base(work) } else { work() }
}

/// `malloc`, with the address to which it returns as a further argument.
#[unsafe(naked)]
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(_size: usize) -> *mut c_void {
    naked_asm!("mov rsi, [rsp]", "jmp {f}", f = sym malloc_for)
}

/// `calloc`, with the address to which it returns as a further argument.
#[unsafe(naked)]
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(_count: usize, _size: usize) -> *mut c_void {
    naked_asm!("mov rdx, [rsp]", "jmp {f}", f = sym calloc_for)
}

/// `realloc`, with the address to which it returns as a further argument.
#[unsafe(naked)]
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(_block: *mut c_void, _size: usize) -> *mut c_void {
    naked_asm!("mov rdx, [rsp]", "jmp {f}", f = sym realloc_for)
}

unsafe extern "C" fn malloc_for(size: usize, caller: usize) -> *mut c_void {
    if asks(caller) {
        return allocate(size, HEADER);
    }
    // SAFETY: the C library's own function, with its own arguments.
    unsafe { elsewhere(|| __libc_malloc(size)) }
}

unsafe extern "C" fn calloc_for(count: usize, size: usize, caller: usize) -> *mut c_void {
    if !asks(caller) {
        // SAFETY: the C library's own function, with its own arguments.
        return unsafe { elsewhere(|| __libc_calloc(count, size)) };
    }
    let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
    let block = allocate(bytes, HEADER);
    if !block.is_null() {
        // SAFETY: the block has room for so many bytes.
        unsafe { std::ptr::write_bytes(block.cast::<u8>(), 0, bytes) };
    }
    block
}

unsafe extern "C" fn realloc_for(block: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: that is what `realloc` of nothing means.
        return unsafe { malloc_for(size, caller) };
    }
    if !is_ours(block as usize) {
        // SAFETY: the C library's own function, for a block of its own.
        return unsafe { elsewhere(|| __libc_realloc(block, size)) };
    }
    // SAFETY: the block is in use, since the caller owns it.
    let room = unsafe { room(block as usize) };
    if size <= room {
        return block;
    }
    // SAFETY: the new block is larger than the room of the old one, which is released.
    unsafe {
        let new = malloc_for(size, caller);
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), room);
            release(block as usize);
        }
        new
    }
}

/// `free`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if is_ours(block as usize) {
        // SAFETY: the block lies in the region.
        unsafe { release(block as usize) }
    } else if !block.is_null() {
        // SAFETY: the C library's own function, for a block of its own.
        unsafe { elsewhere(|| __libc_free(block)) }
    }
}

unsafe fn aligned(alignment: usize, size: usize) -> *mut c_void {
    if is_simulated() {
        return allocate(size, alignment);
    }
    // SAFETY: the C library's own function, with its own arguments.
    unsafe { __libc_memalign(alignment, size) }
}

/// `posix_memalign`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> libc::c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    // SAFETY: the caller passes a place for the block.
    unsafe {
        let block = aligned(alignment, size);
        if block.is_null() {
            return libc::ENOMEM;
        }
        *place = block;
    }
    0
}

/// `aligned_alloc`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller answers for the arguments.
    unsafe { aligned(alignment, size) }
}

/// `memalign`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller answers for the arguments.
    unsafe { aligned(alignment, size) }
}

/// `malloc_usable_size`, which programs may ask for blocks of either heap.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if is_ours(block as usize) {
        // SAFETY: the caller owns the block.
        return unsafe { room(block as usize) };
    }
    if block.is_null() {
        return 0;
    }
    // The C library keeps the size, with three bits of flags, in the word before the block.
    // SAFETY: the block is one of the C library.
    unsafe { (*((block as usize - 8) as *const usize) & !7) - 16 }
}
