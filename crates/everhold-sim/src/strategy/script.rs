//! The input of a replay: choices, and how each finds the message that it means.
//!
//! A token names messages by sender and number, which fits as long as the program and the earlier
//! choices are the same. More is known of an execution that shrinking edits: each message is "the
//! second one that was sent in that step", which stays true when earlier steps are removed.

use everhold_node::NodeId;

use crate::env::DUPLICATE;
use crate::fault::{Fault, MessageName};
use crate::schedule::{Choice, Schedule};

/// How to look for the message of a choice that does not exist exactly as named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// By number; or else the oldest message of its sort between the two nodes.
    Number,
    /// By number; or else the newest message of its sort between the two nodes.
    NumberOrNewest,
    /// By the step that sent it. Without that step it is left out, and so is everything that
    /// follows from it.
    Cause,
    /// By the step that sent it; or else the newest message of its sort between the two nodes, or
    /// the oldest if the named message was not the newest.
    CauseOrSort,
}

/// Choices to carry out.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) lines: Vec<Line>,
    pub(crate) fit: Fit,
    /// The number of choices of the execution from which the lines were taken.
    pub(crate) length: usize,
}

/// A choice of an execution.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) choice: Choice,
    /// Its place in that execution.
    pub(crate) place: usize,
    /// The origin of the message that it means.
    pub(crate) origin: Option<Origin>,
    /// Whether there was no newer message of its sort.
    pub(crate) newest: bool,
}

/// A message, identified by how it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The place of the choice that made its sender send it; `None` is the start.
    pub(crate) place: Option<usize>,
    /// The number of messages that the sender had sent in that step before.
    pub(crate) offset: u32,
}

/// A choice as it was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// The choice, with the names at that time.
    pub(crate) choice: Choice,
    /// The number of messages that its node had sent before.
    pub(crate) sent: u32,
    /// Whether there was no newer message of its sort.
    pub(crate) newest: bool,
}

impl Script {
    /// The choices of a token.
    pub(crate) fn of(schedule: &Schedule) -> Script {
        let line = |(place, choice): (usize, &Choice)| Line {
            choice: choice.clone(),
            place,
            origin: None,
            newest: false,
        };
        let lines = schedule.choices.iter().enumerate().map(line).collect();
        Script { lines, fit: Fit::Number, length: schedule.choices.len() }
    }
}

/// The lines of an execution, each message with its origin.
pub(crate) fn lines(happened: Vec<Happened>) -> Vec<Line> {
    let mut senders = Senders::default();
    let with_origin = |(place, Happened { choice, sent, newest }): (usize, Happened)| {
        let origin = message_of(&choice).map(|message| senders.origin(message));
        if let Some(node) = choice.node() {
            senders.stepped(node, sent, place);
        }
        Line { choice, place, origin, newest }
    };
    happened.into_iter().enumerate().map(with_origin).collect()
}

/// The steps of each node so far: the number of messages that it had sent before each, and its
/// place.
#[derive(Default)]
struct Senders(Vec<Vec<(u32, usize)>>);

impl Senders {
    fn stepped(&mut self, node: NodeId, sent: u32, place: usize) {
        if self.0.len() <= node.index() {
            self.0.resize_with(node.index() + 1, Vec::new);
        }
        self.0[node.index()].push((sent, place));
    }

    fn origin(&self, message: MessageName) -> Origin {
        let number = message.sequence & !DUPLICATE;
        let steps = self.0.get(message.from.index()).map_or(&[][..], Vec::as_slice);
        let until = steps.partition_point(|(sent, _)| *sent <= number);
        match until.checked_sub(1).map(|at| steps[at]) {
            Some((sent, place)) => Origin { place: Some(place), offset: number - sent },
            None => Origin { place: None, offset: number },
        }
    }
}

/// The message that a choice is about.
pub(crate) fn message_of(choice: &Choice) -> Option<MessageName> {
    match choice {
        Choice::Deliver { message, .. }
        | Choice::Fault(Fault::Lose(message) | Fault::Duplicate(message) | Fault::Delay(message)) => {
            Some(*message)
        }
        _ => None,
    }
}

/// The same choice about another message.
pub(crate) fn about_message(choice: &Choice, message: MessageName) -> Choice {
    match choice {
        Choice::Deliver { to, kind, .. } => {
            Choice::Deliver { to: *to, message, kind: kind.clone() }
        }
        Choice::Fault(Fault::Lose(_)) => Choice::Fault(Fault::Lose(message)),
        Choice::Fault(Fault::Duplicate(_)) => Choice::Fault(Fault::Duplicate(message)),
        Choice::Fault(Fault::Delay(_)) => Choice::Fault(Fault::Delay(message)),
        other => other.clone(),
    }
}
