//! The tuples that a partition needs to see, of those that others have.

use std::collections::BTreeSet;

use everhold_trace::Value;
use everhold_trace::wire::Tuple;

use super::{Part, Place};
use crate::assemble::{Change, Changing};
use crate::log::partition_of;
use crate::rule::{Grouping, RuleSet};
use crate::world::{World, hash_of};

/// The tuples that the second stage of a partition reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Interest {
    place: Place,
    /// Relations of which it reads all tuples that the sender has.
    all: BTreeSet<String>,
    /// Of these, it reads the tuples of the groups that are its own.
    groupings: BTreeSet<Grouping>,
}

impl Interest {
    /// The tuples that the partition of this number reads, from the point of view of the one at `own`;
    /// and whether it judges anything.
    pub(super) fn of(set: &RuleSet, number: u32, own: Place) -> (Interest, bool) {
        let place = Place { partition: number, ..own };
        let selected = Part::Gathered(place).select(set);
        let mut all = selected.whole_fields();
        if number == own.partition {
            all.extend(selected.beside_groups());
        }
        let judges = selected.names().next().is_some();
        (Interest { place, all, groupings: selected.groupings() }, judges)
    }

    /// The relations of which it reads other tuples than the one before it.
    pub(super) fn new_beside(&self, old: &Interest) -> Vec<String> {
        let grouped = self.groupings.iter().map(|grouping| grouping.relation().to_owned());
        let relations: BTreeSet<String> = self.all.iter().cloned().chain(grouped).collect();
        relations.into_iter().filter(|name| self.part(name) != old.part(name)).collect()
    }

    /// Whether it reads all of a relation; else which groups.
    fn part(&self, relation: &str) -> (bool, Vec<&Grouping>) {
        match self.all.contains(relation) {
            true => (true, Vec::new()),
            false => (false, self.groupings_of(relation).collect()),
        }
    }

    fn groupings_of(&self, relation: &str) -> impl Iterator<Item = &Grouping> {
        self.groupings.iter().filter(move |grouping| grouping.relation() == relation)
    }

    /// Whether it reads a tuple.
    pub(super) fn has(&self, tuple: &Tuple) -> bool {
        self.all.contains(&*tuple.relation) || self.has_group(tuple, &tuple.value)
    }

    /// Whether the tuple with this value is in a group of its own.
    fn has_group(&self, tuple: &Tuple, value: &Value) -> bool {
        let Place { partition, of } = self.place;
        let mut groups = self.groupings_of(&tuple.relation);
        groups.any(|grouping| {
            let group = grouping.group(&tuple.key, value);
            group.is_some_and(|group| partition_of(hash_of(group), of) == partition)
        })
    }

    /// A change of a tuple as it needs to know it: one that leaves its groups is gone.
    pub(super) fn of_change(&self, change: &Change, world: &World) -> Option<Change> {
        let (Changing::Add(tuple) | Changing::Remove(tuple)) = &change.what else { return None };
        if self.has(tuple) {
            return Some(change.clone());
        }
        if self.groupings.is_empty() || matches!(change.what, Changing::Remove(_)) {
            return None;
        }
        let before = world.held(change.node, &tuple.relation, &tuple.key)?;
        self.has_group(tuple, before).then(|| {
            let what = Changing::Remove(Tuple { value: before.clone(), ..tuple.clone() });
            Change { what, ..change.clone() }
        })
    }
}
