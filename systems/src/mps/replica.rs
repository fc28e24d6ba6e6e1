//! A replica of the service.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

use super::{ABSENT, BEAT, Ballot, Bug, MAJORITY, MISSED_MAX, Msg, PARTS, REPLICAS, STAGGER};

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It has the others execute commands.
    Leader,
    /// It executes the commands of a leader, or waits for one.
    Follower,
    /// It asks for approval as the leader.
    Promoting,
    /// It copies the state of another node.
    Learning,
}

/// A replica.
#[derive(Clone, Debug, Serialize)]
pub struct Replica {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    status: Status,
    /// The latest attempt that it approved.
    promised: Ballot,
    /// The number of commands that it has executed.
    executed: u64,
    /// The node that it follows.
    leader: Option<NodeId>,
    /// The requests without an answer, of each node that does not count as dead.
    living: BTreeMap<NodeId, u32>,
    approved_by: BTreeSet<NodeId>,
    /// The source of its state and the next part, while it learns.
    source: Option<(NodeId, u32)>,
    /// The latest round of an attempt that it heard of.
    latest: u32,
    /// The number of commands that each follower has executed, for the leader.
    followed: BTreeMap<NodeId, u64>,
    /// The clients that wait for the execution of a command.
    pending: BTreeMap<u64, Ticket>,
    /// The nodes to which its messages are lost.
    cut: BTreeSet<NodeId>,
}

impl Replica {
    /// A replica of a service whose first leader is node 0.
    #[must_use]
    pub fn new(me: NodeId, bug: Bug) -> Replica {
        let first = NodeId(0);
        Replica {
            bug,
            me,
            status: if me == first { Status::Leader } else { Status::Follower },
            promised: Ballot { round: 1, node: first },
            executed: 0,
            leader: Some(first),
            living: others(me).map(|node| (node, 0)).collect(),
            approved_by: BTreeSet::new(),
            source: None,
            latest: 1,
            followed: BTreeMap::new(),
            pending: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }

    /// The present state.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    fn send(&self, cx: &mut Cx<Msg>, to: NodeId, msg: Msg) {
        if !self.cut.contains(&to) {
            cx.send(to, msg);
        }
    }

    /// Stores what must survive a crash, before anybody hears of it.
    fn keep(&self, cx: &mut Cx<Msg>) {
        cx.disk().save("replica", &(self.promised, self.latest, self.executed));
        cx.disk().sync();
    }

    fn enter(&mut self, cx: &mut Cx<Msg>, status: Status) {
        self.status = status;
        self.approved_by.clear();
        self.source = None;
        self.pending.clear();
        cx.cancel_timer("absent");
        cx.cancel_timer("beat");
        if status == Status::Follower {
            cx.set_timer("absent", ABSENT + STAGGER * self.me.0);
        }
    }

    /// Follows a node, or waits for one to lead.
    fn follow(&mut self, cx: &mut Cx<Msg>, leader: Option<NodeId>) {
        self.leader = leader;
        self.enter(cx, Status::Follower);
    }

    fn promote(&mut self, cx: &mut Cx<Msg>) {
        self.enter(cx, Status::Promoting);
        self.leader = None;
        self.latest += 1;
        self.promised = Ballot { round: self.latest, node: self.me };
        self.keep(cx);
        self.approved_by.insert(self.me);
        self.ask_all(cx);
    }

    /// Notes one more request to each node; those that answered none of the last ones are dead.
    fn count_requests(&mut self) {
        self.living.values_mut().for_each(|missed| *missed += 1);
        self.living.retain(|_, missed| *missed <= MISSED_MAX);
    }

    fn ask_all(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beat", BEAT);
        self.count_requests();
        let asked: Vec<NodeId> = match self.bug {
            Bug::None => others(self.me).collect(),
            Bug::AsksTheLiving => self.living.keys().copied().collect(),
        };
        for node in asked {
            let request = Msg::Promote { ballot: self.promised, executed: self.executed };
            self.send(cx, node, request);
        }
    }

    /// Asks again, with a later attempt if another node has approved somebody else's.
    fn ask_again(&mut self, cx: &mut Cx<Msg>) {
        if self.latest > self.promised.round {
            self.promote(cx);
        } else {
            self.ask_all(cx);
        }
    }

    fn lead(&mut self, cx: &mut Cx<Msg>) {
        self.enter(cx, Status::Leader);
        self.leader = Some(self.me);
        self.followed.clear();
        self.announce(cx);
    }

    fn announce(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beat", BEAT);
        self.count_requests();
        if self.living.len() + 1 < MAJORITY {
            return self.promote(cx);
        }
        self.tell_commands(cx);
    }

    fn tell_commands(&self, cx: &mut Cx<Msg>) {
        for node in self.living.keys() {
            let commands = Msg::Lead { ballot: self.promised, executed: self.executed };
            self.send(cx, *node, commands);
        }
    }

    fn learn(&mut self, cx: &mut Cx<Msg>, source: NodeId) {
        self.enter(cx, Status::Learning);
        self.leader = None;
        self.source = Some((source, 0));
        self.living.insert(source, 0);
        self.fetch(cx);
    }

    /// Asks for the next part of the state; a source that does not answer is given up.
    fn fetch(&mut self, cx: &mut Cx<Msg>) {
        let Some((source, part)) = self.source else { return };
        let missed = self.living.entry(source).or_default();
        *missed += 1;
        if *missed > MISSED_MAX {
            self.living.remove(&source);
            return self.follow(cx, None);
        }
        self.send(cx, source, Msg::Fetch(part));
        cx.set_timer("beat", BEAT);
    }

    fn fetched(&mut self, cx: &mut Cx<Msg>, from: NodeId, part: u32, executed: u64) {
        if self.source != Some((from, part)) {
            return;
        }
        self.living.insert(from, 0);
        self.source = Some((from, part + 1));
        if part + 1 == PARTS {
            self.executed = self.executed.max(executed);
            self.keep(cx);
            self.follow(cx, None);
            self.send(cx, from, Msg::Hello);
        }
    }

    fn command(&mut self, cx: &mut Cx<Msg>) {
        if self.status != Status::Leader {
            return cx.reply(Msg::Elsewhere(self.leader));
        }
        self.executed += 1;
        self.keep(cx);
        self.pending.insert(self.executed, cx.ticket());
        self.tell_commands(cx);
    }

    /// Answers the clients whose commands a majority has executed.
    fn followed(&mut self, cx: &mut Cx<Msg>, from: NodeId, executed: u64) {
        if self.status != Status::Leader {
            return;
        }
        self.living.insert(from, 0);
        self.followed.insert(from, executed);
        while let Some(first) = self.pending.first_entry() {
            let number = *first.key();
            let have = self.followed.values().filter(|executed| **executed >= number).count();
            if have + 1 < MAJORITY {
                return;
            }
            cx.answer(first.remove(), Msg::Executed(number));
        }
    }

    fn led(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot, executed: u64) {
        if ballot < self.promised {
            return self.send(cx, from, Msg::Refuse(self.promised));
        }
        self.living.insert(from, 0);
        if executed > self.executed + 1 {
            return self.learn(cx, from);
        }
        self.latest = self.latest.max(ballot.round);
        if (ballot, executed) != (self.promised, self.executed) {
            (self.promised, self.executed) = (ballot, executed.max(self.executed));
            self.keep(cx);
        }
        self.follow(cx, Some(from));
        self.send(cx, from, Msg::Followed(self.executed));
    }

    /// Answers a request for approval.
    fn consider(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot, executed: u64) {
        self.latest = self.latest.max(ballot.round);
        if self.leader.is_some() {
            self.send(cx, from, Msg::Leads(self.promised));
        } else if executed > self.executed {
            self.learn(cx, from);
        } else if executed < self.executed {
            self.send(cx, from, Msg::Ahead);
        } else if ballot >= self.promised {
            // A promoting node gives way to a later attempt.
            self.promised = ballot;
            self.keep(cx);
            self.follow(cx, None);
            self.send(cx, from, Msg::Approve(ballot));
        } else {
            self.send(cx, from, Msg::Refuse(self.promised));
        }
    }

    fn approved(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot) {
        self.living.insert(from, 0);
        if self.status == Status::Promoting && ballot == self.promised {
            self.approved_by.insert(from);
            if self.approved_by.len() >= MAJORITY {
                self.lead(cx);
            }
        }
    }

    fn refused(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot) {
        self.living.insert(from, 0);
        self.latest = self.latest.max(ballot.round);
        if self.status == Status::Leader && ballot > self.promised {
            self.follow(cx, None);
        }
    }

    /// Hears from another node who leads.
    fn told(&mut self, cx: &mut Cx<Msg>, from: NodeId, ballot: Ballot) {
        self.living.insert(from, 0);
        let waits = self.status == Status::Promoting
            || self.status == Status::Follower && self.leader.is_none();
        if waits && ballot.node != self.me {
            // Its own attempt has ended, and must not stand in the leader's way.
            self.latest = self.latest.max(ballot.round);
            if self.promised.node == self.me || self.promised < ballot {
                self.promised = ballot;
                self.keep(cx);
            }
            self.follow(cx, Some(ballot.node));
            self.send(cx, ballot.node, Msg::Followed(self.executed));
        }
    }

    fn greeted(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        self.living.insert(from, 0);
        if self.leader.is_some() {
            self.send(cx, from, Msg::Leads(self.promised));
        }
    }

    /// A node that learns answers nobody.
    fn while_learning(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Part(part, executed) => self.fetched(cx, from, part, executed),
            Msg::Command => cx.reply(Msg::Elsewhere(None)),
            _ => {}
        }
    }
}

fn others(me: NodeId) -> impl Iterator<Item = NodeId> {
    (0..REPLICAS).map(NodeId).filter(move |node| *node != me)
}

impl Node for Replica {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.status == Status::Leader {
            self.announce(cx);
        } else {
            self.follow(cx, self.leader);
        }
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        if let Some(kept) = cx.disk().load("replica").expect("it was saved whole") {
            (self.promised, self.latest, self.executed) = kept;
        }
        self.follow(cx, None);
        for node in others(self.me) {
            self.send(cx, node, Msg::Hello);
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Cut(nodes) => self.cut = nodes.into_iter().collect(),
            msg if self.status == Status::Learning => self.while_learning(cx, from, msg),
            Msg::Command => self.command(cx),
            Msg::Lead { ballot, executed } => self.led(cx, from, ballot, executed),
            Msg::Followed(executed) => self.followed(cx, from, executed),
            Msg::Promote { ballot, executed } => self.consider(cx, from, ballot, executed),
            Msg::Approve(ballot) => self.approved(cx, from, ballot),
            Msg::Refuse(ballot) => self.refused(cx, from, ballot),
            Msg::Ahead if self.status == Status::Promoting => self.learn(cx, from),
            Msg::Leads(ballot) => self.told(cx, from, ballot),
            Msg::Hello => self.greeted(cx, from),
            Msg::Fetch(part) => self.send(cx, from, Msg::Part(part, self.executed)),
            Msg::Ahead | Msg::Part(..) => {}
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match (timer.name, self.status) {
            ("absent", _) => self.promote(cx),
            (_, Status::Leader) => self.announce(cx),
            (_, Status::Promoting) => self.ask_again(cx),
            (_, Status::Learning) => self.fetch(cx),
            (_, Status::Follower) => {}
        }
    }
}
