//! Outside a deployed system: snapshots, checks, logs and engines.
//!
//! Nodes send what they show through the tuple protocol ([`everhold_trace::wire`]). It is written
//! to a [`Log`]; checkers read the log, put the records of all nodes into one order, and judge
//! rules on every snapshot. A checker is a function of a checkpoint and a range of the log: one that
//! dies is replaced, and nothing is lost or reported twice.
//!
//! In the order of reading:
//!
//! - [`log`]: partitions of numbered entries; the embedded engine.
//! - [`entry`]: what an entry says.
//! - [`assemble`]: from what the nodes sent to one sequence of changes; membership.
//! - `world`: the present snapshot.
//! - [`rule`]: rules of the property language, keyed and incremental.
//! - [`dataflow`]: checks written in Rust.
//! - [`checker`]: one partition's checker.
//! - [`notice`]: what a checker has to say.
//! - [`intake`]: takes in what probes send.
//! - [`store`]: checkpoints and leases.
//! - [`engine`]: checkers at work.
//! - [`evidence`], [`export`]: for people and other programs.

pub mod assemble;
mod certainty;
pub mod checker;
pub mod dataflow;
pub mod engine;
pub mod entry;
pub mod evidence;
pub mod export;
mod history;
pub mod intake;
pub mod log;
#[cfg(feature = "nats")]
pub mod nats;
pub mod notice;
mod recent;
pub mod rule;
mod save;
pub mod store;
mod world;

/// Encrypted connections, from files; see `docs/security.md`.
pub use everhold_tls as tls;

pub use assemble::{ClockReading, Timing};
pub use certainty::Alarm;
pub use checker::{CheckOptions, PartitionChecker, Place};
pub use dataflow::{Collection, Delta, Flow, FlowFinding, Graph, Input, Spread, Stage};
pub use engine::{MemberStatus, PartitionStatus, Watch, WatchOptions, WatchParts};
pub use entry::{EntryWriter, Origin};
pub use evidence::Evidence;
pub use intake::{Intake, IntakeOptions};
pub use log::{Cursor, Entry, Log, LogError, SegmentLog, SegmentOptions, Sequence, partition_of};
pub use notice::{Certainty, Notice, Violation, ViolationId};
pub use rule::{BadRules, NotWatched, RuleCounts, RuleSet, RuleStatus};
pub use save::BadCheckpoint;
pub use store::{Balance, FileStore, Lease, Store};
pub use world::hash_of;
