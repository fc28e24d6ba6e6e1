//! SQLite, the control: what each of its modes promises is written down, and is what it does.

use std::marker::PhantomData;
use std::path::Path;

use rusqlite::{Connection, params};

use crate::{Entries, Failure, Store};

/// A mode of the journal, and how often it is synced.
pub trait Journal {
    /// The statements that set it.
    const PRAGMAS: &str;
}

/// A database with one table.
pub struct Sqlite<J> {
    connection: Connection,
    journal: PhantomData<J>,
}

impl<J: Journal> Store for Sqlite<J> {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(folder.join("sqlite"))?;
        connection.execute_batch(J::PRAGMAS)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB)",
        )?;
        Ok(Sqlite { connection, journal: PhantomData })
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        let transaction = self.connection.transaction()?;
        for (key, value) in entries {
            transaction
                .execute("INSERT OR REPLACE INTO entries VALUES (?1, ?2)", params![key, value])?;
        }
        Ok(transaction.commit()?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        let mut statement = self.connection.prepare("SELECT key, value FROM entries")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
