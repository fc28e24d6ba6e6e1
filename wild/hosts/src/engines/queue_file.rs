//! `queue-file`: "a process crash after data has been written but before the header is committed
//! leaves the queue in its previous consistent state" (its documentation); writes are synced by
//! default.

use std::path::Path;

use queue_file::QueueFile;

use super::{decode, encode};
use crate::{Entries, Failure, Store};

/// A queue; each transaction is one element.
pub struct Queue(QueueFile);

impl Store for Queue {
    fn open(folder: &Path) -> Result<Self, Failure> {
        Ok(Queue(QueueFile::open(folder.join("queue"))?))
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        Ok(self.0.add(&encode(entries))?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        let mut entries = Entries::new();
        for element in self.0.iter() {
            entries.extend(decode(&element)?);
        }
        Ok(entries)
    }
}
