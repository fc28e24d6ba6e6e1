//! Protocols about roles: primary and backups, an election, a token ring, a lock with leases.

use std::collections::BTreeSet;

use super::system::{Fields, Net, Protocol};

fn named(prefix: &str, count: usize) -> Vec<(String, &'static str)> {
    (0..count).map(|place| (format!("{prefix}{place}"), "")).collect()
}

/// A primary that appends and replicates, and hands its role over now and then.
#[derive(Default)]
pub(super) struct PrimaryBackup {
    replicas: [Replica; 3],
}

#[derive(Clone, Copy, Default)]
struct Replica {
    primary: bool,
    epoch: u64,
    entries: u64,
    commit: u64,
    applied: u64,
    acked: [u64; 3],
}

/// Epoch, entries, commit.
pub(super) enum Replicate {
    Append(u64, u64, u64),
    Ack(u64, u64),
    Handoff(u64, u64, u64),
}

impl PrimaryBackup {
    pub(super) fn new() -> PrimaryBackup {
        let mut system = PrimaryBackup::default();
        system.replicas[0].primary = true;
        system
    }
}

impl Protocol for PrimaryBackup {
    type Msg = Replicate;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        named("r", 3)
    }

    fn state(&self, node: usize) -> Fields {
        let own = self.replicas[node];
        vec![
            ("role", if own.primary { "primary" } else { "backup" }.into()),
            ("epoch", own.epoch.into()),
            ("entries", own.entries.into()),
            ("commit", own.commit.into()),
            ("applied", own.applied.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Replicate>) {
        let own = &mut self.replicas[node];
        if own.applied < own.commit && net.random.once_in(2) {
            own.applied += 1 + net.random.below(own.commit - own.applied);
        }
        if net.mistake(150) {
            own.applied = own.commit + 1;
        }
        if !own.primary {
            return;
        }
        let next = (0..3).find(|other| *other != node && own.acked[*other] == own.entries);
        if let Some(next) = next.filter(|_| net.random.once_in(4)) {
            own.primary = false;
            let fields = vec![("epoch", (own.epoch + 1).into()), ("entries", own.entries.into())];
            let message = Replicate::Handoff(own.epoch + 1, own.entries, own.commit);
            net.send(next, "Handoff", fields, message);
            return;
        }
        own.entries += net.random.below(3);
        let (epoch, entries, commit) = (own.epoch, own.entries, own.commit);
        for other in (0..3).filter(|other| *other != node) {
            let fields = vec![("epoch", epoch.into()), ("entries", entries.into())];
            net.send(other, "Append", fields, Replicate::Append(epoch, entries, commit));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Replicate, net: &mut Net<Replicate>) {
        let own = &mut self.replicas[node];
        match message {
            Replicate::Append(epoch, entries, commit) if epoch >= own.epoch && !own.primary => {
                own.epoch = epoch;
                own.entries = own.entries.max(entries);
                own.commit = own.commit.max(commit);
                let fields = vec![("entries", own.entries.into())];
                net.send(from, "Ack", fields, Replicate::Ack(epoch, own.entries));
            }
            Replicate::Ack(epoch, entries) if epoch == own.epoch && own.primary => {
                own.acked[from] = own.acked[from].max(entries);
                let others = (0..3).filter(|other| *other != node);
                let all = others.map(|other| own.acked[other]).max();
                own.commit = own.commit.max(all.unwrap_or(0));
            }
            Replicate::Handoff(epoch, entries, commit) => {
                own.primary = true;
                own.epoch = epoch;
                own.entries = own.entries.max(entries);
                own.commit = own.commit.max(commit);
                own.acked = [0; 3];
            }
            _ => {}
        }
    }
}

/// Candidates ask for votes; whoever has a majority of a term leads it.
#[derive(Default)]
pub(super) struct Election {
    voters: [Voter; 5],
}

#[derive(Clone, Copy, Default)]
struct Voter {
    role: u8,
    term: u64,
    voted: bool,
    votes: u64,
    elections: u64,
}

/// Each with the term.
pub(super) enum Ballot {
    Ask(u64),
    Vote(u64),
    Lead(u64),
}

impl Voter {
    fn see(&mut self, term: u64) {
        if term > self.term {
            *self = Voter { term, elections: self.elections, ..Voter::default() };
        }
    }
}

impl Protocol for Election {
    type Msg = Ballot;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        named("v", 5)
    }

    fn state(&self, node: usize) -> Fields {
        let own = self.voters[node];
        vec![
            ("role", ["follower", "candidate", "leader"][usize::from(own.role)].into()),
            ("term", own.term.into()),
            ("votes", own.votes.into()),
            ("elections", own.elections.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Ballot>) {
        let own = &mut self.voters[node];
        if own.role == 2 {
            let term = own.term;
            for other in (0..5).filter(|other| *other != node) {
                net.send(other, "Lead", vec![("term", term.into())], Ballot::Lead(term));
            }
            return;
        }
        if !net.random.once_in(25) {
            return;
        }
        let (term, elections) = (own.term + 1, own.elections);
        *own = Voter { role: 1, term, voted: true, votes: 1, elections };
        if net.mistake(12) {
            own.role = 2;
        }
        for other in (0..5).filter(|other| *other != node) {
            net.send(other, "Ask", vec![("term", term.into())], Ballot::Ask(term));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Ballot, net: &mut Net<Ballot>) {
        let own = &mut self.voters[node];
        match message {
            Ballot::Ask(term) => {
                own.see(term);
                if term == own.term && !own.voted {
                    own.voted = true;
                    net.send(from, "Vote", vec![("term", term.into())], Ballot::Vote(term));
                }
            }
            Ballot::Vote(term) => {
                own.see(term);
                if term == own.term && own.role > 0 {
                    own.votes += 1;
                    if own.votes >= 3 && own.role == 1 {
                        own.role = 2;
                        own.elections += 1;
                    }
                }
            }
            Ballot::Lead(term) => {
                own.see(term);
                if term == own.term && own.role == 1 {
                    own.role = 0;
                    own.votes = 0;
                }
            }
        }
    }
}

/// A token goes round; whoever has it may enter the critical section.
#[derive(Default)]
pub(super) struct TokenRing {
    members: [Member; 5],
}

#[derive(Clone, Copy, Default)]
struct Member {
    holding: bool,
    in_cs: bool,
    taken: u64,
    passed: u64,
    entered: u64,
    fresh: bool,
}

impl TokenRing {
    pub(super) fn new() -> TokenRing {
        let mut ring = TokenRing::default();
        ring.members[0] = Member { holding: true, taken: 1, fresh: true, ..Member::default() };
        ring
    }
}

impl Protocol for TokenRing {
    type Msg = ();

    fn nodes(&self) -> Vec<(String, &'static str)> {
        named("t", 5)
    }

    fn state(&self, node: usize) -> Fields {
        let own = self.members[node];
        vec![
            ("holding", own.holding.into()),
            ("in_cs", own.in_cs.into()),
            ("taken", own.taken.into()),
            ("passed", own.passed.into()),
            ("entered", own.entered.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<()>) {
        let own = &mut self.members[node];
        if own.in_cs {
            own.in_cs = false;
        } else if own.holding && own.fresh && net.random.once_in(2) || net.mistake(300) {
            own.in_cs = true;
            own.entered += 1;
            own.fresh = false;
        } else if own.holding {
            own.holding = false;
            own.passed += 1;
            net.send((node + 1) % 5, "Token", vec![], ());
        }
    }

    fn deliver(&mut self, node: usize, _: usize, (): (), _: &mut Net<()>) {
        let own = &mut self.members[node];
        own.holding = true;
        own.fresh = true;
        own.taken += 1;
    }
}

/// A server that lends one lock, each time with a greater number.
#[derive(Default)]
pub(super) struct Lock {
    fence: u64,
    returned: u64,
    queue: Vec<usize>,
    held: bool,
    clients: [Holder; 4],
}

#[derive(Clone, Copy, Default)]
struct Holder {
    has: bool,
    busy: bool,
    token: u64,
    asked: bool,
}

/// The lock is asked for, lent, given back.
pub(super) enum Lend {
    Ask,
    Grant(u64),
    Return,
}

impl Lock {
    fn lend(&mut self, net: &mut Net<Lend>) {
        if (!self.held || net.mistake(25)) && !self.queue.is_empty() {
            let to = self.queue.remove(0);
            self.held = true;
            self.fence += 1;
            let fields = vec![("token", self.fence.into())];
            net.send(to, "Grant", fields, Lend::Grant(self.fence));
        }
    }
}

impl Protocol for Lock {
    type Msg = Lend;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let clients = (0..4).map(|place| (format!("c{place}"), "client"));
        [("server".to_owned(), "server")].into_iter().chain(clients).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(client) = node.checked_sub(1) else {
            let waiting: BTreeSet<usize> = self.queue.iter().copied().collect();
            return vec![
                ("fence", self.fence.into()),
                ("returned", self.returned.into()),
                ("waiting", (waiting.len() as u64).into()),
            ];
        };
        let own = self.clients[client];
        vec![("has", own.has.into()), ("busy", own.busy.into()), ("token", own.token.into())]
    }

    fn step(&mut self, node: usize, net: &mut Net<Lend>) {
        let Some(client) = node.checked_sub(1) else { return };
        let own = &mut self.clients[client];
        if own.has && !own.busy && net.random.once_in(2) {
            own.busy = true;
        } else if own.has {
            if own.busy {
                own.busy = false;
            } else {
                own.has = false;
                net.send(0, "Return", vec![], Lend::Return);
            }
        } else if !own.asked {
            own.asked = true;
            net.send(0, "Ask", vec![], Lend::Ask);
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Lend, net: &mut Net<Lend>) {
        match message {
            Lend::Ask => self.queue.push(from),
            Lend::Return => {
                self.held = false;
                self.returned += 1;
            }
            Lend::Grant(token) => {
                let own = &mut self.clients[node - 1];
                *own = Holder { has: true, busy: false, token, asked: false };
                return;
            }
        }
        self.lend(net);
    }
}
