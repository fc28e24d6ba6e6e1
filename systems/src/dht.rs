//! The common parts of [Pastry](crate::pastry) and [Bamboo](crate::bamboo): a ring of identifiers,
//! leafsets, routing tables, and the condition that they are consistent.
//!
//! Every node has an identifier that follows from its address. A key belongs to the node with the
//! nearest identifier. A node knows its neighbours on the ring (its [`Leafset`]) and some nodes for
//! each prefix of its own identifier (its [`Table`]); with both, a message reaches the owner of a
//! key in a number of hops that is logarithmic in the number of nodes.
//!
//! Identifiers have 64 bits here and 160 in the papers: sixteen hexadecimal digits distinguish a
//! hundred nodes.

mod leafset;
mod routing;
mod stable;
mod table;

use everhold::prelude::*;

pub use leafset::{HALF, Leafset, Side};
pub use routing::Routing;
pub use stable::{Overlay, Ring};
pub use table::{COLUMNS, ROWS, Table};

/// The number of bits of a digit.
const DIGIT_BITS: u32 = 4;

/// A position on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id(pub u64);

/// The assignment of identifiers to addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Spread by a hash over the whole ring.
    Even,
    /// Spread by a hash over one half of the ring.
    Crowded,
}

impl Ids {
    /// The identifier of a node.
    #[must_use]
    pub fn of(self, node: NodeId) -> Id {
        let mut mixed = u64::from(node.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        match self {
            Ids::Even => Id(mixed),
            Ids::Crowded => Id(mixed >> 1),
        }
    }
}

impl Id {
    /// The distance from here to `other` in the direction of growing identifiers.
    #[must_use]
    pub fn clockwise_to(self, other: Id) -> u64 {
        other.0.wrapping_sub(self.0)
    }

    /// The shorter of the two distances between two identifiers.
    #[must_use]
    pub fn distance(self, other: Id) -> u64 {
        self.clockwise_to(other).min(other.clockwise_to(self))
    }

    /// The number of leading digits that two identifiers have in common.
    #[must_use]
    pub fn shared_prefix(self, other: Id) -> usize {
        ((self.0 ^ other.0).leading_zeros() / DIGIT_BITS) as usize
    }

    /// A digit, counted from the left.
    #[must_use]
    pub fn digit(self, position: usize) -> usize {
        let shift = u64::BITS - DIGIT_BITS * (position as u32 + 1);
        (self.0 >> shift) as usize % COLUMNS
    }
}
