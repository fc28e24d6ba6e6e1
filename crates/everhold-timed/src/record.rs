//! The record of one timed execution, with enough detail to trace its end back to its beginning.

use everhold_node::{NodeId, Time};
use everhold_sim::engine::Room;
use everhold_sim::record::NodeRecord;
use everhold_trace::Value;

use super::draws::{Draws, OnLink};
use super::run::TimedRun;

/// The record of one execution, event by event.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The way in which it ended.
    pub run: TimedRun,
    /// The draws with which it can be replayed.
    pub draws: Draws,
    /// The nodes.
    pub nodes: Vec<NodeRecord>,
    /// The kinds of nodes that only generate load; see
    /// [`System::load`](everhold_sim::System::load).
    pub load: Vec<String>,
    /// The names of the kinds of event.
    pub kinds: Vec<String>,
    /// The events, in order of their start. The last is the one that ended the execution.
    pub events: Vec<Event>,
    /// The messages, in order of sending.
    pub messages: Vec<Sent>,
    /// The timers, in order of setting.
    pub timers: Vec<TimerSet>,
    /// Notes, each with the event during which it was made.
    pub notes: Vec<(u32, String)>,
    /// The state after each event and the content of each message, if they were requested.
    pub(crate) states: Vec<Value>,
    pub(crate) payloads: Vec<Value>,
}

/// One event, `<node, event, start, duration>`, with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The node.
    pub node: NodeId,
    /// The number of its kind in [`Recorded::kinds`].
    pub kind: u16,
    /// The number of events at the node before it.
    pub index: u32,
    /// The cause.
    pub trigger: Trigger,
    /// The time at which it could have begun, had the node been idle.
    pub ready: Time,
    /// The time at which it began.
    pub start: Time,
    /// The time at which it ended and its messages left.
    pub end: Time,
}

/// The cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// The node started.
    Start,
    /// The node came back after a crash.
    Restart,
    /// A message arrived; its number in [`Recorded::messages`].
    Message(u32),
    /// A timer fired; its number in [`Recorded::timers`].
    Timer(u32),
    /// A task of an async node continued after the node's previous event.
    Task,
    /// The driver sent a message.
    Input,
    /// The node crashed.
    Crash,
    /// The node was notified that its connection to this peer ended.
    Disconnected(NodeId),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The link and index of the message, by which a change of its delay names it.
    pub link: OnLink,
    /// The number of its kind.
    pub kind: u16,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of the event that sent it.
    pub by: u32,
    /// The time at which it left its sender.
    pub sent: Time,
    /// The time at which it arrived or will arrive; `None` if it never does.
    pub arrives: Option<Time>,
    /// The drawn part of its delay in nanoseconds: propagation and queueing.
    pub delay: u64,
    /// The fate of the message.
    pub fate: Fate,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was under way or waiting when the execution ended.
    UnderWay,
    /// The event with this number handled it.
    Handled(u32),
    /// It was lost.
    Lost,
    /// The send buffer was full.
    Refused,
}

/// A timer that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerSet {
    /// The node.
    pub node: NodeId,
    /// The timer.
    pub timer: everhold_node::Timer,
    /// The number of the event that set it.
    pub by: u32,
    /// The time at which it was set.
    pub set: Time,
    /// The time at which it is due.
    pub due: Time,
    /// The event in which it fired; `None` if it was cancelled, moved, or still pending.
    pub fired: Option<u32>,
}

impl Recorded {
    /// Returns the name of a kind of event.
    #[must_use]
    pub fn kind(&self, kind: u16) -> &str {
        self.kinds.get(usize::from(kind)).map_or("?", String::as_str)
    }

    /// Returns true if the node was marked as a load generator.
    #[must_use]
    pub fn is_load(&self, node: NodeId) -> bool {
        // Most systems have no marks, so the search is rarely needed.
        let kind = || self.nodes.get(node.index()).map(|info| &info.kind);
        !self.load.is_empty() && kind().is_some_and(|kind| self.load.contains(kind))
    }

    /// Returns true if a load generator sends or receives the message.
    #[must_use]
    pub fn is_of_load(&self, sent: &Sent) -> bool {
        self.is_load(sent.link.from) || self.is_load(sent.link.to)
    }

    /// Returns the event that caused an event: the one that sent its message or set its timer, or
    /// else the previous one at the node.
    #[must_use]
    pub fn cause(&self, event: u32) -> Option<u32> {
        match self.events[event as usize].trigger {
            Trigger::Message(message) => Some(self.messages[message as usize].by),
            Trigger::Timer(timer) => Some(self.timers[timer as usize].by),
            Trigger::Task => self.previous(event),
            Trigger::Restart => self.previous(event),
            Trigger::Start | Trigger::Input | Trigger::Crash | Trigger::Disconnected(_) => None,
        }
    }

    /// Returns the previous event at the same node.
    #[must_use]
    pub fn previous(&self, event: u32) -> Option<u32> {
        let node = self.events[event as usize].node;
        (0..event).rev().find(|at| self.events[*at as usize].node == node)
    }
}

/// The index that stands for "no record".
pub(crate) const NONE: u32 = u32::MAX;

/// Records a world while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    pub(crate) messages: Vec<Sent>,
    pub(crate) timers: Vec<TimerSet>,
    pub(crate) notes: Vec<(u32, String)>,
    pub(crate) states: Vec<Value>,
    pub(crate) payloads: Vec<Value>,
    /// Whether states and contents are kept as well.
    pub(crate) full: bool,
    /// The room for them.
    pub(crate) room: Room,
}

impl Recorder {
    /// Returns the number of the present event.
    pub(crate) fn current(&self) -> u32 {
        (self.events.len() as u32).wrapping_sub(1)
    }

    pub(crate) fn begin(&mut self, event: Event) {
        let number = self.events.len() as u32;
        match event.trigger {
            Trigger::Message(message) => {
                self.messages[message as usize].fate = Fate::Handled(number);
            }
            Trigger::Timer(timer) => self.timers[timer as usize].fired = Some(number),
            _ => {}
        }
        self.events.push(event);
    }

    pub(crate) fn end(&mut self, end: u64) {
        if let Some(event) = self.events.last_mut() {
            event.end = Time(end);
        }
    }

    pub(crate) fn sent(&mut self, sent: Sent) -> u32 {
        self.messages.push(sent);
        self.messages.len() as u32 - 1
    }

    pub(crate) fn lost(&mut self, message: u32) {
        if let Some(sent) = self.messages.get_mut(message as usize) {
            (sent.fate, sent.arrives) = (Fate::Lost, None);
        }
    }

    pub(crate) fn arrives(&mut self, message: u32, at: u64) {
        if let Some(sent) = self.messages.get_mut(message as usize) {
            sent.arrives = Some(Time(at));
        }
    }

    pub(crate) fn note(&mut self, text: String) {
        self.notes.push((self.current(), text));
    }
}
