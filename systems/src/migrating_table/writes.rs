//! Batches of writes on the virtual table.

use super::backend::{Answer, Side};
use super::entity::{self, PartitionState};
use super::table::{Filter, Key, Kind, Match, Op, Outcome, Refusal, Row, Status, Text, Written};
use super::{Bug, MigratingTable, Phase};

impl MigratingTable {
    /// Executes a batch: all of it or nothing. Its operations are on different rows of one partition.
    pub async fn execute(&self, batch: Vec<Op>) -> Outcome {
        let operation = self.config.subscribe(None);
        let outcome = match operation.phase {
            Phase::UseOldHideMetadata => self.write_unaware(&batch).await,
            Phase::PreferOld => self.write_old(&batch).await,
            _ => None,
        };
        match outcome {
            Some(outcome) => outcome,
            None => self.write_new(operation.phase, &batch).await,
        }
    }

    async fn at_point(&self, outcome: Outcome) -> Outcome {
        self.backend.point(Answer::Written(outcome.clone())).await;
        outcome
    }

    async fn write_unaware(&self, batch: &[Op]) -> Option<Outcome> {
        let outcome = self.backend.execute(Side::Old, batch.to_vec()).await;
        Some(self.at_point(outcome).await)
    }

    /// Writes to the old table; `None` if the partition was switched.
    async fn write_old(&self, batch: &[Op]) -> Option<Outcome> {
        let partition = &batch[0].key.partition;
        // A conflict means that the state of the partition is known already.
        let _ = self.backend.execute(Side::Old, entity::populate(partition)).await;
        self.backend.no_point();
        let mut guarded = vec![entity::assert_populated(partition)];
        guarded.extend(batch.iter().cloned());
        let outcome = match self.backend.execute(Side::Old, guarded).await {
            Err(Refusal { index: 0, .. }) => {
                self.backend.no_point();
                return None;
            }
            Err(Refusal { status, index }) => Err(Refusal { status, index: index - 1 }),
            Ok(written) => Ok(written[1..].to_vec()),
        };
        Some(self.at_point(outcome).await)
    }

    async fn write_new(&self, phase: Phase, batch: &[Op]) -> Outcome {
        self.ensure_switched(&batch[0].key.partition).await;
        if phase <= Phase::PreferNew {
            self.ensure_migrated(batch).await;
        }
        loop {
            let rows = self.backend.query(Side::New, affected(batch)).await;
            let translated = match self.translate_all(phase, batch, &rows) {
                Ok(translated) => translated,
                Err(refusal) => return self.at_point(Err(refusal)).await,
            };
            self.backend.no_point();
            match self.backend.execute(Side::New, translated).await {
                // Somebody else changed a row in between.
                Err(_) => self.backend.no_point(),
                Ok(written) => return self.at_point(Ok(self.results(batch, &written))).await,
            }
        }
    }

    /// The results of a batch from those of its translation.
    fn results(&self, batch: &[Op], written: &[Written]) -> Vec<Written> {
        let shows = |op: &Op| op.kind != Kind::Delete || self.bug == Bug::TombstoneOutputEtag;
        let result = |(op, written): (&Op, &Written)| Written {
            status: if op.kind == Kind::Insert { Status::Created } else { Status::NoContent },
            etag: written.etag.filter(|_| shows(op)),
        };
        batch.iter().zip(written).map(result).collect()
    }

    /// Sees to it that nobody writes to this partition of the old table any more.
    pub(super) async fn ensure_switched(&self, partition: &Text) {
        let insert = || vec![entity::insert_meta(partition, PartitionState::Switched)];
        if self.bug == Bug::EnsurePartitionSwitchedFromPopulated {
            let _ = self.backend.execute(Side::Old, insert()).await;
            return self.backend.no_point();
        }
        loop {
            match self.backend.retrieve(Side::Old, &entity::meta(partition)).await {
                Some(meta) if entity::is_switched(&meta) => return,
                Some(_) => {
                    // If the assertion is gone, somebody else switched the partition.
                    let _ = self.backend.execute(Side::Old, entity::switch(partition)).await;
                    return self.backend.no_point();
                }
                None => {
                    let inserted = self.backend.execute(Side::Old, insert()).await;
                    self.backend.no_point();
                    if inserted.is_ok() {
                        return;
                    }
                }
            }
        }
    }

    async fn ensure_migrated(&self, batch: &[Op]) {
        let old = self.backend.query(Side::Old, affected(batch)).await;
        self.backend.no_point();
        let new = self.backend.query(Side::New, affected(batch)).await;
        self.backend.no_point();
        for op in batch {
            if new.iter().all(|row| row.key != op.key)
                && let Some(row) = old.iter().find(|row| row.key == op.key)
            {
                self.try_copy(row).await;
            }
        }
    }

    /// Copies a row of the old table, unless the new one has it.
    pub(super) async fn try_copy(&self, row: &Row) {
        let properties = entity::stored(row.properties.clone());
        let insert = Op::new(Kind::Insert, row.key.clone(), properties);
        match self.backend.execute(Side::New, vec![insert]).await {
            Err(_) => self.backend.no_point(),
            Ok(written) => {
                let etag = written[0].etag.expect("an inserted row has a version");
                self.backend.no_point_but_version(row.key.clone(), etag);
            }
        }
    }

    fn translate_all(&self, phase: Phase, batch: &[Op], rows: &[Row]) -> Result<Vec<Op>, Refusal> {
        let translate = |(index, op): (usize, &Op)| {
            let existing = rows.iter().find(|row| row.key == op.key);
            self.translate(phase, op, existing).map_err(|status| Refusal { status, index })
        };
        batch.iter().enumerate().map(translate).collect()
    }

    /// The operation on the new table that has the effect of `op` on the virtual one.
    fn translate(&self, phase: Phase, op: &Op, existing: Option<&Row>) -> Result<Op, Status> {
        let stored = || Op { properties: entity::stored(op.properties.clone()), ..op.clone() };
        match op.kind {
            Kind::Insert => match existing {
                None => Ok(stored()),
                Some(row) if entity::is_tombstone(row) => {
                    let replace = Op { kind: Kind::Replace, ..stored() };
                    Ok(replace.when(Match::Exactly(row.etag)))
                }
                Some(_) => Err(Status::Conflict),
            },
            Kind::InsertOrReplace | Kind::InsertOrMerge => Ok(stored()),
            Kind::Replace | Kind::Merge => {
                let row = precondition(op, existing)?;
                Ok(stored().when(Match::Exactly(row.etag)))
            }
            Kind::Delete => self.translate_delete(phase, op, existing),
        }
    }

    fn translate_delete(
        &self,
        phase: Phase,
        op: &Op,
        existing: Option<&Row>,
    ) -> Result<Op, Status> {
        let is_conditional = op.condition != Some(Match::AnyOrAbsent);
        // A row that somebody else turns into a tombstone meanwhile must not be deleted again.
        let condition = if is_conditional {
            Match::Exactly(precondition(op, existing)?.etag)
        } else {
            Match::AnyOrAbsent
        };
        let nameless = self.bug == Bug::DeletePrimaryKey;
        let key = if nameless { Key::default() } else { op.key.clone() };
        if phase <= Phase::UseNewWithTombstones {
            let kind = if is_conditional { Kind::Replace } else { Kind::InsertOrReplace };
            return Ok(Op::new(kind, key, entity::tombstone()).when(condition));
        }
        let delete = Op::new(Kind::Delete, key, op.properties.clone());
        let has_version = self.bug != Bug::DeleteNoLeaveTombstonesEtag;
        Ok(if has_version { delete.when(condition) } else { delete })
    }
}

/// The row that an operation with a condition changes.
fn precondition<'a>(op: &Op, existing: Option<&'a Row>) -> Result<&'a Row, Status> {
    let row = existing.filter(|row| !entity::is_tombstone(row)).ok_or(Status::NotFound)?;
    match op.condition {
        Some(Match::Exactly(etag)) if etag != row.etag => Err(Status::PreconditionFailed),
        _ => Ok(row),
    }
}

/// The rows that a batch is about.
fn affected(batch: &[Op]) -> Filter {
    let rows = batch.iter().map(|op| Filter::row(&op.key.row)).reduce(Filter::or);
    Filter::partition(&batch[0].key.partition).and(rows.expect("a batch has operations"))
}
