//! What happened in one timed execution: enough to walk from the end back to the beginning.

use everhold_node::{NodeId, Time};
use everhold_sim::record::NodeInfo;
use everhold_trace::Value;

use super::draws::{Draws, OnLink};
use super::run::TimedRun;

/// One execution, event by event.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How it ended.
    pub run: TimedRun,
    /// What to replay it with.
    pub draws: Draws,
    /// The nodes.
    pub nodes: Vec<NodeInfo>,
    /// Kinds of nodes that only make load; see [`System::load`](everhold_sim::System::load).
    pub load: Vec<String>,
    /// The names of the kinds of event.
    pub kinds: Vec<String>,
    /// The events, in order of their start. The last is the one that ended the execution.
    pub events: Vec<Event>,
    /// The messages, in order of sending.
    pub messages: Vec<Sent>,
    /// The timers, in order of setting.
    pub timers: Vec<TimerSet>,
    /// Remarks by the event during which they were made.
    pub notes: Vec<(u32, String)>,
    /// The state after each event and the content of each message, if asked for.
    pub(crate) states: Vec<Value>,
    pub(crate) payloads: Vec<Value>,
}

/// One event: `<node, event, start, duration>` and what led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where.
    pub node: NodeId,
    /// The number of its kind in [`Recorded::kinds`].
    pub kind: u16,
    /// How many events the node had before.
    pub index: u32,
    /// What made it happen.
    pub trigger: Trigger,
    /// When it could have begun, had the node been idle.
    pub ready: Time,
    /// When it began.
    pub start: Time,
    /// When it was over and what it sent left.
    pub end: Time,
}

/// What made an event happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The node started.
    Start,
    /// The node came back after a crash.
    Restart,
    /// A message arrived; its number in [`Recorded::messages`].
    Message(u32),
    /// A timer fired; its number in [`Recorded::timers`].
    Timer(u32),
    /// A task of an async node went on after the node's previous event.
    Task,
    /// The driver sent a message.
    Input,
    /// The node crashed.
    Crash,
    /// The node learned that its connection to this peer ended.
    Disconnected(NodeId),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which; what a change of its delay names.
    pub link: OnLink,
    /// The number of its kind.
    pub kind: u16,
    /// Its size.
    pub bytes: u64,
    /// The number of the event that sent it.
    pub by: u32,
    /// When it left its sender.
    pub sent: Time,
    /// When it arrived or will arrive; `None` if it never does.
    pub arrives: Option<Time>,
    /// The part of its way that was drawn: propagation and queueing.
    pub delay: u64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a message.
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
    /// Where.
    pub node: NodeId,
    /// Which.
    pub timer: everhold_node::Timer,
    /// The number of the event that set it.
    pub by: u32,
    /// When.
    pub set: Time,
    /// When it is due.
    pub due: Time,
    /// The event in which it fired; `None` if it was cancelled, moved, or still pending.
    pub fired: Option<u32>,
}

impl Recorded {
    /// The name of an event's kind.
    #[must_use]
    pub fn kind(&self, kind: u16) -> &str {
        self.kinds.get(usize::from(kind)).map_or("?", String::as_str)
    }

    /// True if the node was marked as a load generator.
    #[must_use]
    pub fn is_load(&self, node: NodeId) -> bool {
        // Most systems have no marks.
        let kind = || self.nodes.get(node.index()).map(|info| &info.kind);
        !self.load.is_empty() && kind().is_some_and(|kind| self.load.contains(kind))
    }

    /// True if a load generator sends or receives the message.
    #[must_use]
    pub fn is_of_load(&self, sent: &Sent) -> bool {
        self.is_load(sent.link.from) || self.is_load(sent.link.to)
    }

    /// The event that led to an event: the one that sent its message or set its timer, or the
    /// previous one at the node.
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

    /// The event before this one at the same node.
    #[must_use]
    pub fn previous(&self, event: u32) -> Option<u32> {
        let node = self.events[event as usize].node;
        (0..event).rev().find(|at| self.events[*at as usize].node == node)
    }
}

/// No record.
pub(crate) const NONE: u32 = u32::MAX;

/// Takes notes while a world runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    pub(crate) messages: Vec<Sent>,
    pub(crate) timers: Vec<TimerSet>,
    pub(crate) notes: Vec<(u32, String)>,
    pub(crate) states: Vec<Value>,
    pub(crate) payloads: Vec<Value>,
    /// States and contents are kept as well.
    pub(crate) full: bool,
}

impl Recorder {
    /// The event that goes on.
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
