//! The encoding of the migrating table's own data in rows of the two tables.

use super::backend::Side;
use super::memory::MemoryTable;
use super::table::{Key, Kind, Match, Op, Properties, Row, Text, Value};

/// The flag of a row that stands for a deleted one.
const DELETED: &str = "_mtable_deleted";
/// The state of a partition, on the meta row.
const STATE: &str = "_mtable_partition_state";
/// The row that tells whether a partition was switched.
const META: &str = "_mtable_partition_meta";
/// The row that exists while a partition is populated and not switched.
const ASSERTION: &str = "_mtable_partition_populated_assertion";

/// The state of a partition as its meta row tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartitionState {
    Populated = 1,
    Switched = 2,
}

pub(super) fn meta(partition: &Text) -> Key {
    Key::new(partition.clone(), META)
}

pub(super) fn assertion(partition: &Text) -> Key {
    Key::new(partition.clone(), ASSERTION)
}

pub(super) fn is_internal(key: &Key) -> bool {
    key.row == META || key.row == ASSERTION
}

pub(super) fn is_tombstone(row: &Row) -> bool {
    row.is_set(DELETED)
}

/// Whether users see the row.
pub(super) fn is_visible(row: &Row) -> bool {
    !is_internal(&row.key) && !is_tombstone(row)
}

/// Whether the meta row says that the partition was switched.
pub(super) fn is_switched(meta: &Row) -> bool {
    meta.properties.get(STATE) == Some(&Value::Number(PartitionState::Switched as i64))
}

/// The row as users see it.
pub(super) fn exported(mut row: Row) -> Row {
    row.properties.remove(DELETED);
    row.properties.remove(STATE);
    row
}

/// The properties of a row as the new table stores them.
pub(super) fn stored(mut properties: Properties) -> Properties {
    properties.insert(DELETED.into(), Value::Flag(false));
    properties
}

/// The properties of a tombstone.
pub(super) fn tombstone() -> Properties {
    Properties::from([(DELETED.into(), Value::Flag(true))])
}

fn state(state: PartitionState) -> Properties {
    Properties::from([(STATE.into(), Value::Number(state as i64))])
}

/// Inserts a meta row.
pub(super) fn insert_meta(partition: &Text, value: PartitionState) -> Op {
    Op::new(Kind::Insert, meta(partition), state(value))
}

/// Marks a partition as populated, unless its state is known already.
pub(super) fn populate(partition: &Text) -> Vec<Op> {
    let assertion = Op::new(Kind::Insert, assertion(partition), Properties::new());
    vec![insert_meta(partition, PartitionState::Populated), assertion]
}

/// Fails if the partition is not populated, and changes nothing.
pub(super) fn assert_populated(partition: &Text) -> Op {
    Op::new(Kind::Merge, assertion(partition), Properties::new()).when(Match::Any)
}

/// Switches a populated partition.
pub(super) fn switch(partition: &Text) -> Vec<Op> {
    let meta = Op::new(Kind::Replace, meta(partition), state(PartitionState::Switched));
    let assertion = Op::new(Kind::Delete, assertion(partition), Properties::new());
    vec![meta.when(Match::Any), assertion.when(Match::Any)]
}

/// The side's table of a pair.
pub(super) fn of_side<'a>(
    side: Side,
    old: &'a mut MemoryTable,
    new: &'a mut MemoryTable,
) -> &'a mut MemoryTable {
    match side {
        Side::Old => old,
        Side::New => new,
    }
}
