//! The contents of a picture: the steps of a recording in words.

use std::collections::BTreeMap;

use everhold_node::NodeId;
use everhold_report::picture::{Arrow, Charset, Ending, Mark, Passage, Picture, Step, Words};
use everhold_trace::Value;
use everhold_trace::value::diff;

use crate::env::DUPLICATE;
use crate::failure::{Cause, Failure};
use crate::fault::{Fault, MessageName, Side};
use crate::record::{EventRecord, RunRecord, SendRecord, SpawnRecord, StepRecord};

/// The contents of the picture of a recording.
pub(super) fn picture(recording: &RunRecord, charset: Charset) -> Picture {
    let names: Vec<String> = recording.nodes.iter().map(|node| node.name.clone()).collect();
    let mut writer = Writer::new(recording, Words::new(names.clone(), charset));
    let steps = recording.steps.iter().enumerate();
    let mut steps: Vec<_> = steps.flat_map(|(at, step)| writer.step(at, step)).collect();
    // Every execution has this step; it is worth a row only if something was noted there.
    let silent = |first: &Step| first.mark == Mark::Start && first.words.is_empty();
    if steps.len() > 1 && steps.first().is_some_and(silent) {
        steps.remove(0);
    }
    let failure = recording.failure.as_ref().map(ending);
    Picture { names, steps, failure, tail_at: recording.tail_at, round: recording.lasso }
}

fn ending(failure: &Failure) -> Ending {
    let at_last = !(failure.cause.is_progress() || matches!(failure.cause, Cause::Deadlock(_)));
    Ending { text: failure.to_string(), at_last }
}

/// Puts steps into words. It remembers earlier states, and where messages were sent.
struct Writer<'r> {
    recording: &'r RunRecord,
    words: Words,
    states: Vec<Value>,
    sent: BTreeMap<MessageName, (usize, &'r SendRecord)>,
}

impl<'r> Writer<'r> {
    fn new(recording: &'r RunRecord, words: Words) -> Self {
        let steps = recording.steps.iter().enumerate();
        let sends = steps.flat_map(|(at, step)| step.all_sends().map(move |send| (at, send)));
        Writer {
            recording,
            words,
            states: recording.initial.clone(),
            sent: sends.map(|(at, send)| (send.message, (at, send))).collect(),
        }
    }

    /// The step itself, and the starts of the nodes that were added in it.
    fn step(&mut self, at: usize, step: &StepRecord) -> Vec<Step> {
        let mut steps = vec![self.own_step(at, step)];
        steps.extend(step.spawned.iter().map(|spawned| self.start_of(at, spawned)));
        steps
    }

    fn start_of(&mut self, at: usize, spawned: &SpawnRecord) -> Step {
        let notes = spawned.notes.iter().map(|note| self.words.message(note));
        let mut words: Vec<String> = notes.chain(self.undeliverable(&spawned.sends)).collect();
        words.iter_mut().for_each(|word| *word = word.replace('\n', " "));
        let index = spawned.node.index();
        self.states.resize(self.states.len().max(index + 1), Value::Null);
        self.states[index].clone_from(&spawned.state);
        Step {
            number: at,
            node: spawned.node,
            label: "start".to_owned(),
            mark: Mark::Spawned,
            words,
            is_fault: false,
            within: true,
        }
    }

    fn own_step(&mut self, at: usize, step: &StepRecord) -> Step {
        let mark = self.mark(step);
        let mut words = self.about(step);
        if let Mark::Arrow(arrow) = &mark
            && arrow.from == step.node
        {
            words.push(self.words.from(&arrow.text, "itself"));
        }
        words.extend(self.changes(at, step));
        words.extend(step.notes.iter().map(|note| self.words.message(note)));
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
        Step { number: at, node: step.node, label, mark, words, is_fault, within: false }
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
    fn sent_at(&self, message: MessageName) -> String {
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
            EventRecord::Deliver { message, text, .. } => {
                self.arrow(*message, text, Passage::Arrives)
            }
            EventRecord::Timer(_) | EventRecord::Poll(_) | EventRecord::Disconnected(_) => {
                Mark::Event
            }
            EventRecord::Restart => Mark::Restart,
            EventRecord::Heal => Mark::Heal,
            EventRecord::Fault(fault) => self.fault_mark(fault),
        }
    }

    fn fault_mark(&self, fault: &Fault) -> Mark {
        let text = |message: MessageName| {
            self.sent.get(&original(message)).map_or("?", |(_, send)| send.text.as_str())
        };
        match *fault {
            Fault::Crash(_) => Mark::Crash,
            Fault::Stop(_) => Mark::Stop,
            Fault::Lose(message) => self.arrow(message, text(message), Passage::Lost),
            Fault::Duplicate(message) => self.arrow(message, text(message), Passage::Twice),
            Fault::Delay(message) => self.arrow(message, text(message), Passage::Delayed),
            Fault::Partition(side) | Fault::Mute(side) | Fault::Deafen(side) => {
                Mark::Partition(side.nodes().to_vec())
            }
            Fault::Skew(..) | Fault::Reset(..) => Mark::Event,
        }
    }

    fn arrow(&self, message: MessageName, text: &str, passage: Passage) -> Mark {
        let text = self.words.message(text);
        Mark::Arrow(Arrow { from: message.from, text, passage })
    }

    /// The details of a step that its mark does not show.
    fn about(&self, step: &StepRecord) -> Vec<String> {
        let fault = match &step.event {
            EventRecord::Fault(fault) => fault,
            EventRecord::Disconnected(peer) => {
                return vec![format!("from {}", self.words.name(*peer))];
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
                let other = self.words.name(other);
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
        self.words.changes(&changes)
    }

    /// The messages that no fault took, and that still had nowhere to go.
    fn undeliverable(&self, sends: &[SendRecord]) -> Vec<String> {
        let taken = |send: &SendRecord| {
            let lost = EventRecord::Fault(Fault::Lose(send.message));
            self.recording.steps.iter().any(|step| step.event == lost)
        };
        let lost = sends.iter().filter(|send| send.lost && !taken(send));
        let words = |send: &SendRecord| {
            self.words.lost(&self.words.message(&send.text), &self.words.name(send.to))
        };
        lost.map(words).collect()
    }
}

fn original(message: MessageName) -> MessageName {
    MessageName { sequence: message.sequence & !DUPLICATE, ..message }
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
