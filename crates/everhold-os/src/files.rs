//! Files: the disk of a host, paths, and open files.
//!
//! A [`Disk`] is a [`Volume`], so hosts have the crash model of the explorer's disks. The volume
//! knows one folder; a directory is a file without contents in it, and the names in a directory
//! begin with its number and a slash. A rename of a directory is therefore one change.

mod calls;
mod links;
mod names;

use std::collections::BTreeMap;
use std::time::Duration;

use everhold_node::CrashModel;
use everhold_node::volume::{File, FileId, Lost, SECTOR, Shape, Volume};

use crate::abi::Errno;
use crate::descriptor::Open;
use crate::host::Host;
use crate::slab::Id;

pub use names::AT_FDCWD;

/// The most bytes of a file; a write beyond fails with EFBIG.
pub const LARGEST_FILE: u64 = 256 << 20;

/// The disk of a host, which outlives its crashes.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    volume: Volume,
    /// The attributes that a crash does not keep: modes and times.
    notes: BTreeMap<FileId, Notes>,
    /// Where symbolic links lead. That is written together with their names.
    targets: BTreeMap<FileId, String>,
}

#[derive(Clone, Copy, Debug)]
struct Notes {
    mode: u32,
    modified: Duration,
}

impl Disk {
    /// The files under the disk, for reports and for fingerprints.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The host crashes, and loses of what it did not sync what `choose` decides. Questions and
    /// losses name files by their paths.
    pub fn crash(&mut self, model: CrashModel, choose: &mut dyn FnMut(&str, u32) -> u32) -> Lost {
        let paths = self.directories();
        let mut ask =
            |question: &str, domain: u32| choose(&names::readable(question, &paths), domain);
        let mut lost = self.volume.crash(model, false, &mut ask);
        for unit in &mut lost.units {
            *unit = names::readable(unit, &paths);
        }
        self.volume.release_all();
        if model != CrashModel::Kill {
            self.notes.clear();
        }
        lost
    }

    fn contents(&self, file: FileId) -> &File {
        self.volume.now().files.get(&file).expect("a file that is open exists")
    }

    fn size(&self, file: FileId) -> u64 {
        self.volume.now().files.get(&file).map_or(0, |file| file.length)
    }

    fn is_directory(&self, file: FileId) -> bool {
        self.volume.now().files.get(&file).is_some_and(|file| file.shape == Shape::Record)
    }

    /// The bytes of all files.
    fn used(&self) -> u64 {
        self.volume.now().files.values().map(|file| file.length).sum()
    }

    /// Copies bytes from a place on, as far as the file goes.
    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> usize {
        let file = self.contents(file);
        let end = file.length.min(offset.saturating_add(into.len() as u64));
        let mut at = offset;
        while at < end {
            let (sector, within) = (at / SECTOR, (at % SECTOR) as usize);
            let part = (SECTOR as usize - within).min((end - at) as usize);
            let to = (at - offset) as usize;
            let cell = &file.cells[sector as usize];
            into[to..to + part].copy_from_slice(&cell[within..within + part]);
            at += part as u64;
        }
        end.saturating_sub(offset) as usize
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// It has bytes.
    Regular,
    /// It has names.
    Directory,
    /// It is a symbolic link.
    Link,
    /// It is none of these, such as a socket or a pipe.
    Other,
}

/// The answer of `stat` about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub inode: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Its permissions.
    pub mode: u32,
    /// Its names.
    pub links: u64,
    /// Its bytes.
    pub size: u64,
    /// When it was written, as the time since 1970. A crash forgets it.
    pub modified: Duration,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The number of the file.
    pub inode: u64,
    /// Its kind.
    pub kind: FileKind,
}

/// The room of a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// The space that is not used.
    pub free: u64,
}

/// The faults of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// The bytes that fit; writes beyond fail with ENOSPC.
    pub space: u64,
    /// How many syncs may fail with EIO, each of them a choice: "fsync fails". The pages count as
    /// clean afterwards, as in Linux.
    pub failing_syncs: u32,
}

impl Default for DiskSettings {
    fn default() -> Self {
        DiskSettings { space: 16 << 30, failing_syncs: 0 }
    }
}

/// A directory of the disk: the root, or a file.
pub(crate) type Directory = Option<FileId>;

/// An open file of the disk.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Nothing for the root.
    pub(crate) file: Directory,
    pub(crate) is_directory: bool,
    position: u64,
}

/// The files of a host while it runs.
#[derive(Debug, Default)]
pub(crate) struct Files {
    disk: Disk,
    /// The directory in which relative paths begin.
    working: Directory,
    /// Advisory locks of whole files: who has them, and whether alone.
    locks: BTreeMap<FileId, Vec<(Id<Open>, bool)>>,
    failed_syncs: u32,
}

impl Host {
    /// Gives the host the disk of its last incarnation, before its first call.
    pub fn insert_disk(&mut self, disk: Disk) {
        self.files = Files { disk, ..Files::default() };
    }

    /// Takes the disk out, at the end of the host. [`Disk::crash`] says what is left of it.
    pub fn take_disk(&mut self) -> Disk {
        std::mem::take(&mut self.files.disk)
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.files.disk
    }

    /// Notes that a file has changed.
    fn touch(&mut self, file: FileId) {
        let modified = self.clock(crate::ClockId::Realtime);
        let notes = self.files.disk.notes.entry(file);
        notes.or_insert(Notes { mode: 0o644, modified }).modified = modified;
    }

    /// ENOSPC if so many further bytes do not fit, and EFBIG beyond the largest file.
    fn check_space(&self, file: FileId, end: u64) -> Result<(), Errno> {
        let size = self.files.disk.size(file);
        if end <= size {
            return Ok(());
        }
        if end > LARGEST_FILE {
            return Err(Errno::EFBIG);
        }
        let used = self.files.disk.used() + (end - size);
        if used > self.settings.disk.space { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}
