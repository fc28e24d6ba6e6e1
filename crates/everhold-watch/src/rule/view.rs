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
        state.insert(relation.clone(), keyed.shown(relation, value.ok()?).clone());
    }
    for name in &keyed.variables {
        state.insert(name.clone(), world.variable(node, name).ok()?.clone());
    }
    Some(Value::Record(state))
}

/// The same as the property that was written sees it: relations are maps with the one key, or with
/// the tuples of the group.
pub(super) fn whole_under(keyed: &Keyed, key: &Value, state: &Value) -> Value {
    let Value::Record(fields) = state else { return Value::Null };
    let mut whole: BTreeMap<String, Value> = BTreeMap::new();
    for (name, value) in fields {
        let (relation, is_group) = keyed.relation_of(name);
        if !keyed.relations.contains(name) {
            whole.insert(name.clone(), value.clone());
            continue;
        }
        let tuples = everhold_trace::wire::relation(&mut whole, relation);
        match value {
            Value::Map(group) if is_group => tuples.extend(group.clone()),
            Value::Null => {}
            value => drop(tuples.insert(key.clone(), value.clone())),
        }
    }
    Value::Record(whole)
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
