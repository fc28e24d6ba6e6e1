//! Violations of which a node fell silent.
//!
//! A node that is silent leaves the snapshots, and a rule that it took part in breaking holds again.
//! But it may only have been stopped: then it comes back, in the same life, and still shows what it
//! showed. So such a violation is not over before the node is known again, begins another life, or
//! has been away for [`AWAY_MAX`] times as long as silence takes to be noticed. If it goes on then,
//! it was one violation all the time, and it is reported once.

use everhold_property::State;
use everhold_trace::wire::Stamp;
use everhold_trace::{NodeId, Value};

use super::PartitionChecker;
use crate::assemble::{AWAY_MAX, Change, Changing};
use crate::notice::Notice;
use crate::rule::Firing;

impl PartitionChecker {
    /// The node that falls silent with a change, or comes back from it and has told nothing yet.
    pub(super) fn falls_silent(&self, change: &Change) -> Option<NodeId> {
        let others = self.world.members().iter().any(|member| member.up);
        let silent = match change.what {
            Changing::Down { clean } => !clean && others,
            Changing::Up { .. } => self.assembler.has_returned(change.node),
            _ => false,
        };
        silent.then_some(change.node)
    }

    /// The node that a violation waits for although its rule holds again, and since when.
    pub(super) fn waits_for(&self, firing: Firing, at: Stamp) -> Option<(NodeId, Stamp)> {
        let Some((node, since)) = firing.waits else {
            return self.silent.map(|node| (node, at));
        };
        let is_there = self.world.members().iter().any(|member| member.id == node && member.up);
        let is_known = self.world.state(node).is_some() && self.world.is_whole(node);
        let is_back = is_there && is_known && self.silent != Some(node);
        (!is_back).then_some((node, since))
    }

    /// Ends a violation, and tells it if its beginning was told.
    pub(super) fn resolve(
        &mut self,
        place: usize,
        key: Option<Value>,
        at: Stamp,
        notices: &mut Vec<Notice>,
    ) {
        let Some(firing) = self.rules[place].firing.remove(&key) else { return };
        let Firing { id, since, waits } = firing;
        if self.is_suspected(place, &key, id) {
            return; // Nobody was told that it began.
        }
        let rule = self.rules[place].name.clone();
        let at = waits.map_or(at, |(_, left)| left);
        notices.push(Notice::Resolved { id, rule, key, since, at });
    }

    /// Ends the violations of which a node has been away for too long.
    pub(super) fn stop_waiting(&mut self, at: Stamp, notices: &mut Vec<Notice>) {
        if !std::mem::take(&mut self.waiting) {
            return;
        }
        let longest = self.options.timing.silence_max.as_micros() as u64 * u64::from(AWAY_MAX);
        let is_late = |since: Stamp| at.micros() > since.micros() + longest;
        self.end_waiting(|_, since| is_late(since), at, notices);
        let waits = |firing: &Firing| firing.waits.is_some();
        self.waiting = self.rules.iter().any(|rule| rule.firing.values().any(waits));
    }

    /// Ends the violations that wait for a node which begins another life: it has none of what it
    /// showed before, and no change of it need concern their keys.
    pub(super) fn end_old_life(&mut self, change: &Change, notices: &mut Vec<Notice>) {
        let is_up = matches!(change.what, Changing::Up { .. });
        if self.waiting && is_up && !self.assembler.has_returned(change.node) {
            self.end_waiting(|node, _| node == change.node, change.at, notices);
        }
    }

    /// Ends the violations for whose awaited node, and the time since when it is awaited, `is_over`
    /// says so.
    fn end_waiting(
        &mut self,
        is_over: impl Fn(NodeId, Stamp) -> bool,
        at: Stamp,
        notices: &mut Vec<Notice>,
    ) {
        for place in 0..self.rules.len() {
            let over = self.rules[place].firing.iter().filter(|(_, firing)| {
                firing.waits.is_some_and(|(node, since)| is_over(node, since))
            });
            let over: Vec<Option<Value>> = over.map(|(key, _)| key.clone()).collect();
            for key in over {
                let slot = key.as_ref().and_then(|key| self.world.slot_of(key));
                self.resolve(place, key, at, notices);
                slot.into_iter().for_each(|slot| self.tidy_slot(slot));
            }
        }
    }
}
