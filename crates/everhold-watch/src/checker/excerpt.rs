//! The part of what happened that belongs to a violation, as a trace.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::Modality;
use everhold_trace::{Execution, Value};

use super::PartitionChecker;
use crate::assemble::Changing;
use crate::history::{Focus, KeyFocus};
use crate::notice::Violation;
use crate::rule::{Grouping, Watched};
use crate::world::SlotId;

impl PartitionChecker {
    pub(super) fn trace(
        &self,
        violation: &Violation,
        place: usize,
        slot: Option<SlotId>,
    ) -> Execution {
        let rule = &self.rules[place];
        let by_key = self.relations_by_key();
        let key = match (slot, &violation.key) {
            (Some(slot), Some(key)) => Some(self.focus(rule, slot, key, &by_key)),
            _ => None,
        };
        let is_late = rule.property.modality != Modality::Always;
        let mapped = self.world.mapped();
        self.history.trace(violation, &Focus { key, mapped, by_key: &by_key, is_late })
    }

    fn focus<'k>(
        &self,
        rule: &Watched,
        slot: SlotId,
        key: &'k Value,
        by_key: &BTreeSet<String>,
    ) -> KeyFocus<'k> {
        let grouped = self.tuples_of_group(slot, key);
        let mut cells = Vec::new();
        for relation in by_key {
            let more = grouped.get(relation).into_iter().flatten().filter(|other| *other != key);
            for key in more.chain([key]) {
                cells.extend(self.world.tuples_at(key, relation));
            }
        }
        let groups =
            |name: &String| rule.keyed().is_some_and(|keyed| keyed.relations.contains(name));
        let reads_variables = rule.reads.iter().any(|name| !by_key.contains(name) && !groups(name));
        KeyFocus { key, grouped, cells, reads_variables }
    }

    /// The keys of the tuples that are, or were lately, in the groups of a key; by relation. They are
    /// those of all rules, so that each of them can be judged on the trace.
    fn tuples_of_group(&self, slot: SlotId, key: &Value) -> BTreeMap<String, BTreeSet<Value>> {
        let mut found: BTreeMap<String, BTreeSet<Value>> = BTreeMap::new();
        let keyed = self.rules.iter().filter_map(Watched::keyed);
        let groupings: BTreeSet<&Grouping> = keyed.flat_map(|keyed| &keyed.groupings).collect();
        for grouping in groupings {
            let keys = found.entry(grouping.relation().to_owned()).or_default();
            keys.extend(self.world.keys_in(slot, grouping));
            for change in self.history.changes() {
                let (Changing::Add(tuple) | Changing::Remove(tuple)) = &change.what else {
                    continue;
                };
                let of = || grouping.group(&tuple.key, &tuple.value) == Some(key);
                if *tuple.relation == *grouping.relation() && of() {
                    keys.insert(tuple.key.clone());
                }
            }
        }
        found
    }

    /// The relations that some rule reads by key.
    pub(super) fn relations_by_key(&self) -> BTreeSet<String> {
        let keyed = self.rules.iter().filter_map(Watched::keyed);
        keyed.flat_map(|keyed| keyed.told().map(str::to_owned)).collect()
    }
}
