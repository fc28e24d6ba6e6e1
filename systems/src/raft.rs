//! The `raft` crate of TiKV: an implementation that we did not write, in an environment that we
//! model.
//!
//! The crate is a state machine. It asks its user to keep what must not be forgotten, to carry
//! messages, and to apply what is committed, and its safety rests on these being done in the
//! right order. That user is [`RaftNode`]: a disk under the crate, calls with answers between its
//! peers, one timer that ticks. A [`Driver`] proposes commands. Nodes crash and come back with
//! what their disk kept; messages are lost, repeated and cut off.
//!
//! The mistakes are the environment's, one for each thing it is asked to do.
//!
//! - `node`: the environment of one peer; `store`: its disk; `wire`: calls and answers.
//! - `spec`: the four safety properties of Raft's paper (Ongaro and Ousterhout, 2014, figure 3);
//!   `language`: the same in the property language, in `raft.prop`.
//! - `serve`: the same peers as processes that serve clients (feature `live`).
//! - `silent`: three bugs that nobody notices, for peers that assert properties of the whole
//!   system while they run (`asserted`).
//! - [`timed`]: how long the peers are without a leader that commits.

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

/// What is wrong with the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// It syncs at the next tick, to save syncs, and sends messages before that: a peer is told
    /// of votes and entries that a crash can still take back.
    AnswersBeforeSync,
    /// It numbers its calls from zero after every restart and knows an answer by its number
    /// alone: an answer to a call from before the crash is taken for one to a call of today.
    WrongIncarnation,
    /// It applies entries when they are appended to the log: they may yet be replaced.
    AppliesBeforeCommit,
}

/// How many commands are proposed.
const COMMANDS: u64 = 5;

/// The client, modelled: proposes commands to peers that the strategy chooses, and does not care
/// what becomes of them.
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

/// What a run goes through: `peers` peers, the driver, and a network that misbehaves.
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

/// The system without properties.
fn environment(system: &mut System<Msg>, peers: usize, bug: Bug, faults: &Faults) {
    for number in 0..peers {
        system.node_with("raft", move || RaftNode::explored(number, peers, bug));
    }
    system.node("driver", Driver { peers, proposed: 0 });
    system.faults(faults.clone().only(["raft"]));
}
