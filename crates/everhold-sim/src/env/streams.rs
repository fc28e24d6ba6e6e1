//! Connections: on a network of streams two nodes are connected from their first message on, and
//! both are notified when the connection ends.

use everhold_node::fingerprint::mix;
use everhold_node::{Message, NodeId, Runtime, Tag};

use super::state::{Flight, STREAM, State, Status, notice_hash};
use super::{Action, Env};
use crate::fault::Fault;
use crate::links::Spared;
use crate::moves::NONE;

impl<M: Message> State<M> {
    /// Notes that an end of a broken connection was told about it.
    pub(super) fn was_told(&mut self, node: NodeId, peer: NodeId) {
        if let Some(at) = self.untold.iter().position(|end| *end == (node, peer)) {
            self.untold.swap_remove(at);
        }
    }

    /// A hash of the connections, and of the order in which each stream delivers its messages.
    pub(super) fn streams_hash(&self) -> u64 {
        let pair = |(a, b): &(NodeId, NodeId)| (u64::from(a.0) << 32) | u64::from(b.0);
        let open = self.connections.iter().fold(0, |hash, ends| mix(hash, pair(ends)));
        let open = self.firm.iter().fold(open, |hash, ends| mix(hash, pair(ends)));
        let untold = self.untold.iter().map(|end| mix(1, pair(end)));
        let mut sum = untold.fold(open, u64::wrapping_add);
        let mut streams: Vec<((NodeId, u8), u64)> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            streams.clear();
            let inbox = node.inbox.iter().map(|at| &self.flights[*at as usize]);
            for flight in inbox.filter(|flight| flight.ordered) {
                let lane = (flight.from, flight.lane);
                match streams.iter_mut().find(|(known, _)| *known == lane) {
                    Some((_, hash)) => *hash = mix(*hash, flight.hash),
                    None => streams.push((lane, mix(index as u64, flight.hash))),
                }
            }
            sum = streams.iter().fold(sum, |sum, (_, hash)| sum.wrapping_add(*hash));
        }
        sum
    }
}

impl<M: Message> Env<M> {
    /// Opens the connection between two nodes if there is none. Returns false if the sender does
    /// not know yet that the last one broke: then the message is lost.
    pub(super) fn connect(&mut self, from: NodeId, to: NodeId, is_firm: bool) -> bool {
        let state = &mut self.state;
        if state.untold.contains(&(from, to)) {
            return false;
        }
        if from != to
            && let Err(at) = state.connections.binary_search(&pair(from, to))
        {
            state.connections.insert(at, pair(from, to));
            if is_firm {
                state.firm.push(pair(from, to));
                state.firm.sort_unstable();
            }
        } else if !is_firm && !state.firm.is_empty() {
            // One message that a reset can strike is enough to make the connection one that can be
            // reset.
            state.firm.retain(|ends| *ends != pair(from, to));
        }
        true
    }

    pub(super) fn reset_connection(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.resets -= 1;
        let ends = self.state.resettable().nth(number as usize);
        let (one, other) = ends.expect("the menu counted the connections");
        (Action::Reset(one, other), one, Fault::Reset(one, other))
    }

    /// Breaks a connection. The number of messages under way that still arrive in each direction is
    /// a choice like any other.
    pub(crate) fn reset_between(&mut self, one: NodeId, other: NodeId) {
        for (from, to) in [(one, other), (other, one)] {
            let stream = self.stream(from, to);
            if stream.is_empty() {
                continue;
            }
            let arrive = self.choose(to, "messages that still arrive", stream.len() as u32 + 1);
            stream[arrive as usize..].iter().for_each(|index| self.discard(*index));
        }
        self.disconnect(one, other);
    }

    /// Breaks a connection at a message: everything that was sent before it arrives, and so does
    /// everything in the other direction.
    pub(super) fn break_at(&mut self, index: u32) {
        let flight = &self.state.flights[index as usize];
        let (from, to) = (flight.from, flight.to);
        let stream = self.stream(from, to);
        let at = stream.iter().position(|place| *place == index).unwrap_or(0);
        stream[at..].iter().for_each(|place| self.discard(*place));
        self.disconnect(from, to);
    }

    /// Breaks the connections of a node that goes down: the messages in them are lost.
    pub(super) fn break_streams(&mut self, node: NodeId) {
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            let sent = flight.from == node && !flight.notice;
            if !flight.is_vacant() && flight.lane == STREAM && (flight.to == node || sent) {
                self.discard(index as u32);
            }
        }
        let ends = self.state.connections.iter().copied();
        let ended: Vec<_> = ends.filter(|(a, b)| *a == node || *b == node).collect();
        for (one, other) in ended {
            self.close(one, other);
            self.tell(if one == node { other } else { one }, node);
        }
    }

    /// The messages under way from one node to another, in their order.
    fn stream(&self, from: NodeId, to: NodeId) -> Vec<u32> {
        let is_message = |index: &u32| {
            let flight = &self.state.flights[*index as usize];
            flight.from == from && flight.lane == STREAM && !flight.notice
        };
        self.state.nodes[to.index()].inbox.iter().copied().filter(is_message).collect()
    }

    fn disconnect(&mut self, one: NodeId, other: NodeId) {
        self.close(one, other);
        self.tell(one, other);
        self.tell(other, one);
    }

    fn close(&mut self, one: NodeId, other: NodeId) {
        if let Ok(at) = self.state.connections.binary_search(&pair(one, other)) {
            self.state.connections.remove(at);
            self.state.firm.retain(|ends| *ends != pair(one, other));
        }
    }

    /// Puts the notice that a connection ended behind the messages under way in it.
    fn tell(&mut self, node: NodeId, peer: NodeId) {
        if node == peer || self.state.nodes[node.index()].status != Status::Up {
            return;
        }
        let hash = if self.hashing { notice_hash(node, peer) } else { 0 };
        self.state.network_hash = self.state.network_hash.wrapping_add(hash);
        let index = self.state.free.pop().unwrap_or(self.state.flights.len() as u32);
        let notice = Flight {
            msg: None,
            from: peer,
            to: node,
            sequence: 0,
            tag: Tag::None,
            slot: NONE,
            born: self.state.step,
            hash,
            refused: false,
            held: false,
            notice: true,
            ordered: true,
            lane: STREAM,
            spared: Spared::default(),
        };
        self.put_flight(index, notice);
        self.state.untold.push((node, peer));
        self.state.nodes[node.index()].inbox.push(index);
        self.unchecked.push(node);
    }

    /// Delivers the notice that a connection ended.
    pub(super) fn take_notice(&mut self, index: u32) -> Action<M> {
        let flight = &mut self.state.flights[index as usize];
        let (node, peer, slot) = (flight.to, flight.from, flight.slot);
        flight.notice = false;
        self.state.network_hash = self.state.network_hash.wrapping_sub(flight.hash);
        self.state.moves.remove(slot);
        self.forget_flight(index);
        self.state.was_told(node, peer);
        Action::Disconnected { node, peer }
    }
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}
