//! The runtime of nodes on the virtual clock.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use everhold_node::{Blueprint, Disk, Message, NodeId, Runtime, Tag, Time, Timer, Weights};
use everhold_sim::engine::{node_id, too_much};
use everhold_sim::{Cause, Failure};

use super::draw::{Stream, below, draw};
use super::durations::nanoseconds;
use super::env::{Env, NodeState, Status};

/// The largest number of nodes of a system in which nodes add others.
const NODES_MAX: usize = 100_000;

impl<M: Message> Runtime<M> for Env<M> {
    fn now(&self, node: NodeId) -> Time {
        Time(self.clock(node))
    }

    #[inline]
    fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) {
        self.act();
        // A message for which there is no room is lost, unless the sender asks first whether there
        // is.
        let _ = self.launch(from, to, tag, msg);
    }

    fn try_send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) -> Result<(), M> {
        self.act();
        self.launch(from, to, tag, msg)
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Duration) {
        self.act();
        self.arm(node, timer, nanoseconds(after));
    }

    fn cancel_timer(&mut self, node: NodeId, timer: Timer) -> bool {
        let Some(state) = self.state.nodes.get_mut(node.index()) else { return false };
        let before = state.rest.timers.len();
        state.rest.timers.retain(|armed| armed.timer != timer);
        state.rest.timers.len() < before
    }

    #[inline]
    fn random(&mut self, node: NodeId) -> u64 {
        self.act();
        let state = &mut self.state.nodes[node.index()];
        state.drawn += 1;
        draw(self.state.seed, Stream::Own(node.0), u64::from(state.drawn))
    }

    fn choose(&mut self, node: NodeId, _: &'static str, domain: u32) -> u32 {
        self.act();
        let state = &mut self.state.nodes[node.index()];
        state.rest.chosen += 1;
        let drawn = draw(self.state.seed, Stream::Choices(node.0), u64::from(state.rest.chosen));
        below(drawn, u64::from(domain)) as u32
    }

    fn choose_weighted(&mut self, node: NodeId, label: &'static str, weights: Weights<'_>) -> u32 {
        weights.option_with(self.choose(node, label, weights.total()))
    }

    fn incarnation(&self, node: NodeId) -> u64 {
        self.state.nodes[node.index()].rest.incarnation.into()
    }

    fn disk(&mut self, node: NodeId) -> &mut Disk {
        self.act();
        self.state.nodes[node.index()].rest.disk.get_or_insert_default()
    }

    fn notify(&mut self, _: NodeId, event: &dyn Any, shown: &dyn Debug) {
        self.act();
        if let Some(recorder) = &mut self.recorder {
            recorder.note(format!("notifies {shown:?}"));
        }
        for index in 0..self.state.monitors.len() {
            self.in_monitor = Some(index);
            self.state.monitors[index].observe(event);
        }
        self.in_monitor = None;
    }

    fn spawn(&mut self, _: NodeId, kind: &str, blueprint: Blueprint<M>) -> NodeId {
        self.act();
        let id = node_id(self.state.nodes.len());
        if id.index() >= NODES_MAX {
            too_much(format!("added a node when there were {NODES_MAX} already"));
        }
        let mut state = NodeState::new(false);
        state.status = Status::Down;
        self.state.nodes.push(state);
        self.place_kind(id, kind);
        self.spawned.push((kind.to_owned(), blueprint));
        id
    }

    fn halt(&mut self, node: NodeId) {
        self.halted.push(node);
    }

    fn fail(&mut self, node: NodeId, assertion: &str, message: String) {
        let message = format!("{node} {message}");
        let cause = Cause::Assertion(assertion.to_owned());
        self.failure.get_or_insert(Failure { cause, message });
    }

    fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    fn note(&mut self, _: NodeId, text: String) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(text);
        }
    }
}
