//! Timers, and tasks that are ready to continue.

use everhold_node::{Message, NodeId, Runtime, TaskId};

use super::state::{Armed, NodeState, Status, earliest};
use super::{Action, Env, node_id};
use crate::moves::{Move, NONE, What, identity};
use crate::strategy::{Followed, same_timer};

/// The rates that a clock may have: exact, slow, fast.
const RATES: [i32; 3] = [0, -1, 1];

/// The tolerance for a timer to be due: recorded times are those of events, which lie a little
/// before the timers that they set.
const SLACK: u64 = 50_000_000;

impl<M: Message> Env<M> {
    /// Sets a node's clock before the node starts. Where clocks are tied, it shows the time of the
    /// others, and whether it is fast or slow is a choice like any other.
    pub(crate) fn set_clock(&mut self, node: NodeId) {
        if !self.rules.clocks.are_tied() {
            return;
        }
        let now = self.state.nodes.iter().map(|node| node.clock).max();
        self.state.nodes[node.index()].clock = now.unwrap_or(0);
        let max_ppm = self.rules.clocks.drift_max_ppm() as i32;
        if max_ppm == 0 {
            return;
        }
        let chosen = self.choose(node, "clock rate", RATES.len() as u32);
        let drift_ppm = RATES[chosen as usize] * max_ppm;
        self.state.nodes[node.index()].drift_ppm = drift_ppm;
        if let Some(recorder) = &mut self.recorder
            && drift_ppm != 0
        {
            let way = if drift_ppm < 0 { "slow" } else { "fast" };
            recorder.note(node, format!("the clock of {node} is {max_ppm} ppm {way}"));
        }
    }

    pub(super) fn take_timer(&mut self, node: NodeId) -> Action<M> {
        let state = &mut self.state.nodes[node.index()];
        let at = earliest(&state.timers).expect("a timer that fires was set");
        let armed = state.timers.remove(at);
        state.clock = state.clock.max(armed.deadline);
        self.offer_timer(node);
        if self.rules.patience.is_some() {
            self.passed.push((self.state.step, armed.deadline));
        }
        if self.rules.clocks.are_tied() {
            self.state.nodes.iter_mut().for_each(|n| n.clock = n.clock.max(armed.deadline));
        }
        Action::Timer { node, timer: armed.timer }
    }

    /// Keeps the move of a node's next timer up to date with its timers.
    pub(super) fn offer_timer(&mut self, node: NodeId) {
        if self.rules.clocks.are_tied() {
            return self.offer_tied_timers();
        }
        self.offer_own_timer(node, true);
    }

    pub(super) fn offer_own_timer(&mut self, node: NodeId, due: bool) {
        let state = &mut self.state.nodes[node.index()];
        let next = earliest(&state.timers).filter(|_| due).map(|at| state.timers[at]);
        match (next, state.timer_slot) {
            (None, NONE) => {}
            (None, slot) => {
                state.timer_slot = NONE;
                self.state.moves.remove(slot);
            }
            (Some(armed), NONE) => {
                let id = identity::timer(node, armed.setting);
                let offered = Move { what: What::Timer, node, born: armed.born, id };
                state.timer_slot = self.state.moves.add(offered);
            }
            (Some(armed), slot) => {
                self.state.moves.renew(slot, armed.born, identity::timer(node, armed.setting));
            }
        }
    }

    /// On tied clocks only the timers with the earliest deadline of all may fire.
    pub(super) fn offer_tied_timers(&mut self) {
        let deadline = |n: &NodeState| earliest(&n.timers).map(|at| n.timers[at].deadline);
        let next = self.state.nodes.iter().filter_map(deadline).min();
        for index in 0..self.state.nodes.len() {
            let due = deadline(&self.state.nodes[index]) == next;
            self.offer_own_timer(node_id(index), due);
        }
    }

    /// Lets no timer fire while something that could have happened long before it still waits:
    /// messages take a while, and not for ever.
    pub(super) fn restrain_timers(&mut self, patience: u64) {
        let deadline = |n: &NodeState| earliest(&n.timers).map(|at| n.timers[at].deadline);
        let Some(next) = self.state.nodes.iter().filter_map(deadline).min() else { return };
        let ready = self.state.moves.iter().filter(|offered| !offered.what.is_idle());
        let oldest = ready.map(|offered| offered.born).min();
        let waits = oldest.is_some_and(|born| next > self.time_at(born).saturating_add(patience));
        for index in 0..self.state.nodes.len() {
            let due = !waits && deadline(&self.state.nodes[index]) == Some(next);
            let offered = self.state.nodes[index].timer_slot != NONE;
            if due != offered {
                self.offer_own_timer(node_id(index), due);
            }
        }
    }

    /// The time after a step of this execution.
    fn time_at(&self, step: u32) -> u64 {
        let later = self.passed.partition_point(|(passed, _)| *passed <= step);
        later.checked_sub(1).map_or(0, |at| self.passed[at].1)
    }

    /// Follows the clocks of a real execution as far as the schedule says next; false if the next
    /// line does not concern clocks.
    pub(crate) fn follow(&mut self) -> bool {
        match self.strategy.follow() {
            None => return false,
            Some(Followed::Timer(node, timer)) => self.make_due(node, &timer),
            Some(Followed::Clock(node, nanos)) => {
                if let Some(state) = self.state.nodes.get_mut(node.index()) {
                    state.clock = state.clock.max(nanos);
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.clock(node, nanos);
                }
            }
        }
        true
    }

    /// Makes a timer due. Real timers are late by different amounts: one whose time has come goes
    /// before all others.
    fn make_due(&mut self, node: NodeId, name: &str) {
        let first =
            self.state.nodes.iter().flat_map(|n| &n.timers).map(|armed| armed.deadline).min();
        let Some(state) = self.state.nodes.get_mut(node.index()) else { return };
        let clock = state.clock;
        let is_due = |armed: &Armed| armed.deadline <= clock.saturating_add(SLACK);
        let found = state.timers.iter().position(|a| a.timer.to_string() == name && is_due(a));
        let found = found.or_else(|| {
            let alike = |a: &Armed| same_timer(&a.timer.to_string(), name) && is_due(a);
            state.timers.iter().position(alike)
        });
        if let (Some(at), Some(first)) = (found, first) {
            state.timers[at].deadline = first.saturating_sub(1);
            self.offer_timer(node);
        }
    }

    pub(super) fn take_poll(&mut self, node: NodeId, task: TaskId) -> Action<M> {
        let state = &mut self.state.nodes[node.index()];
        state.polled += 1;
        let at = state.polls.iter().position(|(ready, _)| *ready == task);
        let (_, slot) = state.polls.remove(at.expect("a task that is polled was ready"));
        self.state.moves.remove(slot);
        Action::Poll { node, task }
    }

    /// Offers the tasks of a node that are ready to continue.
    pub(crate) fn offer_polls(&mut self, node: NodeId, ready: &[TaskId]) {
        let up = self.state.nodes[node.index()].status == Status::Up;
        let offered = std::mem::take(&mut self.state.nodes[node.index()].polls);
        let mut kept = Vec::with_capacity(ready.len());
        for (task, slot) in offered {
            if up && ready.contains(&task) {
                kept.push((task, slot));
            } else {
                self.state.moves.remove(slot);
            }
        }
        for &task in ready.iter().filter(|_| up) {
            if kept.iter().all(|(known, _)| *known != task) {
                let id = identity::task(node, task, self.state.nodes[node.index()].polled);
                let born = self.state.step;
                let slot = self.state.moves.add(Move { what: What::Poll(task), node, born, id });
                kept.push((task, slot));
            }
        }
        self.state.nodes[node.index()].polls = kept;
    }
}
