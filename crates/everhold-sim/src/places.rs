//! The places that an execution reaches: what its nodes look like from afar.
//!
//! A place is a hash of the [shapes](everhold_node::fingerprint::shape) of all nodes. Whole states are
//! too many for a search to notice that one of them is rare; places are few.

use std::collections::BTreeSet;

use everhold_node::fingerprint::mix;

/// The largest number of places of one execution that are told.
const FOUND_MAX: usize = 1_024;

/// The places of one execution.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The hash of each node's shape.
    nodes: Vec<u64>,
    /// Their sum, in which the order of the nodes does not matter.
    sum: u64,
    known: BTreeSet<u64>,
    found: Vec<Place>,
}

/// A place, and the number of choices after which it was reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    pub(crate) choices: u32,
}

impl Places {
    /// Begins a new execution.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.sum = 0;
        self.known.clear();
        self.found.clear();
    }

    /// Notes the shape of a node, which begins an incarnation or has taken a step. Nodes of one kind
    /// are alike.
    pub(crate) fn node_is(&mut self, index: usize, kind: u32, is_up: bool, shape: u64) {
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, 0);
        }
        let hash = mix(mix(u64::from(kind), u64::from(is_up)), shape);
        self.sum = self.sum.wrapping_sub(self.nodes[index]).wrapping_add(hash);
        self.nodes[index] = hash;
    }

    /// Notes the present place.
    pub(crate) fn note(&mut self, choices: usize) {
        if self.found.len() < FOUND_MAX && self.known.insert(self.sum) {
            self.found.push(Place { hash: self.sum, choices: choices as u32 });
        }
    }

    /// The places that were found, in their order.
    pub(crate) fn take(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.found)
    }
}
