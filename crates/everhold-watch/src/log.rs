//! The seam under every engine: partitions of numbered entries, appended in batches, read again
//! from any number.
//!
//! - [`Log`] and [`Cursor`]: the seam.
//! - [`SegmentLog`]: files in a folder, the default.
//!
//! A checker's input is a range of one partition. Nothing else of an engine is visible to it, so
//! that re-reading the range repeats the check.

use std::fmt;
use std::io;
use std::time::Duration;

mod segment;

pub use segment::{Recovered, SegmentLog, SegmentOptions};

/// The number of an entry in its partition, from 1.
pub type Sequence = u64;

/// One appended piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub sequence: Sequence,
    /// The bytes that were appended.
    pub bytes: Vec<u8>,
}

/// A partitioned log.
pub trait Log: Send + Sync + fmt::Debug {
    /// Returns the number of partitions.
    fn partitions(&self) -> u32;

    /// Appends entries to one partition, in order; returns the number of the last.
    fn append(&self, partition: u32, entries: &[&[u8]]) -> Result<Sequence, LogError>;

    /// Reads from an entry on. If that was trimmed or lost, reading starts at the next one there is:
    /// the numbers show it.
    fn cursor(&self, partition: u32, from: Sequence) -> Result<Box<dyn Cursor>, LogError>;

    /// The number that the next appended entry will have, as far as is known.
    fn next_sequence(&self, partition: u32) -> Result<Sequence, LogError>;

    /// Says that entries before this one were read already, which a log that lost its end may not know:
    /// the next one gets this number or a larger one. Returns the number of entries that were lost.
    fn resume(&self, partition: u32, next: Sequence) -> Result<u64, LogError> {
        let _ = (partition, next);
        Ok(0)
    }

    /// Says that entries before this one are no longer needed.
    fn trim(&self, partition: u32, before: Sequence) -> Result<(), LogError>;
}

/// A place in a partition.
pub trait Cursor: Send + fmt::Debug {
    /// The next entries, about `bytes_max` of them; waits up to `wait` for the first.
    fn next(&mut self, bytes_max: usize, wait: Duration) -> Result<Vec<Entry>, LogError>;
}

/// Why a log does not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system says so, about this file.
    Io {
        /// The file or folder.
        place: String,
        /// The error.
        error: io::Error,
    },
    /// The folder or stream is not such a log, or one of another shape; the remedy is in the text.
    Unusable(String),
    /// The stream server does not answer; the text says how to get one.
    Server(String),
}

impl LogError {
    pub(crate) fn io(place: &std::path::Path, error: io::Error) -> LogError {
        LogError::Io { place: place.display().to_string(), error }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io { place, error } => write!(f, "{place}: {error}"),
            LogError::Unusable(text) | LogError::Server(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LogError::Io { error, .. } => Some(error),
            LogError::Unusable(_) | LogError::Server(_) => None,
        }
    }
}

/// The partition of a key, from its hash: the same on every machine and in every version.
#[must_use]
pub fn partition_of(hash: u64, partitions: u32) -> u32 {
    // The high half of the product spreads without the bias of a remainder.
    u32::try_from((u128::from(hash) * u128::from(partitions)) >> 64).unwrap_or(0)
}
