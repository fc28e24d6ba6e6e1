//! Systems that make progress although their timers never stop, each with a bug that ends the
//! progress.
//!
//! They test the fairness that the explorer assumes when it judges progress: without their bugs
//! none of them may be reported, at any number of nodes. `benches -- liveness` counts the reports.

pub mod election;
pub mod gossip;
pub mod heartbeats;
pub mod lease;
pub mod retry;
pub mod try_lock;

use everhold::node::{Cx, Message, NodeId};
use everhold::{Clocks, Explorer, Report, System};

/// The systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Heartbeats from all nodes to all with acknowledgements, and a token that makes ten hops.
    Heartbeats,
    /// A rumour that nodes pass to random peers.
    Gossip,
    /// Leader election with random timeouts.
    Election,
    /// Requests that are sent again until they are answered.
    Retry,
    /// A lock with leases, for which all clients queue.
    Lease,
    /// A lock that is refused at once, for which all clients try again after random times.
    TryLock,
}

impl Family {
    /// All systems.
    pub const ALL: [Family; 6] = [
        Family::Heartbeats,
        Family::Gossip,
        Family::Election,
        Family::Retry,
        Family::Lease,
        Family::TryLock,
    ];

    /// Explores the system with this many nodes, at least three, with or without its bug.
    #[track_caller]
    pub fn explore(self, nodes: u32, bug: bool, explorer: Explorer) -> Report {
        self.explore_on(Clocks::default(), nodes, bug, explorer)
    }

    /// Does the same as [`Family::explore`] on other clocks.
    #[track_caller]
    pub fn explore_on(self, clocks: Clocks, nodes: u32, bug: bool, explorer: Explorer) -> Report {
        match self {
            Family::Heartbeats => explorer.run(on(clocks, heartbeats::system(nodes, bug))),
            Family::Gossip => explorer.run(on(clocks, gossip::system(nodes, bug))),
            Family::Election => explorer.run(on(clocks, election::system(nodes, bug))),
            Family::Retry => explorer.run(on(clocks, retry::system(nodes, bug))),
            Family::Lease => explorer.run(on(clocks, lease::system(nodes, bug))),
            Family::TryLock => explorer.run(on(clocks, try_lock::system(nodes, bug))),
        }
    }
}

fn on<M: Message>(
    clocks: Clocks,
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> impl Fn(&mut System<M>) + Send + Sync + 'static {
    move |system| {
        setup(system);
        system.clocks(clocks);
    }
}

/// Sends a message to all nodes except the sender.
fn tell_others<M: Message>(cx: &mut Cx<M>, nodes: u32, msg: &M) {
    let me = cx.id();
    for peer in (0..nodes).map(NodeId).filter(|peer| *peer != me) {
        cx.send(peer, msg.clone());
    }
}
