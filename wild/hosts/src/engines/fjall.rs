//! `fjall`: batches are atomic, and `PersistMode::SyncAll` makes them durable.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::{Entries, Failure, Store};

/// A database with one keyspace.
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Store for Fjall {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let database = Database::builder(folder.join("fjall")).worker_threads(1).open()?;
        let keyspace = database.keyspace("entries", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, keyspace })
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        let mut batch = self.database.batch();
        for (key, value) in entries {
            batch.insert(&self.keyspace, key.as_str(), value.as_slice());
        }
        batch.commit()?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        let mut entries = Entries::new();
        for entry in self.keyspace.iter() {
            let (key, value) = entry.into_inner()?;
            entries.insert(String::from_utf8(key.to_vec())?, value.to_vec());
        }
        Ok(entries)
    }
}
