//! Stacks of fibers, at fixed addresses, so that an execution has the same addresses again.

use crate::own::own;
use crate::raw;

/// The usable size of every stack, also of those for which a program asks for less. Only what is used
/// of it takes memory.
pub(crate) const SIZE: usize = 64 << 20;
/// The distance between stacks: the size and a page that cannot be touched.
const STRIDE: usize = SIZE + GUARD;
/// The part below a stack that cannot be touched.
pub(crate) const GUARD: usize = 4096;
/// The first address of all.
const REGION: usize = 0x6100_0000_0000;
/// The largest number of threads that are alive in all hosts together.
const STACKS_MAX: usize = 4096;

own! {
    /// For each stack that is mapped, whether it is in use.
    STACKS: Vec<Place> = Vec::new();
    /// The number of the execution to which the stacks in use belong.
    EXECUTION: u64 = 0;
}

/// Takes back all stacks: no fiber of an earlier execution runs again, and one that runs later has
/// the addresses that it would have had alone.
pub(crate) fn reset() {
    EXECUTION.set(EXECUTION.get() + 1);
    // SAFETY: only the thread that explores takes and gives back stacks.
    unsafe { &mut *STACKS.place() }.iter_mut().for_each(|place| place.used = false);
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    used: bool,
}

/// A stack in use.
#[derive(Debug)]
pub(crate) struct Stack {
    number: usize,
    execution: u64,
}

impl Stack {
    /// The first free stack.
    pub(crate) fn take() -> Stack {
        // SAFETY: only the thread that explores takes and gives back stacks.
        let places = unsafe { &mut *STACKS.place() };
        if let Some(at) = places.iter().position(|place| !place.used) {
            places[at].used = true;
            return Stack { number: at, execution: EXECUTION.get() };
        }
        let at = places.len();
        assert!(at < STACKS_MAX, "more than {STACKS_MAX} threads are alive at once");
        map(REGION + at * STRIDE);
        places.push(Place { used: true });
        Stack { number: at, execution: EXECUTION.get() }
    }

    /// The lowest address that can be used.
    pub(crate) fn lowest(&self) -> usize {
        REGION + self.number * STRIDE + GUARD
    }

    /// Makes a switch to this stack enter `entry`; returns the stack pointer to switch to.
    pub(crate) fn prepare(&self, entry: extern "C" fn() -> !) -> usize {
        let top = self.lowest() + SIZE;
        // `entry` begins as if it had been called: its return address lies where the stack
        // pointer is 8 modulo 16. Below it are the address to continue at and six registers.
        let words = [0, 0, 0, 0, 0, 0, entry as *const () as usize, 0];
        let pointer = top - 24 - 7 * size_of::<usize>();
        debug_assert_eq!((pointer + 7 * size_of::<usize>()) % 16, 8, "the stack is aligned");
        // SAFETY: the words lie at the upper end of a mapped stack that nobody uses yet.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), pointer as *mut usize, words.len());
        };
        pointer
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.execution == EXECUTION.get() {
            // SAFETY: as in `take`.
            unsafe { (&mut *STACKS.place())[self.number].used = false };
        }
    }
}

/// Maps a stack, and below it a page that faults.
fn map(address: usize) {
    let flags = libc::MAP_PRIVATE
        | libc::MAP_ANONYMOUS
        | libc::MAP_NORESERVE
        | libc::MAP_STACK
        | libc::MAP_FIXED_NOREPLACE;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [address as i64, STRIDE as i64, writable.into(), flags.into(), -1, 0];
    // SAFETY: a new mapping at an address where nothing is, or the call fails.
    let mapped = unsafe { raw::call(libc::SYS_mmap, arguments) };
    assert_eq!(mapped, address as i64, "the address space at {address:#x} is free for stacks");
    // SAFETY: the page was just mapped and holds nothing.
    unsafe { raw::call(libc::SYS_mprotect, [mapped, GUARD as i64, 0, 0, 0, 0]) };
}
