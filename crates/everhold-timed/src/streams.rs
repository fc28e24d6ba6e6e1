//! Connections of streams: what breaks them, and how both ends learn of it.

use everhold_node::{Message, NodeId};
use everhold_sim::FaultKind;

use super::draws::OnLink;
use super::env::{Env, What};
use super::kinds::Class;

impl<M: Message> Env<M> {
    /// The connection between two nodes breaks; what was under way in it is lost.
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

    /// One of the connections that exist breaks.
    pub(super) fn reset_any(&mut self, number: u64) {
        let open: Vec<(NodeId, NodeId)> = self.resettable().collect();
        if !open.is_empty() {
            let (one, other) = open[(number % open.len() as u64) as usize];
            self.reset_connection(one, other);
        }
    }

    /// The connection breaks at a message that leaves now: what was sent before it arrives, and so
    /// does what is under way in the other direction. Where bandwidth is shared fairly nobody knows
    /// yet when that will be, so all of it is lost.
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

    /// A node is gone or has lost its memory: its peers will know.
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

    /// Whether a node sends into a connection of which it does not know that it broke.
    pub(super) fn is_untold(&self, from: NodeId, to: NodeId) -> bool {
        self.state.untold.contains(&(from, to))
    }

    /// A node knows that its connection ended.
    pub(super) fn was_told(&mut self, node: NodeId, peer: NodeId) {
        if let Some(at) = self.state.untold.iter().position(|end| *end == (node, peer)) {
            self.state.untold.swap_remove(at);
        }
    }

    fn open_streams(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.state.links.iter().filter(|link| link.open).map(|link| (link.from(), link.to()))
    }

    /// Open streams that a reset can strike.
    fn resettable(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let spares = |transport: u8| {
            let carrier = &self.model.ways.transports[usize::from(transport)];
            carrier.spared.contains(FaultKind::Reset)
        };
        let open = self.state.links.iter().filter(|link| link.open);
        open.filter(move |link| !spares(link.key as u8)).map(|link| (link.from(), link.to()))
    }

    /// False if it was not open.
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

    /// What streams carry between some nodes will not arrive.
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
