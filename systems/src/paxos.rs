//! Paxos (Lamport, "Paxos Made Simple", 2001).
//!
//! Two clients each ask a proposer to have their value chosen, in one or several instances of
//! consensus. A proposer first has a majority of the acceptors promise not to accept anything older
//! than its ballot, and learns which proposals they have accepted. Then it proposes the newest of
//! these values or, if there are none, its client's value. A value that a majority accepted under
//! one ballot is chosen, for ever. Learners detect this by counting.
//!
//! Acceptors store their promises on disk: they crash and restart. Messages are lost and
//! duplicated. Proposers do not retry by themselves; their clients lose patience and ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use everhold::System;
use everhold::node::Ticket;
use everhold::prelude::*;

/// The known bugs of proposers and acceptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A proposer adopts the oldest of the values that were accepted before, not the newest.
    AdoptsLowest,
    /// A proposer adopts the value in the last promise that it received. WiDS found this bug in a
    /// real implementation, and Avenger injected it (section 3.2.3).
    AdoptsLast,
    /// An acceptor answers before its promise is safely on disk.
    ForgetsPromise,
}

/// A value to agree on.
pub type Value = u8;

/// The number of an instance of consensus.
pub type Instance = u8;

/// The number of an attempt: unique because it contains its proposer, and ordered within an
/// instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    instance: Instance,
    round: u32,
    proposer: u32,
}

/// A short form for pictures: round 2 of node 4 is `2.4`, and `1/2.4` in instance 1.
impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instance > 0 {
            write!(f, "{}/", self.instance)?;
        }
        write!(f, "{}.{}", self.round, self.proposer)
    }
}

/// A value under a ballot. The ballot decides which of two proposals is newer.
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

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to proposer: have this value chosen, or tell me which value is chosen.
    Propose(Instance, Value),
    /// Proposer to client: this value is chosen.
    Chosen(Value),
    /// Proposer to acceptors (1a): promise not to accept anything older.
    Prepare(Ballot),
    /// Acceptor to proposer (1b): I promise, and this is what I accepted last.
    Promise(Ballot, Option<Proposal>),
    /// Proposer to acceptors (2a): accept this.
    Accept(Proposal),
    /// Acceptor to proposer and learners (2b): I accepted this.
    Accepted(Proposal),
}

/// The number of acceptors, and the size of a majority.
const ACCEPTORS: usize = 3;
const MAJORITY: usize = ACCEPTORS / 2 + 1;

/// Votes for proposals.
#[derive(Clone, Debug, Default, Serialize)]
struct Votes(BTreeMap<Proposal, BTreeSet<NodeId>>);

impl Votes {
    /// Counts a vote; returns true if it completes a majority. A repeated vote does not count.
    fn add(&mut self, acceptor: NodeId, proposal: Proposal) -> bool {
        let voters = self.0.entry(proposal).or_default();
        voters.insert(acceptor) && voters.len() == MAJORITY
    }
}

/// Stores promises and accepted proposals.
#[derive(Clone, Debug, Serialize)]
pub struct Acceptor {
    bug: Bug,
    learner: NodeId,
    memory: BTreeMap<Instance, Memory>,
}

/// The data of an acceptor on disk for one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    promised: Option<Ballot>,
    accepted: Option<Proposal>,
}

impl Acceptor {
    const RECORD: &str = "acceptor";

    /// Whether no newer ballot was promised.
    fn is_free_for(&self, ballot: Ballot) -> bool {
        let promised = self.memory.get(&ballot.instance).and_then(|memory| memory.promised);
        promised.is_none_or(|promised| promised <= ballot)
    }

    fn prepare(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot) {
        let memory = self.memory.entry(ballot.instance).or_default();
        memory.promised = Some(ballot);
        let accepted = memory.accepted;
        cx.disk().save(Acceptor::RECORD, &self.memory);
        if self.bug != Bug::ForgetsPromise {
            cx.disk().sync();
        }
        cx.send(from, Msg::Promise(ballot, accepted));
    }

    fn accept(&mut self, cx: &mut Cx<Msg>, from: NodeId, proposal: Proposal) {
        let memory = Memory { promised: Some(proposal.ballot), accepted: Some(proposal) };
        self.memory.insert(proposal.ballot.instance, memory);
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
            // The ballot is too old. The proposer's client will ask again.
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
    attempts: BTreeMap<Instance, Attempt>,
    /// The values that it knows to be chosen.
    chosen: BTreeMap<Instance, Value>,
}

#[derive(Clone, Debug, Serialize)]
struct Attempt {
    client: Ticket,
    ballot: Ballot,
    /// The client's value, which is used if nothing was accepted before.
    value: Value,
    promises: BTreeMap<NodeId, Option<Proposal>>,
    votes: Votes,
}

impl Proposer {
    fn propose(&mut self, cx: &mut Cx<Msg>, instance: Instance, value: Value) {
        self.round += 1;
        let ballot = Ballot { instance, round: self.round, proposer: cx.id().0 };
        let attempt = Attempt {
            client: cx.ticket(),
            ballot,
            value,
            promises: BTreeMap::new(),
            votes: Votes::default(),
        };
        self.attempts.insert(instance, attempt);
        self.broadcast(cx, Msg::Prepare(ballot));
    }

    /// The attempt under this ballot, if it is still running.
    fn attempt(&mut self, ballot: Ballot) -> Option<&mut Attempt> {
        self.attempts.get_mut(&ballot.instance).filter(|attempt| attempt.ballot == ballot)
    }

    fn promised(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot, last: Option<Proposal>) {
        let bug = self.bug;
        let Some(attempt) = self.attempt(ballot) else { return };
        let is_new = attempt.promises.insert(from, last).is_none();
        if is_new && attempt.promises.len() == MAJORITY {
            let value = attempt.safe_value(bug, last);
            self.broadcast(cx, Msg::Accept(Proposal { ballot, value }));
        }
    }

    fn accepted(&mut self, cx: &mut Cx<Msg>, from: NodeId, proposal: Proposal) {
        let Some(attempt) = self.attempt(proposal.ballot) else { return };
        if attempt.votes.add(from, proposal) {
            cx.answer(attempt.client, Msg::Chosen(proposal.value));
            self.chosen.insert(proposal.ballot.instance, proposal.value);
        }
    }

    fn broadcast(&self, cx: &mut Cx<Msg>, msg: Msg) {
        for acceptor in &self.acceptors {
            cx.send(*acceptor, msg);
        }
    }
}

impl Attempt {
    /// The only value that may have been chosen under an older ballot or, if there is none, the
    /// client's value.
    ///
    /// Any majority that chose a value has a member among these promises, and the newest proposal
    /// wins because its own proposer examined all older ones in the same way.
    fn safe_value(&self, bug: Bug, last: Option<Proposal>) -> Value {
        let accepted = self.promises.values().flatten().copied();
        let adopted = match bug {
            Bug::AdoptsLowest => accepted.min(),
            Bug::AdoptsLast => last,
            Bug::None | Bug::ForgetsPromise => accepted.max(),
        };
        adopted.map_or(self.value, |proposal| proposal.value)
    }
}

impl Node for Proposer {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Propose(instance, value) => self.propose(cx, instance, value),
            Msg::Promise(ballot, last) => self.promised(cx, from, ballot, last),
            Msg::Accepted(proposal) => self.accepted(cx, from, proposal),
            other => cx.unexpected(other),
        }
    }
}

/// Detects which value was chosen without taking part.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Learner {
    votes: Votes,
    /// The values that it knows to be chosen.
    chosen: BTreeMap<Instance, Value>,
}

impl Node for Learner {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Accepted(proposal) => {
                if self.votes.add(from, proposal) {
                    self.chosen.insert(proposal.ballot.instance, proposal.value);
                }
            }
            other => cx.unexpected(other),
        }
    }
}

/// The answer that a client received.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    chosen: BTreeMap<Instance, Value>,
}

/// The values that the clients want.
const VALUES: [Value; 2] = [1, 2];
const ATTEMPTS: u32 = 2;
const PATIENCE: Duration = Duration::from_millis(100);

/// A client that wants `value` chosen in every instance, and accepts any other value.
async fn client(cx: AsyncCx<Msg>, proposer: NodeId, value: Value, instances: Instance) {
    let mut chosen = BTreeMap::new();
    for instance in 0..instances {
        if let Some(value) = ask(&cx, proposer, instance, value).await {
            chosen.insert(instance, value);
            cx.observe(Answer { chosen: chosen.clone() });
        }
    }
}

/// Asks for the chosen value; `None` if no answer arrives in time.
async fn ask(
    cx: &AsyncCx<Msg>,
    proposer: NodeId,
    instance: Instance,
    value: Value,
) -> Option<Value> {
    for _ in 0..ATTEMPTS {
        let request = cx.call(proposer, Msg::Propose(instance, value));
        if let Ok(Msg::Chosen(chosen)) = cx.timeout(PATIENCE, request).await {
            return Some(chosen);
        }
    }
    None
}

/// The notification that an acceptor accepted a proposal.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    by: NodeId,
    proposal: Proposal,
}

/// Safety: two majorities never accept different values.
#[derive(Clone, Default, Serialize)]
struct Agreement {
    votes: Votes,
    chosen: BTreeMap<Instance, Value>,
}

impl Monitor for Agreement {
    type Event = Accepted;

    fn observe(&mut self, Accepted { by, proposal }: &Accepted) {
        if self.votes.add(*by, *proposal) {
            let value = proposal.value;
            let before = *self.chosen.entry(proposal.ballot.instance).or_insert(value);
            assert!(before == value, "{value} is chosen, but {before} was chosen before");
        }
    }
}

/// The name of the specification.
pub const AGREEMENT: &str = "one value is chosen";
/// The consequence for the clients (Avenger's table 1, Paxos1).
pub const ANSWERS: &str = "everybody is told the same";

/// The consequence for the clients, in the property language.
pub const PROPERTIES: &str = r#"
always "everybody is told the same":
  forall a, b in nodes, k -> v in a.chosen, l -> w in b.chosen: k != l or v == w
"#;

/// Three acceptors, a learner, and two proposers with a client each; one instance.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(1, bug)(system);
        system.monitor(AGREEMENT, Agreement::default());
        system.property(PROPERTIES);
        for value in VALUES {
            system.sometimes(&format!("{value} is chosen"), move |s| told(s).any(|v| v == value));
        }
    }
}

/// The system without its properties, with a number of instances.
pub fn environment(
    instances: Instance,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let learner = system.node("learner", Learner::default());
        let acceptor = Acceptor { bug, learner, memory: BTreeMap::new() };
        let acceptors = system.nodes("acceptor", ACCEPTORS, |_| acceptor.clone());
        for value in VALUES {
            let acceptors = acceptors.clone();
            let (attempts, chosen) = Default::default();
            let proposer = Proposer { bug, acceptors, round: 0, attempts, chosen };
            let proposer = system.node("proposer", proposer);
            system.spawn("client", move |cx| client(cx, proposer, value, instances));
        }
        system.faults(Faults::none().lose(2).duplicate(1).crash(2).only(["acceptor"]));
    }
}

/// All values that were reported as chosen.
fn told(s: &View<'_, Msg>) -> impl Iterator<Item = Value> {
    let learned = s.all::<Learner>().map(|(_, learner)| &learner.chosen);
    let answered = s.all::<Answer>().map(|(_, answer)| &answer.chosen);
    learned.chain(answered).flat_map(BTreeMap::values).copied()
}
