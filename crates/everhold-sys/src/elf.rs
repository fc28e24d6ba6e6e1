//! The parts of the program's own file that the machinery needs, and of what is loaded with it: where
//! writable data lies.

use std::ffi::CStr;
use std::fs;
use std::ops::Deref;
use std::os::fd::AsRawFd;

use crate::statics::Range;

/// A file that is read like memory. Programs with what debuggers need are large, and only a few
/// pages of them are looked at.
pub(crate) struct Mapped {
    at: *mut libc::c_void,
    length: usize,
}

impl Mapped {
    pub(crate) fn open(path: &str) -> Result<Mapped, String> {
        Mapped::of(path).map_err(|error| format!("{path}: {error}"))
    }

    fn of(path: &str) -> std::io::Result<Mapped> {
        let file = fs::File::open(path)?;
        let length = file.metadata()?.len() as usize;
        let (readable, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let (anywhere, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { libc::mmap(anywhere, length, readable, private, descriptor, 0) };
        match at {
            libc::MAP_FAILED => Err(std::io::Error::last_os_error()),
            at => Ok(Mapped { at, length }),
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, and nobody writes to a program that runs.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

/// The sections with ordinary writable data: `.data` and `.bss`.
pub(crate) fn writable_sections() -> Result<[Range; 2], String> {
    let file = Mapped::open("/proc/self/exe")?;
    let bias = load_bias();
    let section = |name: &str| {
        find(&file, name).map(|(address, length)| Range { start: bias + address, length })
    };
    let data = section(".data").ok_or("the program's file has no table of sections")?;
    Ok([data, section(".bss").unwrap_or(Range { start: data.start, length: 0 })])
}

/// The distance between addresses in the file and in memory.
fn load_bias() -> usize {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        bias: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library passes a description of the program, and our own place.
        unsafe { *bias.cast::<usize>() = (*info).dlpi_addr as usize };
        1
    }
    let mut bias = 0_usize;
    // SAFETY: the callback writes one word to the place that it is given; the program comes first.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut bias).cast()) };
    bias
}

/// The libraries whose state is that of the whole process, not of a host: the C library with its
/// loader and its parts, and the unwinder.
const OF_THE_PROCESS: [&str; 9] = [
    "ld-linux",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libnss_",
    "libpthread.so",
    "libresolv.so",
    "librt.so",
];

/// The writable data of the shared libraries that are loaded now.
pub(crate) fn writable_data_of_libraries() -> Vec<Range> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library passes a description of a loaded file, and our own place.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range>>()) };
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the name is a text.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or_default();
        // The program itself has no name.
        if !name.is_empty() && !OF_THE_PROCESS.iter().any(|known| name.starts_with(known)) {
            found.extend(writable_segments(info));
        }
        0
    }
    let mut found: Vec<Range> = Vec::new();
    // SAFETY: the callback writes to the place that it is given.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// The segments that can be written, without what the loader protects after it has made it ready.
fn writable_segments(info: &libc::dl_phdr_info) -> impl Iterator<Item = Range> {
    const PAGE: usize = 4096;
    // SAFETY: the C library says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let bias = info.dlpi_addr as usize;
    let bounds = move |header: &libc::Elf64_Phdr| {
        let start = bias + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let guarded = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map(bounds);
    let writable = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0);
    writable.map(bounds).filter_map(move |segment| {
        let after = guarded.as_ref().filter(|guarded| segment.contains(&guarded.start));
        let start = after.map_or(segment.start, |guarded| guarded.end / PAGE * PAGE);
        let start = start.max(segment.start);
        (start < segment.end).then(|| Range { start, length: segment.end - start })
    })
}

/// The address and the length of a section.
fn find(file: &[u8], name: &str) -> Option<(usize, usize)> {
    let header = header_of(file, name)?;
    Some((number(file, header + 0x10, 8)?, number(file, header + 0x20, 8)?))
}

/// The place of a section's header.
fn header_of(file: &[u8], name: &str) -> Option<usize> {
    let table = number(file, 0x28, 8)?;
    let (entry, count, names) =
        (number(file, 0x3a, 2)?, number(file, 0x3c, 2)?, number(file, 0x3e, 2)?);
    let header = |at: usize| table + at * entry;
    let strings = number(file, header(names) + 0x18, 8)?;
    (0..count).map(header).find(|header| {
        let text = number(file, *header, 4).map_or(usize::MAX, |name| strings + name);
        file.get(text..).is_some_and(|rest| {
            rest.starts_with(name.as_bytes()) && rest.get(name.len()) == Some(&0)
        })
    })
}

/// The address of a function that a library exports, in an image whose addresses are its places.
pub(crate) fn exported(image: &[u8], name: &str) -> Option<usize> {
    const ENTRY: usize = 24;
    let (symbols, length) = find(image, ".dynsym")?;
    let (strings, _) = find(image, ".dynstr")?;
    (0..length / ENTRY).map(|at| symbols + at * ENTRY).find_map(|symbol| {
        let text = image.get(strings + number(image, symbol, 4)?..)?;
        let is_it = text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&0);
        is_it.then(|| number(image, symbol + 8, 8))?
    })
}

/// A number of some bytes, the lowest first.
fn number(file: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let bytes = file.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

/// A function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// The functions in the program's text, in order and without overlap.
pub(crate) fn functions() -> Result<Vec<Function>, String> {
    const ENTRY: usize = 24;
    const FUNCTION: usize = 2;
    let file = fs::read("/proc/self/exe").map_err(|error| format!("/proc/self/exe: {error}"))?;
    let stripped = "the program's file was stripped of its symbols";
    let (table, length) = find_in_file(&file, ".symtab").ok_or(stripped)?;
    let (text, size) = find(&file, ".text").ok_or(stripped)?;
    let bias = load_bias();
    let mut functions: Vec<Function> = (0..length / ENTRY)
        .map(|at| table + at * ENTRY)
        .filter_map(|symbol| {
            let is_function = number(&file, symbol + 4, 1)? & 15 == FUNCTION;
            let (start, length) = (number(&file, symbol + 8, 8)?, number(&file, symbol + 16, 8)?);
            let inside = start >= text && length > 0 && start + length <= text + size;
            (is_function && inside).then_some(Function { start: bias + start, length })
        })
        .collect();
    functions.sort_unstable();
    functions.dedup_by_key(|function| function.start);
    let mut end = 0;
    functions.retain(|function| {
        let apart = function.start >= end;
        end = end.max(function.start + function.length);
        apart
    });
    Ok(functions)
}

/// The place in the file and the length of a section.
fn find_in_file(file: &[u8], name: &str) -> Option<(usize, usize)> {
    let header = header_of(file, name)?;
    Some((number(file, header + 0x18, 8)?, number(file, header + 0x20, 8)?))
}
