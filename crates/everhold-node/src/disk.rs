//! A disk that keeps what was synced.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A node's durable storage: named records and append-only logs.
///
/// Reads see every write. A crash keeps what was written before the last [`sync`](Disk::sync);
/// of later writes it keeps a prefix, of which the last may be torn, as the runtime decides.
///
/// ```
/// use everhold_node::Disk;
/// let mut disk = Disk::default();
/// disk.put("vote", b"n2");
/// disk.sync();
/// disk.append("log", b"x=1");
/// disk.crash(0, false); // the worst case: nothing unsynced survives
/// assert_eq!(disk.get("vote"), Some(&b"n2"[..]));
/// assert!(disk.log("log").is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Disk {
    visible: Files,
    durable: Files,
    unsynced: Vec<Write>,
    /// What was synced and not yet taken, if somebody keeps it elsewhere.
    journal: Option<Vec<Write>>,
    used: DiskUse,
}

/// How much a disk was used since the execution began; what a simulated disk charges for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes written.
    pub bytes: u64,
    /// Calls of [`Disk::sync`] that had something to do.
    pub syncs: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Files {
    records: BTreeMap<String, Vec<u8>>,
    logs: BTreeMap<String, Vec<Vec<u8>>>,
}

/// One change of a disk, as a host keeps it in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Replaces a record.
    Put(String, Vec<u8>),
    /// Removes a record.
    Remove(String),
    /// Adds an entry at the end of a log.
    Append(String, Vec<u8>),
    /// Keeps the first entries of a log.
    Truncate(String, usize),
}

impl Disk {
    /// A disk that comes up with these writes and hands out later ones as they are synced: a host
    /// keeps them in files.
    ///
    /// ```
    /// use everhold_node::{Disk, disk::Write};
    /// let mut disk = Disk::journaled([Write::Put("vote".into(), b"n2".to_vec())]);
    /// disk.append("log", b"x=1");
    /// assert_eq!(disk.take_synced(), []);
    /// disk.sync();
    /// assert_eq!(disk.take_synced(), [Write::Append("log".into(), b"x=1".to_vec())]);
    /// ```
    pub fn journaled(writes: impl IntoIterator<Item = Write>) -> Disk {
        let mut disk = Disk::default();
        writes.into_iter().for_each(|write| disk.durable.apply(write));
        disk.visible = disk.durable.clone();
        disk.journal = Some(Vec::new());
        disk
    }

    /// What was synced since this was last asked; nothing for a disk that is not
    /// [journaled](Disk::journaled).
    pub fn take_synced(&mut self) -> Vec<Write> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The writes that make an empty disk durably equal to this one.
    pub fn as_writes(&self) -> impl Iterator<Item = Write> + '_ {
        let puts = self.durable.records.iter();
        let puts = puts.map(|(name, bytes)| Write::Put(name.clone(), bytes.clone()));
        let logs = self.durable.logs.iter();
        puts.chain(logs.flat_map(|(log, entries)| {
            entries.iter().map(|entry| Write::Append(log.clone(), entry.clone()))
        }))
    }

    /// Replaces a record.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        self.write(Write::Put(name.to_owned(), bytes.to_owned()));
    }

    /// A record as last written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.visible.records.get(name).map(Vec::as_slice)
    }

    /// Removes a record.
    pub fn remove(&mut self, name: &str) {
        self.write(Write::Remove(name.to_owned()));
    }

    /// Adds an entry at the end of a log.
    pub fn append(&mut self, log: &str, entry: &[u8]) {
        self.write(Write::Append(log.to_owned(), entry.to_owned()));
    }

    /// The entries of a log, oldest first.
    #[must_use]
    pub fn log(&self, log: &str) -> &[Vec<u8>] {
        self.visible.logs.get(log).map_or(&[], Vec::as_slice)
    }

    /// Keeps the first `entries` entries of a log.
    pub fn truncate(&mut self, log: &str, entries: usize) {
        self.write(Write::Truncate(log.to_owned(), entries));
    }

    /// Replaces a record by the JSON form of `value`.
    ///
    /// # Panics
    ///
    /// If `value` has no JSON form, as a map with keys that are not text.
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
        serde_json::from_slice(bytes)
            .map(Some)
            .map_err(|error| DiskError { record: name.to_owned(), reason: error.to_string() })
    }

    /// Makes every write so far survive a crash.
    pub fn sync(&mut self) {
        self.used.syncs += u64::from(!self.unsynced.is_empty());
        for write in self.unsynced.drain(..) {
            if let Some(journal) = &mut self.journal {
                journal.push(write.clone());
            }
            self.durable.apply(write);
        }
    }

    /// How many writes a crash might lose.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// What a crash leaves: the first `survivors` unsynced writes, then, if `torn`, the first
    /// half of the next one.
    pub fn crash(&mut self, survivors: usize, torn: bool) {
        let mut writes = self.unsynced.drain(..);
        for write in writes.by_ref().take(survivors) {
            self.durable.apply(write);
        }
        if torn && let Some(write) = writes.next() {
            self.durable.apply(write.torn());
        }
        drop(writes);
        self.visible = self.durable.clone();
    }

    /// Empties the disk, keeping nothing.
    pub fn clear(&mut self) {
        self.visible.clear();
        self.durable.clear();
        self.unsynced.clear();
        self.used = DiskUse::default();
    }

    /// How much it was used so far.
    #[must_use]
    pub fn used(&self) -> DiskUse {
        self.used
    }

    /// What distinguishes this disk from another, for fingerprints: what is visible, what would
    /// survive, in their serialised form.
    pub fn shown(&self) -> impl Serialize + '_ {
        (&self.visible, &self.durable, self.unsynced.len())
    }

    /// True if nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unsynced.is_empty() && self.durable.is_empty() && self.visible.is_empty()
    }

    fn write(&mut self, write: Write) {
        self.used.bytes += write.bytes();
        self.visible.apply(write.clone());
        self.unsynced.push(write);
    }
}

impl Files {
    fn apply(&mut self, write: Write) {
        match write {
            Write::Put(name, bytes) => drop(self.records.insert(name, bytes)),
            Write::Remove(name) => drop(self.records.remove(&name)),
            Write::Append(log, entry) => self.logs.entry(log).or_default().push(entry),
            Write::Truncate(log, entries) => {
                if let Some(log) = self.logs.get_mut(&log) {
                    log.truncate(entries);
                }
            }
        }
    }

    fn clear(&mut self) {
        self.records.clear();
        self.logs.clear();
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.logs.is_empty()
    }
}

impl Write {
    fn bytes(&self) -> u64 {
        let (name, content) = match self {
            Write::Put(name, bytes) | Write::Append(name, bytes) => (name, bytes.len()),
            Write::Remove(name) | Write::Truncate(name, _) => (name, 0),
        };
        (name.len() + content) as u64
    }

    /// Half of the bytes reached the disk. Removing and truncating are single operations of a
    /// file system's journal, so they happen whole.
    fn torn(self) -> Write {
        let half = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() / 2);
            bytes
        };
        match self {
            Write::Put(name, bytes) => Write::Put(name, half(bytes)),
            Write::Append(log, entry) => Write::Append(log, half(entry)),
            whole @ (Write::Remove(_) | Write::Truncate(..)) => whole,
        }
    }
}

/// A record that cannot be read as what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// The record's name.
    pub record: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "record `{}` is not what was saved ({}); a crash before `sync` may have torn it",
            self.record, self.reason
        )
    }
}

impl std::error::Error for DiskError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three unsynced appends after a synced one; what each crash leaves.
    #[track_caller]
    fn check(survivors: usize, torn: bool, expected: &[&str]) {
        let mut disk = Disk::default();
        disk.append("log", b"kept");
        disk.sync();
        for entry in ["aaaa", "bbbb", "cccc"] {
            disk.append("log", entry.as_bytes());
        }
        disk.crash(survivors, torn);
        let left: Vec<_> =
            disk.log("log").iter().map(|entry| String::from_utf8_lossy(entry)).collect();
        assert_eq!(left, expected);
        assert_eq!(disk.unsynced(), 0);
    }

    #[test]
    fn a_crash_keeps_a_prefix() {
        check(0, false, &["kept"]);
        check(2, false, &["kept", "aaaa", "bbbb"]);
        check(1, true, &["kept", "aaaa", "bb"]);
        check(9, true, &["kept", "aaaa", "bbbb", "cccc"]);
    }

    #[test]
    fn a_torn_record_is_an_error_not_a_value() {
        let mut disk = Disk::default();
        disk.save("vote", &"candidate");
        disk.crash(0, true);
        let error = disk.load::<String>("vote").unwrap_err();
        assert!(error.to_string().contains("record `vote`"), "{error}");
    }
}
