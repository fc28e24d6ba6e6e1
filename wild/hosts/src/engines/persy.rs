//! `persy`: "transactional", with a journal that is recovered after a crash (its README).

use std::path::Path;

use persy::OpenOptions;

use super::{decode, encode};
use crate::{Entries, Failure, Store};

const SEGMENT: &str = "entries";

/// A file with one segment; each entry is a record.
pub struct Persy(persy::Persy);

impl Store for Persy {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let persy = OpenOptions::new().create(true).open(folder.join("persy"))?;
        if !persy.exists_segment(SEGMENT)? {
            let mut transaction = persy.begin()?;
            transaction.create_segment(SEGMENT)?;
            transaction.prepare()?.commit()?;
        }
        Ok(Persy(persy))
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        let mut transaction = self.0.begin()?;
        for (key, value) in entries {
            let record = Entries::from([(key.clone(), value.clone())]);
            transaction.insert(SEGMENT, &encode(&record))?;
        }
        Ok(transaction.prepare()?.commit()?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        let mut entries = Entries::new();
        for (_, record) in self.0.scan(SEGMENT)? {
            entries.extend(decode(&record)?);
        }
        Ok(entries)
    }
}
