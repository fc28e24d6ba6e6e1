//! One atomic step of one node, and the messages that tie steps together.

use std::collections::BTreeMap;
use std::fmt;

use crate::value::Change;
use crate::{NodeId, Value};

/// The position of an event in its [`Execution`](crate::Execution).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);

impl EventId {
    /// The position of this event in tables indexed by event.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// Which message: its sender and the sender's own count.
///
/// These few bytes are all that must travel with a message: since a delivery names its send,
/// vector clocks are rebuilt from the trace. The count goes on after a restart, so that two
/// incarnations of a node never use one id.
///
/// ```
/// use everhold_trace::{MessageId, NodeId};
/// assert_eq!(MessageId { sender: NodeId(2), seq: 7 }.to_string(), "n2#7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// Who sent it.
    pub sender: NodeId,
    /// The sender's count of messages, from 0.
    pub seq: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.sender, self.seq)
    }
}

/// Why a node took a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The node came up for the first time.
    Start,
    /// A message arrived.
    Deliver {
        /// Which one.
        message: MessageId,
    },
    /// A timer fired.
    Timer {
        /// The timer's name.
        name: String,
    },
    /// Something came from outside the system: a request, a command.
    Input {
        /// The name of the fault.
        name: String,
    },
    /// The node stopped; what it did not store is gone.
    Crash,
    /// The node came up again, as a new incarnation.
    Restart,
    /// A step of the node's own.
    Local {
        /// The name of the event.
        name: String,
    },
}

impl EventKind {
    /// The kind in one word, as in the file format.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            EventKind::Start => "start",
            EventKind::Deliver { .. } => "deliver",
            EventKind::Timer { .. } => "timer",
            EventKind::Input { .. } => "input",
            EventKind::Crash => "crash",
            EventKind::Restart => "restart",
            EventKind::Local { .. } => "local",
        }
    }

    /// The name of a timer, input or local step.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            EventKind::Timer { name } | EventKind::Input { name } | EventKind::Local { name } => {
                Some(name)
            }
            EventKind::Start
            | EventKind::Deliver { .. }
            | EventKind::Crash
            | EventKind::Restart => None,
        }
    }
}

/// When an event happened, by whichever clocks were at hand.
///
/// Times are for reading and for real-time properties; the order of events never depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// A step counter or virtual clock, in its own unit.
    pub logical: Option<u64>,
    /// A wall clock, in nanoseconds since the Unix epoch.
    pub physical_ns: Option<i64>,
}

impl Time {
    /// Only a logical time.
    #[must_use]
    pub fn logical(ticks: u64) -> Time {
        Time { logical: Some(ticks), physical_ns: None }
    }

    /// Only a physical time.
    #[must_use]
    pub fn physical_ns(ns: i64) -> Time {
        Time { logical: None, physical_ns: Some(ns) }
    }
}

/// A message as its sender knows it. The sender is the node of the event that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// The receiver; `None` for a broadcast, which every node may receive once.
    pub to: Option<NodeId>,
    /// The sender's count of messages.
    pub seq: u64,
    /// The kind of message, for people.
    pub label: String,
    /// The contents of the message.
    pub payload: Option<Value>,
}

/// The state that a node showed at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The whole state.
    State(Value),
    /// The changes since the node's previous observation.
    Changes(Vec<Change>),
}

/// One atomic step of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose step.
    pub node: NodeId,
    /// Why.
    pub kind: EventKind,
    /// Messages taken in besides the one that [`EventKind::Deliver`] names, for logs that record
    /// several receives as one event.
    pub joins: Vec<MessageId>,
    /// When.
    pub time: Time,
    /// The messages sent during the step.
    pub sends: Vec<Send>,
    /// The state that the node showed at the end of the step.
    pub observation: Option<Observation>,
    /// A line for people.
    pub text: Option<String>,
    /// The vector clock that the log claims for this event, if it has one. It is checked against
    /// the rebuilt clock and otherwise not used.
    pub clock: Option<BTreeMap<NodeId, u64>>,
}

impl Event {
    /// A bare step, to be filled in.
    #[must_use]
    pub fn new(node: NodeId, kind: EventKind) -> Event {
        Event {
            node,
            kind,
            joins: Vec::new(),
            time: Time::default(),
            sends: Vec::new(),
            observation: None,
            text: None,
            clock: None,
        }
    }

    /// The messages that arrived at this event.
    pub fn received(&self) -> impl Iterator<Item = MessageId> {
        let first = match self.kind {
            EventKind::Deliver { message } => Some(message),
            _ => None,
        };
        first.into_iter().chain(self.joins.iter().copied())
    }

    /// The ids of the messages sent during this event.
    pub fn sent(&self) -> impl Iterator<Item = MessageId> {
        self.sends.iter().map(|send| MessageId { sender: self.node, seq: send.seq })
    }
}

/// Something that befell the system between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of events of the execution that came before the mark.
    pub after: u32,
    /// The fault itself.
    pub kind: MarkKind,
}

/// Faults of a system other than the crash and restart of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The network lost this message.
    Lost(MessageId),
    /// The network made a second copy of this message; it may be delivered again.
    Duplicated(MessageId),
    /// From here on, only nodes of one group reach each other. A node in no group is alone.
    Partition(Vec<Vec<NodeId>>),
    /// All nodes reach each other again.
    Heal,
    /// Any other fault, in words: a lost write, a skewed clock.
    Fault {
        /// The node it struck, if one.
        node: Option<NodeId>,
        /// The name of the fault.
        name: String,
    },
}
