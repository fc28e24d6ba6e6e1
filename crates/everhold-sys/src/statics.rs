//! Statics for each host: the writable data of the program and of its shared libraries is exchanged
//! when another host runs.
//!
//! The first contents are copied before `main`, so a host that starts has the statics of a program
//! that starts.

use std::arch::asm;
use std::ffi::{c_char, c_int};

use crate::elf;
use crate::environment::{self, Environment};
use crate::mappings;
use crate::own::own;

own! {
    /// Copies of the writable data from before `main`: that of the program comes first.
    PRISTINE: Vec<Copied> = Vec::new();
    /// The writable data that is exchanged.
    RANGES: Vec<Range> = Vec::new();
    /// The image of the host whose statics are in place; it holds the explorer's meanwhile. Null if
    /// those of the explorer are in place.
    LOADED: *mut Image = std::ptr::null_mut();
    /// The explorer's own environment, while that of a host is in place.
    EXPLORERS: *mut *mut c_char = std::ptr::null_mut();
}

/// What a range contained before `main`.
struct Copied {
    range: Range,
    bytes: Vec<u8>,
}

impl Copied {
    fn new(range: Range) -> Copied {
        // SAFETY: the range is mapped, and nobody else runs yet.
        let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.length) };
        Copied { range, bytes: bytes.to_vec() }
    }

    /// The part of a range, if it lies within this.
    fn part(&self, range: Range) -> Option<&[u8]> {
        let from = range.start.checked_sub(self.range.start)?;
        self.bytes.get(from..from + range.length)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

unsafe extern "C" {
    /// The beginning of the program's writable data.
    static __data_start: u8;
    /// The end of the program's data.
    static _end: u8;
}

/// Copies the writable data before `main`. Shared libraries have made theirs ready by now.
extern "C" fn copy_before_main(_: c_int, _: *const *const u8, _: *const *const u8) {
    let start = &raw const __data_start as usize;
    let program = Range { start, length: &raw const _end as usize - start };
    let libraries = elf::writable_data_of_libraries();
    let all = std::iter::once(program).chain(libraries).map(Copied::new).collect();
    PRISTINE.set(all);
}

#[used]
// SAFETY: the section holds functions of this type, which the C library calls before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(c_int, *const *const u8, *const *const u8) = copy_before_main;

/// Finds the writable data.
pub(crate) fn check() -> Result<(), String> {
    let (program, libraries) =
        pristine().split_first().ok_or("the program's data could not be copied before `main`")?;
    let sections = elf::writable_sections()?.into_iter().filter(|range| range.length > 0);
    let mut ranges: Vec<Range> = sections.collect();
    if ranges.iter().any(|range| program.part(*range).is_none()) {
        return Err("the program's data lies elsewhere than the linker says".to_owned());
    }
    ranges.extend(libraries.iter().map(|library| library.range));
    RANGES.set(ranges);
    Ok(())
}

fn pristine() -> &'static [Copied] {
    // SAFETY: written once, before `main`.
    unsafe { &*PRISTINE.place() }
}

fn ranges() -> &'static [Range] {
    // SAFETY: written by `check`, before any host runs.
    unsafe { &*RANGES.place() }
}

/// The number of bytes that are exchanged.
fn size() -> usize {
    ranges().iter().map(|range| range.length).sum()
}

/// The statics of one host.
#[derive(Debug)]
pub struct Image {
    bytes: Box<[u8]>,
    environment: Environment,
    owner: u64,
}

impl Image {
    /// The statics of a program that starts, with the environment of the test and changes of it.
    ///
    /// # Panics
    ///
    /// If the machinery was not [checked](crate::check).
    #[must_use]
    pub fn fresh(environment: &[(String, String)]) -> Image {
        let environment = Environment::new(environment);
        let owner = mappings::new_owner();
        let mut image = Image { bytes: vec![0; size()].into_boxed_slice(), environment, owner };
        image.refresh();
        image
    }

    /// The number that tells it from all others.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Forgets everything since the start of the program.
    pub fn refresh(&mut self) {
        let mut at = 0;
        for range in ranges() {
            let bytes = pristine().iter().find_map(|copied| copied.part(*range));
            let bytes = bytes.expect("the machinery was checked");
            self.bytes[at..at + range.length].copy_from_slice(bytes);
            at += range.length;
        }
    }
}

/// Puts the statics of a host in place of the explorer's.
pub(crate) fn load(image: &mut Image) {
    debug_assert!(LOADED.get().is_null(), "the explorer's statics are in place");
    // SAFETY: code of the host, which alone refers to its statics, runs from now on; the
    // explorer's code does not run until its own statics are back, but for calls of the host.
    unsafe { exchange(&mut image.bytes) };
    EXPLORERS.set(image.environment.load());
    LOADED.set(image);
}

/// Puts the explorer's statics back.
pub(crate) fn load_base() {
    let image = LOADED.replace(std::ptr::null_mut());
    // SAFETY: the image is borrowed by `Fiber::run`, which is still at work. For the exchange, as
    // in `load`, the other way round.
    unsafe { exchange(&mut (*image).bytes) };
    environment::load_base(EXPLORERS.get());
}

/// The number of the image that is in place.
pub(crate) fn owner() -> u64 {
    // SAFETY: as in `load_base`.
    unsafe { (*LOADED.get()).owner }
}

/// The environment of the host whose statics are in place.
pub(crate) fn with_environment(work: impl FnOnce(&mut Environment)) {
    // SAFETY: as in `load_base`; nobody else refers to the environment meanwhile.
    work(unsafe { &mut (*LOADED.get()).environment });
}

/// Exchanges the statics in place with others.
///
/// # Safety
///
/// No code may run that relies on the statics that are replaced.
unsafe fn exchange(bytes: &mut [u8]) {
    let mut at = 0;
    for range in ranges() {
        let other = bytes[at..at + range.length].as_mut_ptr();
        // SAFETY: the range is writable data, and the image lies on the heap; the caller answers
        // for the rest.
        unsafe { swap(range.start as *mut u8, other, range.length) };
        at += range.length;
    }
}

/// The bytes that are compared, and swapped if they differ, at once.
const BLOCK: usize = 32;

/// Swaps two parts of memory in one pass. Most statics of a host are as they were at its start, so
/// most blocks are the same and are not written. This happens twice at each step, also in programs
/// that are built without optimisation, and therefore is written in assembly.
///
/// # Safety
///
/// Both parts must be valid, apart from each other, and used by nobody else.
unsafe fn swap(one: *mut u8, other: *mut u8, length: usize) {
    let blocks = length / BLOCK;
    if blocks > 0 {
        // SAFETY: the instructions touch whole blocks within both parts, for which the caller
        // answers.
        unsafe {
            asm!(
                "2:",
                "movdqu {a}, [{one}]",
                "movdqu {b}, [{one} + 16]",
                "movdqu {c}, [{other}]",
                "movdqu {d}, [{other} + 16]",
                "movdqa {e}, {a}",
                "movdqa {f}, {b}",
                "pcmpeqb {e}, {c}",
                "pcmpeqb {f}, {d}",
                "pand {e}, {f}",
                "pmovmskb {mask:e}, {e}",
                "cmp {mask:e}, 0xffff",
                "je 3f",
                "movdqu [{one}], {c}",
                "movdqu [{one} + 16], {d}",
                "movdqu [{other}], {a}",
                "movdqu [{other} + 16], {b}",
                "3:",
                "add {one}, 32",
                "add {other}, 32",
                "dec {blocks}",
                "jnz 2b",
                one = inout(reg) one => _,
                other = inout(reg) other => _,
                blocks = inout(reg) blocks => _,
                mask = out(reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                e = out(xmm_reg) _,
                f = out(xmm_reg) _,
                options(nostack),
            );
        }
    }
    let done = blocks * BLOCK;
    // SAFETY: as above, for what is left.
    unsafe { std::ptr::swap_nonoverlapping(one.add(done), other.add(done), length - done) };
}

#[cfg(test)]
mod tests {
    use super::swap;

    #[test]
    fn parts_of_any_length_are_swapped() {
        for length in (0..200).chain([4_096, 4_099]) {
            let first: Vec<u8> = (0..length).map(|at| at as u8).collect();
            // Some blocks are the same in both, some differ in one byte.
            let second: Vec<u8> =
                (0..length).map(|at| at as u8 ^ u8::from(at % 97 == 60)).collect();
            let (mut one, mut other) = (first.clone(), second.clone());
            // SAFETY: both parts have this length and are different vectors.
            unsafe { swap(one.as_mut_ptr(), other.as_mut_ptr(), length) };
            assert_eq!((one, other), (second, first), "{length} bytes");
        }
    }
}
