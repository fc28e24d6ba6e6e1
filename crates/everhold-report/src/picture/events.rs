//! The events and faults of an execution, as steps in words.

use std::ops::Range;

use everhold_trace::value::diff;
use everhold_trace::{
    Event, EventId, EventKind, Execution, MarkKind, MessageId, NodeId, Value, notes,
};

use super::{Arrow, Charset, Ending, Mark, Passage, Picture, Step, Words};

/// The part of an execution that a picture shows. The default is all of it.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The range of the positions of its events; `None` for all.
    pub events: Option<Range<usize>>,
    /// Its nodes; empty for all.
    pub nodes: Vec<NodeId>,
}

impl Part {
    fn has(&self, node: NodeId) -> bool {
        self.nodes.is_empty() || self.nodes.contains(&node)
    }
}

/// The longest name of a fault that stands among the labels of steps.
const LABEL_MAX: usize = 14;

pub(super) fn picture(execution: &Execution, part: &Part, charset: Charset) -> Picture {
    let names: Vec<String> = execution.nodes().iter().map(|node| tidy(&node.name)).collect();
    let words = Words::new(names.clone(), charset);
    let all = 0..execution.events().len();
    let range = part.events.clone().unwrap_or(all);
    let mut writer = Writer { execution, words, seen: vec![None; names.len()] };
    let steps = writer.steps(part, &range);
    let failure = ending(execution, &range);
    Picture { names, steps, failure, tail_at: None, round: None }
}

/// The violation that the execution's notes tell of, if the picture shows its event.
fn ending(execution: &Execution, range: &Range<usize>) -> Option<Ending> {
    let Some(Value::Text(property)) = execution.notes().get(notes::PROPERTY) else { return None };
    let Some(Value::Int(at)) = execution.notes().get(notes::STEP) else { return None };
    let is_shown = usize::try_from(*at).is_ok_and(|at| range.contains(&at));
    let text = format!("{} violated at {at}", tidy(property));
    is_shown.then_some(Ending { text, at_last: false })
}

/// A text on one line, without characters that a terminal obeys.
fn tidy(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Puts events into words. It remembers the last state that each node showed.
struct Writer<'e> {
    execution: &'e Execution,
    words: Words,
    seen: Vec<Option<Value>>,
}

impl Writer<'_> {
    fn steps(&mut self, part: &Part, range: &Range<usize>) -> Vec<Step> {
        let execution = self.execution;
        let states = execution.local_states();
        let mut marks = execution.marks().iter().peekable();
        let mut steps = Vec::new();
        let mut has_begun = false;
        for (at, event) in execution.events().iter().enumerate().take(range.end) {
            while let Some(mark) = marks.next_if(|mark| mark.after as usize <= at) {
                if mark.after as usize >= range.start {
                    steps.extend(self.fault(at, &mark.kind));
                }
            }
            let own = execution.events_of(event.node).partition_point(|id| id.index() <= at);
            let state = event.observation.as_ref().and_then(|_| states.at(event.node, own));
            let changes = self.changes(event.node, state);
            if at >= range.start && part.has(event.node) {
                steps.push(self.event(at, event, changes, has_begun));
            }
            has_begun |= event.kind != EventKind::Start;
        }
        for mark in marks.filter(|mark| mark.after as usize <= range.end) {
            steps.extend(self.fault(range.end.saturating_sub(1), &mark.kind));
        }
        steps.iter_mut().for_each(plain);
        steps
    }

    fn event(&self, at: usize, event: &Event, changes: Vec<String>, has_begun: bool) -> Step {
        let (mark, label) = self.mark(at, event, has_begun);
        let mut words = Vec::new();
        let drawn = usize::from(matches!(mark, Mark::Arrow(_)));
        if let Mark::Arrow(Arrow { from, text, .. }) = &mark
            && *from == event.node
        {
            words.push(self.words.from(text, "itself"));
        }
        for message in event.received().skip(drawn) {
            words.push(self.words.from(&self.message(message), &self.words.name(message.sender)));
        }
        words.extend(changes);
        words.extend(event.text.iter().flat_map(|text| text.lines()).map(str::to_owned));
        words.extend(self.undeliverable(at, event));
        let is_fault = matches!(event.kind, EventKind::Crash | EventKind::Restart);
        Step { number: at, node: event.node, label, mark, words, is_fault, within: false }
    }

    fn mark(&self, at: usize, event: &Event, has_begun: bool) -> (Mark, String) {
        let label = match &event.kind {
            EventKind::Crash => return (Mark::Crash, "! crash".to_owned()),
            EventKind::Restart => return (Mark::Restart, "restart".to_owned()),
            EventKind::Start if has_begun => return (Mark::Spawned, "start".to_owned()),
            EventKind::Start => return (Mark::Event, "start".to_owned()),
            EventKind::Deliver { .. } => String::new(),
            EventKind::Local { name } if !name.is_empty() => name.clone(),
            kind => format!("{} {}", kind.word(), kind.name().unwrap_or_default()),
        };
        let Some(message) = event.received().next() else { return (Mark::Event, label) };
        let arrow = self.arrow(message, Passage::Arrives);
        let sent = self.sent_at(at, message);
        (arrow, if label.is_empty() { sent } else { label })
    }

    fn arrow(&self, message: MessageId, passage: Passage) -> Mark {
        Mark::Arrow(Arrow { from: message.sender, text: self.message(message), passage })
    }

    /// The event that sent the message, since the arrow stands where it arrives.
    fn sent_at(&self, at: usize, id: MessageId) -> String {
        let Some(message) = self.execution.message(id) else { return String::new() };
        let node = self.execution.events()[at].node;
        let earlier = message.delivered.iter().take_while(|event| event.index() < at);
        let is_again = earlier.into_iter().any(|event| self.execution.event(*event).node == node);
        match (message.sent, is_again) {
            (Some(EventId(sent)), false) => format!("sent at {sent}"),
            (Some(EventId(sent)), true) => format!("again, from {sent}"),
            (None, true) => "again".to_owned(),
            (None, false) => "deliver".to_owned(),
        }
    }

    /// A message by its contents, its label, or its sender and number.
    fn message(&self, id: MessageId) -> String {
        let message = self.execution.message(id);
        let send = message.and_then(|message| self.execution.send_of(message));
        let label = send.map_or("", |send| send.label.as_str());
        match send.and_then(|send| send.payload.as_ref()) {
            Some(value @ Value::Variant { .. }) => self.words.value(value),
            Some(value @ Value::Text(text)) if label.is_empty() || text == label => {
                self.words.value(value)
            }
            None | Some(Value::Null) if label.is_empty() => {
                format!("{}#{}", self.words.name(id.sender), id.seq)
            }
            None | Some(Value::Null) => label.to_owned(),
            Some(value) => format!("{label} {}", self.words.value(value)).trim_start().to_owned(),
        }
    }

    /// The changes since the last state that the node showed, and the first state as a whole.
    fn changes(&mut self, node: NodeId, state: Option<&Value>) -> Vec<String> {
        let (Some(state), Some(seen)) = (state, self.seen.get_mut(node.index())) else {
            return Vec::new();
        };
        let before = seen.replace(state.clone());
        match before {
            Some(before) => self.words.changes(&diff(&before, state)),
            None => vec![self.words.value(state)],
        }
    }

    /// The messages that were lost at the event that sent them.
    fn undeliverable(&self, at: usize, event: &Event) -> Vec<String> {
        let lost = |id: &MessageId| {
            let marks = self.execution.marks().iter();
            let first = self.execution.marks().partition_point(|mark| mark.after as usize <= at);
            let mut next = marks.skip(first).take_while(|mark| mark.after as usize == at + 1);
            next.any(|mark| mark.kind == MarkKind::Lost(*id))
        };
        let words = |id: MessageId| {
            let to = self.receiver(id).map_or_else(|| "all".to_owned(), |to| self.words.name(to));
            self.words.lost(&self.message(id), &to)
        };
        event.sent().filter(lost).map(words).collect()
    }

    fn receiver(&self, id: MessageId) -> Option<NodeId> {
        self.execution.message(id).and_then(|message| self.execution.send_of(message)?.to)
    }

    /// A fault before the event at a position. None for a message that was lost when it was sent,
    /// since the sending event tells of it.
    fn fault(&self, at: usize, kind: &MarkKind) -> Option<Step> {
        let step = |node, label: &str, mark, words: &[String]| {
            let (label, words) = (label.to_owned(), words.to_vec());
            Some(Step { number: at, node, label, mark, words, is_fault: true, within: true })
        };
        match kind {
            MarkKind::Lost(id) => {
                let sent = self.execution.message(*id).and_then(|message| message.sent);
                if sent.is_some_and(|sent| self.is_lost_at_once(sent, *id)) {
                    return None;
                }
                let to = self.receiver(*id).unwrap_or(id.sender);
                let words = ["never arrives".to_owned()];
                step(to, "! lose", self.arrow(*id, Passage::Lost), &words)
            }
            MarkKind::Duplicated(id) => {
                let to = self.receiver(*id).unwrap_or(id.sender);
                let words = ["will arrive twice".to_owned()];
                step(to, "! duplicate", self.arrow(*id, Passage::Twice), &words)
            }
            MarkKind::Partition(groups) => {
                let (cut, words) = self.groups(groups);
                let node = cut.first().copied().unwrap_or(NodeId(0));
                step(node, "! partition", Mark::Partition(cut), &[words])
            }
            MarkKind::Heal => step(NodeId(0), "heal", Mark::Heal, &[]),
            MarkKind::Fault { node, name } => {
                let mark = node.map_or(Mark::Nowhere, |_| Mark::Event);
                let node = node.unwrap_or(NodeId(0));
                match name.chars().count() {
                    ..=LABEL_MAX => step(node, &format!("! {name}"), mark, &[]),
                    _ => step(node, "! fault", mark, std::slice::from_ref(name)),
                }
            }
        }
    }

    fn is_lost_at_once(&self, sent: EventId, id: MessageId) -> bool {
        let mut marks = self.execution.marks().iter();
        marks.any(|mark| mark.kind == MarkKind::Lost(id) && mark.after == sent.0 + 1)
    }

    /// The nodes outside the largest group, and all groups in words.
    fn groups(&self, groups: &[Vec<NodeId>]) -> (Vec<NodeId>, String) {
        let largest = (0..groups.len()).max_by_key(|at| groups[*at].len());
        let others = groups.iter().enumerate().filter(|(at, _)| Some(*at) != largest);
        let cut = others.flat_map(|(_, group)| group.iter().copied()).collect();
        let names = |group: &Vec<NodeId>| {
            group.iter().map(|node| self.words.name(*node)).collect::<Vec<_>>().join(", ")
        };
        (cut, groups.iter().map(names).collect::<Vec<_>>().join(" | "))
    }
}

/// Makes every text of a step a single line.
fn plain(step: &mut Step) {
    step.label = tidy(step.label.trim_end());
    step.words.iter_mut().for_each(|word| *word = tidy(word));
    step.words.retain(|word| !word.is_empty());
    if let Mark::Arrow(arrow) = &mut step.mark {
        arrow.text = tidy(&arrow.text);
    }
}
