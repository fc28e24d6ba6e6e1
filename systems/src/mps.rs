//! The leader election of a replicated service on Paxos, after the one that D³S checks (NSDI 2008,
//! section 5.2 and figure 6, where the service is called MPS).
//!
//! Five replicas execute the commands of one leader. A node is *Leader*, *Follower*, *Promoting* (it
//! asks the others to approve it as leader) or *Learning* (it lacks commands, and copies the state of
//! another node). The last two are meant to be transient. The election is modelled whole; of the
//! commands, only their number is, since it decides who is out of date.
//!
//! A leader sends commands to its followers alone; others learn of it when they ask for approval. A
//! node that leaves several requests unanswered counts as dead, until it answers or says that it has
//! recovered. A learning node answers nobody.
//!
//! The bug: a promoting node asks only those that do not count as dead. If its requests to several
//! nodes are lost for a while, and the node that it still asks begins to learn, that one soon counts
//! as dead as well: nobody is left to be asked, and the node promotes itself for ever, while the
//! others have a leader and clients notice nothing.
//!
//! The paper tells the states, the messages and the sequence; that requests and answers keep a node
//! alive, and that a node which has recovered announces itself, is our reading of it.

mod replica;

use std::time::Duration;

use everhold::System;
use everhold::prelude::*;

pub use replica::{Replica, Status};

/// The claim that a watch checks on processes: a deviation from the normal case does not persist.
pub const RULES: &str = include_str!("mps/mps.prop");
/// The claim that the explorer checks, which has no clock: every promotion comes to an end.
pub const PROGRESS: &str = include_str!("mps/progress.prop");
/// The name of both claims.
pub const RETURNS: &str = "nodes return to the normal case";

/// The number of replicas.
pub const REPLICAS: u32 = 5;
/// The number of nodes that must approve a leader, itself included.
const MAJORITY: usize = REPLICAS as usize / 2 + 1;

/// The interval between the messages of a leader, and between the requests of other nodes.
const BEAT: Duration = Duration::from_millis(200);
/// The time without a leader after which a follower promotes itself. Each node waits a little longer
/// than the one before it.
const ABSENT: Duration = Duration::from_millis(700);
const STAGGER: Duration = Duration::from_millis(50);
/// The number of consecutive requests without an answer after which a node counts as dead.
const MISSED_MAX: u32 = 4;
/// The number of parts in which the state is copied.
const PARTS: u32 = 10;

/// The known bugs of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A promoting node does not ask those that count as dead.
    AsksTheLiving,
}

/// The number of an attempt to lead: unique because it contains the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    round: u32,
    node: NodeId,
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to node: execute a command.
    Command,
    /// Node to client: a majority has executed it; the number of commands now.
    Executed(u64),
    /// Node to client: ask this node, if the present one knows a leader.
    Elsewhere(Option<NodeId>),
    /// Leader to all that do not count as dead: I lead, and these are the commands.
    Lead {
        /// The attempt that made it the leader.
        ballot: Ballot,
        /// The number of commands.
        executed: u64,
    },
    /// Follower to leader: I have executed this many.
    Followed(u64),
    /// Promoting node to others: approve me as the leader.
    Promote {
        /// The attempt.
        ballot: Ballot,
        /// The number of commands that the node has executed.
        executed: u64,
    },
    /// To a promoting node: I approve this attempt.
    Approve(Ballot),
    /// To a promoting node: I approved this later attempt of another.
    Refuse(Ballot),
    /// To a promoting node: you lack commands that I have.
    Ahead,
    /// To a promoting or recovered node: this one leads.
    Leads(Ballot),
    /// To all: I have recovered.
    Hello,
    /// Learning node to its source: send me this part of the state.
    Fetch(u32),
    /// A part of the state, and the number of commands that are in it.
    Part(u32, u64),
    /// From the module that injects failures: the node's messages to these nodes are lost from now on.
    Cut(Vec<NodeId>),
}

/// A modelled client: it asks whom it takes for the leader, until its commands are executed.
#[derive(Clone, Debug, Serialize)]
struct Caller {
    asked: NodeId,
    left: u32,
}

impl Caller {
    fn ask(&mut self, cx: &mut Cx<Msg>) {
        if self.left > 0 {
            self.left -= 1;
            cx.send(self.asked, Msg::Command);
        }
    }
}

impl Node for Caller {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.ask(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Executed(_) => self.ask(cx),
            Msg::Elsewhere(leader) => self.asked = leader.unwrap_or(self.asked),
            other => cx.unexpected(other),
        }
    }
}

/// The number of commands of the modelled client.
const COMMANDS: u32 = 2;

/// Five replicas of which three may crash and recover, while messages are lost, and a client.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("replica", REPLICAS as usize, |at| Replica::new(NodeId(at as u32), bug));
        system.node("client", Caller { asked: NodeId(0), left: COMMANDS });
        system.faults(Faults::none().crash(3).lose(3).only(["replica"]));
        system.property(PROGRESS);
        system.sometimes("another node leads", |s| {
            s.all::<Replica>()
                .any(|(id, replica)| id != NodeId(0) && replica.status() == Status::Leader)
        });
    }
}
