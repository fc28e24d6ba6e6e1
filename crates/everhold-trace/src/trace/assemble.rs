//! From events as read to an execution: match messages, put events in order, report what is wrong.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use super::{Execution, Message, NodeInfo};
use crate::event::{Event, EventId, EventKind, Mark, MarkKind, MessageId, Observation};
use crate::value::{self, ApplyError};
use crate::{Order, Value};

/// Something in a log that cannot have happened as written, or a hole in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line of the event in the file, from 1; `None` when it did not come from a file.
    pub line: Option<u64>,
    /// The node at whose event it showed.
    pub node: String,
    /// The problem itself.
    pub kind: ProblemKind,
}

/// A reason why a set of events is not an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A delivery names a message that no event sent.
    ReceiveWithoutSend(MessageId),
    /// Two sends have one identity. The first is kept.
    SentTwice(MessageId),
    /// A message arrived at a node that it was not sent to.
    WrongReceiver(MessageId),
    /// The delivery of a message happens before its send.
    Cycle(MessageId),
    /// A node took a step between its crash and its restart.
    StepWhileDown,
    /// A change does not fit the state before it.
    BadChange(ApplyError),
    /// A mark names a message that no event sent.
    UnknownMark(MessageId),
    /// The log's vector clock is not the one that the messages give.
    ClockMismatch {
        /// The entry that differs, by the node's name.
        entry: String,
        /// The length that the log states.
        logged: u64,
        /// The length that follows from the messages.
        rebuilt: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "node `{}`: {}", self.node, self.kind)
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemKind::ReceiveWithoutSend(id) => write!(
                f,
                "receive of message {id} without a send; record the send, or read leniently to \
                 keep the event without its cause"
            ),
            ProblemKind::SentTwice(id) => write!(
                f,
                "message {id} is sent twice; a sender must not use a sequence number again"
            ),
            ProblemKind::WrongReceiver(id) => {
                write!(f, "message {id} was sent to another node; leave out `to` for a broadcast")
            }
            ProblemKind::Cycle(id) => write!(
                f,
                "message {id} is received before it is sent; check the order of each node's events"
            ),
            ProblemKind::StepWhileDown => {
                f.write_str("a step after a crash; record the restart first")
            }
            ProblemKind::BadChange(error) => error.fmt(f),
            ProblemKind::UnknownMark(id) => {
                write!(f, "a mark names message {id}, which no event sent")
            }
            ProblemKind::ClockMismatch { entry, logged, rebuilt } => write!(
                f,
                "the logged clock has {logged} for `{entry}`, the messages give {rebuilt}; a clock \
                 ticks once an event and takes the maximum at a receive"
            ),
        }
    }
}

/// The parts of an execution, as recorded or read, before they are checked.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) name: String,
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) events: Vec<Event>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) notes: BTreeMap<String, Value>,
    /// The line of each event; empty when there is no file.
    pub(crate) lines: Vec<u64>,
    pub(crate) complete: bool,
}

/// Makes an execution of the parts. Whatever is wrong is reported, and the execution is what
/// remains when the wrong tie (never the event) is left out.
pub(crate) fn assemble(parts: Assembly) -> (Execution, Vec<Problem>) {
    let mut assembler = Assembler { parts, problems: Vec::new() };
    let mut messages = assembler.collect_sends();
    assembler.match_deliveries(&mut messages);
    assembler.match_marks(&mut messages);
    assembler.check_lives();
    assembler.check_changes();
    let order = assembler.order(&mut messages);
    let lines = lines_in(&assembler.parts.lines, order.as_deref());
    let (execution, mut problems) = assembler.build(messages, order.as_deref());
    if execution.events().iter().any(|event| event.clock.is_some()) {
        let wrong = Order::of(&execution).check_clocks(&execution).into_iter();
        problems.extend(wrong.map(|(event, problem)| Problem {
            line: lines.get(event.index()).copied(),
            ..problem
        }));
    }
    (execution, problems)
}

/// The line of each event after the events were put in order.
fn lines_in(lines: &[u64], order: Option<&[u32]>) -> Vec<u64> {
    match order {
        Some(order) if !lines.is_empty() => order.iter().map(|e| lines[*e as usize]).collect(),
        _ => lines.to_vec(),
    }
}

struct Assembler {
    parts: Assembly,
    problems: Vec<Problem>,
}

impl Assembler {
    fn report(&mut self, event: usize, kind: ProblemKind) {
        let node = self.parts.events[event].node;
        self.problems.push(Problem {
            line: self.parts.lines.get(event).copied(),
            node: self.parts.nodes[node.index()].name.clone(),
            kind,
        });
    }

    /// All sent messages, sorted by identity.
    fn collect_sends(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        for (place, event) in self.parts.events.iter().enumerate() {
            for (slot, id) in event.sent().enumerate() {
                let (sent, slot) = (Some(event_id(place)), u32::try_from(slot).unwrap_or(u32::MAX));
                messages.push(Message { id, sent, slot, delivered: Vec::new(), lost: false });
            }
        }
        // Stable: of two sends with one identity the earlier stays.
        messages.sort_by_key(|message| message.id);
        let mut again = Vec::new();
        messages.dedup_by(|later, first| {
            let same = later.id == first.id;
            if same {
                again.push((later.sent, later.id));
            }
            same
        });
        for (event, id) in again {
            self.report(event.map_or(0, EventId::index), ProblemKind::SentTwice(id));
        }
        messages
    }

    fn match_deliveries(&mut self, messages: &mut Vec<Message>) {
        let mut orphans: BTreeMap<MessageId, Vec<EventId>> = BTreeMap::new();
        let mut found = Vec::new();
        for place in 0..self.parts.events.len() {
            found.clear();
            found.extend(self.parts.events[place].received());
            for &id in &found {
                match messages.binary_search_by_key(&id, |message| message.id) {
                    Ok(at) if self.may_receive(place, &messages[at]) => {
                        messages[at].delivered.push(event_id(place));
                    }
                    Ok(_) => self.report(place, ProblemKind::WrongReceiver(id)),
                    Err(_) => {
                        self.report(place, ProblemKind::ReceiveWithoutSend(id));
                        orphans.entry(id).or_default().push(event_id(place));
                    }
                }
            }
        }
        messages.extend(orphans.into_iter().map(|(id, delivered)| Message {
            id,
            sent: None,
            slot: 0,
            delivered,
            lost: false,
        }));
        messages.sort_by_key(|message| message.id);
    }

    fn may_receive(&self, place: usize, message: &Message) -> bool {
        let send = message.sent.map(|sent| &self.parts.events[sent.index()].sends);
        let to = send.and_then(|sends| sends.get(message.slot as usize)).and_then(|send| send.to);
        to.is_none_or(|to| to == self.parts.events[place].node)
    }

    fn match_marks(&mut self, messages: &mut [Message]) {
        for i in 0..self.parts.marks.len() {
            let mark = &self.parts.marks[i];
            let (MarkKind::Lost(id) | MarkKind::Duplicated(id)) = mark.kind else { continue };
            match messages.binary_search_by_key(&id, |message| message.id) {
                Ok(at) => messages[at].lost |= matches!(mark.kind, MarkKind::Lost(_)),
                Err(_) => {
                    let node = self.parts.nodes.get(id.sender.index());
                    let node = node.map_or_else(|| id.sender.to_string(), |n| n.name.clone());
                    let kind = ProblemKind::UnknownMark(id);
                    self.problems.push(Problem { line: None, node, kind });
                }
            }
        }
    }

    fn check_lives(&mut self) {
        let mut down = vec![false; self.parts.nodes.len()];
        for node in &mut self.parts.nodes {
            node.incarnations = 1;
        }
        for place in 0..self.parts.events.len() {
            let event = &self.parts.events[place];
            let node = event.node.index();
            match event.kind {
                EventKind::Restart => {
                    down[node] = false;
                    self.parts.nodes[node].incarnations += 1;
                }
                _ if down[node] => self.report(place, ProblemKind::StepWhileDown),
                EventKind::Crash => down[node] = true,
                _ => {}
            }
        }
    }

    fn check_changes(&mut self) {
        let changes = |event: &Event| matches!(event.observation, Some(Observation::Changes(_)));
        if !self.parts.events.iter().any(changes) {
            return;
        }
        let mut states = vec![Value::Null; self.parts.nodes.len()];
        for place in 0..self.parts.events.len() {
            let event = &self.parts.events[place];
            let state = &mut states[event.node.index()];
            let result = match &event.observation {
                Some(Observation::State(new)) => {
                    state.clone_from(new);
                    Ok(())
                }
                Some(Observation::Changes(changes)) => value::apply(state, changes),
                None => {
                    if event.kind == EventKind::Crash {
                        *state = Value::Null;
                    }
                    Ok(())
                }
            };
            if let Err(error) = result {
                self.report(place, ProblemKind::BadChange(error));
            }
        }
    }

    /// The order of events that respects happens-before; `None` when they already are in one.
    fn order(&mut self, messages: &mut [Message]) -> Option<Vec<u32>> {
        let backward = |m: &Message| m.delivered.iter().any(|d| m.sent.is_some_and(|s| s >= *d));
        if !messages.iter().any(backward) {
            return None;
        }
        let mut sorter = Sorter::new(&self.parts.events, messages, self.parts.nodes.len());
        let mut order = Vec::with_capacity(self.parts.events.len());
        loop {
            sorter.drain(&mut order);
            // The remaining events wait for each other: cut the first delivery that waits.
            let Some((event, id)) = sorter.cut() else { break };
            self.report(event.index(), ProblemKind::Cycle(id));
            if let Ok(at) = messages.binary_search_by_key(&id, |message| message.id) {
                messages[at].delivered.retain(|delivery| *delivery != event);
            }
        }
        debug_assert_eq!(order.len(), self.parts.events.len());
        Some(order)
    }

    fn build(self, mut messages: Vec<Message>, order: Option<&[u32]>) -> (Execution, Vec<Problem>) {
        let Assembly { name, nodes, mut events, marks, notes, complete, .. } = self.parts;
        if let Some(order) = order {
            events = reorder(events, order, &mut messages);
        }
        let mut by_node = vec![Vec::new(); nodes.len()];
        let mut index = Vec::with_capacity(events.len());
        for (place, event) in events.iter().enumerate() {
            let own: &mut Vec<EventId> = &mut by_node[event.node.index()];
            index.push(u32::try_from(own.len()).expect("event ids are 32 bits"));
            own.push(event_id(place));
        }
        let execution =
            Execution { name, nodes, events, marks, notes, by_node, index, messages, complete };
        (execution, self.problems)
    }
}

fn event_id(place: usize) -> EventId {
    EventId(u32::try_from(place).expect("event ids are 32 bits"))
}

fn reorder(events: Vec<Event>, order: &[u32], messages: &mut [Message]) -> Vec<Event> {
    let mut place = vec![EventId(0); events.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old as usize] = event_id(new);
    }
    for message in messages {
        message.sent = message.sent.map(|sent| place[sent.index()]);
        for delivery in &mut message.delivered {
            *delivery = place[delivery.index()];
        }
        message.delivered.sort_unstable();
    }
    let mut events: Vec<Option<Event>> = events.into_iter().map(Some).collect();
    let take = |old: &u32| events[*old as usize].take().expect("an order names each event once");
    order.iter().map(take).collect()
}

/// Kahn's algorithm, taking the earliest event of the log that may come next, so that a log that
/// is nearly in order stays nearly as it is.
struct Sorter {
    /// For each event, the events that wait for it.
    waiters: Vec<Vec<u32>>,
    waits_for: Vec<u32>,
    /// The messages each event waits for.
    messages: Vec<Vec<(u32, MessageId)>>,
    ready: BinaryHeap<Reverse<u32>>,
    done: Vec<bool>,
    /// No event before this one waits for a message; it only moves forward.
    cut_from: usize,
}

impl Sorter {
    fn new(events: &[Event], messages: &[Message], nodes: usize) -> Sorter {
        let count = events.len();
        let mut sorter = Sorter {
            waiters: vec![Vec::new(); count],
            waits_for: vec![0; count],
            messages: vec![Vec::new(); count],
            ready: BinaryHeap::new(),
            done: vec![false; count],
            cut_from: 0,
        };
        let mut last: Vec<Option<u32>> = vec![None; nodes];
        for (place, event) in events.iter().enumerate() {
            let place = event_id(place).0;
            if let Some(before) = last[event.node.index()].replace(place) {
                sorter.wait(place, before);
            }
        }
        for message in messages {
            let Some(sent) = message.sent else { continue };
            for delivery in &message.delivered {
                sorter.wait(delivery.0, sent.0);
                sorter.messages[delivery.index()].push((sent.0, message.id));
            }
        }
        let free = (0..event_id(count).0).filter(|event| sorter.waits_for[*event as usize] == 0);
        sorter.ready = free.map(Reverse).collect();
        sorter
    }

    fn wait(&mut self, event: u32, on: u32) {
        self.waiters[on as usize].push(event);
        self.waits_for[event as usize] += 1;
    }

    fn drain(&mut self, order: &mut Vec<u32>) {
        while let Some(Reverse(event)) = self.ready.pop() {
            self.done[event as usize] = true;
            order.push(event);
            for waiter in std::mem::take(&mut self.waiters[event as usize]) {
                self.release(waiter);
            }
        }
    }

    fn release(&mut self, waiter: u32) {
        self.waits_for[waiter as usize] -= 1;
        if self.waits_for[waiter as usize] == 0 {
            self.ready.push(Reverse(waiter));
        }
    }

    /// Frees the earliest event that waits for a message; `None` when nothing waits.
    fn cut(&mut self) -> Option<(EventId, MessageId)> {
        let stuck = |&place: &usize| {
            !self.done[place]
                && self.messages[place].iter().any(|(sent, _)| !self.done[*sent as usize])
        };
        let place = (self.cut_from..self.done.len()).find(stuck)?;
        self.cut_from = place;
        let own = &mut self.messages[place];
        let at = own.iter().position(|(sent, _)| !self.done[*sent as usize])?;
        let (sent, id) = own.swap_remove(at);
        let waiters = &mut self.waiters[sent as usize];
        let edge = waiters.iter().position(|waiter| *waiter as usize == place)?;
        waiters.swap_remove(edge);
        self.release(u32::try_from(place).ok()?);
        Some((event_id(place), id))
    }
}
