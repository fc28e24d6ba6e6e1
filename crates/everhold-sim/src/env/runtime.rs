//! The operations of the nodes' contexts.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use everhold_node::fingerprint::mix;
use everhold_node::{Blueprint, Disk, Message, NodeId, Runtime, Tag, Time, Timer, Weights};

use super::state::{Armed, NodeState};
use super::{Env, node_id};
use crate::failure::{Cause, Failure};
use crate::halt::{self, NODES_MAX};
use crate::rng::Rng;
use crate::strategy::Strategy;

impl<M: Message> Runtime<M> for Env<M> {
    fn now(&self, node: NodeId) -> Time {
        self.timed.set(true);
        Time(self.state.nodes[node.index()].shown())
    }

    #[inline]
    fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) {
        self.act();
        if self.is_ghost(from) {
            return;
        }
        self.worked = true;
        self.bound_under_way();
        self.weigh(&msg);
        let sender = &mut self.state.nodes[from.index()];
        let sequence = sender.sent;
        sender.sent += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(from, to, sequence, &msg);
        }
        if self.rules.bounded && !self.has_room(from, to, &msg) {
            self.refuse(from, to, &msg);
            return self.lost(from, sequence);
        }
        self.launch(from, to, sequence, tag, msg);
    }

    fn try_send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) -> Result<(), M> {
        let bounded = self.rules.bounded && !self.is_ghost(from);
        if bounded && !self.has_room(from, to, &msg) {
            self.refuse(from, to, &msg);
            return Err(msg);
        }
        self.send(from, to, tag, msg);
        Ok(())
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Duration) {
        self.act();
        if self.is_ghost(node) {
            return;
        }
        let (born, at_once) = (self.state.step, self.at_once());
        let state = &mut self.state.nodes[node.index()];
        state.settings += 1;
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let length = state.clock.saturating_add(state.really(after)) - state.clock;
        let wait = if length == 0 { at_once } else { length };
        let deadline = state.clock.saturating_add(wait);
        let armed = Armed { timer, deadline, setting: state.settings, born };
        match state.timers.iter_mut().find(|armed| armed.timer == timer) {
            Some(set) => *set = armed,
            None => state.timers.push(armed),
        }
        self.state.note_timer(length);
        if let Some(tail) = &mut self.tail {
            tail.longest = tail.longest.max(length);
        }
        self.offer_timer(node);
    }

    fn cancel_timer(&mut self, node: NodeId, timer: Timer) -> bool {
        let Some(state) = self.state.nodes.get_mut(node.index()) else { return false };
        let Some(at) = state.timers.iter().position(|armed| armed.timer == timer) else {
            return false;
        };
        state.timers.remove(at);
        self.offer_timer(node);
        true
    }

    fn random(&mut self, node: NodeId) -> u64 {
        self.act();
        let state = &mut self.state.nodes[node.index()];
        state.drawn += 1;
        let stream = mix(self.seed, (u64::from(node.0) << 32) | u64::from(state.incarnation));
        self.chose = true;
        mix(stream, u64::from(state.drawn))
    }

    fn choose(&mut self, node: NodeId, label: &'static str, domain: u32) -> u32 {
        self.act();
        if domain == 1 {
            return 0;
        }
        if self.is_ghost(node) {
            return self.ghost_choice(node, domain);
        }
        let value = self.answer_of(node, label, domain);
        self.chosen(node, label, domain, value)
    }

    fn choose_weighted(&mut self, node: NodeId, label: &'static str, weights: Weights<'_>) -> u32 {
        self.act();
        if let Some(only) = weights.only() {
            return only;
        }
        if self.is_ghost(node) {
            let ticket = self.ghost_choice(node, weights.total());
            return weights.option_with(ticket);
        }
        let answer = self.answer(
            |by| by.choose_weighted(node, label, weights),
            |chance| weights.option_with(chance.below(weights.total())),
        );
        self.chosen(node, label, weights.options(), answer.unwrap_or_else(|| weights.nearest(0)))
    }

    fn incarnation(&self, node: NodeId) -> u64 {
        self.state.nodes[node.index()].incarnation.into()
    }

    fn disk(&mut self, node: NodeId) -> &mut Disk {
        self.act();
        if self.at_disk.is_none() {
            self.begin_at_disk(node);
        }
        self.state.nodes[node.index()].disk.get_or_insert_default()
    }

    fn notify(&mut self, node: NodeId, event: &dyn Any, shown: &dyn Debug) {
        self.act();
        if self.is_ghost(node) {
            return;
        }
        self.touched_monitors = true;
        self.tell_disk();
        if let Some(recorder) = &mut self.recorder {
            recorder.notified(node, shown);
        }
        for index in 0..self.state.monitors.len() {
            self.in_monitor = Some(index);
            self.state.monitors[index].observe(event);
        }
        self.in_monitor = None;
    }

    fn spawn(&mut self, parent: NodeId, kind: &str, blueprint: Blueprint<M>) -> NodeId {
        self.act();
        let id = node_id(self.state.nodes.len());
        if self.is_ghost(parent) {
            return id;
        }
        self.worked = true;
        if self.state.nodes.len() >= NODES_MAX {
            halt::too_much(format!("added a node when there were {NODES_MAX} already"));
        }
        let mut state = NodeState::fresh(u32::MAX, false, true);
        self.rules.place(kind, &mut state);
        self.state.nodes.push(state);
        self.spawned.push_back((kind.to_owned(), blueprint));
        id
    }

    fn halt(&mut self, node: NodeId) {
        if !self.is_ghost(node) {
            self.halted.push(node);
        }
    }

    fn fail(&mut self, node: NodeId, assertion: &str, message: String) {
        if self.is_ghost(node) {
            return;
        }
        let message = format!("{node} {message}");
        self.fail_with(Failure { cause: Cause::Assertion(assertion.to_owned()), message });
    }

    fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    fn note(&mut self, node: NodeId, text: String) {
        self.act();
        if self.is_ghost(node) {
            return;
        }
        self.tell_disk();
        if let Some(recorder) = &mut self.recorder {
            recorder.note(node, text);
        }
    }
}

impl<M: Message> Env<M> {
    /// Asks the strategy; in a fair tail that is not a replay, chance answers instead.
    fn answer(
        &mut self,
        by_strategy: impl FnOnce(&mut dyn Strategy) -> Option<u32>,
        by_chance: impl FnOnce(&mut Rng) -> u32,
    ) -> Option<u32> {
        match &mut self.tail {
            Some(tail) if !self.strategy.is_replay() => Some(by_chance(&mut tail.rng)),
            Some(tail) => {
                by_strategy(&mut *self.strategy).or_else(|| Some(by_chance(&mut tail.rng)))
            }
            None => by_strategy(&mut *self.strategy),
        }
    }

    fn answer_of(&mut self, node: NodeId, label: &str, domain: u32) -> u32 {
        let answer =
            self.answer(|by| by.choose(node, label, domain), |chance| chance.below(domain));
        answer.unwrap_or(0)
    }

    /// Records a decision of a node.
    fn chosen(&mut self, node: NodeId, label: &'static str, domain: u32, value: u32) -> u32 {
        self.chose = true;
        self.decided(node, label, domain, value);
        self.tell_disk();
        if let Some(recorder) = &mut self.recorder {
            recorder.chose(node, label, domain, value);
        }
        value
    }

    /// Lets the strategy, or the fair tail, answer a question that no node asked.
    pub(super) fn decide_choice(&mut self, node: NodeId, label: &str, domain: u32) -> u32 {
        let value = self.answer_of(node, label, domain);
        self.decided(node, label, domain, value);
        value
    }

    /// Lets the strategy answer a question of the setup, when there are no nodes yet.
    pub(super) fn decide_in_setup(&mut self, node: NodeId, label: &str, domain: u32) -> u32 {
        let value = self.answer_of(node, label, domain);
        self.keep_answer(label, domain, value);
        value
    }

    fn keep_answer(&mut self, label: &str, domain: u32, value: u32) {
        assert!(value < domain, "the strategy chose {value} of {domain} for \"{label}\"");
        self.log.push(value);
    }

    fn decided(&mut self, node: NodeId, label: &str, domain: u32, value: u32) {
        self.keep_answer(label, domain, value);
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, u64::from(value) + 0xC4005E);
    }
}
