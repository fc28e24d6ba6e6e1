//! The log and the vote of a node, as files, and the values of the store, in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Write as _};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogReader,
    RaftSnapshotBuilder, SnapshotMeta, StorageError, StorageIOError, StoredMembership, Vote,
};
use serde::{Deserialize, Serialize};

use super::Types;

const LOG: &str = "/log";
const VOTE: &str = "/vote";
const NEW_VOTE: &str = "/vote.new";

type Stored<T> = Result<T, StorageError<u64>>;

/// Whether a node's vote survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voting {
    /// It is on the disk before anybody hears of it. It has to be.
    Saved,
    /// It is only in memory.
    Forgotten,
}

/// The log and the vote.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    entries: BTreeMap<u64, Entry<Types>>,
    vote: Option<Vote<u64>>,
    voting: Voting,
    file: File,
}

/// A line of the log's file.
#[derive(Serialize, Deserialize)]
enum Record {
    Append(Entry<Types>),
    /// All entries from this index on are gone.
    Truncate(u64),
}

impl Inner {
    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        let mut text = String::new();
        for record in records {
            text += &serde_json::to_string(record)?;
            text.push('\n');
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Append(entry) => drop(self.entries.insert(entry.log_id.index, entry)),
            Record::Truncate(from) => drop(self.entries.split_off(&from)),
        }
    }

    fn save_vote(&mut self, vote: Vote<u64>) -> io::Result<()> {
        self.vote = Some(vote);
        if self.voting == Voting::Saved {
            let mut file = File::create(NEW_VOTE)?;
            file.write_all(&serde_json::to_vec(&vote)?)?;
            file.sync_all()?;
            fs::rename(NEW_VOTE, VOTE)?;
            File::open("/")?.sync_all()?;
        }
        Ok(())
    }
}

impl Log {
    pub(super) fn open(voting: Voting) -> io::Result<Log> {
        let text = fs::read_to_string(LOG).unwrap_or_default();
        // A crash may have left part of the last record, or what is no record at all.
        let records: Vec<(usize, Record)> = text
            .split_inclusive('\n')
            .map_while(|line| Some((line.len(), serde_json::from_str(line).ok()?)))
            .collect();
        let file = OpenOptions::new().create(true).append(true).open(LOG)?;
        file.set_len(records.iter().map(|(length, _)| *length as u64).sum())?;
        file.sync_all()?;
        File::open("/")?.sync_all()?;
        let vote = fs::read(VOTE).ok().map(|vote| serde_json::from_slice(&vote)).transpose()?;
        let mut inner = Inner { entries: BTreeMap::new(), vote, voting, file };
        records.into_iter().for_each(|(_, record)| inner.apply(record));
        Ok(Log(Arc::new(Mutex::new(inner))))
    }

    /// Does something with the disk; an error ends the node.
    #[expect(clippy::result_large_err, reason = "the traits of openraft have this error")]
    fn on_disk<T>(
        &self,
        verb: ErrorVerb,
        work: impl FnOnce(&mut Inner) -> io::Result<T>,
    ) -> Stored<T> {
        work(&mut self.0.lock().unwrap()).map_err(|error| StorageError::IO {
            source: StorageIOError::new(ErrorSubject::Logs, verb, &error),
        })
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R>(&mut self, range: R) -> Stored<Vec<Entry<Types>>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        Ok(self.0.lock().unwrap().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Stored<LogState<Types>> {
        let last = self.0.lock().unwrap().entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: None, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        self.on_disk(ErrorVerb::Write, |inner| inner.save_vote(*vote))
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        Ok(self.0.lock().unwrap().vote)
    }

    async fn append<I>(&mut self, entries: I, flushed: LogFlushed<Types>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records: Vec<Record> = entries.into_iter().map(Record::Append).collect();
        self.on_disk(ErrorVerb::Write, |inner| {
            inner.write(&records)?;
            records.into_iter().for_each(|record| inner.apply(record));
            Ok(())
        })?;
        flushed.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<u64>) -> Stored<()> {
        self.on_disk(ErrorVerb::Write, |inner| {
            inner.write(&[Record::Truncate(from.index)])?;
            inner.apply(Record::Truncate(from.index));
            Ok(())
        })
    }

    /// There are no snapshots, so nothing is ever purged.
    async fn purge(&mut self, _: LogId<u64>) -> Stored<()> {
        Ok(())
    }
}

/// The values. They are lost in a crash, and come back from the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine(Arc<Mutex<Values>>);

#[derive(Clone, Debug, Default)]
struct Values {
    last: Option<LogId<u64>>,
    members: StoredMembership<u64, BasicNode>,
    values: BTreeMap<String, String>,
}

impl Machine {
    pub(super) fn get(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().values.get(key).cloned()
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Types>> {
        let inner = self.0.lock().unwrap();
        let bytes = serde_json::to_vec(&inner.values).expect("texts are JSON");
        let meta = SnapshotMeta {
            last_log_id: inner.last,
            last_membership: inner.members.clone(),
            snapshot_id: inner.last.map(|last| last.to_string()).unwrap_or_default(),
        };
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(
        &mut self,
    ) -> Stored<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        let inner = self.0.lock().unwrap();
        Ok((inner.last, inner.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<()>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut inner = self.0.lock().unwrap();
        let apply = |entry: Entry<Types>| {
            inner.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(write) => drop(inner.values.insert(write.key, write.value)),
                EntryPayload::Membership(members) => {
                    inner.members = StoredMembership::new(Some(entry.log_id), members);
                }
            }
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        let values =
            serde_json::from_slice(snapshot.get_ref()).map_err(|error| StorageError::IO {
                source: StorageIOError::read_snapshot(Some(meta.signature()), &error),
            })?;
        let (last, members) = (meta.last_log_id, meta.last_membership.clone());
        *self.0.lock().unwrap() = Values { last, members, values };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Types>>> {
        Ok(None)
    }
}
