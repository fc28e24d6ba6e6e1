//! `redb`: "fully ACID-compliant transactions", "crash-safe by default" (its README).

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{Entries, Failure, Store};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");

/// A database with one table and the default durability of transactions.
pub struct Redb(Database);

impl Store for Redb {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let database = Database::create(folder.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Redb(database))
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        let transaction = self.0.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in entries {
            table.insert(key.as_str(), value.as_slice())?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut entries = Entries::new();
        for entry in table.iter()? {
            let (key, value) = entry?;
            entries.insert(key.value().to_owned(), value.value().to_vec());
        }
        Ok(entries)
    }
}
