//! The states of nodes under a key, looked up once for each distinct content.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use everhold_property::{Program, Row};
use everhold_trace::{NodeId, Value};
use rustc_hash::FxHasher;

use super::keyed::Keyed;
use super::view::state_under;
use crate::world::{SlotId, World};

/// At most this many rows are kept.
const ROWS_MAX: usize = 4096;

type Kept<K> = HashMap<K, Arc<Row>, BuildHasherDefault<FxHasher>>;

/// Makes the rows of a keyed rule, and keeps those that depend on relations alone.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    keyed: Keyed,
    program: Program,
    /// By the value, if the rule reads one relation.
    of_one: Kept<Value>,
    /// By the values in the order of the relations, if it reads several.
    of_several: Kept<Vec<Value>>,
    /// The number of times that the kept rows were dropped.
    cleared: u64,
}

impl Rows {
    pub(super) fn new(program: &Program, keyed: &Keyed) -> Rows {
        Rows {
            keyed: keyed.clone(),
            program: program.clone(),
            of_one: HashMap::default(),
            of_several: HashMap::default(),
            cleared: 0,
        }
    }

    /// Whether equal content has one row, until rows are let go.
    pub(super) fn are_kept(&self) -> bool {
        self.keyed.variables.is_empty()
    }

    /// The number of times that the kept rows were dropped.
    pub(super) fn cleared(&self) -> u64 {
        self.cleared
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Whether the rule looks into a relation under the key.
    pub(super) fn reads(&self, relation: &str) -> bool {
        self.keyed.relations.contains(relation)
    }

    /// The state of a node under a key for which it has no tuple; `None` if that is not known.
    pub(super) fn blank(&self, world: &World, node: NodeId) -> Option<Arc<Row>> {
        let state = state_under(&self.keyed, world, None, node)?;
        Some(Arc::new(self.program.row(&state)))
    }

    /// The state of a node under a key; `None` if part of it is not known.
    pub(super) fn row(&mut self, world: &World, slot: SlotId, node: NodeId) -> Option<Arc<Row>> {
        if !self.keyed.variables.is_empty() {
            let state = state_under(&self.keyed, world, Some(slot), node)?;
            return Some(Arc::new(self.program.row(&state)));
        }
        let mut relations = self.keyed.relations.iter();
        if let (Some(relation), None) = (relations.next(), relations.next()) {
            let value = self.keyed.shown(relation, world.cell(slot, node, relation).ok()?);
            if let Some(row) = self.of_one.get(value) {
                return Some(Arc::clone(row));
            }
            let state = Value::record([(relation.as_str(), value.clone())]);
            let row = Arc::new(self.program.row(&state));
            self.cleared += keep(&mut self.of_one, value.clone(), &row);
            return Some(row);
        }
        let relations = self.keyed.relations.iter();
        let values = relations.map(|relation| {
            let value = world.cell(slot, node, relation).ok()?;
            Some(self.keyed.shown(relation, value).clone())
        });
        let values = values.collect::<Option<Vec<Value>>>()?;
        if let Some(row) = self.of_several.get(&values) {
            return Some(Arc::clone(row));
        }
        let names = self.keyed.relations.iter().map(String::as_str);
        let state = Value::record(names.zip(values.iter().cloned()));
        let row = Arc::new(self.program.row(&state));
        self.cleared += keep(&mut self.of_several, values, &row);
        Some(row)
    }
}

/// Keeps a row; returns how often others were let go for that.
fn keep<K: std::hash::Hash + Eq>(kept: &mut Kept<K>, key: K, row: &Arc<Row>) -> u64 {
    let full = kept.len() >= ROWS_MAX;
    if full {
        kept.clear();
    }
    kept.insert(key, Arc::clone(row));
    full.into()
}
