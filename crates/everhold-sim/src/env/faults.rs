//! Faults: the menu of those that are in budget, and the effect of each.

use everhold_node::fingerprint::mix;
use everhold_node::{Message, NodeId};

use super::state::{Cut, STREAM, Status};
use super::{Action, DUPLICATE, Env, node_id};
use crate::fault::{Fault, FaultKind, MessageName, Side};
use crate::moves::{DiskMenu, Move, NONE, What, identity};
use crate::system::Network;

impl<M: Message> Env<M> {
    pub(super) fn offer_faults(&mut self) {
        if self.state.left.total() == 0 {
            self.state.may_fail = false;
            self.state.moves.faults.set([0; FaultKind::ALL.len()]);
            self.state.moves.faults.set_disk(DiskMenu::default());
            return;
        }
        let (targets, splits) = self.state.count_targets();
        let state = &self.state;
        let messages = |budget: u32, kind: FaultKind| {
            if budget > 0 && state.strikes_messages(kind) { state.moves.ready() } else { 0 }
        };
        let within = |budget: u32, count: u32| if budget > 0 { count } else { 0 };
        let is_whole = state.partition.is_none();
        let count = if is_whole { splits.count() } else { 0 };
        let counts = [
            within(state.left.crashes, targets),
            within(state.left.stops, targets),
            messages(state.left.losses, FaultKind::Lose),
            messages(state.left.duplicates, FaultKind::Duplicate),
            messages(state.left.delays, FaultKind::Delay),
            within(state.left.partitions, count),
            within(state.left.skews, targets * 4),
            within(state.left.one_way_partitions, count * 2),
            within(state.left.resets, state.resettable().count() as u32),
            0,
            0,
        ];
        let parts = state.left.partitions > 0 || state.left.one_way_partitions > 0;
        self.partly_split |= parts && is_whole && splits.is_partial();
        self.state.moves.faults.set(counts);
        self.state.moves.faults.set_disk(self.disk_menu(targets));
    }

    pub(super) fn inject(&mut self, index: u32) -> (Action<M>, NodeId) {
        let (kind, number) = self.state.moves.faults.decode(index);
        self.state.injected[kind as usize] += 1;
        let (action, node, fault) = match kind {
            FaultKind::Crash => self.crash(number),
            FaultKind::Stop => self.stop(number),
            FaultKind::Lose | FaultKind::Duplicate | FaultKind::Delay => self.disturb(kind, number),
            FaultKind::Partition => self.split(number),
            FaultKind::Skew => self.skew(number),
            FaultKind::OneWay => self.split_one_way(number),
            FaultKind::Reset => self.reset_connection(number),
            FaultKind::DiskError | FaultKind::FullDisk => {
                unreachable!("{kind:?} strikes within an event")
            }
        };
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, 0xFA17 + kind as u64);
        if let Some(recorder) = &mut self.recorder {
            recorder.fault(node, fault);
        }
        (action, node)
    }

    pub(super) fn target(&self, number: u32) -> NodeId {
        let mut targets = (0..self.state.nodes.len())
            .filter(|i| self.state.nodes[*i].strikes && self.state.nodes[*i].status == Status::Up);
        node_id(targets.nth(number as usize).expect("the menu counted the targets"))
    }

    pub(super) fn crash(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.crashes -= 1;
        let node = self.target(number);
        self.fall(node);
        (Action::Crash(node), node, Fault::Crash(node))
    }

    /// Takes a node down; it will restart later.
    pub(super) fn fall(&mut self, node: NodeId) {
        self.go_down(node);
        let incarnation = self.state.nodes[node.index()].incarnation;
        let id = identity::restart(node, incarnation);
        let offered = Move { what: What::Restart, node, born: self.state.step, id };
        let slot = self.state.moves.add(offered);
        self.state.nodes[node.index()].status = Status::Down(slot);
        self.reoffer_all();
    }

    pub(super) fn stop(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.stops -= 1;
        let node = self.target(number);
        self.leave(node);
        (Action::Faulted, node, Fault::Stop(node))
    }

    /// Takes a node out of the system for good; one that is down does not restart.
    pub(crate) fn leave(&mut self, node: NodeId) {
        if let Status::Down(slot) = self.state.nodes[node.index()].status {
            self.state.moves.remove(slot);
        }
        self.go_down(node);
        self.state.nodes[node.index()].status = Status::Gone;
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            if !flight.is_vacant() && flight.to == node {
                self.discard(index as u32);
            }
        }
    }

    pub(super) fn go_down(&mut self, node: NodeId) {
        self.state.targets = None;
        self.state.nodes[node.index()].timers.clear();
        self.offer_timer(node);
        self.offer_polls(node, &[]);
        if self.rules.lines.iter().any(|line| line.network == Network::Streams) {
            self.break_streams(node);
        }
    }

    pub(super) fn discard(&mut self, index: u32) {
        self.offer_flight(index, false);
        let flight = &mut self.state.flights[index as usize];
        let (from, to, sequence) = (flight.from, flight.to, flight.sequence);
        self.state.held -= u32::from(flight.held);
        self.state.network_hash = self.state.network_hash.wrapping_sub(flight.hash);
        if std::mem::take(&mut flight.notice) {
            self.forget_flight(index);
            self.state.was_told(to, from);
        } else if flight.msg.take().is_some() {
            self.forget_flight(index);
            self.lost(from, sequence);
        }
    }

    pub(crate) fn come_back(&mut self, node: NodeId) {
        let state = &mut self.state.nodes[node.index()];
        if let Status::Down(slot) = state.status {
            state.status = Status::Up;
            state.incarnation += 1;
            self.state.targets = None;
            self.state.moves.remove(slot);
        }
        self.reoffer_all();
    }

    pub(super) fn disturb(&mut self, kind: FaultKind, number: u32) -> (Action<M>, NodeId, Fault) {
        let index = self.state.delivery(kind, number);
        let flight = &self.state.flights[index as usize];
        let (from, to, sequence) = (flight.from, flight.to, flight.sequence);
        let id = MessageName { from, sequence };
        let fault = match kind {
            FaultKind::Lose => {
                self.state.left.losses -= 1;
                match flight.lane {
                    STREAM => self.break_at(index),
                    _ => self.discard(index),
                }
                Fault::Lose(id)
            }
            FaultKind::Duplicate => {
                self.state.left.duplicates -= 1;
                let (tag, msg) = (flight.tag, flight.msg.clone());
                let msg = msg.expect("a message in flight is there");
                self.launch(from, to, sequence | DUPLICATE, tag, msg);
                self.put_behind(to, index);
                Fault::Duplicate(id)
            }
            _ => {
                self.state.left.delays -= 1;
                self.state.held += 1;
                self.state.flights[index as usize].held = true;
                self.offer_flight(index, false);
                Fault::Delay(id)
            }
        };
        if self.state.nodes[to.index()].tracked {
            self.unchecked.push(to);
        }
        (Action::Faulted, to, fault)
    }

    /// Moves the message that was launched last directly behind this one in the node's inbox, if
    /// this one keeps its place there.
    fn put_behind(&mut self, node: NodeId, index: u32) {
        let ordered = self.state.flights[index as usize].ordered;
        let inbox = &mut self.state.nodes[node.index()].inbox;
        let place = inbox.iter().position(|at| *at == index).filter(|_| ordered);
        if let Some(place) = place {
            inbox[place + 1..].rotate_right(1);
        }
    }

    /// Releases the messages that were held back.
    pub(super) fn release(&mut self) {
        if self.state.held == 0 {
            return;
        }
        self.state.held = 0;
        self.state.flights.iter_mut().for_each(|flight| flight.held = false);
        self.reoffer_all();
    }

    pub(super) fn split(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.partitions -= 1;
        let (side, _) = self.state.splits().side(&self.state.strikable(), number);
        let node = self.part(Cut { side, out: true, into: true });
        (Action::Faulted, node, Fault::Partition(side))
    }

    /// Splits the network in one direction: each split exists in both.
    fn split_one_way(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.one_way_partitions -= 1;
        let (side, swapped) = self.state.splits().side(&self.state.strikable(), number / 2);
        // The other side hears nothing where this one is not heard.
        let out = number.is_multiple_of(2) != swapped;
        let node = self.part(Cut { side, out, into: !out });
        let fault = if out { Fault::Mute(side) } else { Fault::Deafen(side) };
        (Action::Faulted, node, fault)
    }

    fn part(&mut self, cut: Cut) -> NodeId {
        self.state.partition = Some(cut);
        let node = cut.side.nodes()[0];
        let (born, id) = (self.state.step, identity::HEAL);
        self.state.heal = self.state.moves.add(Move { what: What::Heal, node, born, id });
        self.reoffer_all();
        node
    }

    pub(super) fn heal(&mut self) {
        if self.state.partition.take().is_some() {
            let slot = std::mem::replace(&mut self.state.heal, NONE);
            self.state.moves.remove(slot);
            self.reoffer_all();
        }
    }

    pub(super) fn skew(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.skews -= 1;
        let node = self.target(number / 4);
        let quarters: i8 = [-4, -2, 2, 4][(number % 4) as usize];
        let quarter = i64::try_from(self.rules.faults.skew_max.as_nanos() / 4).unwrap_or(i64::MAX);
        self.state.nodes[node.index()].skew = quarter.saturating_mul(i64::from(quarters));
        (Action::Faulted, node, Fault::Skew(node, quarters))
    }
}

/// The ways in which the network can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Splits {
    /// The number of nodes that can be parted from each other.
    pub(super) members: u32,
    /// Whether there are nodes that stay on the other side of every split.
    pub(super) others: bool,
}

impl Splits {
    /// The number of members whose side is chosen, if every split is possible. Without others the
    /// last member stays, since it does not matter which of two sides is cut off.
    fn chosen(self) -> Option<u32> {
        let chosen = self.members.saturating_sub(u32::from(!self.others));
        (chosen <= Side::MAX as u32).then_some(chosen)
    }

    /// Whether some splits are left out, because there are too many.
    pub(super) fn is_partial(self) -> bool {
        self.chosen().is_none()
    }

    /// The number of splits. Of many nodes one is cut off at a time.
    pub(super) fn count(self) -> u32 {
        self.chosen().map_or(self.members, |chosen| (1 << chosen) - 1)
    }

    /// The side that the split with this number cuts off: its bits say who, counted from one.
    /// Without others the smaller side stands for both; returns whether that is the other one.
    fn side(self, members: &[NodeId], number: u32) -> (Side, bool) {
        let bits = match self.chosen() {
            Some(_) => number + 1,
            None => return (Side::of([members[number as usize]]).expect("one node"), false),
        };
        let swapped = !self.others && 2 * bits.count_ones() > self.members;
        let is_chosen = |at: usize| (u64::from(bits) >> at & 1 == 1) != swapped;
        let nodes = members.iter().enumerate();
        let nodes = nodes.filter(|(at, _)| is_chosen(*at)).map(|(_, node)| *node);
        (Side::of(nodes).expect("a split has few nodes on one side"), swapped)
    }

    /// The number of the split that cuts off this side, and whether it is named by the other one.
    pub(super) fn number(self, members: &[NodeId], side: Side) -> Option<(u32, bool)> {
        let places = side.nodes().iter().map(|node| members.iter().position(|m| m == node));
        let places = places.collect::<Option<Vec<usize>>>()?;
        let Some(chosen) = self.chosen() else {
            return (places.len() == 1).then(|| (places[0] as u32, false));
        };
        let bits = places.iter().fold(0_u64, |bits, at| bits | 1 << at);
        let swapped = bits >> chosen & 1 == 1;
        let bits = if swapped { !bits & ((1 << self.members) - 1) } else { bits };
        Some((u32::try_from(bits).ok()?.checked_sub(1)?, swapped))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn members(count: u32) -> Vec<NodeId> {
        (0..count).map(|at| NodeId(3 * at + 60)).collect()
    }

    /// Every way to part the nodes has one number, and the number is found again by either side.
    #[test]
    fn every_split_has_a_number() {
        for (count, others) in (0..11).flat_map(|count| [(count, false), (count, true)]) {
            let (all, splits) = (members(count), Splits { members: count, others });
            let mut seen = BTreeSet::new();
            for number in 0..splits.count() {
                let (side, swapped) = splits.side(&all, number);
                assert_eq!(splits.number(&all, side), Some((number, swapped)));
                let rest: Vec<NodeId> =
                    all.iter().copied().filter(|node| !side.contains(*node)).collect();
                assert!(others || side.nodes().len() <= rest.len(), "the smaller side is named");
                if let Some(rest) = Side::of(rest).filter(|_| !others) {
                    assert_eq!(splits.number(&all, rest), Some((number, !swapped)));
                    seen.insert(rest);
                }
                seen.insert(side);
            }
            let sides = (1_u32 << count).saturating_sub(if others { 1 } else { 2 });
            assert_eq!(seen.len() as u32, sides, "{count} nodes, {others}");
        }
    }

    #[test]
    fn many_nodes_are_cut_off_one_at_a_time() {
        for (count, others, partial) in
            [(31, false, false), (30, true, false), (32, false, true), (31, true, true)]
        {
            let (all, splits) = (members(count), Splits { members: count, others });
            assert_eq!(splits.is_partial(), partial, "{count} nodes, {others}");
            let last = splits.count() - 1;
            let (side, swapped) = splits.side(&all, last);
            assert_eq!(splits.number(&all, side), Some((last, swapped)));
        }
        assert_eq!(Splits { members: 200, others: false }.count(), 200);
    }
}
