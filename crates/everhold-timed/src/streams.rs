//! Connections of streams: how they break, and how both ends are notified.

use everhold_node::{Message, NodeId};
use everhold_sim::FaultKind;

use super::draws::OnLink;
use super::env::{Env, What};
use super::kinds::Class;

impl<M: Message> Env<M> {
    /// Breaks the connection between two nodes; messages under way in it are lost.
    pub(super) fn reset_connection(&mut self, one: NodeId, other: NodeId) {
        if !self.close(one, other) {
            return;
        }
        self.note_fault(&format!("the connection between {one} and {other} breaks"));
        self.kill(|from, to| (from, to) == (one, other) || (from, to) == (other, one));
        for (node, peer) in [(one, other), (other, one)] {
            let at = self.state.now + self.propagation(peer, node);
            self.tell(node, peer, at);
        }
    }

    /// Breaks one of the existing connections.
    pub(super) fn reset_any(&mut self, number: u64) {
        let open: Vec<(NodeId, NodeId)> = self.resettable().collect();
        if !open.is_empty() {
            let (one, other) = open[(number % open.len() as u64) as usize];
            self.reset_connection(one, other);
        }
    }

    /// Breaks the connection at a message that leaves now: messages sent before it arrive, and so
    /// do those under way in the other direction. Where bandwidth is shared fairly, arrival times
    /// are not known yet, so all of them are lost.
    pub(super) fn break_at(&mut self, on: OnLink, leaves: u64) {
        if self.state.flows.is_some() {
            return self.reset_connection(on.from, on.to);
        }
        self.close(on.from, on.to);
        for (node, peer) in [(on.to, on.from), (on.from, on.to)] {
            let last = self.state.links.between(peer, node).map(|link| link.last_arrival).max();
            let at = leaves + self.propagation(peer, node);
            self.tell(node, peer, at.max(last.unwrap_or(0) + 1));
        }
    }

    /// Notifies the peers of a node that stopped or lost its memory.
    pub(super) fn tell_peers(&mut self, node: NodeId) {
        let ends = self.open_streams().filter(|(from, to)| *from == node || *to == node);
        let mut peers: Vec<NodeId> =
            ends.map(|(from, to)| if from == node { to } else { from }).collect();
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            self.close(node, peer);
            let at = self.state.now + self.propagation(node, peer);
            self.tell(peer, node, at);
        }
    }

    /// Returns whether a node sends into a broken connection whose end it has not been notified of.
    pub(super) fn is_untold(&self, from: NodeId, to: NodeId) -> bool {
        self.state.untold.contains(&(from, to))
    }

    /// Records that a node has been notified that its connection ended.
    pub(super) fn was_told(&mut self, node: NodeId, peer: NodeId) {
        if let Some(at) = self.state.untold.iter().position(|end| *end == (node, peer)) {
            self.state.untold.swap_remove(at);
        }
    }

    fn open_streams(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.state.links.iter().filter(|link| link.open).map(|link| (link.from(), link.to()))
    }

    /// Returns the open streams that a reset can strike.
    fn resettable(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let spares = |transport: u8| {
            let carrier = &self.model.ways.transports[usize::from(transport)];
            carrier.spared.contains(FaultKind::Reset)
        };
        let open = self.state.links.iter().filter(|link| link.open);
        open.filter(move |link| !spares(link.key as u8)).map(|link| (link.from(), link.to()))
    }

    /// Closes a stream; returns false if it was not open.
    fn close(&mut self, one: NodeId, other: NodeId) -> bool {
        let mut was_open = false;
        for link in self.state.links.iter_mut() {
            let (from, to) = (link.from(), link.to());
            if (from, to) == (one, other) || (from, to) == (other, one) {
                was_open |= std::mem::take(&mut link.open);
            }
        }
        was_open
    }

    fn propagation(&self, from: NodeId, to: NodeId) -> u64 {
        self.model.ways.ways[self.model.ways.between(from, to) as usize].propagation
    }

    fn tell(&mut self, node: NodeId, peer: NodeId, at: u64) {
        if node == peer || !self.is_up(node) {
            return;
        }
        let kind = self.kind(Class::Other, "disconnected");
        self.state.untold.push((node, peer));
        self.state.schedule(at, node, kind, What::Disconnected(peer));
    }

    /// Drops the messages that streams carry between some nodes.
    pub(super) fn kill(&mut self, between: impl Fn(NodeId, NodeId) -> bool) {
        for item in &mut self.state.items {
            let (What::Message(flight) | What::Departing(flight)) = &item.what else { continue };
            let transport = self.state.links.get_mut(flight.link).key as u8;
            let streams = self.model.ways.transports[usize::from(transport)].streams;
            item.dead |= streams && between(flight.from, item.node);
        }
        let dead = |slot: &u32| self.state.items[*slot as usize].dead;
        let (broken, stalled) = std::mem::take(&mut self.state.stalled).into_iter().partition(dead);
        self.state.stalled = stalled;
        let broken: Vec<u32> = broken;
        for slot in broken {
            self.arrive(slot);
        }
    }
}
