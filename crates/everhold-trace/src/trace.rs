//! A recorded execution: nodes, events in an order that respects happens-before, messages, marks.
//!
//! Build one step by step with [`TraceBuilder`], or read one with [`crate::format`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::event::{Event, EventId, EventKind, Mark, MessageId, Observation};
use crate::value;
use crate::{NodeId, Value};

mod assemble;
mod build;

pub(crate) use assemble::{Assembly, assemble};
pub use assemble::{Problem, ProblemKind};
pub use build::TraceBuilder;

/// Keys of [`Execution::notes`] that every tool understands.
pub mod notes {
    /// The name of the system.
    pub const SYSTEM: &str = "system";
    /// The property that the execution violates.
    pub const PROPERTY: &str = "property";
    /// The event at which it is violated: its position in the execution.
    pub const STEP: &str = "step";
    /// The token that replays the execution.
    pub const SCHEDULE: &str = "schedule";
    /// The seed it came from.
    pub const SEED: &str = "seed";
    /// The text `recorded` says that events happened in the order in which they stand, those of
    /// different nodes too: properties are judged on that order alone.
    pub const ORDER: &str = "order";
    /// The key that the execution is about. It has of relations what concerns this key.
    pub const KEY: &str = "key";
    /// The execution is an excerpt, made for the property that it names: a list of the relations of
    /// which it has only what concerns its key, or nothing if it has none.
    pub const PARTIAL: &str = "partial";
}

/// A participant of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name, unique in the execution.
    pub name: String,
    /// The kind of node, such as `server`; empty when unknown.
    pub kind: String,
    /// How often it came up: 1, and 1 more for each restart.
    pub incarnations: u32,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Delivered,
    /// The trace says that the network lost it.
    Lost,
    /// It never arrived, and nothing says that it was lost.
    InFlight,
}

/// A message with both its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its identity.
    pub id: MessageId,
    /// The event that sent it; `None` in a log with holes that shows only its delivery.
    pub sent: Option<EventId>,
    /// Its place among the sends of that event.
    pub slot: u32,
    /// Where it was delivered, in order. More than one node for a broadcast, more than one event
    /// of a node for a duplicate.
    pub delivered: Vec<EventId>,
    /// Whether the trace says that the network lost it.
    pub lost: bool,
}

impl Message {
    /// The fate of the message.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match (self.delivered.is_empty(), self.lost) {
            (false, _) => Fate::Delivered,
            (true, true) => Fate::Lost,
            (true, false) => Fate::InFlight,
        }
    }
}

/// One run of a system, as recorded.
///
/// Events are in an order that respects happens-before: each node's events in its own order, and
/// each delivery after its send.
///
/// ```
/// use everhold_trace::{EventKind, TraceBuilder, Value};
///
/// let mut trace = TraceBuilder::new();
/// let client = trace.add_node("client", "client");
/// let server = trace.add_node("server", "server");
/// trace.begin(client, EventKind::Start);
/// let request = trace.send(server, "Request", Some(Value::Int(7)));
/// trace.begin(server, EventKind::Deliver { message: request });
/// trace.observe(Value::record([("stored", 7)]));
/// let execution = trace.finish();
///
/// assert_eq!(execution.events().len(), 2);
/// assert_eq!(execution.message(request).unwrap().delivered.len(), 1);
/// assert_eq!(execution.local_states().at(server, 1).unwrap().to_string(), "{stored: 7}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    name: String,
    nodes: Vec<NodeInfo>,
    events: Vec<Event>,
    marks: Vec<Mark>,
    notes: BTreeMap<String, Value>,
    /// The events of each node in its order.
    by_node: Vec<Vec<EventId>>,
    /// The place of each event among those of its node.
    index: Vec<u32>,
    /// Sorted by identity.
    messages: Vec<Message>,
    complete: bool,
}

impl Execution {
    /// The name of the run within its file; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The participants, indexed by [`NodeId`].
    #[must_use]
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// One participant.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &NodeInfo {
        &self.nodes[node.index()]
    }

    /// The ids of the participants.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).expect("node ids are 32 bits")).map(NodeId)
    }

    /// The participant of this name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_ids().find(|&node| self.node(node).name == name)
    }

    /// All events, in an order that respects happens-before.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// One event.
    #[must_use]
    pub fn event(&self, event: EventId) -> &Event {
        &self.events[event.index()]
    }

    /// The events of one node, in its order.
    #[must_use]
    pub fn events_of(&self, node: NodeId) -> &[EventId] {
        &self.by_node[node.index()]
    }

    /// The place of an event among those of its node, from 0.
    #[must_use]
    pub fn index_in_node(&self, event: EventId) -> usize {
        self.index[event.index()] as usize
    }

    /// All messages, sorted by identity.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// One message.
    #[must_use]
    pub fn message(&self, id: MessageId) -> Option<&Message> {
        let found = self.messages.binary_search_by_key(&id, |message| message.id);
        found.ok().map(|place| &self.messages[place])
    }

    /// The sender's description of a message: receiver, label, payload.
    #[must_use]
    pub fn send_of(&self, message: &Message) -> Option<&crate::event::Send> {
        self.event(message.sent?).sends.get(message.slot as usize)
    }

    /// The deliveries of a message that told somebody something new: the first at each node.
    pub fn first_deliveries<'a>(
        &'a self,
        message: &'a Message,
    ) -> impl Iterator<Item = EventId> + 'a {
        let node = |event: &EventId| self.event(*event).node;
        let is_first = move |place: &usize| {
            let earlier = &message.delivered[..*place];
            earlier.iter().all(|other| node(other) != node(&message.delivered[*place]))
        };
        (0..message.delivered.len()).filter(is_first).map(|place| message.delivered[place])
    }

    /// Lost and duplicated messages, partitions and other faults, in order.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Facts about the run; [`notes`] has the common keys.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<String, Value> {
        &self.notes
    }

    /// The same execution with another fact noted.
    #[must_use]
    pub fn with_note(mut self, key: &str, value: impl Into<Value>) -> Execution {
        self.notes.insert(key.to_owned(), value.into());
        self
    }

    /// The same execution under another name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Execution {
        name.clone_into(&mut self.name);
        self
    }

    /// Whether the recording ended in order; false when the recorder died before the end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Which life of its node an event belongs to, from 0.
    #[must_use]
    pub fn incarnation(&self, event: EventId) -> u32 {
        let own = &self.by_node[self.event(event).node.index()][..=self.index_in_node(event)];
        let restarts = own.iter().filter(|e| self.event(**e).kind == EventKind::Restart).count();
        u32::try_from(restarts).expect("event ids are 32 bits")
    }

    /// The state of every node after each of its events, values carried forward.
    #[must_use]
    pub fn local_states(&self) -> LocalStates<'_> {
        let mut states = LocalStates { values: Vec::new(), at: Vec::new() };
        for events in &self.by_node {
            let mut row = vec![NO_STATE];
            for event in events {
                let before = *row.last().expect("the row starts with the initial state");
                row.push(states.after(before, self.event(*event)));
            }
            states.at.push(row);
        }
        states
    }
}

const NO_STATE: u32 = u32::MAX;

/// The state of every node after each of its events; made by [`Execution::local_states`].
///
/// The value of an observation is carried forward over later events without one. Before the first
/// observation, and from a crash to the next observation, a node has no state.
#[derive(Clone, Debug)]
pub struct LocalStates<'a> {
    /// As observed, or as changes made them.
    values: Vec<Cow<'a, Value>>,
    at: Vec<Vec<u32>>,
}

impl<'a> LocalStates<'a> {
    /// The state of `node` after its first `count` events.
    #[must_use]
    pub fn at(&self, node: NodeId, count: usize) -> Option<&Value> {
        self.values.get(self.at[node.index()][count] as usize).map(AsRef::as_ref)
    }

    /// A number that changes exactly when an observation changes the state; for caches.
    #[must_use]
    pub fn version(&self, node: NodeId, count: usize) -> Option<u32> {
        Some(self.at[node.index()][count]).filter(|&version| version != NO_STATE)
    }

    fn after(&mut self, before: u32, event: &'a Event) -> u32 {
        let state = match &event.observation {
            None if event.kind == EventKind::Crash => return NO_STATE,
            None => return before,
            Some(Observation::State(state)) => Cow::Borrowed(state),
            Some(Observation::Changes(changes)) => {
                let before = self.values.get(before as usize);
                let mut state = before.map(|state| Value::clone(state)).unwrap_or_default();
                // Assembly has reported changes that do not fit; the rest still apply.
                for change in changes {
                    let _ = value::apply(&mut state, std::slice::from_ref(change));
                }
                Cow::Owned(state)
            }
        };
        if self.values.get(before as usize) == Some(&state) {
            return before;
        }
        self.values.push(state);
        u32::try_from(self.values.len() - 1).expect("event ids are 32 bits")
    }
}
