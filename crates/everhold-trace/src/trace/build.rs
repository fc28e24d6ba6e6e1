//! Recording an execution step by step.

use std::collections::BTreeMap;

use super::{Assembly, Execution, NodeInfo, assemble};
use crate::event::{Event, EventId, EventKind, Mark, MarkKind, MessageId, Observation, Send, Time};
use crate::{NodeId, Value};

/// Records one execution: nodes, then events with what they sent and showed.
///
/// [`begin`](Self::begin) opens an event, the calls after it fill it in, and the next `begin` (or
/// [`finish`](Self::finish)) closes it. Events must come in an order in which they could have
/// happened.
///
/// ```
/// use everhold_trace::{EventKind, Time, TraceBuilder, Value, notes};
///
/// let mut trace = TraceBuilder::new();
/// let a = trace.add_node("a", "server");
/// let b = trace.add_node("b", "server");
/// trace.note(notes::SEED, 42u64);
///
/// trace.begin(a, EventKind::Timer { name: "heartbeat".into() });
/// trace.time(Time::logical(1));
/// let first = trace.send(b, "Ping", None);
/// let second = trace.send(b, "Ping", None);
/// trace.observe(Value::record([("pings", 2)]));
/// trace.lost(second);
/// trace.begin(b, EventKind::Deliver { message: first });
/// trace.begin(b, EventKind::Crash);
/// trace.begin(b, EventKind::Restart);
///
/// let execution = trace.finish();
/// assert_eq!(execution.node(b).incarnations, 2);
/// assert!(execution.message(second).unwrap().lost);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TraceBuilder {
    name: String,
    nodes: Vec<NodeInfo>,
    events: Vec<Event>,
    marks: Vec<Mark>,
    notes: BTreeMap<String, Value>,
    /// The next sequence number of each node.
    next_seq: Vec<u64>,
}

impl TraceBuilder {
    /// An empty recording.
    #[must_use]
    pub fn new() -> TraceBuilder {
        TraceBuilder::default()
    }

    /// Names the run, for files with several.
    pub fn name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Adds a participant. A name that is already taken gets a number: `client`, `client-2`.
    pub fn add_node(&mut self, name: &str, kind: &str) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("node ids are 32 bits"));
        let taken = |name: &str| self.nodes.iter().any(|node| node.name == name);
        let mut unique = name.to_owned();
        let mut copy = 2;
        while taken(&unique) {
            unique = format!("{name}-{copy}");
            copy += 1;
        }
        self.nodes.push(NodeInfo { name: unique, kind: kind.to_owned(), incarnations: 1 });
        self.next_seq.push(0);
        id
    }

    /// Notes a fact about the run.
    pub fn note(&mut self, key: &str, value: impl Into<Value>) {
        self.notes.insert(key.to_owned(), value.into());
    }

    /// Opens an event of `node`.
    pub fn begin(&mut self, node: NodeId, kind: EventKind) -> EventId {
        assert!(node.index() < self.nodes.len(), "{node} must be added before it takes a step");
        let id = EventId(u32::try_from(self.events.len()).expect("event ids are 32 bits"));
        self.events.push(Event::new(node, kind));
        id
    }

    /// Records a message sent during the open event.
    pub fn send(&mut self, to: NodeId, label: &str, payload: Option<Value>) -> MessageId {
        self.send_to(Some(to), label, payload)
    }

    /// Records one message for all nodes, each of which may receive it once.
    pub fn broadcast(&mut self, label: &str, payload: Option<Value>) -> MessageId {
        self.send_to(None, label, payload)
    }

    /// Records the whole state of the node at the end of the open event.
    pub fn observe(&mut self, state: Value) {
        self.open().observation = Some(Observation::State(state));
    }

    /// Records the time of the open event.
    pub fn time(&mut self, time: Time) {
        self.open().time = time;
    }

    /// Adds a line for people to the open event; several calls make several lines.
    pub fn text(&mut self, text: &str) {
        match &mut self.open().text {
            Some(before) => {
                before.push('\n');
                before.push_str(text);
            }
            none => *none = Some(text.to_owned()),
        }
    }

    /// Marks a message as lost by the network.
    pub fn lost(&mut self, message: MessageId) {
        self.mark(MarkKind::Lost(message));
    }

    /// Marks a message as duplicated by the network.
    pub fn duplicated(&mut self, message: MessageId) {
        self.mark(MarkKind::Duplicated(message));
    }

    /// Marks the start of a partition into groups.
    pub fn partition(&mut self, groups: Vec<Vec<NodeId>>) {
        self.mark(MarkKind::Partition(groups));
    }

    /// Marks the end of a partition.
    pub fn heal(&mut self) {
        self.mark(MarkKind::Heal);
    }

    /// Marks any other fault.
    pub fn fault(&mut self, node: Option<NodeId>, name: &str) {
        self.mark(MarkKind::Fault { node, name: name.to_owned() });
    }

    /// Ends the recording.
    ///
    /// # Panics
    ///
    /// When what was recorded cannot have happened: a delivery of a message that was not sent
    /// before it, or to another node than its receiver; a step of a node that is down.
    #[must_use]
    pub fn finish(self) -> Execution {
        let (execution, problems) = assemble(Assembly {
            name: self.name,
            nodes: self.nodes,
            events: self.events,
            marks: self.marks,
            notes: self.notes,
            lines: Vec::new(),
            complete: true,
        });
        if let Some(problem) = problems.first() {
            panic!("a recorded execution must be one that can happen: {problem}");
        }
        execution
    }

    fn open(&mut self) -> &mut Event {
        self.events.last_mut().expect("`begin` opens an event before it is filled in")
    }

    fn send_to(&mut self, to: Option<NodeId>, label: &str, payload: Option<Value>) -> MessageId {
        let sender = self.open().node;
        let seq = self.next_seq[sender.index()];
        self.next_seq[sender.index()] += 1;
        self.open().sends.push(Send { to, seq, label: label.to_owned(), payload });
        MessageId { sender, seq }
    }

    fn mark(&mut self, kind: MarkKind) {
        let after = u32::try_from(self.events.len()).expect("event ids are 32 bits");
        self.marks.push(Mark { after, kind });
    }
}
