//! The election of Raft (Ongaro and Ousterhout, 2014), as in the benchmark `raft-45`.
//!
//! A candidate asks for votes again whenever its timer fires, and a follower answers every request of
//! the candidate for which it voted. The bug, which was found in akka-raft and is part of the
//! benchmarks of P#, Coyote and DEMi: the candidate counts answers, so that one follower that answers
//! twice counts as two, and a term may have two leaders.
//!
//! Only the election is here, with the heartbeats by which a leader keeps its followers;
//! [`raft`](mod@crate::raft) is about logs.

use std::collections::BTreeSet;

use everhold::System;
use everhold::prelude::*;

/// The number of servers.
const SERVERS: u32 = 5;
/// The time after which a follower loses patience.
const ELECTION: Duration = Duration::from_millis(150);
/// The time after which requests and heartbeats are repeated.
const BROADCAST: Duration = Duration::from_millis(50);

/// The known bugs of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It counts answers, not voters.
    CountsAnswers,
}

/// The messages between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Msg {
    /// Candidate to all: vote for me in this term.
    RequestVote(u32),
    /// Follower to candidate: my vote in this term.
    Vote(u32),
    /// Leader to all: I lead in this term.
    Heartbeat(u32),
}

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    /// It follows.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
}

/// A server.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    bug: Bug,
    /// Its role.
    pub role: Role,
    /// Its term.
    pub term: u32,
    voted_for: Option<NodeId>,
    voters: BTreeSet<NodeId>,
    votes: u32,
}

impl Server {
    fn new(bug: Bug) -> Self {
        let (role, voters) = (Role::Follower, BTreeSet::new());
        Server { bug, role, term: 0, voted_for: None, voters, votes: 0 }
    }

    fn broadcast(&self, cx: &mut Cx<Msg>, msg: Msg) {
        let me = cx.id();
        for other in (0..SERVERS).map(NodeId).filter(|other| *other != me) {
            cx.send(other, msg);
        }
    }

    fn stand(&mut self, cx: &mut Cx<Msg>) {
        self.term += 1;
        self.role = Role::Candidate;
        self.voted_for = Some(cx.id());
        self.voters = BTreeSet::from([cx.id()]);
        self.votes = 1;
        self.broadcast(cx, Msg::RequestVote(self.term));
        cx.set_timer("broadcast", BROADCAST);
    }

    /// Follows whoever is in a later term.
    fn learn(&mut self, cx: &mut Cx<Msg>, term: u32) {
        if term > self.term {
            self.term = term;
            self.role = Role::Follower;
            self.voted_for = None;
            cx.cancel_timer("broadcast");
            cx.set_timer("election", ELECTION);
        }
    }

    fn vote(&mut self, cx: &mut Cx<Msg>, from: NodeId, term: u32) {
        if term == self.term && self.voted_for.is_none_or(|candidate| candidate == from) {
            self.voted_for = Some(from);
            cx.send(from, Msg::Vote(term));
        }
    }

    fn count(&mut self, cx: &mut Cx<Msg>, from: NodeId, term: u32) {
        if term != self.term || self.role != Role::Candidate {
            return;
        }
        if self.voters.insert(from) || self.bug == Bug::CountsAnswers {
            self.votes += 1;
        }
        if self.votes > SERVERS / 2 {
            self.role = Role::Leader;
            cx.cancel_timer("election");
            self.broadcast(cx, Msg::Heartbeat(self.term));
        }
    }
}

impl Node for Server {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("election", ELECTION);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        let (Msg::RequestVote(term) | Msg::Vote(term) | Msg::Heartbeat(term)) = msg;
        self.learn(cx, term);
        match msg {
            Msg::RequestVote(term) => self.vote(cx, from, term),
            Msg::Vote(term) => self.count(cx, from, term),
            Msg::Heartbeat(term) if term == self.term && self.role != Role::Leader => {
                self.role = Role::Follower;
                cx.cancel_timer("broadcast");
                cx.set_timer("election", ELECTION);
            }
            Msg::Heartbeat(_) => {}
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer == Timer::from("election") {
            self.stand(cx);
            cx.set_timer("election", ELECTION);
            return;
        }
        match self.role {
            Role::Candidate => self.broadcast(cx, Msg::RequestVote(self.term)),
            Role::Leader => self.broadcast(cx, Msg::Heartbeat(self.term)),
            Role::Follower => return,
        }
        cx.set_timer("broadcast", BROADCAST);
    }
}

/// The specification.
pub const ONE_LEADER: &str = "a term has one leader";

/// Five servers.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("server", SERVERS as usize, |_| Server::new(bug));
        system.always(ONE_LEADER, |s| {
            let mut leaders = BTreeSet::new();
            let mut all = s.all::<Server>().filter(|(_, server)| server.role == Role::Leader);
            all.all(|(_, leader)| leaders.insert(leader.term))
        });
        system.sometimes("a leader is elected", |s| {
            s.all::<Server>().any(|(_, server)| server.role == Role::Leader)
        });
    }
}
