//! The effects of faults on the environment.

use everhold_node::{Message, NodeId, Time};
use everhold_trace::Value;

use super::draw::{Stream, below, draw};
use super::durations::nanoseconds;
use super::env::{Env, NodeState, Status, What};
use super::fault::TimedFault;
use super::kinds::Class;
use super::record::{Event, Trigger};

impl<M: Message> Env<M> {
    pub(super) fn upset(&mut self, fault: TimedFault) {
        match fault {
            TimedFault::Partition { cut, lasts } => self.split(&cut, nanoseconds(lasts), false),
            TimedFault::OneWay { mute, lasts } => self.split(&mute, nanoseconds(lasts), true),
            TimedFault::Reset(one, other) => self.reset_connection(one, other),
            TimedFault::ResetAny(number) => self.reset_any(number),
            TimedFault::Skew { node, by } if self.is_up(node) => {
                self.note_fault(&format!("the clock of {node} jumps by {by} ns"));
                self.state.nodes[node.index()].rest.skew += by;
            }
            TimedFault::SlowDisk { node, times, lasts } if self.is_up(node) => {
                self.note_fault(&format!("the disk of {node} is slow for {lasts:?}"));
                let until = self.state.now.saturating_add(nanoseconds(lasts));
                self.state.nodes[node.index()].rest.slow = (until, times);
            }
            TimedFault::Lose | TimedFault::Duplicate | TimedFault::Delay(_) => {
                self.note_fault(&format!("the next message: {fault:?}"));
                self.state.upsets.push(fault);
            }
            TimedFault::Stop(_)
            | TimedFault::Skew { .. }
            | TimedFault::SlowDisk { .. }
            | TimedFault::Crash { .. } => {}
        }
    }

    /// Stops a node for good. This takes no time, but an execution can end at that moment.
    pub(super) fn stop(&mut self, node: NodeId) {
        self.note_fault(&format!("{node} stops"));
        self.leave(node);
        self.state.end = self.state.end.max(self.state.now);
    }

    /// Crashes a node, which loses its memory and restarts after a while.
    pub(super) fn crash(&mut self, node: NodeId, down: u64) {
        self.empty(node);
        let state = &mut self.state.nodes[node.index()];
        state.status = Status::Down;
        state.rest.incarnation += 1;
        let incarnation = u64::from(state.rest.incarnation);
        self.crash_disk(node, incarnation);
        let kind = self.kind(Class::Other, "restart");
        let back = self.state.now.saturating_add(down);
        self.state.schedule(back, node, kind, What::Restart);
    }

    /// Draws, for each node and incarnation separately, the writes of a disk that survive a crash.
    fn crash_disk(&mut self, node: NodeId, incarnation: u64) {
        let Some(disk) = &mut self.state.nodes[node.index()].rest.disk else { return };
        let (seed, faults) = (self.state.seed, &self.model.faults);
        let mut asked = 0;
        let lost = disk.crash(faults.crash_model, faults.torn_writes > 0, &mut |_, domain| {
            asked += 1;
            let drawn = draw(seed, Stream::Disk(node.0), u64::MAX - (incarnation << 32) - asked);
            below(drawn, u64::from(domain)) as u32
        });
        if !lost.units.is_empty() {
            self.note_fault(&format!("the disk of {node} loses {}", lost.units.join(", ")));
        }
    }

    /// Removes a node for good.
    pub(super) fn leave(&mut self, node: NodeId) {
        self.empty(node);
        self.state.nodes[node.index()].status = Status::Gone;
    }

    /// Drops everything that belongs to a node: timers, tasks, its waiting line, and the messages
    /// of its streams.
    fn empty(&mut self, node: NodeId) {
        for slot in self.state.line(node).collect::<Vec<_>>() {
            self.state.leave_line(slot);
            self.drop_item(slot);
        }
        let state = &mut self.state.nodes[node.index()];
        state.rest.timers.clear();
        state.rest.polls.clear();
        state.free_at = self.state.now;
        self.kill(|from, to| from == node || to == node);
        self.state.untold.retain(|(end, _)| *end != node);
        for item in self.state.items.iter_mut().filter(|item| item.node == node) {
            item.dead |= matches!(item.what, What::Disconnected(_));
        }
        self.tell_peers(node);
    }

    fn split(&mut self, cut: &[NodeId], lasts: u64, one_way: bool) {
        if !self.state.sides.is_empty() {
            return;
        }
        self.note_fault(&match one_way {
            false => format!("a partition: {cut:?} and the others"),
            true => format!("a one-way partition: nobody hears {cut:?}"),
        });
        self.state.one_way = one_way;
        self.state.sides = vec![false; self.state.nodes.len()];
        for node in cut {
            if let Some(side) = self.state.sides.get_mut(node.index()) {
                *side = true;
            }
        }
        let at = self.state.now.saturating_add(lasts);
        self.state.schedule(at, NodeId(0), 0, What::Heal);
    }

    /// Schedules the start of an added node for the end of the present event.
    pub(super) fn welcome(&mut self, node: NodeId, guarded: bool) {
        let rest = &self.state.nodes[node.index()].rest;
        let (sends, takes, room) = (rest.sends, rest.takes, rest.room);
        self.state.nodes[node.index()] = NodeState::new(guarded);
        let rest = &mut self.state.nodes[node.index()].rest;
        (rest.sends, rest.takes, rest.room) = (sends, takes, room);
        self.set_clock(node);
        let kind = self.kind(Class::Other, "start");
        let at = self.state.end;
        self.state.schedule(at, node, kind, What::Start);
    }

    /// Records a crash as an event without a duration.
    pub(super) fn record_crash(&mut self, node: NodeId) {
        let kind = self.kind(Class::Other, "crash");
        let now = Time(self.state.now);
        let index = self.state.nodes[node.index()].events;
        let Some(recorder) = &mut self.recorder else { return };
        let (ready, start, end) = (now, now, now);
        let trigger = Trigger::Crash;
        recorder.begin(Event { node, kind, index, trigger, ready, start, end });
        if recorder.full {
            recorder.states.push(Value::Null);
        }
    }

    pub(super) fn note_fault(&mut self, text: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(format!("fault: {text}"));
        }
    }
}
