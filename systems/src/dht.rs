//! What [Pastry](crate::pastry) and [Bamboo](crate::bamboo) share: a ring of identifiers, leafsets,
//! routing tables, and when all of them agree.
//!
//! Every node has an identifier that follows from its address. A key belongs to the node whose
//! identifier is nearest. A node knows its neighbours on the ring (its [`Leafset`]) and some nodes
//! for each prefix of its own identifier (its [`Table`]); with both, a message to a key needs a
//! number of hops that is logarithmic in the number of nodes.
//!
//! Identifiers have 64 bits here, 160 in the papers: sixteen digits tell a hundred nodes apart.

mod leafset;
mod routing;
mod stable;
mod table;

use everhold::prelude::*;

pub use leafset::{HALF, Leafset, Side};
pub use routing::Routing;
pub use stable::{Overlay, Ring};
pub use table::{COLUMNS, ROWS, Table};

/// The bits of a digit.
const DIGIT_BITS: u32 = 4;

/// A place on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id(pub u64);

/// How identifiers follow from addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Spread over the whole ring by a hash.
    Even,
    /// The same, but all on one half of the ring.
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
    /// The way from here to `other` with growing identifiers.
    #[must_use]
    pub fn clockwise_to(self, other: Id) -> u64 {
        other.0.wrapping_sub(self.0)
    }

    /// The shorter way between two places.
    #[must_use]
    pub fn distance(self, other: Id) -> u64 {
        self.clockwise_to(other).min(other.clockwise_to(self))
    }

    /// How many leading digits two identifiers have in common.
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
