//! The persistent data of a peer: the crate's view of them, and their form on disk.

use everhold::prelude::*;
use raft::prelude::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

/// The names of the files on disk.
const HARD: &str = "hard state";
const LOG: &str = "log";

/// An entry of the log as it is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// The term of the leader that created it.
    pub term: u64,
    /// The command, or `None` for the empty entry with which a leader begins its term.
    pub command: Option<u64>,
}

impl LogEntry {
    pub(super) fn of(entry: &Entry) -> LogEntry {
        LogEntry { term: entry.term, command: command_in(&entry.data) }
    }
}

/// The encoding of a command in the log.
pub(super) fn payload(command: u64) -> Vec<u8> {
    command.to_le_bytes().to_vec()
}

fn command_in(data: &[u8]) -> Option<u64> {
    data.try_into().ok().map(u64::from_le_bytes)
}

/// The crate's storage: log and hard state in memory, every change also written to the disk.
/// The log is never compacted, so there are no snapshots.
#[derive(Debug, Default)]
pub(super) struct Store {
    hard: HardState,
    conf: ConfState,
    entries: Vec<Entry>,
}

/// [`HardState`] on the disk.
#[derive(Serialize, Deserialize)]
struct Hard {
    term: u64,
    vote: u64,
    commit: u64,
}

impl Store {
    /// An empty storage; peers are numbered from 1, because 0 means none.
    pub(super) fn empty(peers: usize) -> Store {
        let mut conf = ConfState::default();
        conf.set_voters((1..=peers as u64).collect());
        Store { conf, ..Store::default() }
    }

    /// The data that the disk kept.
    pub(super) fn recover(peers: usize, disk: &Disk) -> Store {
        let mut store = Store::empty(peers);
        if let Some(hard) = disk.load::<Hard>(HARD).expect("hard states are written whole") {
            store.hard.term = hard.term;
            store.hard.vote = hard.vote;
            store.hard.commit = hard.commit;
        }
        store.entries = disk.log(LOG).iter().zip(1..).map(|(bytes, at)| entry(bytes, at)).collect();
        store.reconcile();
        store
    }

    /// Entries and hard state are two files: a crash before their sync may keep either without the
    /// other. No other peer has heard of unsynced data, so the commit index may be reduced to the
    /// length of the log, and a term that occurs only in the log has had no vote.
    fn reconcile(&mut self) {
        self.hard.commit = self.hard.commit.min(self.entries.len() as u64);
        let last = self.entries.last().map_or(0, |entry| entry.term);
        if last > self.hard.term {
            self.hard.term = last;
            self.hard.vote = 0;
        }
    }

    /// Writes new entries, which may replace old ones.
    pub(super) fn append(&mut self, disk: &mut Disk, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let kept = first.index as usize - 1;
        if kept < self.entries.len() {
            self.entries.truncate(kept);
            disk.truncate(LOG, kept);
        }
        for entry in entries {
            disk.append(LOG, &[&entry.term.to_le_bytes(), &entry.data[..]].concat());
        }
        self.entries.extend_from_slice(entries);
    }

    /// Writes term, vote and commit index.
    pub(super) fn set_hard(&mut self, disk: &mut Disk, hard: HardState) {
        disk.save(HARD, &Hard { term: hard.term, vote: hard.vote, commit: hard.commit });
        self.hard = hard;
    }

    /// Writes the commit index.
    pub(super) fn set_commit(&mut self, disk: &mut Disk, commit: u64) {
        let mut hard = self.hard.clone();
        hard.commit = commit;
        self.set_hard(disk, hard);
    }

    /// The log, oldest entry first.
    pub(super) fn log(&self) -> impl ExactSizeIterator<Item = LogEntry> + '_ {
        self.entries.iter().map(LogEntry::of)
    }
}

/// The effects of silent bugs, and the state through which they are detected.
#[cfg(feature = "live")]
impl Store {
    /// Appends entries of term 0, which any entry from a leader replaces.
    pub(super) fn grow(&mut self, count: u64) {
        let next = self.entries.len() as u64 + 1;
        let entry = |index| Entry { index, data: payload(u64::MAX).into(), ..Entry::default() };
        self.entries.extend((next..next + count).map(entry));
    }

    /// Changes the command of an entry.
    pub(super) fn damage(&mut self, index: u64) {
        if let Some(entry) = self.entries.get_mut(index as usize - 1) {
            entry.data = payload(u64::MAX).into();
        }
    }

    /// The last entries with their indices.
    pub(super) fn tail(&self, count: usize) -> impl Iterator<Item = (u64, LogEntry)> + '_ {
        let last = &self.entries[self.entries.len().saturating_sub(count)..];
        last.iter().map(|entry| (entry.index, LogEntry::of(entry)))
    }
}

fn entry(bytes: &[u8], index: u64) -> Entry {
    let (term, data) = bytes.split_first_chunk().expect("entries are written whole");
    Entry { term: u64::from_le_bytes(*term), index, data: data.to_vec().into(), ..Entry::default() }
}

impl Storage for Store {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState { hard_state: self.hard.clone(), conf_state: self.conf.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        _size_max: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        Ok(self.entries[low as usize - 1..high as usize - 1].to_vec())
    }

    fn term(&self, index: u64) -> Result<u64> {
        match index.checked_sub(1) {
            None => Ok(0),
            Some(at) => {
                let entry = self.entries.get(at as usize);
                entry.map(|entry| entry.term).ok_or(Error::Store(StorageError::Unavailable))
            }
        }
    }

    fn first_index(&self) -> Result<u64> {
        Ok(1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.entries.len() as u64)
    }

    fn snapshot(&self, _: u64, _: u64) -> Result<Snapshot> {
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
