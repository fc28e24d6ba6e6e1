//! Maps, programs and links of BPF.
//!
//! The arguments of the system call are laid out by hand as the kernel's `union bpf_attr`, of which
//! only the beginning that a command needs is given; the kernel takes the rest as zero.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROG_LOAD: i32 = 5;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const LINK_CREATE: i32 = 28;

/// The size of the arguments that are passed; larger than any command here needs.
const ATTR: usize = 152;

/// The size of the verifier's log that is read when a program is refused.
const LOG: usize = 1 << 20;

/// One instruction of BPF, as the kernel reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    /// The operation.
    pub code: u8,
    /// The destination register in the lower four bits, the source register in the upper four.
    pub registers: u8,
    /// The offset of a jump or of a memory access.
    pub offset: i16,
    /// The constant.
    pub immediate: i32,
}

/// The kinds of map that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// A hash table.
    Hash,
    /// A hash table that forgets what was used least recently when it is full.
    LruHash,
    /// An array.
    Array,
    /// A ring buffer; its size in bytes is the number of entries.
    Ring,
}

impl MapKind {
    fn number(self) -> u32 {
        match self {
            MapKind::Hash => 1,
            MapKind::Array => 2,
            MapKind::LruHash => 9,
            MapKind::Ring => 27,
        }
    }
}

/// The kinds of program that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// A program that runs at instructions of user programs, linked with [`link_uprobes`].
    Uprobes,
    /// A program that runs at the entry and the return of functions of user programs.
    UprobeSession,
    /// A program at a tracepoint of the kernel, named by the number of its type in the kernel's BTF.
    Tracepoint(u32),
    /// A program at the beginning of a function of the kernel, named likewise.
    FunctionEntry(u32),
}

impl ProgramKind {
    /// The type of the program, the type of its attachment, and the number of its target.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            ProgramKind::Uprobes => (2, 48, 0),
            ProgramKind::UprobeSession => (2, 57, 0),
            ProgramKind::Tracepoint(target) => (26, 23, target),
            ProgramKind::FunctionEntry(target) => (26, 24, target),
        }
    }
}

/// The reason for which the kernel refuses a program.
#[derive(Debug)]
pub struct LoadError {
    /// The error of the system call.
    pub error: io::Error,
    /// The end of the verifier's log; empty if the program was not looked at.
    pub log: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match self.log.is_empty() {
            true => Ok(()),
            false => write!(f, "; the kernel's verifier says: {}", self.log),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The arguments of one call.
struct Attr([u8; ATTR]);

impl Attr {
    fn new() -> Attr {
        Attr([0; ATTR])
    }

    fn u32(mut self, at: usize, value: u32) -> Attr {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Attr {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(self, at: usize, fd: &OwnedFd) -> Attr {
        self.u32(at, fd.as_raw_fd().cast_unsigned())
    }

    fn address<T>(self, at: usize, of: *const T) -> Attr {
        self.u64(at, of as usize as u64)
    }

    /// Makes the call with the first `len` bytes.
    ///
    /// # Safety
    ///
    /// Each address in the arguments must point to memory that the command may read, or write, to the
    /// length that the arguments or the map say, until this returns.
    unsafe fn call(&mut self, command: i32, len: usize) -> io::Result<RawFd> {
        assert!(len <= ATTR, "the arguments of a command fit");
        // SAFETY: the arguments are `len` bytes of an array that lives through the call; the caller
        // answers for the addresses in them.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), len) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(RawFd::try_from(result).unwrap_or(0))
    }

    /// Makes a call that returns a new file descriptor.
    ///
    /// # Safety
    ///
    /// As [`call`](Attr::call).
    unsafe fn open(&mut self, command: i32, len: usize) -> io::Result<OwnedFd> {
        // SAFETY: the caller answers for the addresses.
        let fd = unsafe { self.call(command, len) }?;
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A map of BPF.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
    entries: u32,
}

impl Map {
    /// Makes a map of this many entries, with keys and values of these sizes in bytes.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, mostly because a capability is missing (`EPERM`).
    pub fn create(kind: MapKind, key: u32, value: u32, entries: u32) -> io::Result<Map> {
        let attr = Attr::new().u32(0, kind.number()).u32(4, key).u32(8, value);
        let mut attr = attr.u32(12, entries);
        // SAFETY: these arguments have no addresses.
        let fd = unsafe { attr.open(MAP_CREATE, 72) }?;
        Ok(Map { fd, key: key as usize, value: value as usize, entries })
    }

    /// The number by which programs name this map.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The number of entries that it was made with.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The value under a key; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key, "keys of this map have one size");
        // The kernel rounds the size of values up to eight bytes for some kinds of map.
        let mut value = vec![0_u8; self.value.next_multiple_of(8)];
        let mut attr = Attr::new().fd(0, &self.fd).address(8, key.as_ptr());
        attr = attr.address(16, value.as_mut_ptr());
        // SAFETY: the key has the size that the map was made with, and there is room for a value;
        // maps whose values have a copy for each processor are not made here.
        match unsafe { attr.call(MAP_LOOKUP, 32) } {
            Ok(_) => {
                value.truncate(self.value);
                Ok(Some(value))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value under a key.
    ///
    /// # Errors
    ///
    /// If the map is full or the kernel refuses.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "sizes are those of the map");
        let mut attr = Attr::new().fd(0, &self.fd).address(8, key.as_ptr());
        attr = attr.address(16, value.as_ptr());
        // SAFETY: key and value have the sizes that the map was made with.
        unsafe { attr.call(MAP_UPDATE, 32) }.map(|_| ())
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key, "keys of this map have one size");
        let mut attr = Attr::new().fd(0, &self.fd).address(8, key.as_ptr());
        // SAFETY: the key has the size that the map was made with.
        match unsafe { attr.call(MAP_DELETE, 32) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    kind: ProgramKind,
}

impl Program {
    /// Gives a program to the kernel, which verifies that it ends and reads only what it may.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; the log says why.
    pub fn load(kind: ProgramKind, code: &[Insn]) -> Result<Program, LoadError> {
        let plain = |error| LoadError { error, log: String::new() };
        match Self::try_load(kind, code, None) {
            Ok(program) => Ok(program),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(plain(error)),
            // The log costs the verifier time, so it is asked for only now.
            Err(_) => {
                let mut log = vec![0_u8; LOG];
                Self::try_load(kind, code, Some(&mut log)).map_err(|error| {
                    let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
                    let text = String::from_utf8_lossy(&log[..end]);
                    let tail: Vec<&str> = text.lines().rev().take(8).collect();
                    let tail: Vec<&str> = tail.into_iter().rev().collect();
                    LoadError { error, log: tail.join(" | ") }
                })
            }
        }
    }

    fn try_load(kind: ProgramKind, code: &[Insn], log: Option<&mut [u8]>) -> io::Result<Program> {
        let (program, attach, target) = kind.numbers();
        let count = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let license = c"GPL";
        let mut attr = Attr::new().u32(0, program).u32(4, count).address(8, code.as_ptr());
        attr = attr.address(16, license.as_ptr()).u32(68, attach).u32(108, target);
        if let Some(log) = log {
            let size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            attr = attr.u32(24, 1).u32(28, size).address(32, log.as_mut_ptr());
        }
        // SAFETY: the code, the licence and the log outlive the call and have the sizes that the
        // arguments say; the licence ends with a zero.
        let fd = unsafe { attr.open(PROG_LOAD, ATTR) }?;
        Ok(Program { fd, kind })
    }
}

/// A program in force. When it is dropped, the program no longer runs, and the instructions that it
/// was linked to are as they were.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// Links a program to instructions of an executable or a library, given as offsets in the file. With
/// a process, only that one is observed; otherwise all that have the file mapped, now and later.
///
/// # Errors
///
/// If the kernel refuses, for instance because an offset is not inside code.
pub fn link_uprobes(
    program: &Program,
    file: &Path,
    offsets: &[u64],
    process: Option<u32>,
) -> io::Result<Link> {
    let (_, attach, _) = program.kind.numbers();
    let path = CString::new(file.as_os_str().as_bytes())?;
    let count = u32::try_from(offsets.len()).unwrap_or(u32::MAX);
    let mut attr = Attr::new().fd(0, &program.fd).u32(8, attach).address(16, path.as_ptr());
    attr = attr.address(24, offsets.as_ptr()).u32(48, count).u32(56, process.unwrap_or(0));
    // SAFETY: the path ends with a zero, there are `count` offsets, and both outlive the call.
    let fd = unsafe { attr.open(LINK_CREATE, 64) }?;
    Ok(Link { _fd: fd })
}

/// Links a program to the tracepoint or the function of the kernel that it was loaded for.
///
/// # Errors
///
/// If the kernel refuses.
pub fn link_tracepoint(program: &Program) -> io::Result<Link> {
    let mut attr = Attr::new().fd(8, &program.fd);
    // SAFETY: these arguments have no addresses; the name is null, since the program knows it.
    let fd = unsafe { attr.open(RAW_TRACEPOINT_OPEN, 24) }?;
    Ok(Link { _fd: fd })
}
