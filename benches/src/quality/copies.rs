//! Protocols about copies: two-phase commit, a replicated log, gossip, a work queue, a cache.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::Value;

use super::system::{Fields, Net, Protocol};

fn with(
    first: &str,
    kind: &'static str,
    prefix: &str,
    count: usize,
    others: &'static str,
) -> Vec<(String, &'static str)> {
    let others = (0..count).map(|place| (format!("{prefix}{place}"), others));
    [(first.to_owned(), kind)].into_iter().chain(others).collect()
}

fn set(items: &BTreeSet<u64>) -> Value {
    Value::set(items.iter().copied())
}

/// A coordinator and four participants.
#[derive(Default)]
pub(super) struct TwoPhase {
    begun: u64,
    /// The votes of each open transaction.
    open: BTreeMap<u64, u64>,
    ledgers: [Ledger; 5],
}

#[derive(Clone, Default)]
struct Ledger {
    prepared: BTreeSet<u64>,
    committed: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
}

/// Each with the transaction.
pub(super) enum Phase {
    Prepare(u64),
    Vote(u64, bool),
    Commit(u64),
    Abort(u64),
}

impl Protocol for TwoPhase {
    type Msg = Phase;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        with("coord", "coord", "p", 4, "part")
    }

    fn state(&self, node: usize) -> Fields {
        let own = &self.ledgers[node];
        let mut fields = vec![("committed", set(&own.committed)), ("aborted", set(&own.aborted))];
        match node {
            0 => fields.push(("begun", self.begun.into())),
            _ => fields.push(("prepared", set(&own.prepared))),
        }
        fields
    }

    fn step(&mut self, node: usize, net: &mut Net<Phase>) {
        if node > 0 || !net.random.once_in(3) {
            return;
        }
        self.begun += 1;
        let tx = self.begun;
        self.open.insert(tx, 0);
        for to in 1..5 {
            net.send(to, "Prepare", vec![("tx", tx.into())], Phase::Prepare(tx));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Phase, net: &mut Net<Phase>) {
        let own = &mut self.ledgers[node];
        match message {
            Phase::Prepare(tx) => {
                let yes = !net.random.once_in(12);
                if yes {
                    own.prepared.insert(tx);
                } else {
                    own.aborted.insert(tx);
                }
                let fields = vec![("tx", tx.into()), ("yes", yes.into())];
                net.send(from, "Vote", fields, Phase::Vote(tx, yes));
            }
            Phase::Vote(tx, yes) => {
                let Some(votes) = self.open.get_mut(&tx) else { return };
                *votes += u64::from(yes);
                if yes && *votes < 4 {
                    return;
                }
                self.open.remove(&tx);
                if yes {
                    own.committed.insert(tx);
                } else {
                    own.aborted.insert(tx);
                }
                for to in 1..5 {
                    let fields = vec![("tx", tx.into())];
                    // It tells one of them the wrong outcome.
                    if yes != (to == 2 && net.mistake(15)) {
                        net.send(to, "Commit", fields, Phase::Commit(tx));
                    } else {
                        net.send(to, "Abort", fields, Phase::Abort(tx));
                    }
                }
            }
            Phase::Commit(tx) => {
                own.committed.insert(tx);
            }
            Phase::Abort(tx) => {
                own.aborted.insert(tx);
            }
        }
    }
}

/// A leader with followers whose logs follow its log.
#[derive(Default)]
pub(super) struct Replication {
    copies: [Copy; 4],
}

#[derive(Clone, Default)]
struct Copy {
    log: Vec<u64>,
    commit: usize,
    applied: usize,
    acked: [usize; 4],
}

/// Entries from a place on, or how many there are; with the commit index.
pub(super) enum Copied {
    Append(usize, Vec<u64>, usize),
    Ack(usize),
}

impl Protocol for Replication {
    type Msg = Copied;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..4).map(|place| (format!("l{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let own = &self.copies[node];
        vec![
            ("role", if node == 0 { "leader" } else { "follower" }.into()),
            ("log", Value::list(own.log.iter().copied())),
            ("commit", (own.commit as u64).into()),
            ("applied", (own.applied as u64).into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Copied>) {
        let own = &mut self.copies[node];
        if own.applied < own.commit {
            own.applied += 1;
        }
        if node > 0 {
            if net.mistake(120) {
                own.commit = own.log.len() + 1;
            }
            return;
        }
        if net.random.once_in(4) {
            own.log.push(net.random.below(1 << 20));
        }
        let to = 1 + net.random.pick(3);
        let (from, commit) = (own.acked[to], own.commit);
        let entries = own.log[from..].to_vec();
        let fields = vec![("from", (from as u64).into()), ("commit", (commit as u64).into())];
        net.send(to, "Append", fields, Copied::Append(from, entries, commit));
    }

    fn deliver(&mut self, node: usize, from: usize, message: Copied, net: &mut Net<Copied>) {
        let own = &mut self.copies[node];
        match message {
            Copied::Append(place, entries, commit) => {
                let new = (place + entries.len()).saturating_sub(own.log.len());
                own.log.extend(&entries[entries.len() - new..]);
                own.commit = own.commit.max(commit.min(own.log.len()));
                let len = own.log.len();
                net.send(from, "Ack", vec![("len", (len as u64).into())], Copied::Ack(len));
            }
            Copied::Ack(len) => {
                own.acked[from] = own.acked[from].max(len);
                let mut acked = own.acked[1..].to_vec();
                acked.sort_unstable();
                own.commit = own.commit.max(acked[1]);
            }
        }
    }
}

/// Nodes that tell each other whom they know and whom they suspect.
#[derive(Default)]
pub(super) struct Gossip {
    views: [View; 5],
}

#[derive(Clone, Default)]
struct View {
    known: BTreeSet<u64>,
    suspects: BTreeSet<u64>,
    cleared: BTreeSet<u64>,
    told: u64,
    heard: u64,
}

impl Protocol for Gossip {
    type Msg = (BTreeSet<u64>, BTreeSet<u64>);

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..5).map(|place| (format!("g{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let own = &self.views[node];
        vec![
            ("known", set(&own.known)),
            ("suspects", set(&own.suspects)),
            ("cleared", set(&own.cleared)),
            ("told", own.told.into()),
            ("heard", own.heard.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Self::Msg>) {
        let own = &mut self.views[node];
        let member = net.random.below(60);
        if net.random.once_in(6) {
            own.known.insert(member);
        } else if net.random.once_in(4)
            && own.known.contains(&member)
            && !own.cleared.contains(&member)
            || net.mistake(80)
        {
            own.suspects.insert(member);
        } else if net.random.once_in(4) && own.suspects.remove(&member) {
            own.cleared.insert(member);
        } else {
            own.told += 1;
            let message = (own.known.clone(), own.cleared.clone());
            let to = net.other(node, 5);
            net.send(to, "Gossip", vec![], message);
        }
    }

    fn deliver(&mut self, node: usize, _: usize, message: Self::Msg, _: &mut Net<Self::Msg>) {
        let own = &mut self.views[node];
        own.heard += 1;
        own.known.extend(message.0);
        for cleared in message.1 {
            own.suspects.remove(&cleared);
            own.cleared.insert(cleared);
        }
    }
}

/// A queue that hands jobs to workers, who acknowledge them.
#[derive(Default)]
pub(super) struct Queue {
    submitted: u64,
    handed: u64,
    done: u64,
    workers: [Worker; 4],
}

#[derive(Clone, Copy, Default)]
struct Worker {
    asked: bool,
    job: Option<u64>,
    taken: u64,
    finished: u64,
}

/// A job is asked for, handed out, done.
pub(super) enum Job {
    Ask,
    Hand(u64),
    Done,
}

impl Protocol for Queue {
    type Msg = Job;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        with("queue", "queue", "w", 4, "worker")
    }

    fn state(&self, node: usize) -> Fields {
        let Some(worker) = node.checked_sub(1) else {
            let pending = self.submitted - self.handed;
            return vec![
                ("submitted", self.submitted.into()),
                ("handed", self.handed.into()),
                ("pending", pending.into()),
                ("done", self.done.into()),
            ];
        };
        let own = self.workers[worker];
        vec![
            ("busy", own.job.is_some().into()),
            ("job", own.job.map_or(Value::Null, Value::from)),
            ("taken", own.taken.into()),
            ("finished", own.finished.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Job>) {
        let Some(worker) = node.checked_sub(1) else {
            self.submitted += net.random.below(3);
            return;
        };
        let own = &mut self.workers[worker];
        if own.job.is_some() && net.random.once_in(2) || net.mistake(120) {
            own.job = None;
            own.finished += 1;
            net.send(0, "Done", vec![], Job::Done);
        } else if own.job.is_none() && !own.asked {
            own.asked = true;
            net.send(0, "Ask", vec![], Job::Ask);
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Job, net: &mut Net<Job>) {
        match message {
            Job::Ask if self.handed < self.submitted => {
                self.handed += 1;
                let fields = vec![("job", self.handed.into())];
                net.send(from, "Hand", fields, Job::Hand(self.handed));
            }
            // It answers later.
            Job::Ask => self.workers[from - 1].asked = false,
            Job::Done => self.done += 1,
            Job::Hand(job) => {
                let own = &mut self.workers[node - 1];
                own.asked = false;
                own.job = Some(job);
                own.taken += 1;
            }
        }
    }
}

/// Caches of one value, invalidated before it changes.
#[derive(Default)]
pub(super) struct Cache {
    version: u64,
    /// The caches that must still confirm the invalidation.
    waiting: BTreeSet<usize>,
    caches: [Cached; 4],
}

#[derive(Clone, Copy, Default)]
struct Cached {
    valid: bool,
    loading: bool,
    version: u64,
    reads: u64,
    hits: u64,
    misses: u64,
}

/// Invalidation and loads.
pub(super) enum Fill {
    Invalidate,
    Gone,
    Load,
    Loaded(u64),
}

impl Protocol for Cache {
    type Msg = Fill;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        with("store", "store", "k", 4, "cache")
    }

    fn state(&self, node: usize) -> Fields {
        let Some(cache) = node.checked_sub(1) else {
            return vec![
                ("version", self.version.into()),
                ("writing", (!self.waiting.is_empty()).into()),
            ];
        };
        let own = self.caches[cache];
        vec![
            ("valid", own.valid.into()),
            ("loading", own.loading.into()),
            ("version", own.version.into()),
            ("reads", own.reads.into()),
            ("hits", own.hits.into()),
            ("misses", own.misses.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Fill>) {
        let Some(cache) = node.checked_sub(1) else {
            if self.waiting.is_empty() && net.random.once_in(3) {
                self.waiting = (1..5).collect();
                for to in 1..5 {
                    net.send(to, "Invalidate", vec![], Fill::Invalidate);
                }
                if net.mistake(8) {
                    self.version += 1;
                }
            }
            return;
        };
        let own = &mut self.caches[cache];
        if own.loading {
            return;
        }
        own.reads += 1;
        if own.valid {
            own.hits += 1;
        } else {
            own.misses += 1;
            own.loading = true;
            net.send(0, "Load", vec![], Fill::Load);
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Fill, net: &mut Net<Fill>) {
        match message {
            Fill::Gone => {
                self.waiting.remove(&from);
                self.version += u64::from(self.waiting.is_empty());
            }
            // While it writes, nobody may load.
            Fill::Load if !self.waiting.is_empty() => {
                net.send(from, "Loaded", vec![], Fill::Loaded(0));
            }
            Fill::Load => {
                let fields = vec![("version", self.version.into())];
                net.send(from, "Loaded", fields, Fill::Loaded(self.version + 1));
            }
            Fill::Invalidate => {
                self.caches[node - 1].valid = false;
                net.send(from, "Gone", vec![], Fill::Gone);
            }
            Fill::Loaded(next) => {
                let own = &mut self.caches[node - 1];
                own.loading = false;
                if let Some(version) = next.checked_sub(1) {
                    own.version = version;
                    own.valid = true;
                }
            }
        }
    }
}
