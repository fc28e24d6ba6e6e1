//! Live table migration, the second case study of the P# paper (FAST 2016, section 4).
//!
//! An application goes on to use a key-value table while a migrator moves its rows from an *old*
//! table to a *new* one. Every process has a [`MigratingTable`], which implements each operation on
//! the *virtual* table by a sequence of calls to the two tables. Operations must look as if each of
//! them had happened at one moment of one table; a row that a stream returns may be as it was at any
//! moment since the stream began.
//!
//! In reading order: [`table`] is the interface of all tables, `entity` the encoding of the migrating
//! table's own data, `writes`, `queries` and `stream` are its operations, [`migrator`] moves the rows
//! in the [phases](Phase) that `config` announces. [`memory`] is a table in memory, [`tables`] the node
//! that has the old, the new and a reference table, and `harness` has the clients.
//!
//! The protocol and its bugs are those of the paper's Table 2, under its names; the code is written
//! anew. Deviations: rows have no timestamps, versions are numbers, and a process has no more than one
//! logical operation at a time.

mod backend;
mod config;
mod entity;
mod harness;
pub mod memory;
pub mod migrator;
mod queries;
mod stream;
pub mod table;
pub mod tables;
mod writes;

use std::rc::Rc;

use everhold::prelude::*;

pub use backend::{Answer, Call, Msg, Side};
pub use config::{Configuration, Phase};
pub use harness::{MATCHES, ONE_POINT, STREAMS, Scenario, scenario, system};
pub use stream::QueryStream;
pub use tables::{CALLS_MAX, END, WELL_FORMED};

/// The known bugs, by their names in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// An atomic query passes the user's filter to the new table, so that a row that does not meet it
    /// no longer hides an old one that does.
    QueryAtomicFilterShadowing,
    /// The same in streams.
    QueryStreamedFilterShadowing,
    /// A stream adapts to a phase while a row is being read.
    QueryStreamedLock,
    /// A stream that ceases to read the old table does not set back the one of the new table.
    QueryStreamedBackUpNewStream,
    /// A stream does not save the phase to which it adapted. Not in the paper, and without effect: in
    /// the sequence of the phases, a stream of the new table is merely opened again.
    QueryStreamedSaveNewConfig,
    /// In the last phase, deletions are not conditional.
    DeleteNoLeaveTombstonesEtag,
    /// Deletions on the new table have no key.
    DeletePrimaryKey,
    /// A partition whose state is known to be populated is not switched.
    EnsurePartitionSwitchedFromPopulated,
    /// A deletion that left a tombstone tells the tombstone's version.
    TombstoneOutputEtag,
    /// The migrator leaves out the phase `PreferOld`.
    MigrateSkipPreferOld,
    /// The migrator leaves out the phase `UseNewWithTombstones`.
    MigrateSkipUseNewWithTombstones,
    /// The migrator copies in the phase `PreferOld` and leaves out `PreferNew`, so that rows may be
    /// inserted behind it.
    InsertBehindMigrator,
}

impl Bug {
    /// The bugs of the paper's Table 2, in its order.
    pub const OF_THE_PAPER: [Bug; 11] = [
        Bug::QueryAtomicFilterShadowing,
        Bug::QueryStreamedLock,
        Bug::QueryStreamedBackUpNewStream,
        Bug::DeleteNoLeaveTombstonesEtag,
        Bug::DeletePrimaryKey,
        Bug::EnsurePartitionSwitchedFromPopulated,
        Bug::TombstoneOutputEtag,
        Bug::QueryStreamedFilterShadowing,
        Bug::MigrateSkipPreferOld,
        Bug::MigrateSkipUseNewWithTombstones,
        Bug::InsertBehindMigrator,
    ];
}

/// The virtual table as one process sees it.
#[derive(Debug)]
pub struct MigratingTable {
    backend: Rc<backend::Backend>,
    config: Rc<Configuration>,
    bug: Bug,
}
