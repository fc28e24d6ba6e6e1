//! Replays: exact ones, by position, and tolerant ones, by node and label.

use std::cell::RefCell;
use std::rc::Rc;

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::{NodeId, TaskId, Weights};

use crate::env::DUPLICATE;
use crate::fault::MessageName;
use crate::moves::{Move, Moves, What, identity};
use crate::schedule::Choice;
use crate::strategy::script::{Fit, Happened, Line, Script, about_message, message_of};
use crate::strategy::{About, Followed, Run, Strategy, upset_of};

/// Repeats the log of a search step for step. Fits only the program that wrote it.
#[derive(Debug, Default)]
pub(crate) struct RawReplay {
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
    pub(crate) fn new(log: Vec<u32>, tail_at: Option<usize>) -> Self {
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

    fn upset(&mut self, _: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        upset_of(self.next(u32::MAX)?, faults)
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        self.next(domain)
    }

    fn choose_weighted(&mut self, _: NodeId, _: &str, weights: Weights<'_>) -> Option<u32> {
        self.next(weights.options()).map(|option| weights.nearest(option))
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
/// Choices that cannot happen are skipped; the [`Trail`] tells which.
#[derive(Debug)]
pub(crate) struct Replay {
    script: Script,
    at: usize,
    /// By places of the execution that was edited: the number of messages that the node of a choice
    /// that happened again had sent before.
    sent: Vec<Option<u32>>,
    /// The timer that was last announced, by its place.
    announced: Option<usize>,
    trail: Rc<RefCell<Trail>>,
}

/// How a schedule fitted; choices are given by their places in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    /// The choices that happened.
    pub(crate) used: Vec<usize>,
    /// The first choice that could not happen.
    pub(crate) skipped: Option<usize>,
    /// Whether another message took the place of one that was named.
    pub(crate) replaced: bool,
    /// The choices that happened, with the names that they had.
    pub(crate) happened: Vec<Happened>,
}

impl Replay {
    /// Repeats the choices of a script and leaves a trail.
    pub(crate) fn of(script: Script, trail: Rc<RefCell<Trail>>) -> Self {
        Replay { script, at: 0, sent: Vec::new(), announced: None, trail }
    }

    fn next(&self) -> Option<&Choice> {
        self.script.lines.get(self.at).map(|line| &line.choice)
    }

    /// The value that a choice of a node has in the schedule, if that is what comes next there.
    fn chosen(&self, node: NodeId, label: &str) -> Option<u32> {
        match self.next() {
            Some(Choice::Choose { node: who, label: what, value, .. })
                if *who == node && what == label =>
            {
                Some(*value)
            }
            _ => None,
        }
    }

    fn used(&mut self, choice: Choice, sent: u32, newest: bool) {
        let line = &self.script.lines[self.at];
        self.sent[line.place] = Some(sent);
        let mut trail = self.trail.borrow_mut();
        trail.used.push(self.at);
        trail.happened.push(Happened { choice, sent, newest });
        self.at += 1;
    }

    /// Uses the next line as it is: it concerns clocks or the tail, not moves.
    fn used_as_it_is(&mut self) {
        let choice = self.script.lines[self.at].choice.clone();
        self.used(choice, 0, false);
    }

    /// The pick of the next line, if it can happen now.
    fn take(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        let line = self.script.lines.get(self.at)?;
        let (pick, choice) = self.find(line, moves, about)?;
        let replaced = message_of(&choice) != message_of(&line.choice);
        self.trail.borrow_mut().replaced |= replaced;
        let sent = choice.node().map_or(0, |node| about.sent(node));
        let newest = is_newest(&choice, moves, about);
        self.used(choice, sent, newest);
        Some(pick)
    }

    /// The pick that a line stands for among the moves that are possible now, and its present name.
    fn find(&self, line: &Line, moves: &Moves, about: &dyn About) -> Option<(u32, Choice)> {
        let found = |pick: u32| (pick, line.choice.clone());
        match &line.choice {
            Choice::Deliver { .. } => self.delivery(line, moves, about),
            Choice::Timer { node, timer } => {
                let next = about.timer(*node).filter(|next| same_timer(next, timer))?;
                let pick = position(moves, |m| m.what == What::Timer && m.node == *node)?;
                Some((pick, Choice::Timer { node: *node, timer: next }))
            }
            Choice::Poll { node, task } => {
                let task = self.task(*node, *task, moves)?;
                let is_it = |m: &Move| m.node == *node && m.what == What::Poll(TaskId(task));
                Some((position(moves, is_it)?, Choice::Poll { node: *node, task }))
            }
            Choice::Restart(node) => {
                position(moves, |m| m.what == What::Restart && m.node == *node).map(found)
            }
            Choice::Heal => position(moves, |m| m.what == What::Heal).map(found),
            Choice::Disconnected { node, peer } => notice(moves, about, *node, *peer).map(found),
            Choice::Fault(_) => {
                let choice = match message_of(&line.choice) {
                    Some(message) => about_message(&line.choice, self.now(line, message)?),
                    None => line.choice.clone(),
                };
                let Choice::Fault(fault) = &choice else { return None };
                Some((about.fault(fault)?, choice))
            }
            Choice::Choose { .. } | Choice::Tail | Choice::Clock { .. } | Choice::Upset { .. } => {
                None
            }
        }
    }

    /// This very message, or else one of its sort between the two nodes.
    fn delivery(&self, line: &Line, moves: &Moves, about: &dyn About) -> Option<(u32, Choice)> {
        let Choice::Deliver { to, message, kind } = &line.choice else { return None };
        let named = |pick: u32| {
            let sequence = moves.get(pick).id as u32;
            (pick, about_message(&line.choice, MessageName { sequence, ..*message }))
        };
        if let Some(now) = self.now(line, *message) {
            let id = identity::message(now.from, now.sequence);
            let exact = |m: &Move| arrives(m, *to) && m.id == id && about.kind(m) == kind;
            if let Some(pick) = position(moves, exact) {
                return Some(named(pick));
            }
        }
        let alike = alike(moves, about, *to, message.from, kind);
        let pick = match self.script.fit {
            Fit::Cause => None,
            Fit::CauseOrSort if line.newest => alike.max_by_key(|(_, m)| number(m)),
            Fit::NumberOrNewest => alike.max_by_key(|(_, m)| number(m)),
            Fit::CauseOrSort | Fit::Number => alike.min_by_key(|(_, m)| m.id),
        };
        pick.map(|(pick, _)| named(pick))
    }

    /// The name that a message of the edited execution has in this one.
    fn now(&self, line: &Line, message: MessageName) -> Option<MessageName> {
        let Some(origin) = line.origin else { return Some(message) };
        let before = match origin.place {
            Some(place) => self.sent.get(place).copied().flatten()?,
            None => 0,
        };
        let sequence = (before + origin.offset) | (message.sequence & DUPLICATE);
        Some(MessageName { sequence, ..message })
    }

    /// This very task; or else, since the node numbers its tasks, the last one before it.
    fn task(&self, node: NodeId, task: u32, moves: &Moves) -> Option<u32> {
        let mut ready = moves.iter().filter(|m| m.node == node).filter_map(|m| match m.what {
            What::Poll(ready) => Some(ready.0),
            _ => None,
        });
        match self.script.fit {
            Fit::CauseOrSort => ready.filter(|ready| *ready <= task).max(),
            Fit::Cause | Fit::Number | Fit::NumberOrNewest => ready.find(|ready| *ready == task),
        }
    }
}

fn position(moves: &Moves, is_it: impl Fn(&Move) -> bool) -> Option<u32> {
    moves.iter().position(is_it).map(|at| at as u32)
}

fn arrives(offered: &Move, to: NodeId) -> bool {
    matches!(offered.what, What::Deliver(_)) && offered.node == to
}

/// The place of a message among those of its sender.
fn number(offered: &Move) -> u32 {
    offered.id as u32 & !DUPLICATE
}

/// The messages of a sort that can arrive from a node.
fn alike<'a>(
    moves: &'a Moves,
    about: &'a dyn About,
    to: NodeId,
    from: NodeId,
    kind: &'a str,
) -> impl Iterator<Item = (u32, &'a Move)> {
    let is_alike =
        move |m: &Move| arrives(m, to) && m.id >> 32 == u64::from(from.0) && about.kind(m) == kind;
    (0..).zip(moves.iter()).filter(move |(_, m)| is_alike(m))
}

/// Whether a delivery brings the newest message of its sort.
fn is_newest(choice: &Choice, moves: &Moves, about: &dyn About) -> bool {
    let Choice::Deliver { to, message, kind } = choice else { return false };
    let mut alike = alike(moves, about, *to, message.from, kind);
    alike.all(|(_, m)| number(m) <= message.sequence & !DUPLICATE)
}

/// The notice for a node that its connection to its peer ended.
fn notice(moves: &Moves, about: &dyn About, node: NodeId, peer: NodeId) -> Option<u32> {
    position(moves, |m| m.node == node && about.peer(m) == Some(peer))
}

/// The notice that must come before a choice: a message of a new connection comes after the end of
/// the old one. A schedule that does not contain the notice, because it was edited or is older than
/// such notices, still implies it.
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

impl Strategy for Replay {
    fn begin(&mut self, _: &Run) {
        self.at = 0;
        self.announced = None;
        self.sent = vec![None; self.script.length];
        *self.trail.borrow_mut() = Trail::default();
    }

    fn pick(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        while self.next().is_some_and(|next| *next != Choice::Tail) {
            if let Some(pick) = self.take(moves, about) {
                return Some(pick);
            }
            let choice = &self.script.lines[self.at].choice;
            if let Some(pick) = in_the_way(choice, moves, about) {
                return Some(pick);
            }
            if !matches!(choice, Choice::Clock { .. }) {
                self.trail.borrow_mut().skipped.get_or_insert(self.at);
            }
            self.at += 1;
        }
        None
    }

    fn at_quiet(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        self.next().filter(|next| matches!(next, Choice::Fault(_)))?;
        self.take(moves, about)
    }

    fn upset(&mut self, node: NodeId, _: &[DiskFault]) -> Option<Upset> {
        let Some(Choice::Upset { node: who, place, nth }) = self.next() else { return None };
        let upset = (*who == node).then(|| Upset::Named(place.clone(), *nth))?;
        self.used_as_it_is();
        Some(upset)
    }

    fn choose(&mut self, node: NodeId, label: &str, domain: u32) -> Option<u32> {
        let value = self.chosen(node, label)?.min(domain - 1);
        self.used(Choice::Choose { node, label: label.to_owned(), domain, value }, 0, false);
        Some(value)
    }

    fn choose_weighted(&mut self, node: NodeId, label: &str, weights: Weights<'_>) -> Option<u32> {
        let value = weights.nearest(self.chosen(node, label)?);
        let (label, domain) = (label.to_owned(), weights.options());
        self.used(Choice::Choose { node, label, domain, value }, 0, false);
        Some(value)
    }

    fn follow(&mut self) -> Option<Followed> {
        match self.next()? {
            Choice::Clock { node, nanos } => {
                let followed = Followed::Clock(*node, *nanos);
                self.used_as_it_is();
                Some(followed)
            }
            Choice::Timer { node, timer } if self.announced != Some(self.at) => {
                let followed = Followed::Timer(*node, timer.clone());
                self.announced = Some(self.at);
                Some(followed)
            }
            _ => None,
        }
    }

    fn is_replay(&self) -> bool {
        true
    }

    fn wants_tail(&mut self) -> bool {
        let tail = self.next() == Some(&Choice::Tail);
        if tail {
            self.used_as_it_is();
        }
        tail
    }
}
