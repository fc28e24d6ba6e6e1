//! Chord: nodes on a ring of hash values, as in Mace.
//!
//! Every node has a key, and the keys between its predecessor's and its own are its range. A node joins by
//! asking any other for the place where it belongs: the request is routed to the node just before
//! that place, which names itself and its successor. After that, nodes find out about each other
//! by asking their successor for its predecessor and its successors, every so often: between a
//! node and its successor others may have joined. Fingers, far away on the ring, shorten routes.
//!
//! Two bugs that almost-invariants led to (Avenger, section 3.2.2), and one that time did (MacePC).
//!
//! On real sockets (feature `live`) nodes die: `live` has what survives it, `coverage` what is
//! checked meanwhile (D3S, section 5.4).

#[cfg(feature = "live")]
mod coverage;
#[cfg(feature = "live")]
mod live;
mod node;
mod ring;

use everhold::prelude::*;
use everhold::property::{Library, Type};

#[cfg(feature = "live")]
pub use coverage::{coverage, sampled_keys};
#[cfg(feature = "live")]
pub use live::{LiveChord, host};
pub use node::{Chord, Msg, Status};
pub use ring::{Range, key};

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// The last of the successors is looked for as if a node were never among its own, but in a
    /// small ring it may be (Avenger, Chord1).
    CountsItself,
    /// A node that hears of a closer predecessor in the answer to a search does not give up the
    /// keys before it (Avenger, Chord2).
    KeepsRange,
    /// A node tells those who take it for their successor that there is a closer one only when
    /// they ask, and does not look for the closest: of many that join at once, most find their
    /// place one step at a time (MacePC).
    TellsNobody,
}

/// The time between questions to the successor.
pub const STABILISE: Duration = Duration::from_millis(100);
/// The time between searches for a finger.
pub const FIX_FINGERS: Duration = Duration::from_millis(200);
/// How long a request to join may go unanswered.
pub const JOIN: Duration = Duration::from_millis(500);
/// How many successors a node remembers.
pub const SUCCESSORS: usize = 4;

/// Chord1 of Avenger's table 1: a node whose last successor is itself is alone.
pub const ALONE: &str = "who follows itself is alone";
/// Chord2: no successor is between a node and its predecessor, unless the node is alone.
pub const NONE_BETWEEN: &str = "no successor is in the node's own range";
/// The goal, which MacePC waits for.
pub const ONE_RING: &str = "one ring";

/// Chord1 and Chord2 in the language; [`library`] has their function.
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

/// True once all nodes are on one ring and know their neighbours: where MacePC stops the clock.
#[must_use]
pub fn is_one_ring(s: &View<'_, Msg>) -> bool {
    let mut nodes: Vec<&Chord> = s.all::<Chord>().map(|(_, node)| node).collect();
    nodes.sort_unstable_by_key(|node| key(node.me()));
    let next = nodes.iter().cycle().skip(1);
    nodes.iter().zip(next).all(|(node, next)| node.is_followed_by(next))
}

/// A ring of `nodes` nodes. The first is there; each other one knows those before it.
pub fn system(nodes: usize, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(nodes, bug)(system);
        system.library(library());
        system.property(PROPERTIES);
        system.sometimes(ONE_RING, is_one_ring);
    }
}

/// The system without properties.
pub fn environment(
    nodes: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("chord", nodes, |number| Chord::new(NodeId(number as u32), bug));
        system.network(Network::Streams);
    }
}
