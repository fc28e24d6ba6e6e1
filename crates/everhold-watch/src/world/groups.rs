//! Groups of tuples: the maps of those that have the key as a part; see `rule::grouped`.
//!
//! They are cells of the snapshot like others, under names that no relation of a node has, and follow
//! the tuples that they are made of. A group is known only of nodes of which everything is known: a
//! tuple that was lost could belong to any group.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::Schema;
use everhold_trace::wire::{Name, Stamp, Tuple};
use everhold_trace::{NodeId, Value};

use super::{Cell, SCHEMA_SAMPLES, SlotId, World, hash_of};
use crate::checker::Place;
use crate::log::partition_of;
use crate::rule::Grouping;

/// The groupings that rules ask for, and what they changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// With their names, by relation.
    by_relation: BTreeMap<String, Vec<(Grouping, Name)>>,
    names: BTreeSet<String>,
    /// Which partition has them: of others only some tuples come here.
    place: Place,
    /// The keys of the groups that the last change changed.
    changed: Vec<SlotId>,
}

/// When something was said.
#[derive(Clone, Copy)]
pub(super) struct Said {
    pub(super) at: Stamp,
    pub(super) epoch: u32,
    pub(super) node: NodeId,
}

impl Groups {
    /// Whether tuples of a relation are grouped.
    pub(super) fn concern(&self, relation: &str) -> bool {
        !self.names.is_empty() && self.by_relation.contains_key(relation)
    }

    /// Whether it is the name of groups.
    pub(super) fn are_called(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains(name)
    }

    fn new(wanted: &BTreeSet<Grouping>, place: Place) -> Groups {
        let mut groups = Groups { place, ..Groups::default() };
        for grouping in wanted {
            let name = grouping.to_string();
            let of = groups.by_relation.entry(grouping.relation().to_owned()).or_default();
            of.push((grouping.clone(), Name::from(name.as_str())));
            groups.names.insert(name);
        }
        groups
    }
}

impl World {
    /// Keeps these groups, and no others, from now on.
    pub(crate) fn group_tuples(&mut self, wanted: &BTreeSet<Grouping>, place: Place) {
        let old = std::mem::replace(&mut self.groups, Groups::new(wanted, place));
        if old.names == self.groups.names {
            return;
        }
        for slot in &mut self.slots {
            slot.cells.retain(|cell| !old.names.contains(&*cell.relation));
        }
        let relations: Vec<String> = self.groups.by_relation.keys().cloned().collect();
        for slot in 0..self.slots.len() {
            let key = self.slots[slot].key.clone();
            let is_grouped = |cell: &&Cell| relations.iter().any(|name| **name == *cell.relation);
            let cells: Vec<Cell> =
                self.slots[slot].cells.iter().filter(is_grouped).cloned().collect();
            for Cell { node, relation, epoch, at, value } in cells {
                let tuple = Tuple { relation, key: key.clone(), value: Value::Null };
                self.regroup(Said { at, epoch, node }, &tuple, None, value.as_ref());
            }
        }
        self.groups.changed.clear();
    }

    /// The groupings of a checkpoint, whose groups are among its cells.
    pub(crate) fn has_groups(&mut self, wanted: &BTreeSet<Grouping>, place: Place) {
        self.groups = Groups::new(wanted, place);
    }

    /// Whether everything that is said of a key comes here.
    pub(crate) fn is_own(&self, key: &Value) -> bool {
        let Place { partition, of } = self.groups.place;
        of <= 1 || partition_of(hash_of(key), of) == partition
    }

    /// Takes the keys of the groups that the last change changed.
    pub(crate) fn take_regrouped(&mut self) -> Vec<SlotId> {
        std::mem::take(&mut self.groups.changed)
    }

    /// A tuple has another value: it may be in other groups now.
    pub(super) fn regroup(
        &mut self,
        said: Said,
        tuple: &Tuple,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let by_relation = std::mem::take(&mut self.groups.by_relation);
        for (grouping, name) in by_relation.get(&*tuple.relation).into_iter().flatten() {
            let of = |value: Option<&Value>| {
                grouping.group(&tuple.key, value?).filter(|group| self.is_own(group)).cloned()
            };
            let (old, new) = (of(before), of(after));
            if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
                self.leave(said, &old, name, &tuple.key);
            }
            if let (Some(new), Some(value)) = (new, after) {
                self.enter(said, &new, name, (&tuple.key, value));
            }
        }
        self.groups.by_relation = by_relation;
    }

    /// The tuples that a node left out, from this one on, are in no group any more.
    pub(super) fn ungroup(&mut self, node: NodeId, epoch: u32, from: usize) {
        if self.groups.names.is_empty() {
            return;
        }
        let left_out = std::mem::take(&mut self.left_out);
        for tuple in &left_out[from..] {
            let said = Said { at: Stamp(0), epoch, node };
            self.regroup(said, tuple, Some(&tuple.value), None);
        }
        self.left_out = left_out;
        // Everything is judged anew.
        self.groups.changed.clear();
    }

    fn enter(&mut self, said: Said, group: &Value, name: &Name, (key, value): (&Value, &Value)) {
        let slot = self.slot_for(group);
        self.hear(slot, name);
        let same = |cell: &Cell| cell.node == said.node && cell.relation == *name;
        let cells = &mut self.slots[slot].cells;
        let place = cells.iter().position(same).unwrap_or_else(|| {
            let Said { at, epoch, node } = said;
            cells.push(Cell { node, relation: Name::clone(name), epoch, at, value: None });
            cells.len() - 1
        });
        let cell = &mut cells[place];
        (cell.at, cell.epoch) = (said.at, said.epoch.max(cell.epoch));
        let map = cell.value.get_or_insert_with(|| Value::Map(BTreeMap::new()));
        if let Value::Map(tuples) = map {
            tuples.insert(key.clone(), value.clone());
        }
        self.groups.changed.push(slot);
    }

    fn leave(&mut self, said: Said, group: &Value, name: &Name, key: &Value) {
        let Some(slot) = self.slot_of(group) else { return };
        let same = |cell: &&mut Cell| cell.node == said.node && cell.relation == *name;
        let Some(cell) = self.slots[slot].cells.iter_mut().find(same) else { return };
        (cell.at, cell.epoch) = (said.at.max(cell.at), said.epoch.max(cell.epoch));
        if let Some(Value::Map(tuples)) = &mut cell.value {
            tuples.remove(key);
            if tuples.is_empty() {
                cell.value = None;
            }
        }
        self.groups.changed.push(slot);
    }

    /// The tuples of a relation under a key, each with the time since which it holds.
    pub(crate) fn tuples_at(&self, key: &Value, relation: &str) -> Vec<(Stamp, NodeId, Tuple)> {
        let cells = self.slot_of(key).map_or(&[][..], |slot| &self.slots[slot].cells);
        let of = cells.iter().filter(|cell| *cell.relation == *relation);
        let tuple = |cell: &Cell| {
            let (relation, value) = (Name::clone(&cell.relation), cell.value.clone()?);
            Some((cell.at, cell.node, Tuple { relation, key: key.clone(), value }))
        };
        of.filter_map(tuple).collect()
    }

    /// The keys of the tuples in a group, of all nodes.
    pub(crate) fn keys_in(&self, slot: SlotId, grouping: &Grouping) -> BTreeSet<Value> {
        let name = grouping.to_string();
        let cells = self.slots[slot].cells.iter().filter(|cell| *cell.relation == *name);
        let maps = cells.filter_map(|cell| match &cell.value {
            Some(Value::Map(tuples)) => Some(tuples.keys().cloned()),
            _ => None,
        });
        maps.flatten().collect()
    }

    /// The value that a node shows for a key.
    pub(crate) fn held(&self, node: NodeId, relation: &str, key: &Value) -> Option<&Value> {
        let cells = &self.slots[self.slot_of(key)?].cells;
        let same = |cell: &&Cell| cell.node == node && *cell.relation == *relation;
        cells.iter().find(same)?.value.as_ref()
    }

    /// Adds the types of a group to those of states under a key, as far as tuples were seen.
    pub(crate) fn show_group(&self, grouping: &Grouping, schema: &mut Schema) {
        let relation = grouping.relation();
        let seen = self.slots.iter().flat_map(|slot| {
            let cells = slot.cells.iter().filter(|cell| *cell.relation == *relation);
            cells.filter_map(|cell| Some((cell.node, &slot.key, cell.value.as_ref()?)))
        });
        for (node, key, value) in seen.take(SCHEMA_SAMPLES as usize) {
            let Ok(place) = self.place(node) else { continue };
            let group = Value::Map([(key.clone(), value.clone())].into());
            let state = Value::record([(grouping.to_string(), group)]);
            schema.observe(&self.members[place].kind, &state);
        }
    }

    /// Notes that something of this name was said of a key.
    pub(super) fn hear(&mut self, slot: SlotId, name: &Name) {
        let found = self.relations.iter().position(|known| known == name);
        let number = found.unwrap_or_else(|| {
            self.relations.push(Name::clone(name));
            self.relations.len() - 1
        });
        self.slots[slot].heard |= bit(number);
    }

    /// Whether any of these relations, or groups, was ever told of a key: of other keys, a rule that
    /// reads them says nothing.
    pub(crate) fn has_heard(&self, slot: SlotId, relations: &BTreeSet<String>) -> bool {
        let slot = &self.slots[slot];
        if slot.cells.iter().any(|cell| relations.contains(&*cell.relation)) {
            return true;
        }
        let mut numbered = self.relations.iter().enumerate();
        numbered.any(|(number, name)| slot.heard & bit(number) != 0 && relations.contains(&**name))
    }

    /// The relations that were told of a key.
    pub(super) fn heard_of(&self, slot: SlotId) -> impl Iterator<Item = &Name> {
        let heard = self.slots[slot].heard;
        let numbered = self.relations.iter().enumerate();
        numbered.filter(move |(number, _)| heard & bit(*number) != 0).map(|(_, name)| name)
    }

    /// Whether tuples of this relation were seen.
    pub(crate) fn is_relation(&self, name: &str) -> bool {
        self.relations.iter().any(|known| **known == *name)
    }
}

/// Many relations share the last one.
fn bit(number: usize) -> u64 {
    1 << number.min(63)
}
