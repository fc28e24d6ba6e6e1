//! A graph at work on a running system.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use everhold_trace::wire::Stamp;
use everhold_trace::{NodeId, Value};

use super::{Delta, Graph};
use crate::assemble::{Change, Changing};
use crate::world::World;

/// Something that a flow finds wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowFinding {
    /// The key of the violation.
    pub key: Value,
    /// The reason, in a few words.
    pub reason: String,
}

/// A check written in Rust, fed with one relation or variable of the nodes.
///
/// The tuples that its first stage sees are lists `[node, key, value]`; the key of a variable is
/// null.
pub struct Flow {
    name: String,
    relation: String,
    graph: Graph,
    judge: Box<dyn Fn(&[Value]) -> Vec<FlowFinding> + Send>,
    /// The smallest distance of two timestamps that are judged, in microseconds.
    every: u64,
    facts: BTreeMap<NodeId, BTreeMap<Value, Value>>,
    unknown: BTreeSet<NodeId>,
    /// Of nodes that tell everything at present: the keys that they have told.
    retold: BTreeMap<NodeId, BTreeSet<Value>>,
    pending: Delta,
    /// The stamp of the pending change.
    at: Stamp,
    judged: Stamp,
    pub(crate) firing: BTreeMap<Value, Stamp>,
    output: Vec<Value>,
    steps: u64,
    each: Box<dyn FnMut(Stamp, &[Value]) + Send>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("name", &self.name).field("relation", &self.relation).finish()
    }
}

/// The change in what a flow finds wrong, at a timestamp that was judged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Begins { finding: FlowFinding, at: Stamp },
    Ends { key: Value, since: Stamp, at: Stamp },
}

impl Flow {
    /// A check of this name over a relation; `judge` says what is wrong with the output of the
    /// final stage.
    pub fn new(
        name: &str,
        relation: &str,
        graph: Graph,
        judge: impl Fn(&[Value]) -> Vec<FlowFinding> + Send + 'static,
    ) -> Flow {
        Flow {
            name: name.to_owned(),
            relation: relation.to_owned(),
            graph,
            judge: Box::new(judge),
            every: 0,
            facts: BTreeMap::new(),
            unknown: BTreeSet::new(),
            retold: BTreeMap::new(),
            pending: Delta::new(),
            at: Stamp(0),
            judged: Stamp(0),
            firing: BTreeMap::new(),
            output: Vec::new(),
            steps: 0,
            each: Box::new(|_, _| {}),
        }
    }

    /// Sets a function that receives the output of the final stage at every timestamp that is judged;
    /// after a restart, again at those that are judged again.
    #[must_use]
    pub fn each(mut self, tell: impl FnMut(Stamp, &[Value]) + Send + 'static) -> Flow {
        self.each = Box::new(tell);
        self
    }

    /// Judges at most one timestamp in this time.
    #[must_use]
    pub fn sampled(mut self, every: Duration) -> Flow {
        self.every = u64::try_from(every.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last output of the final stage.
    #[must_use]
    pub fn output(&self) -> &[Value] {
        &self.output
    }

    /// Returns the number of timestamps that were judged.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Takes over what the snapshot holds already.
    pub(crate) fn begin(&mut self, world: &World) {
        for (node, key, value) in world.facts(&self.relation) {
            self.put(node, key, Some(value));
        }
    }

    /// Follows a change; judges the timestamp before it, if there was one.
    pub(crate) fn change(&mut self, change: &Change, found: &mut Vec<Found>) {
        if change.at > self.at {
            self.settle(found);
        }
        let node = change.node;
        match &change.what {
            Changing::Add(tuple) if *tuple.relation == *self.relation => {
                self.put(node, tuple.key.clone(), Some(tuple.value.clone()));
            }
            Changing::Remove(tuple) if *tuple.relation == *self.relation => {
                let held = self.facts.get(&node).and_then(|facts| facts.get(&tuple.key));
                if held == Some(&tuple.value) {
                    self.put(node, tuple.key.clone(), None);
                }
            }
            Changing::Observe(values) | Changing::State(values) => {
                let whole = matches!(change.what, Changing::State(_));
                if whole {
                    self.unknown.remove(&node);
                }
                match values.iter().find(|(name, _)| **name == *self.relation) {
                    Some((_, value)) => self.put(node, Value::Null, Some(value.clone())),
                    None if whole => self.put(node, Value::Null, None),
                    None => {}
                }
            }
            Changing::Up { .. } | Changing::Down { .. } => {
                self.unknown.remove(&node);
                let keys: Vec<Value> =
                    self.facts.get(&node).into_iter().flat_map(BTreeMap::keys).cloned().collect();
                keys.into_iter().for_each(|key| self.put(node, key, None));
                self.facts.remove(&node);
            }
            Changing::Refresh => drop(self.retold.insert(node, BTreeSet::new())),
            Changing::Whole => self.whole(node),
            Changing::Lost { .. } => {
                self.retold.remove(&node);
                self.unknown.insert(node);
            }
            Changing::Missing { .. } => drop(self.unknown.insert(node)),
            Changing::Present => drop(self.unknown.remove(&node)),
            _ => {}
        }
        self.at = change.at;
    }

    /// All changes before this stamp are there.
    pub(crate) fn until(&mut self, frontier: Stamp, found: &mut Vec<Found>) {
        if frontier > self.at {
            self.settle(found);
        }
    }

    /// The node has sent its whole state: tuples that it left out are gone.
    fn whole(&mut self, node: NodeId) {
        let Some(told) = self.retold.remove(&node) else { return };
        self.unknown.remove(&node);
        let held = self.facts.get(&node).into_iter().flat_map(BTreeMap::keys);
        let gone: Vec<Value> = held.filter(|key| !told.contains(*key)).cloned().collect();
        gone.into_iter().for_each(|key| self.put(node, key, None));
    }

    fn put(&mut self, node: NodeId, key: Value, value: Option<Value>) {
        if let Some(told) = self.retold.get_mut(&node) {
            told.insert(key.clone());
        }
        let facts = self.facts.entry(node).or_default();
        let old = match &value {
            Some(value) => facts.insert(key.clone(), value.clone()),
            None => facts.remove(&key),
        };
        if old == value {
            return;
        }
        let tuple = |value| Value::List(vec![Value::Node(node), key.clone(), value]);
        self.pending.extend(old.map(|value| (tuple(value), -1)));
        self.pending.extend(value.map(|value| (tuple(value), 1)));
    }

    /// Judges the snapshot at the pending stamp, if it is sampled.
    fn settle(&mut self, found: &mut Vec<Found>) {
        let due = self.at.micros() >= self.judged.micros().saturating_add(self.every);
        if self.pending.is_empty() || !(due || self.steps == 0) {
            return;
        }
        self.judged = self.at;
        self.steps += 1;
        self.output = self.graph.step(&std::mem::take(&mut self.pending));
        if !self.unknown.is_empty() {
            return; // The snapshot is incomplete, so the answer is unknown.
        }
        let wrong = (self.judge)(&self.output);
        let at = self.at;
        (self.each)(at, &self.output);
        let still: BTreeSet<&Value> = wrong.iter().map(|finding| &finding.key).collect();
        let over: Vec<Value> =
            self.firing.keys().filter(|key| !still.contains(key)).cloned().collect();
        for key in over {
            let since = self.firing.remove(&key).unwrap_or(at);
            found.push(Found::Ends { key, since, at });
        }
        for finding in wrong {
            if !self.firing.contains_key(&finding.key) {
                self.firing.insert(finding.key.clone(), at);
                found.push(Found::Begins { finding, at });
            }
        }
    }
}
