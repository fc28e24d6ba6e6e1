//! The nearest nodes on both sides.

use everhold::prelude::*;

use super::{Id, Ids};

/// The capacity of one side.
pub const HALF: usize = 8;

/// One side of a node on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Side {
    /// The side of smaller identifiers.
    Left,
    /// The side of larger identifiers.
    Right,
}

/// The nearest nodes on both sides, nearest first. In a small ring a node could belong to either
/// side; it is stored on one of them.
#[derive(Clone, Debug, Serialize)]
pub struct Leafset {
    #[serde(skip)]
    ids: Ids,
    #[serde(skip)]
    me: Id,
    left: Vec<NodeId>,
    right: Vec<NodeId>,
}

impl Leafset {
    pub(super) fn new(me: NodeId, ids: Ids) -> Leafset {
        Leafset { ids, me: ids.of(me), left: Vec::new(), right: Vec::new() }
    }

    /// The nodes of a side, nearest first.
    #[must_use]
    pub fn side(&self, side: Side) -> &[NodeId] {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// All nodes, in an unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.left.iter().chain(&self.right).copied()
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.len() + self.right.len()
    }

    /// Whether it has no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it contains a node.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.left.contains(&node) || self.right.contains(&node)
    }

    /// The nearest node on a side. If that side is empty, the ring closes with the farthest node of
    /// the other side.
    #[must_use]
    pub fn neighbour(&self, side: Side) -> Option<NodeId> {
        let (this, other) = match side {
            Side::Left => (&self.left, &self.right),
            Side::Right => (&self.right, &self.left),
        };
        this.first().or(other.last()).copied()
    }

    /// Whether a key lies between the outermost nodes.
    pub(super) fn covers(&self, key: Id) -> bool {
        match (self.left.last(), self.right.last()) {
            (Some(left), Some(right)) => {
                let (left, right) = (self.ids.of(*left), self.ids.of(*right));
                left.clockwise_to(key) <= left.clockwise_to(right)
            }
            // If one side is empty, the other one closes the ring.
            _ => !self.is_empty(),
        }
    }

    /// The side on which `node` would be inserted; `None` if it is known already or both sides have
    /// nearer nodes.
    pub(crate) fn place(&self, node: NodeId) -> Option<Side> {
        if self.contains(node) {
            return None;
        }
        if self.is_inside(Side::Left, node) {
            return Some(Side::Left);
        }
        if self.is_inside(Side::Right, node) {
            return Some(Side::Right);
        }
        match (self.left.len() < HALF, self.right.len() < HALF) {
            (true, true) if self.away(Side::Left, node) < self.away(Side::Right, node) => {
                Some(Side::Left)
            }
            (_, true) => Some(Side::Right),
            (true, false) => Some(Side::Left),
            (false, false) => None,
        }
    }

    /// Whether `node` is nearer than the farthest node of that side.
    fn is_inside(&self, side: Side, node: NodeId) -> bool {
        let farthest = self.side(side).last();
        farthest.is_some_and(|farthest| self.away(side, node) < self.away(side, *farthest))
    }

    /// The distance of `node` on that side.
    fn away(&self, side: Side, node: NodeId) -> u64 {
        match side {
            Side::Left => self.ids.of(node).clockwise_to(self.me),
            Side::Right => self.me.clockwise_to(self.ids.of(node)),
        }
    }

    /// Inserts `node` on that side and returns the node that was evicted from it.
    pub(crate) fn insert(&mut self, side: Side, node: NodeId) -> Option<NodeId> {
        let away = self.away(side, node);
        let at = self.side(side).partition_point(|leaf| self.away(side, *leaf) < away);
        let half = match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        };
        half.insert(at, node);
        if half.len() > HALF { half.pop() } else { None }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.left.retain(|leaf| *leaf != node);
        self.right.retain(|leaf| *leaf != node);
    }
}
