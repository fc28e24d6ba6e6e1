//! Systems that make progress although their timers never stop, each with a bug that ends it.
//!
//! They show which fairness the explorer assumes when it judges progress: without their bugs none
//! of them may be reported, however many nodes they have. `benches -- liveness` counts.

pub mod election;
pub mod gossip;
pub mod heartbeats;
pub mod lease;
pub mod retry;

use everhold::node::{Cx, Message, NodeId};
use everhold::{Explorer, Report};

/// One of the systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Heartbeats from all to all with acknowledgements, and a token that makes ten hops.
    Heartbeats,
    /// A rumour that is told to random peers.
    Gossip,
    /// Leader election with random timeouts.
    Election,
    /// Requests that are sent again until they are answered.
    Retry,
    /// A lock with leases for which all clients wait in line.
    Lease,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 5] =
        [Family::Heartbeats, Family::Gossip, Family::Election, Family::Retry, Family::Lease];

    /// Explores the system with this many nodes, at least three, with or without its bug.
    #[track_caller]
    pub fn explore(self, nodes: u32, bug: bool, explorer: Explorer) -> Report {
        match self {
            Family::Heartbeats => explorer.run(heartbeats::system(nodes, bug)),
            Family::Gossip => explorer.run(gossip::system(nodes, bug)),
            Family::Election => explorer.run(election::system(nodes, bug)),
            Family::Retry => explorer.run(retry::system(nodes, bug)),
            Family::Lease => explorer.run(lease::system(nodes, bug)),
        }
    }
}

/// Sends a message to all nodes but oneself.
fn tell_others<M: Message>(cx: &mut Cx<M>, nodes: u32, msg: &M) {
    let me = cx.id();
    for peer in (0..nodes).map(NodeId).filter(|peer| *peer != me) {
        cx.send(peer, msg.clone());
    }
}
