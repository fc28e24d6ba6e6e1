//! Doing it again: exactly, by position, or tolerantly, by node and label.

use std::cell::RefCell;
use std::rc::Rc;

use everhold_node::NodeId;

use crate::fault::MessageId;
use crate::moves::{Move, Moves, What, identity};
use crate::schedule::{Choice, Schedule};
use crate::strategy::{About, Followed, Run, Strategy};

/// Repeats the log of a search step for step. Fits only the program that wrote it.
#[derive(Debug, Default)]
pub struct RawReplay {
    log: Vec<u32>,
    at: usize,
    tail_at: Option<usize>,
    tail_due: bool,
    /// The first place where the log did not fit.
    pub(crate) misfit: Option<usize>,
}

impl RawReplay {
    /// Repeats `log`; the fair tail began at the choice `tail_at`.
    #[must_use]
    pub fn new(log: Vec<u32>, tail_at: Option<usize>) -> Self {
        RawReplay { log, at: 0, tail_at, tail_due: false, misfit: None }
    }

    fn next(&mut self, domain: u32) -> Option<u32> {
        let choice = *self.log.get(self.at)?;
        self.at += 1;
        if choice >= domain {
            self.misfit.get_or_insert(self.at - 1);
            return None;
        }
        Some(choice)
    }
}

impl Strategy for RawReplay {
    fn begin(&mut self, _: &Run) {
        self.at = 0;
        self.misfit = None;
    }

    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        if self.tail_at == Some(self.at) {
            self.tail_at = None;
            self.tail_due = true;
            return None;
        }
        self.next(moves.picks())
    }

    fn at_quiet(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        if self.tail_at == Some(self.at) { None } else { self.next(moves.picks()) }
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        self.next(domain)
    }

    fn is_replay(&self) -> bool {
        true
    }

    fn wants_tail(&mut self) -> bool {
        std::mem::take(&mut self.tail_due)
    }
}

/// Repeats a schedule by node and label, so that it still fits after an edit.
///
/// What cannot happen is skipped; the [`Trail`] tells what was.
#[derive(Debug)]
pub struct Replay {
    choices: Vec<Choice>,
    at: usize,
    /// The timer that was last announced, by its place.
    announced: Option<usize>,
    trail: Rc<RefCell<Trail>>,
}

/// How a schedule fitted, by places in the schedule.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    /// The choices that happened.
    pub used: Vec<usize>,
    /// The first one that could not.
    pub skipped: Option<usize>,
}

impl Replay {
    /// Repeats the choices of a schedule and leaves a trail.
    #[must_use]
    pub fn new(schedule: &Schedule, trail: Rc<RefCell<Trail>>) -> Self {
        Replay { choices: schedule.choices.clone(), at: 0, announced: None, trail }
    }

    fn used(&mut self) {
        self.trail.borrow_mut().used.push(self.at);
        self.at += 1;
    }

    /// The pick that a choice names, among what can happen now.
    fn find(choice: &Choice, moves: &Moves, about: &dyn About) -> Option<u32> {
        match choice {
            Choice::Deliver { to, message, kind } => delivery(moves, about, *to, *message, kind),
            Choice::Timer { node, timer } => position(moves, |m| {
                m.what == What::Timer
                    && m.node == *node
                    && about.timer(*node).is_some_and(|next| same_timer(&next, timer))
            }),
            Choice::Poll { node, task } => position(moves, |m| {
                m.node == *node && matches!(m.what, What::Poll(ready) if ready.0 == *task)
            }),
            Choice::Restart(node) => {
                position(moves, |m| m.what == What::Restart && m.node == *node)
            }
            Choice::Heal => position(moves, |m| m.what == What::Heal),
            Choice::Disconnected { node, peer } => notice(moves, about, *node, *peer),
            Choice::Fault(fault) => about.fault(fault),
            Choice::Choose { .. } | Choice::Tail | Choice::Clock { .. } => None,
        }
    }
}

fn position(moves: &Moves, is_it: impl Fn(&Move) -> bool) -> Option<u32> {
    moves.iter().position(is_it).map(|at| at as u32)
}

/// What a node is told of the connection to its peer.
fn notice(moves: &Moves, about: &dyn About, node: NodeId, peer: NodeId) -> Option<u32> {
    position(moves, |m| m.node == node && about.peer(m) == Some(peer))
}

/// A message of a new connection comes after the end of the old one. A schedule that does not say
/// so, because it was edited or is older than such ends, still means it.
fn in_the_way(choice: &Choice, moves: &Moves, about: &dyn About) -> Option<u32> {
    let Choice::Deliver { to, message, kind } = choice else { return None };
    if !about.is_under_way(message.from, *to, kind) {
        return None;
    }
    notice(moves, about, *to, message.from)
}

/// Timers behind sleeps are numbered by the node; after an edit the numbers differ.
pub(crate) fn same_timer(a: &str, b: &str) -> bool {
    let name = |text: &str| text.split('#').next().map(str::to_owned);
    a == b || name(a) == name(b)
}

/// This very message, or else the first one of its sort between the two nodes.
fn delivery(
    moves: &Moves,
    about: &dyn About,
    to: NodeId,
    message: MessageId,
    kind: &str,
) -> Option<u32> {
    let id = identity::message(message.from, message.sequence);
    let arrives = |m: &Move| matches!(m.what, What::Deliver(_)) && m.node == to;
    let exact = |m: &Move| arrives(m) && m.id == id && about.kind(m) == kind;
    if let Some(pick) = position(moves, exact) {
        return Some(pick);
    }
    let alike = |m: &Move| arrives(m) && m.id >> 32 == u64::from(message.from.0);
    let candidates = moves.iter().enumerate().filter(|(_, m)| alike(m) && about.kind(m) == kind);
    candidates.min_by_key(|(_, m)| m.id).map(|(at, _)| at as u32)
}

impl Strategy for Replay {
    fn begin(&mut self, _: &Run) {
        self.at = 0;
        self.announced = None;
        *self.trail.borrow_mut() = Trail::default();
    }

    fn pick(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        while let Some(choice) = self.choices.get(self.at) {
            if *choice == Choice::Tail {
                return None;
            }
            if let Some(pick) = Replay::find(choice, moves, about) {
                self.used();
                return Some(pick);
            }
            if let Some(pick) = in_the_way(choice, moves, about) {
                return Some(pick);
            }
            if matches!(choice, Choice::Clock { .. }) {
                self.at += 1;
                continue;
            }
            self.trail.borrow_mut().skipped.get_or_insert(self.at);
            self.at += 1;
        }
        None
    }

    fn at_quiet(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        let next = self.choices.get(self.at).filter(|next| matches!(next, Choice::Fault(_)))?;
        let pick = Replay::find(next, moves, about)?;
        self.used();
        Some(pick)
    }

    fn choose(&mut self, node: NodeId, label: &str, domain: u32) -> Option<u32> {
        match self.choices.get(self.at) {
            Some(Choice::Choose { node: who, label: what, value, .. })
                if *who == node && what == label =>
            {
                let value = (*value).min(domain - 1);
                self.used();
                Some(value)
            }
            _ => None,
        }
    }

    fn follow(&mut self) -> Option<Followed> {
        match self.choices.get(self.at)? {
            Choice::Clock { node, nanos } => {
                let followed = Followed::Clock(*node, *nanos);
                self.used();
                Some(followed)
            }
            Choice::Timer { node, timer } if self.announced != Some(self.at) => {
                self.announced = Some(self.at);
                Some(Followed::Timer(*node, timer.clone()))
            }
            _ => None,
        }
    }

    fn is_replay(&self) -> bool {
        true
    }

    fn wants_tail(&mut self) -> bool {
        let tail = self.choices.get(self.at) == Some(&Choice::Tail);
        if tail {
            self.used();
        }
        tail
    }
}
