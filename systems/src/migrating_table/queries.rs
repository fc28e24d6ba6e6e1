//! Atomic queries of the virtual table.

use std::collections::BTreeMap;

use super::backend::{Answer, Side};
use super::entity;
use super::table::{Filter, Key, Row};
use super::{Bug, MigratingTable, Phase};

impl MigratingTable {
    /// The rows of one partition that meet a condition, at one moment.
    ///
    /// # Panics
    ///
    /// If the filter is not bound to a partition by its form.
    pub async fn query_atomic(&self, filter: &Filter) -> Vec<Row> {
        let operation = self.config.subscribe(None);
        let rows = match operation.phase {
            Phase::UseOldHideMetadata => self.backend.query(Side::Old, filter.clone()).await,
            Phase::PreferOld | Phase::PreferNew => self.query_both(filter).await,
            _ => self.backend.query(Side::New, filter.clone()).await,
        };
        let seen = rows.into_iter().filter(|row| entity::is_visible(row) && filter.matches(row));
        let seen: Vec<Row> = seen.map(entity::exported).collect();
        self.backend.point(Answer::Rows(seen.clone())).await;
        seen
    }

    /// The rows of the old table and, if the partition was switched, those of the new one, which take
    /// precedence. The last call is not annotated yet.
    async fn query_both(&self, filter: &Filter) -> Vec<Row> {
        let (partition, rest) = filter.bound_partition().expect("an atomic query of one partition");
        let meta = entity::meta(partition);
        let with_meta = match rest {
            Filter::All => filter.clone(),
            rest => Filter::partition(partition).and(Filter::row(&meta.row).or(rest.clone())),
        };
        let old = self.backend.query(Side::Old, with_meta.clone()).await;
        if !old.iter().any(|row| row.key == meta && entity::is_switched(row)) {
            return old;
        }
        self.backend.no_point();
        // A row of the new table that does not meet the condition hides one of the old that does.
        let whole = match self.bug {
            Bug::QueryAtomicFilterShadowing => with_meta,
            _ => Filter::partition(partition),
        };
        let new = self.backend.query(Side::New, whole).await;
        let merged = old.into_iter().chain(new).map(|row| (row.key.clone(), row));
        merged.collect::<BTreeMap<Key, Row>>().into_values().collect()
    }
}
