//! Whole states: what all nodes show at once, as far as predicates of the user read it.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{Member, State};
use everhold_trace::{Execution, NodeId, Value};

use super::predicate::Predicate;
use crate::dictionary::hash_of;
use crate::states::{StateId, States};
use hashbrown::HashTable;

/// The distinct whole states of all runs, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalStates {
    /// For each its members, and what each of them shows: a place among the parts, or `ABSENT`.
    all: Vec<(u32, Box<[u32]>)>,
    members: Vec<Vec<Member>>,
    parts: Vec<Value>,
    /// For each run, from which event on it is in which.
    runs: Vec<Vec<(u32, StateId)>>,
}

/// One of them.
pub(crate) struct GlobalState<'a> {
    members: &'a [Member],
    shown: &'a [u32],
    parts: &'a [Value],
}

impl State for GlobalState<'_> {
    fn members(&self) -> &[Member] {
        self.members
    }

    fn state(&self, node: NodeId) -> Option<&Value> {
        let part = *self.shown.get(node.index())?;
        self.parts.get(part as usize)
    }
}

impl GlobalStates {
    /// Those of these runs; none if there are no predicates to read them.
    pub(crate) fn of(
        states: &States,
        executions: &[&Execution],
        predicates: &[Predicate],
    ) -> GlobalStates {
        let mut globals = GlobalStates::default();
        if predicates.is_empty() {
            return globals;
        }
        let fields: BTreeSet<String> = predicates.iter().flat_map(Predicate::fields).collect();
        let part_of = globals.project(states, &fields);
        let mut known = Known::default();
        for (run, execution) in executions.iter().enumerate() {
            let line = globals.line(states, run, execution, &part_of, &mut known);
            globals.runs.push(line);
        }
        globals
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn get(&self, global: StateId) -> GlobalState<'_> {
        let (members, shown) = &self.all[global as usize];
        GlobalState { members: &self.members[*members as usize], shown, parts: &self.parts }
    }

    /// From which event on a run is in which.
    pub(crate) fn of_run(&self, run: usize) -> Option<&[(u32, StateId)]> {
        self.runs.get(run).map(Vec::as_slice)
    }

    /// For each state of each kind, what is read of it.
    fn project(&mut self, states: &States, fields: &BTreeSet<String>) -> Vec<Vec<u32>> {
        let mut known: BTreeMap<Value, u32> = BTreeMap::new();
        let mut part = |value: &Value| {
            let read = match value {
                Value::Record(all) => Value::Record(
                    all.iter()
                        .filter(|(name, _)| fields.contains(*name))
                        .map(|(name, value)| (name.clone(), value.clone()))
                        .collect(),
                ),
                other => other.clone(),
            };
            let next = u32::try_from(known.len()).expect("fewer than 2^32 states");
            *known.entry(read).or_insert(next)
        };
        let parts = states
            .kinds
            .iter()
            .map(|kind| kind.whole.iter().map(|code| part(states.values.value(*code))).collect())
            .collect();
        let mut values: Vec<(u32, Value)> =
            known.into_iter().map(|(v, place)| (place, v)).collect();
        values.sort_unstable_by_key(|(place, _)| *place);
        self.parts = values.into_iter().map(|(_, value)| value).collect();
        parts
    }

    fn line(
        &mut self,
        states: &States,
        run: usize,
        execution: &Execution,
        part_of: &[Vec<u32>],
        known: &mut Known,
    ) -> Vec<(u32, StateId)> {
        let nodes = &states.runs[run].nodes;
        let member = |id: NodeId| {
            let node = execution.node(id);
            Member::new(id, &node.name, &node.kind)
        };
        let mut members: Vec<Member> = execution.node_ids().map(member).collect();
        let mut shown = vec![States::ABSENT; nodes.len()];
        let mut of = self.members_id(&members, known);
        let mut line: Vec<(u32, StateId)> = Vec::new();
        for (event, step) in (0..).zip(&states.runs[run].steps) {
            let place = step.node.index();
            let node = &nodes[place];
            shown[place] = match (node.kind, step.state) {
                (Some(kind), state) if state != States::ABSENT => part_of[kind][state as usize],
                _ => States::ABSENT,
            };
            let up = node.up[step.count as usize];
            if members[place].up != up {
                members[place].up = up;
                of = self.members_id(&members, known);
            }
            let global = self.global_id(of, &shown, known);
            if line.last().is_none_or(|(_, last)| *last != global) {
                line.push((event, global));
            }
        }
        line
    }

    fn members_id(&mut self, members: &[Member], known: &mut Known) -> u32 {
        let key = members.iter().map(|m| (m.name.clone(), m.kind.clone(), m.up)).collect();
        let next = u32::try_from(self.members.len()).expect("fewer than 2^32 memberships");
        let id = *known.members.entry(key).or_insert(next);
        if id == next {
            self.members.push(members.to_vec());
        }
        id
    }

    fn global_id(&mut self, members: u32, shown: &[u32], known: &mut Known) -> StateId {
        let hash = hash_of(&(members, shown));
        let same = |id: &StateId| {
            let (other, parts) = &self.all[*id as usize];
            *other == members && **parts == *shown
        };
        if let Some(id) = known.globals.find(hash, same) {
            return *id;
        }
        let id = StateId::try_from(self.all.len()).expect("fewer than 2^32 states");
        self.all.push((members, shown.into()));
        known.globals.insert_unique(hash, id, |id| {
            let (members, parts) = &self.all[*id as usize];
            hash_of(&(*members, &parts[..]))
        });
        id
    }
}

/// Which were met before.
#[derive(Default)]
struct Known {
    members: BTreeMap<Vec<(String, String, bool)>, u32>,
    globals: HashTable<StateId>,
}
