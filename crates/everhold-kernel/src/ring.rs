//! The reader of the ring buffer that BPF programs write.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::bpf::Map;

const PAGE: usize = 4_096;

/// A record whose writer is not done.
const BUSY: u32 = 1 << 31;

/// A record that its writer gave up.
const DISCARDED: u32 = 1 << 30;

const HEADER: usize = 8;

/// Memory that is shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(map: &Map, len: usize, protection: i32, offset: usize) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let fd = map.fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("a null mapping"))?;
        Ok(Mapping { start, len })
    }

    /// The counter at the beginning of the mapping, which both sides change.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: the mapping is at least a page, aligned to one, and lives as long as `self`; the
        // kernel changes this word atomically.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; references into it borrow `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The reader of a ring buffer. It belongs to the map that it was made of.
#[derive(Debug)]
pub struct Ring {
    map: Map,
    consumer: Mapping,
    /// The producer's position, and after a page the data, twice in a row.
    producer: Mapping,
    size: u64,
    bytes: Vec<u8>,
}

// SAFETY: the mappings belong to this value alone on our side, and the kernel's side synchronises
// through the atomic positions; which thread reads does not matter.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring buffer of a map of that kind.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to map it.
    pub fn new(map: Map) -> io::Result<Ring> {
        let size = map.entries() as usize;
        let consumer = Mapping::new(&map, PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = Mapping::new(&map, PAGE + 2 * size, libc::PROT_READ, PAGE)?;
        Ok(Ring { map, consumer, producer, size: size as u64, bytes: Vec::new() })
    }

    /// The map, for the programs that write it.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The number of bytes that wait to be read.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let read = self.consumer.position().load(Ordering::Relaxed);
        self.producer.position().load(Ordering::Acquire).saturating_sub(read)
    }

    /// Passes every record that is there to `each`, at most those that were there when it began.
    /// Returns the number of records, and whether it came to a record that is still being written.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> (u64, bool) {
        let end = self.producer.position().load(Ordering::Acquire);
        let mut at = self.consumer.position().load(Ordering::Relaxed);
        let mut count = 0;
        while at < end {
            let header = self.length_at(at).load(Ordering::Acquire);
            if header & BUSY != 0 {
                return (count, true);
            }
            let len = (header & !(BUSY | DISCARDED)) as usize;
            if header & DISCARDED == 0 {
                let mut bytes = std::mem::take(&mut self.bytes);
                self.copy(at, len, &mut bytes);
                each(&bytes);
                self.bytes = bytes;
                count += 1;
            }
            at += (len + HEADER).next_multiple_of(8) as u64;
            self.consumer.position().store(at, Ordering::Release);
        }
        (count, false)
    }

    fn data(&self, at: u64) -> *const u8 {
        let offset = PAGE + (at & (self.size - 1)) as usize;
        // SAFETY: the offset is below a page and the size, and the mapping has a page and twice the
        // size.
        unsafe { self.producer.start.as_ptr().add(offset) }
    }

    fn length_at(&self, at: u64) -> &AtomicU32 {
        // SAFETY: positions are multiples of eight inside the data, so the word is aligned and
        // mapped; it is never written from here, which a read-only mapping would not allow.
        unsafe { AtomicU32::from_ptr(self.data(at).cast_mut().cast()) }
    }

    fn copy(&self, at: u64, len: usize, into: &mut Vec<u8>) {
        assert!(len as u64 <= self.size, "a record fits into its ring");
        into.resize(len, 0);
        // SAFETY: the record was submitted, so the kernel does not write it until the consumer's
        // position has passed it; it begins inside the data, which is mapped twice in a row.
        unsafe {
            ptr::copy_nonoverlapping(self.data(at).add(HEADER), into.as_mut_ptr(), len);
        }
    }
}
