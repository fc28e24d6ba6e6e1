//! The states of nodes under one key.

use std::collections::BTreeMap;

use everhold_property::{Member, State};
use everhold_trace::{NodeId, Value};

use super::keyed::Keyed;
use crate::world::{NULL, SlotId, World};

/// The state of a node under a key, for the rewritten property; `None` if part of it is not known.
pub(super) fn state_under(
    keyed: &Keyed,
    world: &World,
    slot: Option<SlotId>,
    node: NodeId,
) -> Option<Value> {
    let mut state = BTreeMap::new();
    for relation in &keyed.relations {
        let value = match slot {
            Some(slot) => world.cell(slot, node, relation),
            None => world.absent(node),
        };
        state.insert(relation.clone(), value.ok()?.clone());
    }
    for name in &keyed.variables {
        state.insert(name.clone(), world.variable(node, name).ok()?.clone());
    }
    Some(Value::Record(state))
}

/// The same as the property that was written sees it: relations are maps with the one key.
pub(super) fn whole_under(keyed: &Keyed, key: &Value, state: &Value) -> Value {
    let Value::Record(fields) = state else { return Value::Null };
    let wrap = |(name, value): (&String, &Value)| {
        let value = match (keyed.relations.contains(name), value) {
            (false, value) => value.clone(),
            (true, Value::Null) => Value::Map(BTreeMap::new()),
            (true, value) => Value::Map([(key.clone(), value.clone())].into()),
        };
        (name.clone(), value)
    };
    Value::Record(fields.iter().map(wrap).collect())
}

/// A state of all nodes that was put together.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyView {
    pub(super) members: Vec<Member>,
    pub(super) states: BTreeMap<NodeId, Value>,
}

impl State for KeyView {
    fn members(&self) -> &[Member] {
        &self.members
    }

    fn state(&self, node: NodeId) -> Option<&Value> {
        self.states.get(&node)
    }
}

impl KeyView {
    /// The states of everybody under a key.
    pub(super) fn of(keyed: &Keyed, world: &World, slot: SlotId) -> KeyView {
        let members = world.members().to_vec();
        let up = members.iter().filter(|member| member.up);
        let states = up.filter_map(|member| {
            Some((member.id, state_under(keyed, world, Some(slot), member.id)?))
        });
        let states = states.collect();
        KeyView { members, states }
    }

    pub(super) fn set(&mut self, node: NodeId, state: Option<Value>) {
        match state {
            Some(state) => drop(self.states.insert(node, state)),
            None => drop(self.states.remove(&node)),
        }
    }
}

impl World {
    /// The value of a node for a key for which it has no tuple.
    pub(super) fn absent(&self, node: NodeId) -> Result<&Value, ()> {
        if self.is_hidden(node) || !self.is_whole(node) { Err(()) } else { Ok(&NULL) }
    }
}
