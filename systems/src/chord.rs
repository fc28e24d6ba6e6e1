//! Chord: nodes on a ring of hash values, as in Mace.
//!
//! Every node has a key, and its range are the keys between its predecessor's key and its own. A
//! node joins by asking any other node for its place: the request is routed to the node just before
//! that place, which names itself and its successor. After that, nodes learn about each other by
//! asking their successors periodically for their predecessors and successors, because others may
//! have joined between a node and its successor. Fingers, which are nodes far away on the ring,
//! shorten routes.
//!
//! Two of the bugs were found by almost-invariants (Avenger, section 3.2.2), and one by its delay
//! (MacePC).
//!
//! On real sockets nodes die: `survivor` adds the handling of that, `losses` has a ring of which most is
//! killed, on a virtual clock, and `coverage` the checks that run meanwhile on processes (feature `live`;
//! D3S, section 5.4).

#[cfg(feature = "live")]
mod coverage;
mod losses;
mod node;
mod ring;
mod survivor;

use everhold::prelude::*;
use everhold::property::{Library, Type};
use everhold::{Network, System};

#[cfg(feature = "live")]
pub use coverage::{coverage, sampled_keys};
pub use losses::{LOSS, Rings, loses_most, rings};
pub use node::{Chord, Msg, Status};
pub use ring::{Range, key};
pub use survivor::LiveChord;
#[cfg(feature = "live")]
pub use survivor::host;

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// The search for the last successor assumes that a node is never among its own successors, but
    /// in a small ring it may be (Avenger, Chord1).
    CountsItself,
    /// A node that learns of a closer predecessor from the answer to a search keeps the keys before
    /// it (Avenger, Chord2).
    KeepsRange,
    /// A node informs those who have it as their successor about a closer one only when they ask,
    /// and does not search for the closest. Of many nodes that join at once, most find their place
    /// one step at a time (MacePC).
    TellsNobody,
    /// A node that did not answer for a while counts as dead for ever, unless it sends something by
    /// itself, and a node asks a distant one for its place only when it has lost all of its neighbours.
    StaysApart,
}

/// The interval between questions to the successor.
pub const STABILISE: Duration = Duration::from_millis(100);
/// The interval between searches for a finger.
pub const FIX_FINGERS: Duration = Duration::from_millis(200);
/// The time after which an unanswered request to join is repeated.
pub const JOIN: Duration = Duration::from_millis(500);
/// The number of successors that a node remembers.
pub const SUCCESSORS: usize = 4;

/// Chord1 in Avenger's table 1: a node whose last successor is itself is alone.
pub const ALONE: &str = "who follows itself is alone";
/// Chord2: no successor is between a node and its predecessor, unless the node is alone.
pub const NONE_BETWEEN: &str = "no successor is in the node's own range";
/// The goal at which MacePC stops the clock.
pub const ONE_RING: &str = "one ring";

/// Chord1 and Chord2 in the property language; [`library`] supplies their function.
pub const PROPERTIES: &str = r#"
always "who follows itself is alone":
  forall n in nodes: n.max_succ != n.me or n.pred == n.succ

always "no successor is in the node's own range":
  forall n in nodes: not in_range(n.max_succ, n.my_range) or in_range(n.succ, n.my_range)
"#;

/// `in_range(node, range)`: whether the node's key is in the range.
#[must_use]
pub fn library() -> Library {
    let node = || Type::Node(None);
    let range = [("after", node()), ("before", node())].map(|(name, kind)| (name.to_owned(), kind));
    let params = [node(), Type::Record(range.into())];
    Library::new().with_function("in_range", params, Type::Bool, ring::in_range)
}

/// Whether all nodes are on one ring and know their neighbours, where MacePC stops the clock.
#[must_use]
pub fn is_one_ring(s: &View<'_, Msg>) -> bool {
    let mut nodes: Vec<&Chord> = s.all::<Chord>().map(|(_, node)| node).collect();
    nodes.sort_unstable_by_key(|node| key(node.me()));
    let next = nodes.iter().cycle().skip(1);
    nodes.iter().zip(next).all(|(node, next)| node.is_followed_by(next))
}

/// A ring of `nodes` nodes. The first one is present from the start; each other one knows those
/// before it.
pub fn system(nodes: usize, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(nodes, bug)(system);
        system.library(library());
        system.property(PROPERTIES);
        system.sometimes(ONE_RING, is_one_ring);
    }
}

/// The system without its properties.
pub fn environment(
    nodes: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("chord", nodes, |number| Chord::new(NodeId(number as u32), bug));
        system.network(Network::Streams);
    }
}
