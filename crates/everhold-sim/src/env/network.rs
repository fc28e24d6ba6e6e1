//! Messages under way.

use everhold_node::fingerprint;
use everhold_node::{Message, NodeId, Tag};

use super::state::{Flight, STREAM, Status, flight_hash};
use super::{Action, Env};
use crate::fault::FaultKind;
use crate::links::Line;
use crate::moves::{Move, NONE, What, identity};
use crate::system::Network;

impl<M: Message> Env<M> {
    #[inline]
    pub(super) fn take_flight(&mut self, index: u32) -> Action<M> {
        let flight = &mut self.state.flights[index as usize];
        let msg = flight.msg.take().expect("a message in flight is there");
        let (to, from, tag, slot) = (flight.to, flight.from, flight.tag, flight.slot);
        self.delivered = Some((from, flight.sequence));
        if let Some(recorder) = &mut self.recorder {
            recorder.arriving(from, flight.sequence, &msg);
        }
        self.state.network_hash = self.state.network_hash.wrapping_sub(flight.hash);
        self.state.moves.remove(slot);
        self.forget_flight(index);
        Action::Deliver { to, from, tag, msg }
    }

    /// Frees the message's place and takes the message out of its receiver's inbox.
    #[inline]
    pub(super) fn forget_flight(&mut self, index: u32) {
        let flight = &mut self.state.flights[index as usize];
        flight.slot = NONE;
        let to = &mut self.state.nodes[flight.to.index()];
        if to.tracked {
            to.inbox.retain(|waiting| *waiting != index);
        }
        self.state.free.push(index);
    }

    /// Puts a message into the network.
    #[inline]
    pub(super) fn launch(&mut self, from: NodeId, to: NodeId, sequence: u32, tag: Tag, msg: M) {
        let Some(receiver) = self.state.nodes.get(to.index()) else {
            return self.lost(from, sequence);
        };
        if receiver.status == Status::Gone {
            return self.lost(from, sequence);
        }
        let channel = self.channel(from, to, &msg);
        let Line { network, spared, .. } = self.rules.lines[usize::from(channel)];
        if network == Network::Streams && !self.connect(from, to, spared.contains(FaultKind::Reset))
        {
            return self.lost(from, sequence);
        }
        let receiver = &self.state.nodes[to.index()];
        let hash = if self.hashing { flight_hash(from, to, tag, &msg) } else { 0 };
        self.state.network_hash = self.state.network_hash.wrapping_add(hash);
        let (tracked, up) = (receiver.tracked, receiver.status == Status::Up);
        let index = self.state.free.pop().unwrap_or(self.state.flights.len() as u32);
        let born = self.state.step;
        let mut flight = Flight {
            msg: Some(msg),
            from,
            to,
            sequence,
            tag,
            slot: NONE,
            born,
            hash,
            refused: false,
            held: false,
            notice: false,
            ordered: network != Network::Datagrams,
            lane: if network == Network::Streams { STREAM } else { channel },
            spared,
        };
        if tracked {
            self.state.nodes[to.index()].inbox.push(index);
            self.unchecked.push(to);
        } else if up && !self.state.is_cut(from, to, spared) {
            let id = identity::message(from, sequence);
            flight.slot =
                self.state.moves.add(Move { what: What::Deliver(index), node: to, born, id });
        }
        self.put_flight(index, flight);
    }

    /// The number of the channel on which a message travels.
    #[inline]
    fn channel(&mut self, from: NodeId, to: NodeId, msg: &M) -> u8 {
        if self.rules.links.is_empty() { 0 } else { self.find_channel(from, to, msg) }
    }

    fn find_channel(&mut self, from: NodeId, to: NodeId, msg: &M) -> u8 {
        let nodes = &self.state.nodes;
        let takes = nodes.get(to.index()).map_or(0, |node| node.takes);
        let rules = nodes[from.index()].sends & takes;
        let fits = self.rules.links.of_message(rules, fingerprint::kind(msg));
        self.fitted |= fits;
        (u64::BITS - fits.leading_zeros()) as u8
    }

    /// Whether the channel and the receiver's mailbox have room for a message.
    pub(super) fn has_room(&mut self, from: NodeId, to: NodeId, msg: &M) -> bool {
        let Some(room) = self.state.nodes.get(to.index()).map(|node| node.room) else {
            return true;
        };
        let channel = self.channel(from, to, msg);
        let Line { capacity, network, .. } = self.rules.lines[usize::from(channel)];
        let lane = if network == Network::Streams { STREAM } else { channel };
        let (mut waiting, mut on_link) = (0, 0);
        for flight in self.state.flights.iter().filter(|f| f.to == to && f.msg.is_some()) {
            waiting += 1;
            on_link += u32::from(flight.from == from && flight.lane == lane);
        }
        waiting < room && on_link < capacity
    }

    /// Handles a message that finds no room.
    pub(super) fn refuse(&mut self, from: NodeId, to: NodeId, msg: &M) {
        self.refused += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.note(from, format!("no room for {msg:?} to {to}"));
        }
    }

    #[inline]
    pub(super) fn put_flight(&mut self, index: u32, flight: Flight<M>) {
        match self.state.flights.get_mut(index as usize) {
            Some(place) => *place = flight,
            None => self.state.flights.push(flight),
        }
    }

    pub(super) fn lost(&mut self, from: NodeId, sequence: u32) {
        if let Some(recorder) = &mut self.recorder {
            recorder.lost(from, sequence);
        }
    }

    /// Updates the deliveries that are offered for a tracked node according to guards and stream
    /// order. `accepts` asks the node whether it takes a message.
    pub(crate) fn refresh(&mut self, node: NodeId, accepts: impl Fn(NodeId, Tag, &M) -> bool) {
        let inbox = std::mem::take(&mut self.state.nodes[node.index()].inbox);
        let up = self.state.nodes[node.index()].status == Status::Up;
        // Senders and lanes on which an earlier message blocks the later ones.
        let mut blocked: Vec<(NodeId, u8)> = Vec::new();
        for &index in &inbox {
            let flight = &self.state.flights[index as usize];
            let from = flight.from;
            let first = !blocked.contains(&(from, flight.lane));
            // The end of a connection is noticed across a partition too: its timers run out.
            let cut = !flight.notice && self.state.is_cut(from, node, flight.spared);
            let reachable = up && !flight.held && !cut;
            let taken = flight.msg.as_ref().is_none_or(|msg| accepts(from, flight.tag, msg));
            let accepted = reachable && taken;
            let ordered = flight.ordered || flight.refused;
            let offered = accepted && (first || !ordered);
            // A message that a guard refuses does not hold up one that it accepts; otherwise a
            // selective receive would wait for ever behind it.
            if accepted && ordered || flight.ordered && !reachable {
                blocked.push((from, flight.lane));
            }
            let flight = &mut self.state.flights[index as usize];
            flight.refused |= reachable && !accepted;
            self.offer_flight(index, offered);
        }
        self.state.nodes[node.index()].inbox = inbox;
    }

    pub(super) fn offer_flight(&mut self, index: u32, offered: bool) {
        let flight = &mut self.state.flights[index as usize];
        match (offered, flight.slot) {
            (true, NONE) => {
                let (id, what) = match flight.notice {
                    false => {
                        (identity::message(flight.from, flight.sequence), What::Deliver(index))
                    }
                    true => (
                        identity::notice(flight.to, flight.from, flight.born),
                        What::Disconnected(index),
                    ),
                };
                let offer = Move { what, node: flight.to, born: flight.born, id };
                flight.slot = self.state.moves.add(offer);
            }
            (false, slot) if slot != NONE => {
                flight.slot = NONE;
                self.state.moves.remove(slot);
            }
            _ => {}
        }
    }

    /// Offers exactly the deliveries that can happen, after a crash, a restart, a partition or a
    /// heal. Tracked nodes are left to [`refresh`](Env::refresh).
    pub(super) fn reoffer_all(&mut self) {
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            if flight.is_vacant() {
                continue;
            }
            let receiver = &self.state.nodes[flight.to.index()];
            if receiver.tracked {
                self.unchecked.push(flight.to);
                continue;
            }
            let offered = receiver.status == Status::Up
                && !flight.held
                && !self.state.is_cut(flight.from, flight.to, flight.spared);
            self.offer_flight(index as u32, offered);
        }
    }
}
