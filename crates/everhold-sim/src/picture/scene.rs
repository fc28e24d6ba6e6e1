//! The contents of a picture: the steps of a recording in words.

use std::collections::BTreeMap;

use everhold_node::NodeId;
use everhold_trace::Value;
use everhold_trace::value::diff;

use super::glyphs::Glyphs;
use super::words;
use crate::env::DUPLICATE;
use crate::failure::Failure;
use crate::fault::{Fault, MessageId, Side};
use crate::record::{EventRecord, NodeInfo, Recording, SendRecord, SpawnRecord, StepRecord};

pub(super) struct Scene<'r> {
    pub(super) nodes: &'r [NodeInfo],
    pub(super) glyphs: &'static Glyphs,
    pub(super) happenings: Vec<Happening>,
    pub(super) failure: Option<&'r Failure>,
    pub(super) tail_at: Option<usize>,
    pub(super) lasso: Option<(usize, usize)>,
}

/// A step, ready to be drawn.
pub(super) struct Happening {
    pub(super) step: usize,
    pub(super) node: NodeId,
    /// The event, in a word or two.
    pub(super) label: String,
    pub(super) mark: Mark,
    /// The changes and the notes.
    pub(super) words: Vec<String>,
    /// Whether it is a fault or the end of one; these are never left out.
    pub(super) is_fault: bool,
    /// Whether it happens within the step of the happening before it.
    pub(super) within: bool,
}

/// The mark of a step in the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// At every node.
    Start,
    /// At a node that was not there before.
    Spawned,
    /// At its node.
    Event,
    Arrow(Arrow),
    Crash,
    Restart,
    Stop,
    /// These nodes are cut off from the others, in one direction or both.
    Partition(Side),
    Heal,
}

/// A message on its way to the step's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: NodeId,
    pub(super) text: String,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    Delayed,
}

impl<'r> Scene<'r> {
    pub(super) fn new(recording: &'r Recording, glyphs: &'static Glyphs) -> Self {
        let mut writer = Writer::new(recording, glyphs);
        let steps = recording.steps.iter().enumerate();
        let mut happenings: Vec<_> = steps.flat_map(|(at, step)| writer.step(at, step)).collect();
        // Every execution has this step; it is worth a row only if something was noted there.
        let silent = |first: &Happening| first.mark == Mark::Start && first.words.is_empty();
        if happenings.len() > 1 && happenings.first().is_some_and(silent) {
            happenings.remove(0);
        }
        Scene {
            nodes: &recording.nodes,
            glyphs,
            happenings,
            failure: recording.failure.as_ref(),
            tail_at: recording.tail_at,
            lasso: recording.lasso,
        }
    }

    /// The nodes at which something happens or from which a message comes, in order.
    pub(super) fn cast(&self) -> Vec<NodeId> {
        let mut cast: Vec<NodeId> = Vec::new();
        for happening in &self.happenings {
            match &happening.mark {
                Mark::Start => {}
                Mark::Arrow(arrow) => cast.extend([arrow.from, happening.node]),
                Mark::Spawned
                | Mark::Event
                | Mark::Crash
                | Mark::Restart
                | Mark::Stop
                | Mark::Partition(_)
                | Mark::Heal => cast.push(happening.node),
            }
        }
        cast.sort_unstable();
        cast.dedup();
        if cast.is_empty() { (0..self.nodes.len() as u32).map(NodeId).collect() } else { cast }
    }

    /// Whether the node is added in an execution that begins without it.
    pub(super) fn begins_without(&self, node: NodeId) -> bool {
        let added = |one: &Happening| one.node == node && one.mark == Mark::Spawned;
        self.happenings.iter().any(added)
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        words::name(node, self.nodes)
    }
}

/// Puts steps into words. It remembers earlier states, and where messages were sent.
struct Writer<'r> {
    recording: &'r Recording,
    glyphs: &'static Glyphs,
    states: Vec<Value>,
    sent: BTreeMap<MessageId, (usize, &'r SendRecord)>,
}

impl<'r> Writer<'r> {
    fn new(recording: &'r Recording, glyphs: &'static Glyphs) -> Self {
        let steps = recording.steps.iter().enumerate();
        let sends = steps.flat_map(|(at, step)| step.all_sends().map(move |send| (at, send)));
        Writer {
            recording,
            glyphs,
            states: recording.initial.clone(),
            sent: sends.map(|(at, send)| (send.message, (at, send))).collect(),
        }
    }

    /// The step itself, and the starts of the nodes that were added in it.
    fn step(&mut self, at: usize, step: &StepRecord) -> Vec<Happening> {
        let mut happenings = vec![self.happening(at, step)];
        happenings.extend(step.spawned.iter().map(|spawned| self.start_of(at, spawned)));
        happenings
    }

    fn start_of(&mut self, at: usize, spawned: &SpawnRecord) -> Happening {
        let notes = spawned.notes.iter().map(|note| words::message(note, &self.recording.nodes));
        let mut words: Vec<String> = notes.chain(self.undeliverable(&spawned.sends)).collect();
        words.iter_mut().for_each(|word| *word = word.replace('\n', " "));
        let index = spawned.node.index();
        self.states.resize(self.states.len().max(index + 1), Value::Null);
        self.states[index].clone_from(&spawned.state);
        Happening {
            step: at,
            node: spawned.node,
            label: "start".to_owned(),
            mark: Mark::Spawned,
            words,
            is_fault: false,
            within: true,
        }
    }

    fn happening(&mut self, at: usize, step: &StepRecord) -> Happening {
        let mark = self.mark(step);
        let mut words = self.about(step);
        if let Mark::Arrow(arrow) = &mark
            && arrow.from == step.node
        {
            words.push(format!("{} {} itself", arrow.text, self.glyphs.from));
        }
        words.extend(self.changes(at, step));
        words.extend(step.notes.iter().map(|note| words::message(note, &self.recording.nodes)));
        words.extend(self.undeliverable(&step.sends));
        let is_fault = match step.event {
            EventRecord::Fault(_) | EventRecord::Restart | EventRecord::Heal => true,
            EventRecord::Start
            | EventRecord::Deliver { .. }
            | EventRecord::Timer(_)
            | EventRecord::Poll(_)
            | EventRecord::Disconnected(_) => false,
        };
        // A note may have lines of its own.
        words.iter_mut().for_each(|word| *word = word.replace('\n', " "));
        let label = self.label(step);
        Happening { step: at, node: step.node, label, mark, words, is_fault, within: false }
    }

    fn label(&self, step: &StepRecord) -> String {
        match &step.event {
            EventRecord::Start => "start".to_owned(),
            EventRecord::Deliver { message, .. } => self.sent_at(*message),
            EventRecord::Timer(name) => format!("timer {name}"),
            EventRecord::Poll(task) => format!("task {task}"),
            EventRecord::Restart => "restart".to_owned(),
            EventRecord::Heal => "heal".to_owned(),
            EventRecord::Disconnected(_) => "disconnected".to_owned(),
            EventRecord::Fault(fault) => format!("! {}", fault_name(fault)),
        }
    }

    /// The step in which the message was sent, since the arrow stands where it arrives.
    fn sent_at(&self, message: MessageId) -> String {
        let again = message.sequence & DUPLICATE != 0;
        let at = self.sent.get(&original(message)).map(|(at, _)| *at);
        match (at, again) {
            (Some(0), false) => "sent at start".to_owned(),
            (Some(at), false) => format!("sent at {at}"),
            (Some(at), true) => format!("again, from {at}"),
            (None, true) => "again".to_owned(),
            (None, false) => String::new(),
        }
    }

    fn mark(&self, step: &StepRecord) -> Mark {
        match &step.event {
            EventRecord::Start => Mark::Start,
            EventRecord::Deliver { message, text, .. } => self.arrow(*message, text, Fate::Arrives),
            EventRecord::Timer(_) | EventRecord::Poll(_) | EventRecord::Disconnected(_) => {
                Mark::Event
            }
            EventRecord::Restart => Mark::Restart,
            EventRecord::Heal => Mark::Heal,
            EventRecord::Fault(fault) => self.fault_mark(fault),
        }
    }

    fn fault_mark(&self, fault: &Fault) -> Mark {
        let text = |message: MessageId| {
            self.sent.get(&original(message)).map_or("?", |(_, send)| send.text.as_str())
        };
        match *fault {
            Fault::Crash(_) => Mark::Crash,
            Fault::Stop(_) => Mark::Stop,
            Fault::Lose(message) => self.arrow(message, text(message), Fate::Lost),
            Fault::Duplicate(message) => self.arrow(message, text(message), Fate::Twice),
            Fault::Delay(message) => self.arrow(message, text(message), Fate::Delayed),
            Fault::Partition(side) | Fault::Mute(side) | Fault::Deafen(side) => {
                Mark::Partition(side)
            }
            Fault::Skew(..) | Fault::Reset(..) => Mark::Event,
        }
    }

    fn arrow(&self, message: MessageId, text: &str, fate: Fate) -> Mark {
        let text = words::message(text, &self.recording.nodes);
        Mark::Arrow(Arrow { from: message.from, text, fate })
    }

    /// The details of a step that its mark does not show.
    fn about(&self, step: &StepRecord) -> Vec<String> {
        let fault = match &step.event {
            EventRecord::Fault(fault) => fault,
            EventRecord::Disconnected(peer) => {
                return vec![format!("from {}", words::name(*peer, &self.recording.nodes))];
            }
            _ => return Vec::new(),
        };
        match *fault {
            Fault::Crash(_) => Vec::new(),
            Fault::Stop(_) => vec!["for good".to_owned()],
            Fault::Lose(_) => vec!["never arrives".to_owned()],
            Fault::Duplicate(_) => vec!["will arrive twice".to_owned()],
            Fault::Delay(_) => vec!["waits until nothing else can happen".to_owned()],
            Fault::Partition(side) => vec![self.sides(side)],
            Fault::Mute(side) => {
                let mute = self.names(|node| side.contains(node));
                vec![format!("{mute} can hear the others and is not heard")]
            }
            Fault::Deafen(side) => {
                let deaf = self.names(|node| side.contains(node));
                vec![format!("{deaf} is heard and cannot hear the others")]
            }
            Fault::Reset(_, other) => {
                let other = words::name(other, &self.recording.nodes);
                vec![format!("the connection with {other} breaks")]
            }
            Fault::Skew(_, quarters) => {
                vec![format!("clock {:+} % of the largest jump", i32::from(quarters) * 25)]
            }
        }
    }

    fn sides(&self, side: Side) -> String {
        let (cut, rest) =
            (self.names(|node| side.contains(node)), self.names(|node| !side.contains(node)));
        format!("{cut} | {rest}")
    }

    fn names(&self, which: impl Fn(NodeId) -> bool) -> String {
        let nodes = (0u32..).zip(&self.recording.nodes).filter(|(node, _)| which(NodeId(*node)));
        nodes.map(|(_, info)| info.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn changes(&mut self, at: usize, step: &StepRecord) -> Vec<String> {
        let is_last = at + 1 == self.recording.steps.len();
        let Some(before) = self.states.get_mut(step.node.index()) else { return Vec::new() };
        // A handler that panicked left no state behind, and the start shows none.
        let unseen = step.state == Value::Null && (is_last || step.event == EventRecord::Start);
        if unseen {
            return Vec::new();
        }
        let changes = diff(before, &step.state);
        before.clone_from(&step.state);
        let nodes = &self.recording.nodes;
        changes.iter().map(|change| words::change(change, nodes, self.glyphs)).collect()
    }

    /// The messages that no fault took, and that still had nowhere to go.
    fn undeliverable(&self, sends: &[SendRecord]) -> Vec<String> {
        let taken = |send: &SendRecord| {
            let lost = EventRecord::Fault(Fault::Lose(send.message));
            self.recording.steps.iter().any(|step| step.event == lost)
        };
        let nodes = &self.recording.nodes;
        let lost = sends.iter().filter(|send| send.lost && !taken(send));
        let words = |send: &SendRecord| {
            let text = words::message(&send.text, nodes);
            format!("{text} {} {} is lost", self.glyphs.becomes, words::name(send.to, nodes))
        };
        lost.map(words).collect()
    }
}

fn original(message: MessageId) -> MessageId {
    MessageId { sequence: message.sequence & !DUPLICATE, ..message }
}

fn fault_name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Crash(_) => "crash",
        Fault::Stop(_) => "stop",
        Fault::Lose(_) => "lose",
        Fault::Duplicate(_) => "duplicate",
        Fault::Delay(_) => "delay",
        Fault::Partition(_) => "partition",
        Fault::Skew(..) => "skew",
        Fault::Mute(_) | Fault::Deafen(_) => "one-way partition",
        Fault::Reset(..) => "reset",
    }
}
