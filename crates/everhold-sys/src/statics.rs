//! Statics for each host: the program's writable data is exchanged when another host runs.
//!
//! The first contents are copied before `main`, so a host that starts has the statics of a program
//! that starts.

use std::ffi::{c_char, c_int, c_void};

use crate::elf;
use crate::environment::{self, Environment};
use crate::mappings;
use crate::own::own;

own! {
    /// The copy of the program's writable data from before `main`, with its first address.
    PRISTINE: Option<Copied> = None;
    /// The writable data that is exchanged.
    RANGES: [Range; 2] = [Range { start: 0, length: 0 }; 2];
    /// The image of the host whose statics are in place; null if those of the explorer are.
    LOADED: *mut Image = std::ptr::null_mut();
    /// The explorer's own environment, while that of a host is in place.
    EXPLORERS: *mut *mut c_char = std::ptr::null_mut();
    /// The explorer's own statics, while those of a host are in place.
    EXPLORER: Vec<u8> = Vec::new();
}

#[derive(Clone, Copy)]
struct Copied {
    copy: usize,
    start: usize,
    length: usize,
}

#[derive(Clone, Copy, Debug, Default)]
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

/// Copies the program's writable data before `main`.
extern "C" fn copy_before_main(_: c_int, _: *const *const u8, _: *const *const u8) {
    let start = &raw const __data_start as usize;
    let length = &raw const _end as usize - start;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, large enough for the copy of data that is mapped.
    unsafe {
        let copy = libc::mmap(std::ptr::null_mut(), length, writable, flags, -1, 0);
        if copy == libc::MAP_FAILED {
            return;
        }
        std::ptr::copy_nonoverlapping(start as *const c_void, copy, length);
        PRISTINE.set(Some(Copied { copy: copy as usize, start, length }));
    }
}

#[used]
// SAFETY: the section holds functions of this type, which the C library calls before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(c_int, *const *const u8, *const *const u8) = copy_before_main;

/// Finds the program's writable data.
pub(crate) fn check() -> Result<(), String> {
    let copied = PRISTINE.get().ok_or("the program's data could not be copied before `main`")?;
    let ranges = elf::writable_sections()?;
    for range in ranges {
        let inside = range.length == 0
            || range.start >= copied.start
                && range.start + range.length <= copied.start + copied.length;
        if !inside {
            return Err("the program's data lies elsewhere than the linker says".to_owned());
        }
    }
    RANGES.set(ranges);
    EXPLORER.replace(vec![0; size()]);
    Ok(())
}

/// The number of bytes that are exchanged.
fn size() -> usize {
    RANGES.get().iter().map(|range| range.length).sum()
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
        let copied = PRISTINE.get().expect("the machinery was checked");
        let mut at = 0;
        for range in RANGES.get() {
            let from = copied.copy + (range.start - copied.start);
            // SAFETY: `check` saw that the ranges lie within the copy, which is never unmapped.
            let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, range.length) };
            self.bytes[at..at + range.length].copy_from_slice(bytes);
            at += range.length;
        }
    }
}

/// Puts the statics of a host in place of the explorer's.
pub(crate) fn load(image: &mut Image) {
    debug_assert!(LOADED.get().is_null(), "the explorer's statics are in place");
    // SAFETY: the buffer belongs to this module, and only one thread is here.
    unsafe { save(&mut *EXPLORER.place()) };
    // SAFETY: code of the host, which alone refers to its statics, runs from now on; the
    // explorer's code does not run until its own statics are back, but for calls of the host.
    unsafe { put(&image.bytes) };
    EXPLORERS.set(image.environment.load());
    LOADED.set(image);
}

/// Puts the explorer's statics back.
pub(crate) fn load_base() {
    let image = LOADED.replace(std::ptr::null_mut());
    // SAFETY: the image is borrowed by `Fiber::run`, which is still at work.
    let image = unsafe { &mut *image };
    save(&mut image.bytes);
    // SAFETY: as in `load`, the other way round.
    unsafe { put(&*EXPLORER.place()) };
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

fn save(bytes: &mut [u8]) {
    let mut at = 0;
    for range in RANGES.get() {
        // SAFETY: the range is the program's own data, and nothing writes to it meanwhile.
        let now = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.length) };
        bytes[at..at + range.length].copy_from_slice(now);
        at += range.length;
    }
}

/// # Safety
///
/// No code may run that relies on the statics that are replaced.
unsafe fn put(bytes: &[u8]) {
    let mut at = 0;
    for range in RANGES.get() {
        let from = bytes[at..at + range.length].as_ptr();
        // SAFETY: the range is the program's own writable data; the caller answers for the rest.
        unsafe { std::ptr::copy_nonoverlapping(from, range.start as *mut u8, range.length) };
        at += range.length;
    }
}
