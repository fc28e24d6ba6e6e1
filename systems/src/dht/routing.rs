//! Routing of a message towards the owner of a key.

use everhold::prelude::*;

use super::{Id, Ids, Leafset, ROWS, Side, Table};

/// A node's knowledge of the other nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Routing {
    #[serde(skip)]
    ids: Ids,
    me: NodeId,
    /// The nearest nodes.
    pub leafset: Leafset,
    /// Nodes farther away.
    pub table: Table,
}

impl Routing {
    pub(crate) fn new(me: NodeId, ids: Ids, cell_max: usize) -> Routing {
        let table = Table::new(me, ids, cell_max);
        Routing { ids, me, leafset: Leafset::new(me, ids), table }
    }

    /// The node whose knowledge this is.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// The identifier of a node.
    #[must_use]
    pub fn id_of(&self, node: NodeId) -> Id {
        self.ids.of(node)
    }

    /// The next node on the way to the owner of `key`; this one if it is the owner.
    #[must_use]
    pub fn next_hop(&self, key: Id) -> NodeId {
        if self.owns(key) {
            return self.me;
        }
        if self.leafset.covers(key) {
            let nearest = self.leafset.iter().min_by_key(|leaf| key.distance(self.ids.of(*leaf)));
            return nearest.expect("an empty leafset covers nothing");
        }
        let prefix = self.ids.of(self.me).shared_prefix(key);
        match self.table.cell(prefix, key.digit(prefix)).first() {
            Some(node) => *node,
            None => self.nearer(key, prefix),
        }
    }

    /// Whether `key` is not farther from this node than from its neighbours.
    fn owns(&self, key: Id) -> bool {
        let me = self.ids.of(self.me);
        let (Some(left), Some(right)) =
            (self.leafset.neighbour(Side::Left), self.leafset.neighbour(Side::Right))
        else {
            return true;
        };
        let (left, right) = (self.ids.of(left), self.ids.of(right));
        key.clockwise_to(me) <= left.clockwise_to(me).div_ceil(2)
            || me.clockwise_to(key) < me.clockwise_to(right) / 2
    }

    /// Any known node that is nearer to `key` and shares at least as many digits with it.
    fn nearer(&self, key: Id, prefix: usize) -> NodeId {
        let rows = (prefix..ROWS).flat_map(|row| self.table.row(row).iter().copied());
        let known = self.leafset.iter().chain(rows).chain([self.me]);
        let fitting = known.filter(|node| key.shared_prefix(self.ids.of(*node)) >= prefix);
        fitting.min_by_key(|node| key.distance(self.ids.of(*node))).unwrap_or(self.me)
    }

    /// Removes a node that cannot be used; returns whether it was a leaf.
    pub(crate) fn remove(&mut self, node: NodeId) -> bool {
        self.table.remove(node);
        let was_leaf = self.leafset.contains(node);
        self.leafset.remove(node);
        was_leaf
    }

    /// Adds a node to the table if there is room; returns the row that changed.
    pub(crate) fn learn(&mut self, node: NodeId) -> Option<usize> {
        self.table.learn(node)
    }
}
