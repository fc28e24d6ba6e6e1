//! The `raft` crate of TiKV: an implementation that was not written for Everhold, in a modelled
//! environment.
//!
//! The crate is a state machine. It expects its user to store what must not be forgotten, to carry
//! messages, and to apply committed entries, and its safety depends on these being done in the
//! right order. That user is [`RaftNode`]: a disk under the crate, calls with answers between its
//! peers, and one timer that ticks. A [`Driver`] proposes commands. Nodes crash and restart with
//! the data that their disk kept; messages are lost and duplicated, and nodes are cut off.
//!
//! The bugs are the environment's, one for each task that the crate gives it.
//!
//! - `node`: the environment of one peer; `store`: its disk; `wire`: calls and answers.
//! - `spec`: the four safety properties of Raft's paper (Ongaro and Ousterhout, 2014, figure 3);
//!   `language`: the same in the property language, in `raft.prop`.
//! - `serve`: the same peers as processes that serve clients (feature `live`).
//! - `silent`: three bugs without visible effects, for peers that assert properties of the whole
//!   system while they run (`asserted`).
//! - [`timed`]: the time for which the peers have no leader that commits.

#[cfg(feature = "live")]
mod asserted;
mod language;
mod node;
#[cfg(feature = "live")]
mod serve;
#[cfg(feature = "live")]
mod silent;
mod spec;
mod store;
pub mod timed;
mod wire;

use everhold::System;
use everhold::prelude::*;

#[cfg(feature = "live")]
pub use asserted::Asserted;
pub use language::system_in_language;
pub use node::{RaftNode, Role};
#[cfg(feature = "live")]
pub use serve::{codec, host};
#[cfg(feature = "live")]
pub use silent::{Silent, SilentPeer};
pub use spec::{ELECTION_SAFETY, Heard, LEADER_COMPLETENESS, LOG_MATCHING, STATE_MACHINE_SAFETY};
pub use store::LogEntry;
pub use wire::{Call, Msg};

/// The known bugs of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It postpones the sync to the next tick, to save syncs, and sends messages before: a peer
    /// hears of votes and entries that a crash can still undo.
    AnswersBeforeSync,
    /// It numbers its calls from zero after every restart and recognises an answer by its number
    /// alone, so an answer to a call from before a crash is accepted as one to a present call.
    WrongIncarnation,
    /// It applies entries when they are appended to the log, although they may still be replaced.
    AppliesBeforeCommit,
}

/// The number of commands that are proposed.
const COMMANDS: u64 = 5;

/// The modelled client: it proposes commands to peers that the strategy chooses, and ignores their
/// fate.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    peers: usize,
    proposed: u64,
}

impl Driver {
    const PAUSE: Duration = Duration::from_millis(300);
}

impl Node for Driver {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("propose", Driver::PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let peer = cx.choose("peer that gets the command", self.peers);
        self.proposed += 1;
        cx.send(NodeId(peer as u32), Msg::Propose(self.proposed));
        if self.proposed < COMMANDS {
            cx.set_timer("propose", Driver::PAUSE);
        }
    }
}

/// A system of `peers` peers and the driver, on a faulty network.
pub fn system(
    peers: usize,
    bug: Bug,
    faults: Faults,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(system, peers, bug, &faults);
        spec::add(system, peers);
    }
}

/// The system without its properties.
fn environment(system: &mut System<Msg>, peers: usize, bug: Bug, faults: &Faults) {
    for number in 0..peers {
        system.node_with("raft", move || RaftNode::explored(number, peers, bug));
    }
    system.node("driver", Driver { peers, proposed: 0 });
    system.faults(faults.clone().only(["raft"]));
}
