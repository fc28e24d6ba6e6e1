//! Single-decree Paxos (Lamport, "Paxos Made Simple", 2001).
//!
//! Two clients ask a proposer each to have their value chosen. A proposer first has a majority of
//! the acceptors promise not to accept anything older than its ballot, and learns what they have
//! accepted; then it proposes the newest of that, or, where there is none, its client's value. A
//! value that a majority accepted under one ballot is chosen, for ever. Learners find out by
//! counting.
//!
//! Acceptors keep their promises on disk: they crash and restart. Messages are lost and arrive
//! twice. Proposers do not retry by themselves; their clients lose patience and ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use everhold::node::Ticket;
use everhold::prelude::*;

/// What is wrong with a proposer or with the acceptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// A proposer adopts the oldest of the values that were accepted before, not the newest.
    AdoptsLowest,
    /// An acceptor answers before its promise is safely on disk.
    ForgetsPromise,
}

/// What is to be agreed on.
pub type Value = u8;

/// The number of an attempt: unique because it names its proposer, and ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    round: u32,
    proposer: u32,
}

/// Short, for pictures: round 2 of node 4 is `2.4`.
impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.proposer)
    }
}

/// A value under a ballot. The ballot decides which of two is newer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proposal {
    ballot: Ballot,
    value: Value,
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.value, self.ballot)
    }
}

/// What the nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to proposer: have this value chosen, or tell me which one is.
    Propose(Value),
    /// Proposer to client: this one is.
    Chosen(Value),
    /// Proposer to acceptors (1a): promise not to accept anything older.
    Prepare(Ballot),
    /// Acceptor to proposer (1b): I promise, and this is what I accepted last.
    Promise(Ballot, Option<Proposal>),
    /// Proposer to acceptors (2a): accept this.
    Accept(Proposal),
    /// Acceptor to proposer and learners (2b): I did.
    Accepted(Proposal),
}

/// How many acceptors there are, and how many of them meet any other so many.
const ACCEPTORS: usize = 3;
const MAJORITY: usize = ACCEPTORS / 2 + 1;

/// Votes for proposals.
#[derive(Clone, Debug, Default, Serialize)]
struct Votes(BTreeMap<Proposal, BTreeSet<NodeId>>);

impl Votes {
    /// Counts a vote; true when it makes a majority. A repeated vote does not count.
    fn add(&mut self, acceptor: NodeId, proposal: Proposal) -> bool {
        let voters = self.0.entry(proposal).or_default();
        voters.insert(acceptor) && voters.len() == MAJORITY
    }
}

/// Remembers what must not be contradicted.
#[derive(Clone, Debug, Serialize)]
pub struct Acceptor {
    bug: Bug,
    learner: NodeId,
    memory: Memory,
}

/// What an acceptor has on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    promised: Option<Ballot>,
    accepted: Option<Proposal>,
}

impl Acceptor {
    const RECORD: &str = "acceptor";

    /// True if nothing newer was promised.
    fn is_free_for(&self, ballot: Ballot) -> bool {
        self.memory.promised.is_none_or(|promised| promised <= ballot)
    }

    fn prepare(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot) {
        self.memory.promised = Some(ballot);
        cx.disk().save(Acceptor::RECORD, &self.memory);
        if self.bug != Bug::ForgetsPromise {
            cx.disk().sync();
        }
        cx.send(from, Msg::Promise(ballot, self.memory.accepted));
    }

    fn accept(&mut self, cx: &mut Cx<Msg>, from: NodeId, proposal: Proposal) {
        self.memory = Memory { promised: Some(proposal.ballot), accepted: Some(proposal) };
        cx.disk().save(Acceptor::RECORD, &self.memory);
        cx.disk().sync();
        cx.notify(Accepted { by: cx.id(), proposal });
        cx.send(from, Msg::Accepted(proposal));
        cx.send(self.learner, Msg::Accepted(proposal));
    }
}

impl Node for Acceptor {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Prepare(ballot) if self.is_free_for(ballot) => self.prepare(cx, from, ballot),
            Msg::Accept(proposal) if self.is_free_for(proposal.ballot) => {
                self.accept(cx, from, proposal);
            }
            // Too late. The proposer's client will lose patience.
            Msg::Prepare(_) | Msg::Accept(_) => {}
            other => cx.unexpected(other),
        }
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let memory = cx.disk().load(Acceptor::RECORD).expect("no write is torn here");
        self.memory = memory.unwrap_or_default();
    }
}

/// Tries to have a value chosen, one ballot at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Proposer {
    bug: Bug,
    acceptors: Vec<NodeId>,
    round: u32,
    attempt: Option<Attempt>,
}

#[derive(Clone, Debug, Serialize)]
struct Attempt {
    client: Ticket,
    ballot: Ballot,
    /// The client's value, for the case that nothing was accepted yet.
    value: Value,
    promises: BTreeMap<NodeId, Option<Proposal>>,
    votes: Votes,
}

impl Proposer {
    fn propose(&mut self, cx: &mut Cx<Msg>, value: Value) {
        self.round += 1;
        let ballot = Ballot { round: self.round, proposer: cx.id().0 };
        self.attempt = Some(Attempt {
            client: cx.ticket(),
            ballot,
            value,
            promises: BTreeMap::new(),
            votes: Votes::default(),
        });
        self.broadcast(cx, Msg::Prepare(ballot));
    }

    fn promised(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot, last: Option<Proposal>) {
        let Some(attempt) = self.attempt.as_mut().filter(|a| a.ballot == ballot) else { return };
        let is_new = attempt.promises.insert(from, last).is_none();
        if is_new && attempt.promises.len() == MAJORITY {
            let value = attempt.safe_value(self.bug);
            self.broadcast(cx, Msg::Accept(Proposal { ballot, value }));
        }
    }

    fn accepted(&mut self, cx: &mut Cx<Msg>, from: NodeId, proposal: Proposal) {
        let current = self.attempt.as_mut().filter(|a| a.ballot == proposal.ballot);
        let Some(attempt) = current else { return };
        if attempt.votes.add(from, proposal) {
            cx.answer(attempt.client, Msg::Chosen(proposal.value));
        }
    }

    fn broadcast(&self, cx: &mut Cx<Msg>, msg: Msg) {
        for acceptor in &self.acceptors {
            cx.send(*acceptor, msg);
        }
    }
}

impl Attempt {
    /// The only value that may have been chosen under an older ballot; if none may, the client's.
    ///
    /// Whatever majority chose it has a member here, and the newest proposal wins because its own
    /// proposer looked at all older ones in the same way.
    fn safe_value(&self, bug: Bug) -> Value {
        let accepted = self.promises.values().flatten();
        let adopted = match bug {
            Bug::AdoptsLowest => accepted.min(),
            Bug::None | Bug::ForgetsPromise => accepted.max(),
        };
        adopted.map_or(self.value, |proposal| proposal.value)
    }
}

impl Node for Proposer {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Propose(value) => self.propose(cx, value),
            Msg::Promise(ballot, last) => self.promised(cx, from, ballot, last),
            Msg::Accepted(proposal) => self.accepted(cx, from, proposal),
            other => cx.unexpected(other),
        }
    }
}

/// Finds out what was chosen without taking part.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Learner {
    votes: Votes,
    learned: Option<Value>,
}

impl Node for Learner {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Accepted(proposal) => {
                if self.votes.add(from, proposal) {
                    self.learned = Some(proposal.value);
                }
            }
            other => cx.unexpected(other),
        }
    }
}

/// What a client was told.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Answer(Value);

/// What the clients want.
const VALUES: [Value; 2] = [1, 2];
const ATTEMPTS: u32 = 2;
const PATIENCE: Duration = Duration::from_millis(100);

/// Wants `value` chosen, and is content with another.
async fn client(cx: AsyncCx<Msg>, proposer: NodeId, value: Value) {
    for _ in 0..ATTEMPTS {
        let request = cx.call(proposer, Msg::Propose(value));
        if let Ok(Msg::Chosen(chosen)) = cx.timeout(PATIENCE, request).await {
            return cx.observe(Answer(chosen));
        }
    }
}

/// What the specification hears: an acceptor accepted.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    by: NodeId,
    proposal: Proposal,
}

/// Safety: two majorities never accept different values.
#[derive(Clone, Default, Serialize)]
struct Agreement {
    votes: Votes,
    chosen: Option<Value>,
}

impl Monitor for Agreement {
    type Event = Accepted;

    fn observe(&mut self, Accepted { by, proposal }: &Accepted) {
        if self.votes.add(*by, *proposal) {
            let value = proposal.value;
            let before = *self.chosen.get_or_insert(value);
            assert!(before == value, "{value} is chosen, but {before} was chosen before");
        }
    }
}

/// The name of the specification.
pub const AGREEMENT: &str = "one value is chosen";
/// What follows from it for those who are told.
pub const ANSWERS: &str = "everybody is told the same";

/// Three acceptors, a learner, and two proposers with a client each.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let learner = system.node("learner", Learner::default());
        let memory = Memory::default();
        let acceptors = system.nodes("acceptor", ACCEPTORS, |_| Acceptor { bug, learner, memory });
        for value in VALUES {
            let acceptors = acceptors.clone();
            let proposer =
                system.node("proposer", Proposer { bug, acceptors, round: 0, attempt: None });
            system.spawn("client", move |cx| client(cx, proposer, value));
        }
        system.faults(Faults::none().lose(2).duplicate(1).crash(2).only(["acceptor"]));
        system.monitor(AGREEMENT, Agreement::default());
        system.always(ANSWERS, told_the_same);
        for value in VALUES {
            system.sometimes(&format!("{value} is chosen"), move |s| told(s).any(|v| v == value));
        }
    }
}

fn told_the_same(s: &View<'_, Msg>) -> Result<(), String> {
    let Some(first) = told(s).next() else { return Ok(()) };
    match told(s).find(|value| *value != first) {
        Some(other) => Err(format!("somebody was told {first} and somebody {other}")),
        None => Ok(()),
    }
}

/// Every value that was given out as chosen.
fn told(s: &View<'_, Msg>) -> impl Iterator<Item = Value> {
    let learned = s.all::<Learner>().filter_map(|(_, learner)| learner.learned);
    learned.chain(s.all::<Answer>().map(|(_, answer)| answer.0))
}
