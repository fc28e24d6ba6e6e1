//! `atomicwrites`: a file is replaced as a whole, and the replacement is durable.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use atomicwrites::OverwriteBehavior::AllowOverwrite;

use super::{decode, encode};
use crate::{Entries, Failure, Store};

/// One file with all entries.
pub struct AtomicFile {
    path: PathBuf,
    entries: Entries,
}

impl Store for AtomicFile {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("entries");
        let entries = match fs::read(&path) {
            Ok(bytes) => decode(&bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Entries::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(AtomicFile { path, entries })
    }

    fn commit(&mut self, entries: &Entries) -> Result<(), Failure> {
        self.entries.extend(entries.clone());
        let bytes = encode(&self.entries);
        let file = atomicwrites::AtomicFile::new(&self.path, AllowOverwrite);
        Ok(file.write(|file| file.write_all(&bytes))?)
    }

    fn read(&self) -> Result<Entries, Failure> {
        Ok(self.entries.clone())
    }
}
