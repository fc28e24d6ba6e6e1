//! The time until a command is committed after the leader has stopped.
//!
//! The peers elect peer 0, whose timeout is the shortest, and which stops for good after a second.
//! Another peer is elected soon. A client sends a command to one peer after the other, again and
//! again; in this way it passes over a peer that has stopped or knows no leader. If the client's
//! timer is set for a healthy system, in which nothing has to be sent twice, the new leader has
//! nothing to do for seconds.

use everhold::prelude::*;
use everhold::timed::{Timed, TimedFault};
use everhold::{Network, System, Time};

use super::node::RaftNode;
use super::wire::Msg;

/// The timer that is set wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// None.
    None,
    /// The client waits far too long.
    SlowRetry,
}

impl Bug {
    /// The time that the client waits before it sends another command.
    #[must_use]
    pub fn retry(self) -> Duration {
        match self {
            Bug::None => Duration::from_millis(50),
            Bug::SlowRetry => Duration::from_secs(5),
        }
    }
}

/// The time at which the leader stops.
pub const GONE: Duration = Duration::from_secs(1);
/// A peer's tick.
pub const TICK: Duration = RaftNode::TICK;

/// The client. Its commands are the times at which it sends them, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    peers: usize,
    next: usize,
    retry: Duration,
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.next = cx.choose("first peer", self.peers);
        cx.set_timer("retry", self.retry);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        let peer = NodeId(self.next as u32);
        self.next = (self.next + 1) % self.peers;
        let now = (cx.now() - Time::ZERO).as_millis();
        cx.send(peer, Msg::Propose(now as u64));
        cx.set_timer(timer, self.retry);
    }
}

/// Whether a peer has applied a command that was sent after the leader had stopped.
fn is_over(peer: &RaftNode) -> bool {
    let gone = GONE.as_millis() as u64;
    peer.applied().iter().any(|(_, command)| *command >= gone)
}

/// The system until all remaining peers have applied a command that was sent after peer 0 stopped.
#[must_use]
pub fn timed(peers: usize, bug: Bug) -> Timed<Msg> {
    let setup = move |system: &mut System<Msg>| {
        system.network(Network::Streams);
        for number in 0..peers {
            // The crate would draw the timeout from the operating system's randomness.
            let patience = 2 + number;
            let make = move || RaftNode::new(number, peers, super::Bug::None, patience);
            system.node_with("raft", make);
        }
        system.node("client", Client { peers, next: 0, retry: bug.retry() });
    };
    Timed::new(setup)
        .durations(crate::timed::handlers())
        .driver(|driver| driver.fault(GONE, TimedFault::Stop(NodeId(0))))
        .stop_when(|view| view.all::<RaftNode>().all(|(_, peer)| is_over(peer)))
        .time_max(Duration::from_secs(60))
}
