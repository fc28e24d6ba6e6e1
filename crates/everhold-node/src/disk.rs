//! A disk that keeps what was synced.

mod error;
mod watch;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::volume::{CrashModel, File, Image, Lost, Shape, Volume};

pub use error::DiskError;
pub use watch::{DiskFault, Struck, Upset};

use watch::Watch;

/// A node's durable storage: files under names, in one folder.
///
/// A file is a *record*, replaced as a whole ([`put`](Disk::put), [`save`](Disk::save)), a *log* of
/// entries ([`append`](Disk::append)), or plain *bytes* ([`write`](Disk::write)). Reads see every
/// write. A crash can fall before and after every operation that changes something, and keeps what
/// was synced: everything before the last [`sync`](Disk::sync), the contents of a file before
/// [`sync_file`](Disk::sync_file), names before [`sync_names`](Disk::sync_names). Of the rest it
/// keeps what the [`CrashModel`] allows, not only the first writes: of two records that were put one
/// after the other without a sync between, either may survive alone.
///
/// A record or an entry survives whole or not at all, as if it had a checksum, unless the runtime
/// tears it. Bytes survive by sectors of 512: that is the raw file, without any such help. A new
/// record whose name survives without its contents reads as if it were not there.
///
/// ```
/// use everhold_node::Disk;
/// let mut disk = Disk::default();
/// disk.put("vote", b"n2");
/// disk.sync();
/// disk.append("log", b"x=1");
/// disk.lose_unsynced(); // the worst case of a crash
/// assert_eq!(disk.get("vote"), Some(&b"n2"[..]));
/// assert!(disk.log("log").is_empty());
/// ```
///
/// The usual way to replace a file of bytes: written aside, synced, renamed, and the name synced.
///
/// ```
/// # use everhold_node::Disk;
/// # let mut disk = Disk::default();
/// disk.write("state.new", 0, b"all of it");
/// disk.sync_file("state.new");
/// disk.rename("state.new", "state");
/// disk.sync_names();
/// disk.lose_unsynced();
/// assert_eq!(disk.read("state").unwrap(), b"all of it");
/// ```
///
/// To implement a storage trait of another crate on a disk, lend it for the length of a call:
/// `store.append(cx.disk(), entries)`.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    volume: Volume,
    journal: Option<Journal>,
    used: DiskUse,
    /// The disk fault that is planned for the present event.
    watch: Option<Box<Watch>>,
}

/// The writes of a disk that somebody keeps elsewhere.
#[derive(Clone, Debug, Default)]
struct Journal {
    unsynced: Vec<Write>,
    /// Synced and not yet taken.
    synced: Vec<Write>,
}

/// How much a disk was used since the execution began; what a simulated disk charges for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes written.
    pub bytes: u64,
    /// Syncs of any sort that had something to do.
    pub syncs: u64,
}

/// One change of a disk, as a host keeps it in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Replaces a record.
    Put(String, Vec<u8>),
    /// Removes a file.
    Remove(String),
    /// Adds an entry at the end of a log.
    Append(String, Vec<u8>),
    /// Keeps the first entries of a log.
    Truncate(String, usize),
    /// Gives a file another name.
    Rename(String, String),
    /// Drops the first entries of a log.
    DropPrefix(String, u64),
    /// Writes bytes at an offset.
    WriteAt(String, u64, Vec<u8>),
    /// Sets the length of a file of bytes.
    SetLength(String, u64),
    /// A new log begins as if so many entries had been dropped.
    Begin(String, u64),
}

enum Sync<'a> {
    All,
    File(&'a str),
    Names,
}

impl Disk {
    /// A disk that comes up with these writes and hands out later ones as they are synced: a host
    /// keeps them in files. Every sync of such a disk is one of the whole disk.
    ///
    /// ```
    /// use everhold_node::{Disk, disk::Write};
    /// let mut disk = Disk::journaled([Write::Put("vote".into(), b"n2".to_vec())]);
    /// disk.append("log", b"x=1");
    /// assert_eq!(disk.take_synced(), []);
    /// disk.sync_file("log");
    /// assert_eq!(disk.take_synced(), [Write::Append("log".into(), b"x=1".to_vec())]);
    /// ```
    pub fn journaled(writes: impl IntoIterator<Item = Write>) -> Disk {
        let mut disk = Disk::default();
        writes.into_iter().for_each(|write| disk.apply(&write));
        disk.volume.sync();
        disk.journal = Some(Journal::default());
        disk
    }

    /// The writes that were synced since this was last asked; none for a disk that is not
    /// [journaled](Disk::journaled).
    pub fn take_synced(&mut self) -> Vec<Write> {
        self.journal.as_mut().map(|j| std::mem::take(&mut j.synced)).unwrap_or_default()
    }

    /// The writes that make an empty disk durably equal to this one.
    pub fn as_writes(&self) -> impl Iterator<Item = Write> + '_ {
        let durable = self.volume.durable();
        durable.names.iter().flat_map(|(name, id)| as_writes(name, &durable.files[id]))
    }

    /// Replaces a record, or makes it.
    ///
    /// A put changes the record's contents in place and whole. Without a sync it may be lost, and it
    /// may survive although earlier puts of other records are lost.
    ///
    /// # Panics
    ///
    /// If there is a log or a file of bytes with this name.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        self.or_die(Write::Put(name.to_owned(), bytes.to_owned()));
    }

    /// The same for a node that has an answer to a disk that fails.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails; then nothing was written.
    pub fn try_put(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.attempt(Write::Put(name.to_owned(), bytes.to_owned()))
    }

    /// A record as last written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let file = self.volume.now().file(name).filter(|file| file.shape == Shape::Record)?;
        file.cells.first().map(Vec::as_slice)
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) {
        self.or_die(Write::Remove(name.to_owned()));
    }

    /// Gives a file another name. A file that had that name is gone; after a crash the name leads
    /// to one of the two.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.or_die(Write::Rename(from.to_owned(), to.to_owned()));
    }

    /// The names of all files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volume.now().names.keys().map(String::as_str)
    }

    /// Adds an entry at the end of a log.
    ///
    /// # Panics
    ///
    /// If there is a record or a file of bytes with this name.
    pub fn append(&mut self, log: &str, entry: &[u8]) {
        self.or_die(Write::Append(log.to_owned(), entry.to_owned()));
    }

    /// The same for a node that has an answer to a disk that fails.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails; then nothing was written.
    pub fn try_append(&mut self, log: &str, entry: &[u8]) -> Result<(), DiskError> {
        self.attempt(Write::Append(log.to_owned(), entry.to_owned()))
    }

    /// The entries of a log, oldest first.
    #[must_use]
    pub fn log(&self, log: &str) -> &[Vec<u8>] {
        let file = self.volume.now().file(log).filter(|file| file.shape == Shape::Log);
        file.map_or(&[], |file| file.cells.as_slice())
    }

    /// The number of entries that were dropped from the beginning of a log.
    #[must_use]
    pub fn log_start(&self, log: &str) -> u64 {
        self.volume.now().file(log).map_or(0, |file| file.first)
    }

    /// Keeps the first `entries` entries that a log has.
    pub fn truncate(&mut self, log: &str, entries: usize) {
        self.or_die(Write::Truncate(log.to_owned(), entries));
    }

    /// Drops the first `entries` entries that a log has, as after a snapshot.
    ///
    /// ```
    /// # use everhold_node::Disk;
    /// # let mut disk = Disk::default();
    /// for entry in [b"a", b"b", b"c"] {
    ///     disk.append("log", entry);
    /// }
    /// disk.drop_prefix("log", 2);
    /// assert_eq!((disk.log_start("log"), disk.log("log")), (2, &[b"c".to_vec()][..]));
    /// ```
    pub fn drop_prefix(&mut self, log: &str, entries: u64) {
        self.or_die(Write::DropPrefix(log.to_owned(), entries));
    }

    /// Writes bytes into a file, from an offset on, or makes it. A crash keeps or loses each sector
    /// of 512 bytes for itself.
    ///
    /// # Panics
    ///
    /// If there is a record or a log with this name.
    pub fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) {
        self.or_die(Write::WriteAt(file.to_owned(), offset, bytes.to_owned()));
    }

    /// The same for a node that has an answer to a disk that fails.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails; then nothing was written.
    pub fn try_write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.attempt(Write::WriteAt(file.to_owned(), offset, bytes.to_owned()))
    }

    /// The contents of a file of bytes.
    #[must_use]
    pub fn read(&self, file: &str) -> Option<Vec<u8>> {
        let file = self.volume.now().file(file).filter(|file| file.shape == Shape::Bytes)?;
        Some(file.bytes())
    }

    /// Sets the length of a file of bytes; zeros fill what was not there.
    pub fn set_length(&mut self, file: &str, length: u64) {
        self.or_die(Write::SetLength(file.to_owned(), length));
    }

    /// Replaces a record by the JSON form of `value`. Keys of maps may be numbers.
    ///
    /// # Panics
    ///
    /// If `value` has no JSON form, as a map whose keys are neither text nor numbers.
    pub fn save<T: Serialize>(&mut self, name: &str, value: &T) {
        let bytes = serde_json::to_vec(value).expect("a record that is saved has a JSON form");
        self.put(name, &bytes);
    }

    /// Reads a record that was written with [`save`](Disk::save).
    ///
    /// # Errors
    ///
    /// If the record is not what was saved: it may have been torn by a crash.
    pub fn load<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, DiskError> {
        let Some(bytes) = self.get(name) else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| DiskError::Unreadable {
            record: name.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Makes every write so far survive a crash, names included.
    pub fn sync(&mut self) {
        self.synced_or_dead(Sync::All);
    }

    /// The same for a node that has an answer to a disk that fails.
    ///
    /// # Errors
    ///
    /// If the disk fails. Then nobody knows what was written; what was not is never written by a
    /// later sync, as on Linux, although that one succeeds.
    pub fn try_sync(&mut self) -> Result<(), DiskError> {
        self.attempt_sync(&Sync::All)
    }

    /// Makes the contents of one file survive a crash; its name only where a journal keeps it.
    pub fn sync_file(&mut self, name: &str) {
        self.synced_or_dead(Sync::File(name));
    }

    /// The same for a node that has an answer to a disk that fails.
    ///
    /// # Errors
    ///
    /// See [`try_sync`](Disk::try_sync).
    pub fn try_sync_file(&mut self, name: &str) -> Result<(), DiskError> {
        self.attempt_sync(&Sync::File(name))
    }

    /// Makes the names of all files survive a crash: which files there are, and what they are
    /// called. On a real system that is a sync of the folder.
    pub fn sync_names(&mut self) {
        self.synced_or_dead(Sync::Names);
    }

    /// The number of changes that a crash might lose.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.volume.pending()
    }

    /// A crash: what is left is chosen out of what the model allows; see [`Volume::crash`].
    pub fn crash(
        &mut self,
        model: CrashModel,
        may_tear: bool,
        choose: &mut dyn FnMut(&str, u32) -> u32,
    ) -> Lost {
        self.volume.crash(model, may_tear, choose)
    }

    /// The worst case of a crash: nothing is left that was not synced.
    pub fn lose_unsynced(&mut self) {
        self.crash(CrashModel::Any, false, &mut |_, _| 1);
    }

    /// Empties the disk, keeping nothing.
    pub fn clear(&mut self) {
        self.volume.clear();
        self.used = DiskUse::default();
        self.watch = None;
    }

    /// How much it was used so far.
    #[must_use]
    pub fn used(&self) -> DiskUse {
        self.used
    }

    /// Distinguishes this disk from another in fingerprints: the visible contents, those that would
    /// survive, and the changes between the two, in their serialised form.
    pub fn shown(&self) -> impl Serialize + '_ {
        self.volume.shown()
    }

    /// True if nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_empty = |image: &Image| image.names.is_empty();
        self.volume.pending() == 0 && is_empty(self.volume.now()) && is_empty(self.volume.durable())
    }

    /// Writes, or the node dies of it.
    fn or_die(&mut self, write: Write) {
        if self.attempt(write).is_err() {
            self.die();
        }
    }

    fn synced_or_dead(&mut self, sync: Sync<'_>) {
        if self.attempt_sync(&sync).is_err() {
            self.die();
        }
    }

    fn attempt(&mut self, write: Write) -> Result<(), DiskError> {
        let watched = self.watch.is_some();
        if watched {
            self.before(&|| write.operation(), write.grows())?;
        }
        self.used.bytes += write.bytes();
        self.apply(&write);
        if let Some(journal) = &mut self.journal {
            journal.unsynced.push(write);
        }
        if watched {
            self.after();
        }
        Ok(())
    }

    fn attempt_sync(&mut self, sync: &Sync<'_>) -> Result<(), DiskError> {
        let watched = self.watch.is_some();
        if watched && let Err(error) = self.before(&|| sync.operation(), false) {
            match sync {
                Sync::All => self.volume.fail_sync(None),
                Sync::File(name) => {
                    let file = self.volume.now().names.get(*name).copied();
                    file.into_iter().for_each(|file| self.volume.fail_sync(Some(file)));
                }
                Sync::Names => {}
            }
            return Err(error);
        }
        let before = self.volume.pending();
        match sync {
            Sync::File(name) if self.journal.is_none() => {
                if let Some(file) = self.volume.now().names.get(*name).copied() {
                    self.volume.sync_file(file);
                }
            }
            Sync::Names if self.journal.is_none() => self.volume.sync_names(),
            _ => self.volume.sync(),
        }
        self.used.syncs += u64::from(before > 0);
        if let Some(journal) = &mut self.journal {
            journal.synced.append(&mut journal.unsynced);
        }
        if watched {
            self.after();
        }
        Ok(())
    }

    fn apply(&mut self, write: &Write) {
        let volume = &mut self.volume;
        let known = |volume: &Volume, name: &str| volume.now().names.get(name).copied();
        match write {
            Write::Put(name, bytes) => {
                let file = made(volume, name, Shape::Record);
                volume.replace(file, bytes);
            }
            Write::Append(log, entry) => {
                let file = made(volume, log, Shape::Log);
                volume.append(file, entry);
            }
            Write::WriteAt(name, offset, bytes) => {
                let file = made(volume, name, Shape::Bytes);
                volume.write(file, *offset, bytes);
            }
            Write::SetLength(name, length) => {
                let file = made(volume, name, Shape::Bytes);
                volume.set_length(file, *length);
            }
            Write::Begin(log, first) => {
                let file = made(volume, log, Shape::Log);
                volume.begin(file, *first);
            }
            Write::Remove(name) => {
                volume.unlink(name);
            }
            Write::Rename(from, to) => {
                volume.rename(from, to);
            }
            Write::Truncate(log, entries) => {
                if let Some(file) = known(volume, log) {
                    let first = volume.now().files[&file].first;
                    volume.set_length(file, first.saturating_add(*entries as u64));
                }
            }
            Write::DropPrefix(log, entries) => {
                if let Some(file) = known(volume, log) {
                    volume.drop_first(file, *entries);
                }
            }
        }
    }
}

/// The file of this name, made if there is none.
fn made(volume: &mut Volume, name: &str, shape: Shape) -> crate::volume::FileId {
    let file = volume.create(name, shape);
    let found = volume.now().files[&file].shape;
    assert!(found == shape, "`{name}` is {}, not {}", word(found), word(shape));
    file
}

fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Record => "a record",
        Shape::Log => "a log",
        Shape::Bytes => "a file of bytes",
    }
}

fn as_writes(name: &str, file: &File) -> Vec<Write> {
    let name = || name.to_owned();
    match file.shape {
        Shape::Record => file.cells.iter().map(|cell| Write::Put(name(), cell.clone())).collect(),
        Shape::Bytes if file.length == 0 => vec![Write::SetLength(name(), 0)],
        Shape::Bytes => vec![Write::WriteAt(name(), 0, file.bytes())],
        Shape::Log => {
            let begin = std::iter::once(Write::Begin(name(), file.first));
            let entries = file.cells.iter().map(|cell| Write::Append(name(), cell.clone()));
            begin.chain(entries).collect()
        }
    }
}

impl Write {
    fn bytes(&self) -> u64 {
        let (name, content) = match self {
            Write::Put(name, bytes)
            | Write::Append(name, bytes)
            | Write::WriteAt(name, _, bytes) => (name, bytes.len()),
            Write::Rename(name, other) => (name, other.len()),
            Write::Remove(name)
            | Write::Truncate(name, _)
            | Write::DropPrefix(name, _)
            | Write::Begin(name, _)
            | Write::SetLength(name, _) => (name, 0),
        };
        (name.len() + content) as u64
    }

    /// Whether it can find a disk full.
    fn grows(&self) -> bool {
        matches!(
            self,
            Write::Put(..) | Write::Append(..) | Write::WriteAt(..) | Write::SetLength(..)
        )
    }

    /// Its name in schedules and pictures.
    fn operation(&self) -> String {
        match self {
            Write::Put(name, _) => format!("put {name}"),
            Write::Remove(name) => format!("remove {name}"),
            Write::Append(log, _) => format!("append {log}"),
            Write::Truncate(log, _) => format!("truncate {log}"),
            Write::Rename(from, to) => format!("rename {from} to {to}"),
            Write::DropPrefix(log, _) => format!("drop_prefix {log}"),
            Write::WriteAt(file, ..) => format!("write {file}"),
            Write::SetLength(file, _) => format!("set_length {file}"),
            Write::Begin(log, _) => format!("begin {log}"),
        }
    }
}

impl Sync<'_> {
    fn operation(&self) -> String {
        match self {
            Sync::All => "sync".to_owned(),
            Sync::File(name) => format!("sync_file {name}"),
            Sync::Names => "sync_names".to_owned(),
        }
    }
}
