//! The stopping condition of the MacePC paper (section 5.2): routing has stabilised.

use everhold::prelude::*;

use super::{COLUMNS, HALF, Ids, Routing, Side};

/// A node of an overlay.
pub trait Overlay {
    /// Whether the node is part of the ring.
    fn is_joined(&self) -> bool;
    /// The node's knowledge of the others.
    fn routing(&self) -> &Routing;
}

/// The leaves that a node must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    Neighbours,
    All,
}

/// The ring in its ideal state.
#[derive(Clone, Debug)]
pub struct Ring {
    ids: Ids,
    leaves: Leaves,
    /// All nodes, sorted by identifier.
    order: Vec<NodeId>,
    /// The index of each node in that order.
    places: Vec<usize>,
    /// The largest number of hops of a route.
    hops_max: usize,
}

impl Ring {
    /// The ring of the nodes `0..nodes`.
    #[must_use]
    pub fn new(nodes: usize, ids: Ids) -> Ring {
        let mut order: Vec<NodeId> = (0..nodes as u32).map(NodeId).collect();
        order.sort_by_key(|node| ids.of(*node));
        let mut places = vec![0; nodes];
        for (place, node) in order.iter().enumerate() {
            places[node.index()] = place;
        }
        // One hop for each digit that distinguishes the nodes, and one within the leafset.
        let digits = (0..).find(|digits| COLUMNS.pow(*digits) >= nodes).unwrap_or(0);
        Ring { ids, leaves: Leaves::Neighbours, order, places, hops_max: digits as usize + 1 }
    }

    /// The same ring with the requirement that nodes know all their leaves.
    #[must_use]
    pub fn complete(self) -> Ring {
        Ring { leaves: Leaves::All, ..self }
    }

    /// Whether all nodes have joined, know the nodes that are in fact nearest to them, and reach
    /// each other in a number of hops that is logarithmic in the number of nodes.
    pub fn is_stable<'a, O: Overlay + 'static>(
        &self,
        node: impl Fn(NodeId) -> Option<&'a O>,
    ) -> bool {
        let joined = |at: &NodeId| node(*at).is_some_and(Overlay::is_joined);
        if !self.order.iter().all(joined) {
            return false;
        }
        let routings: Vec<&Routing> = (0..self.order.len())
            .filter_map(|at| node(NodeId(at as u32)))
            .map(O::routing)
            .collect();
        routings.iter().all(|routing| self.knows_neighbours(routing))
            && (self.leaves == Leaves::Neighbours
                || routings.iter().all(|routing| self.knows_leaves(routing)))
            && self.routes_are_short(&routings)
    }

    /// The node `places` positions further to the right.
    fn beside(&self, node: NodeId, places: usize) -> NodeId {
        self.order[(self.places[node.index()] + places) % self.order.len()]
    }

    fn knows_neighbours(&self, routing: &Routing) -> bool {
        let nodes = self.order.len();
        nodes == 1
            || routing.leafset.neighbour(Side::Right) == Some(self.beside(routing.me(), 1))
                && routing.leafset.neighbour(Side::Left)
                    == Some(self.beside(routing.me(), nodes - 1))
    }

    fn knows_leaves(&self, routing: &Routing) -> bool {
        let nodes = self.order.len();
        let known = |places| routing.leafset.contains(self.beside(routing.me(), places));
        if nodes <= 2 * HALF {
            return (1..nodes).all(known);
        }
        (1..=HALF).chain(nodes - HALF..nodes).all(known)
    }

    fn routes_are_short(&self, routings: &[&Routing]) -> bool {
        self.order
            .iter()
            .all(|from| self.order.iter().all(|to| self.is_short(routings, *from, *to)))
    }

    fn is_short(&self, routings: &[&Routing], from: NodeId, to: NodeId) -> bool {
        let mut at = from;
        for _ in 0..self.hops_max {
            if at == to {
                return true;
            }
            at = routings[at.index()].next_hop(self.ids.of(to));
        }
        at == to
    }
}
