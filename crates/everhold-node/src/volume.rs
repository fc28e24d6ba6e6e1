//! Files, and what of them a crash can leave.
//!
//! A [`Volume`] keeps files under names, in one folder. Each change of it happens at once in what
//! reads see, and waits in an ordered log of pending changes until a sync makes it durable. A crash
//! keeps some of the pending changes and loses the others; which sets it can keep is the
//! [`CrashModel`]. The model follows ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al.,
//! OSDI 2018): contents, lengths and names of files reach a disk apart from each other.
//!
//! Nothing here knows of nodes: [`Disk`](crate::Disk) is one user of it.

mod crash;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use crash::{CrashModel, Lost, MODE, Mode, Unit, loses};

/// The bytes of a sector, which a disk writes whole or not at all.
pub const SECTOR: u64 = 512;

/// A file, by its number. Names come and go; a file keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FileId(pub u32);

/// How a file's contents fall into cells. A cell is written whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Shape {
    /// One cell of any length, replaced as a whole.
    Record,
    /// One cell for each entry; its length counts entries.
    Log,
    /// Bytes, in cells of one [`SECTOR`]; its length counts bytes.
    Bytes,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// How it falls into cells.
    pub shape: Shape,
    /// The cells before this one were dropped.
    pub first: u64,
    /// Where it ends, in the unit of its shape, dropped cells included.
    pub length: u64,
    /// The cells from `first` on; bytes after the end of the file are not kept.
    pub cells: Vec<Vec<u8>>,
}

/// Names and files at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Image {
    /// The file behind each name.
    pub names: BTreeMap<String, FileId>,
    /// The files that have a name, or will have one.
    pub files: BTreeMap<FileId, File>,
}

/// One change of names or files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Change {
    /// A name for a file, which may be new.
    Link(String, FileId),
    /// A name goes away, and the file with its last name.
    Unlink(String),
    /// A file gets another name, in one step; a file that had that name loses it.
    Rename(String, String, FileId),
    /// The contents of a cell. If the file ended before, it now ends at `grows`.
    Cell {
        /// Of which file.
        file: FileId,
        /// Which cell.
        at: u64,
        /// The whole cell as it is now.
        bytes: Vec<u8>,
        /// The new end of the file, if it is further than the old one.
        grows: Option<u64>,
    },
    /// The file ends here, if it was longer.
    Cut(FileId, u64),
    /// The file ends here, with zeros up to it, if it was shorter.
    Extend(FileId, u64),
    /// The cells before this one are dropped.
    Drop(FileId, u64),
}

/// A change that is not durable under every [`CrashModel`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Pending {
    change: Change,
    shape: Shape,
    /// The journal of the file system has it: it is durable where there is such a journal.
    journaled: bool,
    /// A sync failed to write it and no later one tries again.
    given_up: bool,
}

/// Files under names, what of them is durable, and the changes between the two.
///
/// ```
/// use everhold_node::volume::{CrashModel, MODE, Shape, Volume};
/// let mut volume = Volume::default();
/// let wal = volume.create("wal", Shape::Log);
/// volume.append(wal, b"x=1");
/// volume.sync_file(wal);
/// volume.append(wal, b"x=2");
/// // Of the modes in which a crash loses something, number 1 loses all that it can.
/// volume.crash(CrashModel::Ext4, false, &mut |question, _| u32::from(question == MODE));
/// assert_eq!(volume.now().file("wal").unwrap().cells, [b"x=1"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Volume {
    now: Image,
    durable: Image,
    pending: Vec<Pending>,
    files: u32,
    /// The files that are open, and how often. They stay without a name.
    held: BTreeMap<FileId, u32>,
}

impl Volume {
    /// The files as reads see them.
    #[must_use]
    pub fn now(&self) -> &Image {
        &self.now
    }

    /// The files that survive every crash.
    #[must_use]
    pub fn durable(&self) -> &Image {
        &self.durable
    }

    /// Everything that decides what can still happen, for fingerprints.
    pub fn shown(&self) -> impl Serialize + '_ {
        (&self.now, &self.durable, &self.pending)
    }

    /// The number of changes that are not durable yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Volume::default();
    }

    /// The file of this name, which is made if there is none.
    pub fn create(&mut self, name: &str, shape: Shape) -> FileId {
        if let Some(file) = self.now.names.get(name) {
            return *file;
        }
        let file = FileId(self.files);
        self.files += 1;
        self.change(Change::Link(name.to_owned(), file), shape);
        file
    }

    /// Gives a file another name besides those that it has. False if there is no such file, or the
    /// new name is taken.
    pub fn link(&mut self, name: &str, other: &str) -> bool {
        let Some(file) = self.now.names.get(name).copied() else { return false };
        if self.now.names.contains_key(other) {
            return false;
        }
        let shape = self.shape(file);
        self.change(Change::Link(other.to_owned(), file), shape);
        true
    }

    /// Takes a name away; false if there is none.
    pub fn unlink(&mut self, name: &str) -> bool {
        let Some(file) = self.now.names.get(name).copied() else { return false };
        self.change(Change::Unlink(name.to_owned()), self.shape(file));
        true
    }

    /// Gives a file another name instead of this one; false if there is no such file.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(file) = self.now.names.get(from).copied() else { return false };
        if from != to {
            let shape = self.shape(file);
            self.change(Change::Rename(from.to_owned(), to.to_owned(), file), shape);
        }
        true
    }

    /// Replaces the contents of a record.
    pub fn replace(&mut self, file: FileId, bytes: &[u8]) {
        let grows = (self.file(file).length == 0).then_some(1);
        self.change(Change::Cell { file, at: 0, bytes: bytes.to_owned(), grows }, Shape::Record);
    }

    /// Adds an entry at the end of a log.
    pub fn append(&mut self, file: FileId, entry: &[u8]) {
        let at = self.file(file).length;
        let grows = Some(at + 1);
        self.change(Change::Cell { file, at, bytes: entry.to_owned(), grows }, Shape::Log);
    }

    /// Writes bytes into a file, from an offset on: one change for each sector.
    pub fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) {
        if offset > self.file(file).length {
            self.set_length(file, offset);
        }
        let end = offset + bytes.len() as u64;
        for at in offset / SECTOR..end.div_ceil(SECTOR) {
            let (from, to) = (offset.max(at * SECTOR), end.min((at + 1) * SECTOR));
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            let old = self.file(file);
            let mut cell = old.cells.get(at as usize).cloned().unwrap_or_default();
            let within = (from - at * SECTOR) as usize;
            cell.resize(cell.len().max(within + part.len()), 0);
            cell[within..within + part.len()].copy_from_slice(part);
            let grows = (to > old.length).then_some(to);
            self.change(Change::Cell { file, at, bytes: cell, grows }, Shape::Bytes);
        }
    }

    /// Sets the end of a file, in the unit of its shape. A log is never made longer.
    pub fn set_length(&mut self, file: FileId, length: u64) {
        let File { length: now, shape, first, .. } = *self.file(file);
        if length < now {
            self.change(Change::Cut(file, length.max(first)), shape);
        } else if length > now && shape == Shape::Bytes {
            self.change(Change::Extend(file, length), shape);
        }
    }

    /// Drops the first cells of a log.
    pub fn drop_first(&mut self, file: FileId, cells: u64) {
        let File { first, length, shape, .. } = *self.file(file);
        let to = first.saturating_add(cells).min(length);
        if to > first {
            self.change(Change::Drop(file, to), shape);
        }
    }

    /// A log that has no entries yet begins as if so many had been dropped.
    pub fn begin(&mut self, file: FileId, first: u64) {
        if first > self.file(file).length {
            self.change(Change::Drop(file, first), Shape::Log);
        }
    }

    /// Makes every change durable.
    pub fn sync(&mut self) {
        self.settle(|_| true);
    }

    /// Makes the contents and the length of a file durable. Where there is a journal, that commits
    /// it: all changes of names and cuts so far are durable as well.
    pub fn sync_file(&mut self, file: FileId) {
        self.commit_journal();
        self.settle(|change| change.file() == Some(file) && !change.is_name());
    }

    /// Makes all names durable, and commits the journal where there is one.
    pub fn sync_names(&mut self) {
        self.commit_journal();
        self.settle(Change::is_name);
    }

    /// A sync of one file, or of everything, that fails: the pages that it was to write count as
    /// clean from now on, so that no later sync writes them, although they may not be on the disk.
    pub fn fail_sync(&mut self, file: Option<FileId>) {
        for pending in &mut self.pending {
            let concerned = file.is_none() || pending.change.file() == file;
            pending.given_up |= concerned && matches!(pending.change, Change::Cell { .. });
        }
    }

    /// Makes those names durable for which the caller says so, as the sync of one of several
    /// directories does, with the earlier changes that they build on. Commits the journal where
    /// there is one.
    pub fn sync_names_where(&mut self, is_meant: &dyn Fn(&str) -> bool) {
        self.commit_journal();
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        let mut synced = vec![false; self.pending.len()];
        for (at, pending) in self.pending.iter().enumerate().rev() {
            let names = pending.change.touched();
            synced[at] = names.iter().any(|name| is_meant(name) || needed.contains(name));
            if synced[at] {
                needed.extend(names);
            }
        }
        self.settle_each(&synced);
    }

    /// A file is opened: it stays although no name may lead to it.
    pub fn hold(&mut self, file: FileId) {
        *self.held.entry(file).or_default() += 1;
    }

    /// A file is closed, once.
    pub fn release(&mut self, file: FileId) {
        if let Some(times) = self.held.get_mut(&file) {
            *times -= 1;
            if *times == 0 {
                self.held.remove(&file);
                self.sweep();
            }
        }
    }

    /// Forgets open files, since their owners are gone.
    pub fn release_all(&mut self) {
        self.held.clear();
        self.sweep();
    }

    fn commit_journal(&mut self) {
        for pending in self.pending.iter_mut().filter(|pending| pending.change.is_journaled()) {
            pending.journaled = true;
        }
    }

    /// Makes those of the changes durable that the caller names.
    fn settle(&mut self, is_synced: impl Fn(&Change) -> bool) {
        let synced: Vec<bool> = self.pending.iter().map(|one| is_synced(&one.change)).collect();
        self.settle_each(&synced);
    }

    /// Makes those of the changes durable at whose places it says so.
    fn settle_each(&mut self, synced: &[bool]) {
        let pending = std::mem::take(&mut self.pending);
        let mut kept: Vec<Pending> = Vec::new();
        for (mut one, is_synced) in pending.into_iter().zip(synced) {
            if !is_synced {
                kept.push(one);
            } else if one.given_up {
                // The file is as long as it was made, but what it says there is not written.
                self.durable.grow(&one);
                if let Change::Cell { grows, .. } = &mut one.change {
                    *grows = None;
                }
                kept.push(one);
            } else {
                kept.retain(|earlier| !one.change.replaces(&earlier.change));
                self.durable.apply(&one.change, one.shape);
            }
        }
        self.pending = kept;
        self.sweep();
    }

    /// Forgets files that no name leads to, now or after any crash.
    fn sweep(&mut self) {
        let Volume { now, durable, pending, held, .. } = self;
        if now.files.len() == now.names.len() && durable.files.len() == durable.names.len() {
            return;
        }
        let named = |file: &FileId, names: &BTreeMap<String, FileId>| {
            names.values().any(|named| named == file)
                || pending.iter().any(|pending| pending.change.names() == Some(*file))
        };
        let known = |file: &FileId| named(file, &now.names) || named(file, &durable.names);
        now.files.retain(|file, _| held.contains_key(file) || known(file));
        let alive: Vec<FileId> = now.files.keys().copied().collect();
        durable.files.retain(|file, _| alive.contains(file));
        self.pending.retain(|pending| pending.change.file().is_none_or(|f| alive.contains(&f)));
    }

    fn change(&mut self, change: Change, shape: Shape) {
        self.now.apply(&change, shape);
        self.pending.push(Pending { change, shape, journaled: false, given_up: false });
    }

    fn file(&self, file: FileId) -> &File {
        self.now.files.get(&file).expect("a file that is changed exists")
    }

    fn shape(&self, file: FileId) -> Shape {
        self.file(file).shape
    }
}

impl Change {
    fn is_name(&self) -> bool {
        matches!(self, Change::Link(..) | Change::Unlink(_) | Change::Rename(..))
    }

    /// Whether a journal of the file system orders it: everything but contents and their growth.
    fn is_journaled(&self) -> bool {
        !matches!(self, Change::Cell { .. })
    }

    /// The names that it gives or takes away.
    fn touched(&self) -> Vec<&str> {
        match self {
            Change::Link(name, _) | Change::Unlink(name) => vec![name],
            Change::Rename(from, to, _) => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// The file whose contents or length it changes.
    fn file(&self) -> Option<FileId> {
        match self {
            Change::Link(..) | Change::Unlink(_) | Change::Rename(..) => None,
            Change::Cell { file, .. }
            | Change::Cut(file, _)
            | Change::Extend(file, _)
            | Change::Drop(file, _) => Some(*file),
        }
    }

    /// The file to which it gives a name.
    fn names(&self) -> Option<FileId> {
        match self {
            Change::Link(_, file) | Change::Rename(_, _, file) => Some(*file),
            _ => None,
        }
    }

    /// A newer version of the same cell.
    fn replaces(&self, earlier: &Change) -> bool {
        let cell = |change: &Change| match change {
            Change::Cell { file, at, .. } => Some((*file, *at)),
            _ => None,
        };
        cell(self).is_some() && cell(self) == cell(earlier)
    }
}

impl Image {
    /// The file of a name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&File> {
        self.files.get(self.names.get(name)?)
    }

    fn entry(&mut self, file: FileId, shape: Shape) -> &mut File {
        let empty = || File { shape, first: 0, length: 0, cells: Vec::new() };
        self.files.entry(file).or_insert_with(empty)
    }

    fn apply(&mut self, change: &Change, shape: Shape) {
        match change {
            Change::Link(name, file) => {
                self.entry(*file, shape);
                self.names.insert(name.clone(), *file);
            }
            Change::Unlink(name) => drop(self.names.remove(name)),
            Change::Rename(from, to, file) => {
                self.entry(*file, shape);
                if self.names.get(from) == Some(file) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *file);
            }
            Change::Cell { file, at, bytes, grows } => {
                let file = self.entry(*file, shape);
                file.length = file.length.max(grows.unwrap_or(0));
                file.put(*at, bytes);
            }
            Change::Cut(file, to) => self.entry(*file, shape).cut(*to),
            Change::Extend(file, to) => self.entry(*file, shape).extend(*to),
            Change::Drop(file, to) => self.entry(*file, shape).drop_to(*to),
        }
    }

    /// The length that a change gives a file, without the contents: zeros are in their place.
    fn grow(&mut self, pending: &Pending) {
        let Change::Cell { file, at, bytes, grows: Some(to) } = &pending.change else { return };
        let file = self.entry(*file, pending.shape);
        let before = file.length;
        file.length = file.length.max(*to);
        match file.shape {
            Shape::Bytes => file.fill(before),
            Shape::Record => {}
            Shape::Log if file.at(*at).is_none() => file.put(*at, &vec![0; bytes.len()]),
            Shape::Log => {}
        }
    }
}

impl File {
    /// The contents of a file of bytes, or of a record.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.cells.concat()
    }

    fn at(&self, cell: u64) -> Option<&Vec<u8>> {
        self.cells.get(cell.checked_sub(self.first)? as usize)
    }

    /// Writes a cell, as far as the file is long.
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let Some(place) = at.checked_sub(self.first) else { return };
        let room = match self.shape {
            Shape::Bytes => self.length.saturating_sub(at * SECTOR).min(SECTOR) as usize,
            Shape::Log | Shape::Record if at < self.length => usize::MAX,
            Shape::Log | Shape::Record => 0,
        };
        if room == 0 {
            return;
        }
        let place = place as usize;
        if self.cells.len() <= place {
            self.cells.resize(place + 1, Vec::new());
        }
        let cell = &mut self.cells[place];
        cell.clear();
        cell.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.shape == Shape::Bytes {
            self.fill(at * SECTOR);
        }
    }

    /// Zeros wherever a file of bytes has nothing, from the sector of an offset on.
    fn fill(&mut self, from: u64) {
        let sectors = self.length.div_ceil(SECTOR) as usize;
        self.cells.resize(sectors, Vec::new());
        for at in (from / SECTOR) as usize..sectors {
            let size = (self.length - at as u64 * SECTOR).min(SECTOR) as usize;
            self.cells[at].resize(size, 0);
        }
    }

    fn cut(&mut self, to: u64) {
        if to >= self.length {
            return;
        }
        self.length = to.max(self.first);
        match self.shape {
            Shape::Bytes => {
                self.cells.truncate(to.div_ceil(SECTOR) as usize);
                self.fill(to);
            }
            Shape::Record | Shape::Log => self.cells.truncate((self.length - self.first) as usize),
        }
    }

    fn extend(&mut self, to: u64) {
        let before = self.length;
        self.length = self.length.max(to);
        self.fill(before);
    }

    fn drop_to(&mut self, to: u64) {
        let dropped = to.saturating_sub(self.first).min(self.cells.len() as u64);
        self.cells.drain(..dropped as usize);
        self.first = self.first.max(to);
        self.length = self.length.max(self.first);
    }
}
