//! Where checkpoints and leases are kept.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::log::LogError;

/// The right to check a partition, and to save its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which partition.
    pub partition: u32,
    /// Grows with every change of hands and every renewal; an old one is refused.
    pub fence: u64,
}

/// Keeps the checkpoints of partitions, and says who may check which.
pub trait Store: Send + fmt::Debug {
    /// The partitions that are ours from now on: new ones, with their checkpoints. Called now and
    /// then; renews what is held.
    fn balance(&mut self) -> Result<Balance, LogError>;

    /// Saves a checkpoint; returns the renewed lease, or `None` if the partition has been lost.
    fn save(&mut self, lease: Lease, checkpoint: &[u8]) -> Result<Option<Lease>, LogError>;

    /// Returns whether other processes find violations of the same system, so that reported violations
    /// must be shared.
    fn is_shared(&self) -> bool {
        false
    }

    /// Keeps a report under its identity, unless some process has kept it already; whether it was
    /// the first.
    fn report(&mut self, identity: &str, report: &str) -> Result<bool, LogError> {
        let _ = (identity, report);
        Ok(true)
    }

    /// Gives everything back.
    fn release(&mut self) -> Result<(), LogError>;
}

/// The partitions that a process has gained and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Partitions that are ours as of now, with the last checkpoint of each.
    pub gained: Vec<(Lease, Option<Vec<u8>>)>,
    /// Partitions that are no longer ours.
    pub lost: Vec<u32>,
    /// Leases that were renewed.
    pub renewed: Vec<Lease>,
}

/// Checkpoints as files, for a checker that has all partitions to itself.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    partitions: u32,
    started: bool,
}

impl FileStore {
    /// Checkpoints in this folder.
    pub fn open(folder: &Path, partitions: u32) -> Result<FileStore, LogError> {
        fs::create_dir_all(folder).map_err(|error| LogError::io(folder, error))?;
        Ok(FileStore { folder: folder.to_owned(), partitions, started: false })
    }

    fn path(&self, partition: u32) -> PathBuf {
        self.folder.join(format!("p{partition}.checkpoint"))
    }
}

impl Store for FileStore {
    fn balance(&mut self) -> Result<Balance, LogError> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(Balance::default());
        }
        let own = |partition| {
            let path = self.path(partition);
            let checkpoint = match fs::read(&path) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(LogError::io(&path, error)),
            };
            Ok((Lease { partition, fence: 0 }, checkpoint))
        };
        let gained = (0..self.partitions).map(own).collect::<Result<Vec<_>, LogError>>()?;
        Ok(Balance { gained, ..Balance::default() })
    }

    fn save(&mut self, lease: Lease, checkpoint: &[u8]) -> Result<Option<Lease>, LogError> {
        let path = self.path(lease.partition);
        write_whole(&path, checkpoint).map_err(|error| LogError::io(&path, error))?;
        Ok(Some(lease))
    }

    fn release(&mut self) -> Result<(), LogError> {
        Ok(())
    }
}

/// Writes a file so that a kill leaves the old one or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
