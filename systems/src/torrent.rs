//! A BitTorrent client, after D3S's study of libtorrent (NSDI 2008, section 5.5).
//!
//! A tracker introduces peers to each other. A peer tells its neighbours which pieces of the file it
//! has, asks them for the pieces that are rarest among them, and uploads one piece at a time, which
//! takes as long as its bandwidth says; pieces have no content here. Some peers upload ten times slower
//! than the others: free riders.
//!
//! The paper's two bugs: a peer that is introduced to a neighbour again adds it again, so that its list
//! has several times more entries than there are peers; and among pieces of equal rarity every peer
//! takes the first one, so that all peers download the same pieces while others are hardly spread.
//!
//! [`flows`](neighbour_graph) are the paper's predicates, graphs of stages that partition the peers
//! and aggregate; [`RULES`] says what can be said in a line of the property language.

#[cfg(feature = "live")]
mod flows;
mod peer;

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::System;
use everhold::prelude::*;

#[cfg(feature = "live")]
pub use flows::{Distribution, neighbour_graph, piece_distribution, trust};
pub use peer::Peer;

/// The claim about neighbour lists.
pub const RULES: &str = include_str!("torrent/torrent.prop");
/// Its name.
pub const ONCE: &str = "no neighbour is listed twice";

/// The tracker.
pub const TRACKER: NodeId = NodeId(0);
/// The peer that has the file from the beginning.
pub const SEED: NodeId = NodeId(1);
/// The peers of the paper's experiment, the seed included.
pub const PEERS: u32 = 57;
/// The number of free riders among them: those with the highest numbers.
pub const FREE_RIDERS: u32 = 11;
/// The number of pieces of the file.
pub const PIECES: u32 = 52;

/// The interval at which a peer asks the tracker for others.
const ANNOUNCE: Duration = Duration::from_millis(700);
/// The number of peers in an answer of the tracker.
const INTRODUCED: usize = 25;
/// The time in which a peer uploads a piece, and in which a free rider does.
const UPLOAD: Duration = Duration::from_millis(60);
const SLOW_UPLOAD: Duration = Duration::from_millis(600);
/// The number of requests that wait at a peer; it refuses more.
const QUEUE_MAX: usize = 3;
/// The number of pieces that a peer asks for at the same time.
const PARALLEL: usize = 2;
/// The time after which a request is given up, and after which a peer without requests tries again.
const PATIENCE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(100);

/// The known bugs of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A neighbour that is known already is added again.
    AddsAgain,
    /// Among pieces of equal rarity, every peer takes the one with the lowest number.
    SameOrder,
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Peer to tracker: I am here; who else is?
    Announce,
    /// Tracker to peer: some of the others.
    Peers(Vec<NodeId>),
    /// Peer to new neighbour: I have these pieces.
    Bitfield(BTreeSet<u32>),
    /// Peer to neighbours: I have this piece now.
    Have(u32),
    /// Peer to peer: send me this piece.
    Request(u32),
    /// The piece.
    Piece(u32),
    /// To a peer that asks: not now.
    Choke(u32),
}

/// Introduces peers to each other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tracker {
    peers: BTreeSet<NodeId>,
}

impl Node for Tracker {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        let Msg::Announce = msg else { return cx.unexpected(msg) };
        let mut others: Vec<NodeId> =
            self.peers.iter().copied().filter(|peer| *peer != from).collect();
        while others.len() > INTRODUCED {
            let one = cx.random() % others.len() as u64;
            others.swap_remove(one as usize);
        }
        self.peers.insert(from);
        cx.send(from, Msg::Peers(others));
    }
}

/// Whether a peer of the paper's experiment is a free rider.
#[must_use]
pub fn is_free_rider(peer: NodeId) -> bool {
    peer.0 > PEERS - FREE_RIDERS
}

/// A tracker, a seed and `peers - 1` peers without pieces.
pub fn system(peers: u32, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.node("tracker", Tracker::default());
        for peer in 1..=peers {
            system.node("peer", Peer::new(NodeId(peer), bug));
        }
        system.property(RULES);
        system.sometimes("a peer has the whole file", |s| {
            s.all::<Peer>().any(|(id, peer)| id != SEED && peer.is_complete())
        });
    }
}
