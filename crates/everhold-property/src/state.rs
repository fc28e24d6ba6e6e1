//! The input of a judgement: nodes and their states.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhold_trace::{NodeId, Value};

/// A node as a property sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Its name, for people and for `name(n)`.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Whether it runs. Down nodes are met only by `all nodes` and through references.
    pub up: bool,
}

impl Member {
    /// A node that runs.
    #[must_use]
    pub fn new(id: NodeId, name: &str, kind: &str) -> Member {
        Member { id, name: name.to_owned(), kind: kind.to_owned(), up: true }
    }
}

/// A global state.
pub trait State {
    /// The nodes, sorted by id.
    fn members(&self) -> &[Member];

    /// The state of a node; `None` if it has not reported.
    fn state(&self, node: NodeId) -> Option<&Value>;

    /// Whether a message from one node to the other is in flight, which `when quiet` depends on.
    fn in_flight(&self, from: NodeId, to: NodeId) -> bool {
        let _ = (from, to);
        false
    }

    /// The number of messages in flight by kind, for `in_flight()`; `None` if they are not counted.
    fn messages(&self) -> Option<&BTreeMap<String, u64>> {
        None
    }

    /// The payloads of the messages in flight by kind, for `messages()`; `None` if they are not
    /// known. The payload of a message without one is null.
    fn payloads(&self) -> Option<&BTreeMap<String, Vec<Value>>> {
        None
    }
}

/// A global state that owns its values. Copies share the states of nodes.
///
/// ```
/// use everhold_property::{Snapshot, State, Value};
/// let mut snapshot = Snapshot::default();
/// let n = snapshot.add("n0", "server");
/// assert_eq!(snapshot.state(n), None);
/// snapshot.set(n, Value::record([("term", 1)]));
/// assert!(snapshot.state(n).is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    members: Vec<Member>,
    states: Vec<Option<Arc<Value>>>,
    in_flight: BTreeMap<(NodeId, NodeId), u32>,
    messages: Option<BTreeMap<String, u64>>,
    payloads: Option<BTreeMap<String, Vec<Value>>>,
}

impl Snapshot {
    /// A snapshot of these nodes, of which none has reported.
    ///
    /// # Panics
    ///
    /// If they are not sorted by id.
    #[must_use]
    pub fn new(members: Vec<Member>) -> Snapshot {
        assert!(members.is_sorted_by(|a, b| a.id < b.id), "members are sorted by id");
        let states = vec![None; members.len()];
        Snapshot { members, states, in_flight: BTreeMap::new(), messages: None, payloads: None }
    }

    /// Adds a node, which has not reported yet, and gives it the next id.
    pub fn add(&mut self, name: &str, kind: &str) -> NodeId {
        let id = NodeId(self.members.last().map_or(0, |last| last.id.0 + 1));
        self.members.push(Member::new(id, name, kind));
        self.states.push(None);
        id
    }

    /// Sets the state of `node`.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn set(&mut self, node: NodeId, state: impl Into<Arc<Value>>) {
        let place = self.place(node).expect("the node is a member");
        self.states[place] = Some(state.into());
    }

    /// Removes the state of `node`, as if it had not reported.
    pub fn clear(&mut self, node: NodeId) {
        if let Some(place) = self.place(node) {
            self.states[place] = None;
        }
    }

    /// Sets whether `node` is running.
    pub fn set_up(&mut self, node: NodeId, up: bool) {
        if let Some(place) = self.place(node) {
            self.members[place].up = up;
        }
    }

    /// Sets the number of messages in flight from one node to another.
    pub fn set_in_flight(&mut self, from: NodeId, to: NodeId, messages: u32) {
        if messages == 0 {
            self.in_flight.remove(&(from, to));
        } else {
            self.in_flight.insert((from, to), messages);
        }
    }

    /// Sets the number of messages in flight by kind; `None` if they are not counted.
    pub fn set_messages(&mut self, messages: Option<BTreeMap<String, u64>>) {
        self.messages = messages;
    }

    /// Sets the payloads of the messages in flight by kind; `None` if they are not known.
    pub fn set_payloads(&mut self, payloads: Option<BTreeMap<String, Vec<Value>>>) {
        self.payloads = payloads;
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        // Ids are usually dense, so the index of a node is usually its id.
        let guess = node.index();
        if self.members.get(guess).is_some_and(|member| member.id == node) {
            return Some(guess);
        }
        self.members.binary_search_by_key(&node, |member| member.id).ok()
    }
}

impl State for Snapshot {
    fn members(&self) -> &[Member] {
        &self.members
    }

    fn state(&self, node: NodeId) -> Option<&Value> {
        self.states[self.place(node)?].as_deref()
    }

    fn in_flight(&self, from: NodeId, to: NodeId) -> bool {
        self.in_flight.contains_key(&(from, to))
    }

    fn messages(&self) -> Option<&BTreeMap<String, u64>> {
        self.messages.as_ref()
    }

    fn payloads(&self) -> Option<&BTreeMap<String, Vec<Value>>> {
        self.payloads.as_ref()
    }
}
