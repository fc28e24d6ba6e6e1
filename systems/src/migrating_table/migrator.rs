//! The migrator: it announces the phases, copies the rows and removes the traces of the migration.

use std::rc::Rc;

use everhold::node::AsyncCx;
use everhold::prelude::*;

use super::backend::{Backend, Msg, Side};
use super::entity;
use super::table::{Filter, Key, Kind, Match, Op, Properties, Row, Status, Text};
use super::{Bug, Configuration, MigratingTable, Phase};

/// The state of the migrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Job {
    /// It announces phases and moves rows.
    Migrating,
    /// It removes tombstones, the old rows and its own data.
    CleaningUp,
    /// It is done.
    Done,
}

/// The migrator as properties see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Migrator {
    /// Its state.
    pub job: Job,
}

/// Migrates all rows.
pub(super) async fn migrate(cx: AsyncCx<Msg>, tables: NodeId, bug: Bug) {
    let job = |job| cx.observe(Migrator { job });
    job(Job::Migrating);
    let backend = Rc::new(Backend::new(cx.clone(), tables));
    let table = MigratingTable { backend, config: Configuration::new(), bug };
    table.announce(Phase::PreferOld, bug != Bug::MigrateSkipPreferOld).await;
    table.announce(Phase::PreferNew, bug != Bug::InsertBehindMigrator).await;
    table.copy().await;
    let has_tombstones = bug != Bug::MigrateSkipUseNewWithTombstones;
    table.announce(Phase::UseNewWithTombstones, has_tombstones).await;
    table.announce(Phase::UseNewHideMetadata, true).await;
    job(Job::CleaningUp);
    table.clean_up_new().await;
    table.clean_up_old().await;
    job(Job::Done);
}

impl MigratingTable {
    /// Announces a phase, unless the migrator leaves it out, and waits until it has begun everywhere.
    async fn announce(&self, phase: Phase, is_wanted: bool) {
        if is_wanted {
            self.backend.call(Msg::Push(phase)).await;
        }
    }

    async fn copy(&self) {
        let mut stream = self.backend.open(Side::Old, Filter::All).await;
        let mut switched: Option<Text> = None;
        while let Some(row) = self.backend.read(stream).await {
            if entity::is_internal(&row.key) {
                continue;
            }
            let partition = row.key.partition.clone();
            if switched.as_ref() != Some(&partition) {
                self.ensure_switched(&partition).await;
                switched = Some(partition.clone());
                if self.bug == Bug::InsertBehindMigrator {
                    // Rows may have been written until the partition was switched.
                    let rest = Filter::from_key(&Key::new(partition, ""));
                    stream = self.backend.open(Side::Old, rest).await;
                    continue;
                }
            }
            self.try_copy(&row).await;
        }
    }

    async fn clean_up_new(&self) {
        let stream = self.backend.open(Side::New, Filter::All).await;
        while let Some(row) = self.backend.read(stream).await {
            self.persist(Side::New, row, |row| {
                if entity::is_tombstone(row) {
                    return Op::new(Kind::Delete, row.key.clone(), Properties::new());
                }
                let properties = entity::exported(row.clone()).properties;
                Op::new(Kind::Replace, row.key.clone(), properties)
            })
            .await;
        }
    }

    async fn clean_up_old(&self) {
        let stream = self.backend.open(Side::Old, Filter::All).await;
        while let Some(row) = self.backend.read(stream).await {
            let delete = |row: &Row| Op::new(Kind::Delete, row.key.clone(), Properties::new());
            self.persist(Side::Old, row, delete).await;
        }
    }

    /// Executes an operation on a row in its present version, however often the version changes.
    async fn persist(&self, side: Side, mut row: Row, op: impl Fn(&Row) -> Op) {
        loop {
            let op = op(&row).when(Match::Exactly(row.etag));
            match self.backend.execute(side, vec![op]).await {
                Ok(written) => {
                    return match written[0].etag {
                        Some(etag) => self.backend.no_point_but_version(row.key, etag),
                        None => self.backend.no_point(),
                    };
                }
                Err(refusal) => {
                    self.backend.no_point();
                    if refusal.status == Status::NotFound {
                        return;
                    }
                }
            }
            match self.backend.retrieve(side, &row.key).await {
                Some(present) => row = present,
                None => return,
            }
        }
    }
}
