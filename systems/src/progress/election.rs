//! Leader election with random timeouts, as in Raft, without a log.

use std::time::Duration;

use everhold::node::{Cx, Node, NodeId, Timer};
use everhold::{Faults, System};
use serde::Serialize;

use super::tell_others;

const LEAD: Duration = Duration::from_millis(50);
/// The shortest timeout, which is also the width of its random range, in milliseconds.
const TIMEOUT: u64 = 150;
/// The number of consecutive heartbeats after which a leader stays.
const STAYS: u32 = 3;

/// The messages between servers.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Vote {
    /// Vote for me.
    Ask {
        /// The candidate's term.
        term: u32,
    },
    /// My vote is yours.
    Yes {
        /// The term of the vote.
        term: u32,
    },
    /// I am the leader.
    Lead {
        /// The leader's term.
        term: u32,
    },
}

/// A server.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    servers: u32,
    /// The bug: a server keeps its vote when a new term begins.
    bug: bool,
    term: u32,
    voted: Option<NodeId>,
    votes: u32,
    leads: bool,
    heard: u32,
}

impl Server {
    fn wait(cx: &mut Cx<Vote>) {
        let timeout = TIMEOUT + cx.random() % TIMEOUT;
        cx.set_timer("election", Duration::from_millis(timeout));
    }

    fn learn(&mut self, cx: &mut Cx<Vote>, term: u32) {
        if term <= self.term {
            return;
        }
        if self.leads {
            cx.cancel_timer("lead");
            Server::wait(cx);
        }
        (self.term, self.votes, self.leads, self.heard) = (term, 0, false, 0);
        if !self.bug {
            self.voted = None;
        }
    }

    fn lead(&mut self, cx: &mut Cx<Vote>) {
        tell_others(cx, self.servers, &Vote::Lead { term: self.term });
        cx.set_timer("lead", LEAD);
    }
}

impl Node for Server {
    type Msg = Vote;
    fn start(&mut self, cx: &mut Cx<Vote>) {
        Server::wait(cx);
    }
    fn message(&mut self, cx: &mut Cx<Vote>, from: NodeId, msg: Vote) {
        let (Vote::Ask { term } | Vote::Yes { term } | Vote::Lead { term }) = msg;
        self.learn(cx, term);
        if term < self.term {
            return;
        }
        match msg {
            Vote::Ask { .. } if self.voted.is_none_or(|voted| voted == from) => {
                self.voted = Some(from);
                cx.send(from, Vote::Yes { term });
                Server::wait(cx);
            }
            Vote::Ask { .. } => {}
            Vote::Yes { .. } if !self.leads => {
                self.votes += 1;
                if self.votes * 2 > self.servers {
                    self.leads = true;
                    cx.cancel_timer("election");
                    self.lead(cx);
                }
            }
            Vote::Yes { .. } => {}
            Vote::Lead { .. } => {
                self.heard += 1;
                Server::wait(cx);
            }
        }
    }
    fn timer(&mut self, cx: &mut Cx<Vote>, timer: Timer) {
        if timer.name == "lead" {
            return self.lead(cx);
        }
        let me = cx.id();
        self.learn(cx, self.term + 1);
        self.votes = u32::from(self.voted.is_none_or(|voted| voted == me));
        self.voted.get_or_insert(me);
        tell_others(cx, self.servers, &Vote::Ask { term: self.term });
        Server::wait(cx);
    }
}

/// Servers on a network that loses a few messages at first.
pub fn system(servers: u32, bug: bool) -> impl Fn(&mut System<Vote>) + Clone + Send + Sync {
    move |system| {
        for _ in 0..servers {
            let (term, votes, heard) = (0, 0, 0);
            let (voted, leads) = (None, false);
            let server = Server { servers, bug, term, voted, votes, leads, heard };
            system.node("server", server);
        }
        system.faults(Faults::none().lose(3));
        system.eventually("a leader stays", move |s| {
            let follow = s.all::<Server>().filter(|(_, server)| server.heard >= STAYS).count();
            follow as u32 + 1 >= servers
        });
    }
}
