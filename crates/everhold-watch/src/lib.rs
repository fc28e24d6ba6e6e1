//! Outside a deployed system: snapshots, checks, logs and engines.

pub mod log;

pub use log::{Cursor, Entry, Log, LogError, SegmentLog, SegmentOptions, Sequence, partition_of};
