//! The protocols of the bench, with the invariants that an expert wants of each.

use everhold_trace::Execution;

use super::chains::{Chain, Snapshots};
use super::copies::{Cache, Gossip, Queue, Replication, TwoPhase};
use super::flows::{Clearing, Credits};
use super::fresh::{Auction, Barrier, Shards};
use super::leaders::{Election, Lock, PrimaryBackup, TokenRing};
use super::money::{Bank, Quotas, Semaphore};
use super::sharing::{Leases, Sequencer, Stealing, Views};
use super::system::{Recipe, run};

/// A protocol.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) run: fn(Recipe) -> Execution,
    /// Whether it is kept for measuring, and nothing is tuned by it.
    pub(super) held_out: bool,
    /// The invariants that an expert wants. Each has one text, or several that say the same or more.
    pub(super) wanted: [&'static [&'static str]; 5],
    /// The invariant that the mistake of the protocol breaks, likewise.
    pub(super) broken: &'static [&'static str],
}

pub(super) fn subjects() -> Vec<Subject> {
    [amounts(), roles(), copies(), flows(), chains(), sharing(), fresh()].concat()
}

fn amounts() -> Vec<Subject> {
    let bank = Subject {
        name: "bank",
        run: |recipe| run(Bank::default(), recipe),
        held_out: false,
        wanted: [
            &["when all quiet: sum(n in nodes: n.balance) == 400"],
            &["sum(n in nodes: n.balance) + sum(m in messages(\"Transfer\"): m.amount) == 400"],
            &["forall n in nodes: n.balance >= 0"],
            &[
                "sum(n in nodes: n.sent - n.received) == in_flight(\"Transfer\")",
                "sum(n in nodes: n.sent - n.received) == in_flight()",
            ],
            &["forall n in nodes: n.balance == n.credited - n.debited + 100"],
        ],
        broken: &["forall n in nodes: n.balance >= 0"],
    };
    let quotas = Subject {
        name: "quotas",
        run: |recipe| run(Quotas::default(), recipe),
        held_out: false,
        wanted: [
            &["forall n in pool nodes: n.free == 600 - n.out"],
            &["forall n in worker nodes: n.used <= n.quota"],
            &["sum(n in worker nodes: n.quota) <= 600"],
            &[
                "when all quiet: \
               sum(n in pool nodes: n.out) == sum(n in worker nodes: n.quota)",
                "when all quiet: \
               sum(n in pool nodes: n.free) + sum(n in worker nodes: n.quota) == 600",
            ],
            &["forall n in pool nodes: n.free >= 0", "forall n in pool nodes: n.out <= 600"],
        ],
        broken: &["forall n in worker nodes: n.used <= n.quota"],
    };
    let semaphore = Subject {
        name: "semaphore",
        run: |recipe| run(Semaphore::default(), recipe),
        held_out: true,
        wanted: [
            &["forall n in sem nodes: n.free == 4 - n.held"],
            &["sum(n in client nodes: n.permits) <= 4"],
            &["forall n in client nodes: n.permits == n.acquired - n.released"],
            &["forall n in sem nodes: n.free >= 0", "forall n in sem nodes: n.held <= 4"],
            &["forall n in client nodes: n.released <= n.acquired"],
        ],
        broken: &[
            "forall n in sem nodes: n.free >= 0",
            "forall n in sem nodes: n.held <= 4",
            "forall n in sem nodes: not n.free == -1",
        ],
    };
    vec![bank, quotas, semaphore]
}

fn roles() -> Vec<Subject> {
    let mut all = leaders();
    all.extend(tokens());
    all
}

fn leaders() -> Vec<Subject> {
    let backup = Subject {
        name: "primary/backup",
        run: |recipe| run(PrimaryBackup::new(), recipe),
        held_out: false,
        wanted: [
            &[
                "forall a, b in nodes where a != b: \
               a.role == \"primary\" implies b.role == \"backup\"",
                "forall a, b in nodes where a != b: \
               a.role == \"primary\" implies b.role != \"primary\"",
                "count(n in nodes: n.role == \"primary\") <= 1",
            ],
            &[
                "forall a, b in nodes where a != b: a.role == \"primary\" implies a.epoch >= b.epoch",
            ],
            &["forall n in nodes: n.applied <= n.commit"],
            &["forall n in nodes: n.commit <= n.entries"],
            &["forall a, b in nodes where a != b: \
               a.role == \"primary\" implies a.entries >= b.entries"],
        ],
        broken: &["forall n in nodes: n.applied <= n.commit"],
    };
    let election = Subject {
        name: "election",
        run: |recipe| run(Election::default(), recipe),
        held_out: false,
        wanted: [
            &[
                "forall a, b in nodes where a != b: \
               a.role == \"leader\" and a.term == b.term implies b.role == \"follower\"",
                "forall a, b in nodes where a != b: \
               a.role == \"leader\" and a.term == b.term implies b.role != \"leader\"",
            ],
            &["forall n in nodes: previous(n.term) <= n.term"],
            &["forall n in nodes: n.role == \"leader\" implies n.votes >= 3"],
            &["forall n in nodes: n.role == \"leader\" implies \
               count(m in nodes: m.term >= n.term) >= 3"],
            &["on delivery: sender.term <= receiver.term"],
        ],
        broken: &[
            "forall n in nodes: n.role == \"leader\" implies n.votes >= 3",
            "forall n in nodes: n.role == \"leader\" implies n.votes != 1",
        ],
    };
    vec![backup, election]
}

fn tokens() -> Vec<Subject> {
    let ring = Subject {
        name: "token ring",
        run: |recipe| run(TokenRing::new(), recipe),
        held_out: false,
        wanted: [
            &["forall n in nodes: n.in_cs implies n.holding"],
            &[
                "forall a, b in nodes where a != b: a.holding implies not b.holding",
                "count(n in nodes: n.holding) + in_flight(\"Token\") == 1",
            ],
            &[
                "sum(n in nodes: n.passed - n.taken) == in_flight(\"Token\") - 1",
                "sum(n in nodes: n.passed - n.taken) == in_flight() - 1",
                "count(n in nodes: n.holding) + in_flight(\"Token\") == 1",
            ],
            &["forall n in nodes: n.passed <= n.taken"],
            &["forall n in nodes: n.entered <= n.taken"],
        ],
        broken: &["forall n in nodes: n.in_cs implies n.holding"],
    };
    let lock = Subject {
        name: "lock",
        run: |recipe| run(Lock::default(), recipe),
        held_out: false,
        wanted: [
            &[
                "forall a, b in client nodes where a != b: a.has implies not b.has",
                "count(n in client nodes: n.has) <= 1",
            ],
            &["forall a in server nodes, b in client nodes: a.fence >= b.token"],
            &["forall n in client nodes: n.busy implies n.has"],
            &["forall n in server nodes: n.returned <= n.fence"],
            &[
                "forall a, b in client nodes where a != b: a.has implies a.token >= b.token",
                "forall a, b in client nodes where a != b: a.has implies a.token > b.token",
            ],
        ],
        broken: &["forall a, b in client nodes where a != b: a.has implies not b.has"],
    };
    vec![ring, lock]
}

fn copies() -> Vec<Subject> {
    let commit = Subject {
        name: "two-phase commit",
        run: |recipe| run(TwoPhase::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a, b in part nodes where a != b: a.committed disjoint from b.aborted"],
            &["forall n in coord nodes: n.committed disjoint from n.aborted"],
            &["forall a in coord nodes, b in part nodes: b.committed subset of a.committed"],
            &["forall n in part nodes: n.committed subset of n.prepared"],
            &["forall n in part nodes: n.committed disjoint from n.aborted"],
        ],
        broken: &[
            "forall a, b in part nodes where a != b: a.committed disjoint from b.aborted",
            "forall a in coord nodes, b in part nodes: a.committed disjoint from b.aborted",
        ],
    };
    let log = Subject {
        name: "replicated log",
        run: |recipe| run(Replication::default(), recipe),
        held_out: false,
        wanted: [
            &[
                "forall a, b in nodes where a != b: a.role == \"leader\" implies b.log prefix of a.log",
                "forall a, b in nodes where a != b: b.role == \"leader\" implies a.log prefix of b.log",
            ],
            &["forall n in nodes: n.commit <= len(n.log)"],
            &["forall n in nodes: n.applied <= n.commit"],
            &[
                "forall a, b in nodes where a != b: a.role == \"leader\" implies a.commit >= b.commit",
            ],
            &["forall n in nodes: previous(n.log) prefix of n.log"],
        ],
        broken: &["forall n in nodes: n.commit <= len(n.log)"],
    };
    let gossip = Subject {
        name: "gossip",
        run: |recipe| run(Gossip::default(), recipe),
        held_out: false,
        wanted: [
            &["forall n in nodes: previous(n.known) subset of n.known"],
            &["on delivery: sender.known subset of receiver.known"],
            &["forall n in nodes: n.suspects subset of n.known"],
            &["forall n in nodes: n.cleared disjoint from n.suspects"],
            &[
                "sum(n in nodes: n.told - n.heard) == in_flight(\"Gossip\")",
                "sum(n in nodes: n.told - n.heard) == in_flight()",
            ],
        ],
        broken: &[
            "forall n in nodes: n.suspects subset of n.known",
            "forall n in nodes, x in n.suspects: x in n.known",
        ],
    };
    vec![commit, log, gossip, queue(), cache()]
}

fn queue() -> Subject {
    Subject {
        name: "work queue",
        run: |recipe| run(Queue::default(), recipe),
        held_out: true,
        wanted: [
            &["forall n in queue nodes: n.pending == n.submitted - n.handed"],
            &["forall n in queue nodes: n.done <= n.handed"],
            &["forall n in worker nodes: n.finished <= n.taken"],
            &["sum(n in worker nodes: n.finished) - sum(n in queue nodes: n.done) \
               == in_flight(\"Done\")"],
            &["forall n in worker nodes: n.busy implies n.job != null"],
        ],
        broken: &["forall n in worker nodes: n.finished <= n.taken"],
    }
}

fn cache() -> Subject {
    Subject {
        name: "cache",
        run: |recipe| run(Cache::default(), recipe),
        held_out: true,
        wanted: [
            &["forall a in store nodes, b in cache nodes: b.version <= a.version"],
            &["forall a in store nodes, b in cache nodes: b.valid implies a.version == b.version"],
            &["forall n in cache nodes: n.hits <= n.reads"],
            &["forall n in cache nodes: n.reads == n.hits + n.misses"],
            &[
                "forall n in cache nodes: n.loading implies not n.valid",
                "forall n in cache nodes: n.valid implies not n.loading",
            ],
        ],
        broken: &[
            "forall a in store nodes, b in cache nodes: b.valid implies a.version == b.version",
        ],
    }
}

fn flows() -> Vec<Subject> {
    let clearing = Subject {
        name: "clearing",
        run: |recipe| run(Clearing::default(), recipe),
        held_out: false,
        wanted: [
            &["when all quiet: sum(n in house nodes: n.fees) \
               + sum(n in account nodes: n.balance) == 800"],
            &["sum(n in house nodes: n.fees) + sum(n in account nodes: n.balance) \
               + sum(m in messages(\"Pay\"): m.amount) + sum(m in messages(\"Fee\"): m.amount) \
               == 800"],
            &["forall n in account nodes: n.held <= n.balance"],
            &[
                "forall n in account nodes: n.available == n.balance - n.held",
                "forall n in account nodes: n.balance == n.held + n.available",
            ],
            &["forall n in account nodes: n.held >= 0"],
        ],
        broken: &[
            "forall n in account nodes: n.held <= n.balance",
            "forall n in account nodes: n.available >= 0",
        ],
    };
    let credits = Subject {
        name: "credits",
        run: |recipe| run(Credits::default(), recipe),
        held_out: false,
        wanted: [
            &["forall n in sink nodes: n.buffered == n.received - n.consumed"],
            &[
                "forall n in sink nodes: n.consumed <= n.received",
                "forall n in sink nodes: n.buffered >= 0",
            ],
            &["forall n in source nodes: n.credits >= 0"],
            &["sum(n in source nodes: n.sent) - sum(n in sink nodes: n.received) \
               == in_flight(\"Data\")"],
            &[
                "when all quiet: sum(n in sink nodes: n.buffered) + sum(n in sink nodes: n.unused) \
               + sum(n in source nodes: n.credits) == 12",
                "sum(n in sink nodes: n.buffered) + sum(n in sink nodes: n.unused) \
               + sum(n in source nodes: n.credits) + in_flight(\"Data\") \
               + sum(m in messages(\"Credit\"): m.credits) == 12",
            ],
        ],
        broken: &["forall n in source nodes: n.credits >= 0"],
    };
    vec![clearing, credits]
}

fn chains() -> Vec<Subject> {
    let chain = Subject {
        name: "chain",
        run: |recipe| run(Chain::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a, b in nodes where a != b: a.stable <= b.seq"],
            &["forall n in nodes: n.stable <= n.seq"],
            &["forall a, b in nodes where a != b: a.role == \"head\" implies a.seq >= b.seq"],
            &["forall a, b in nodes where a != b: \
               a.role == \"tail\" implies a.stable >= b.stable"],
            &["forall n in nodes: n.role == \"tail\" implies n.seq == n.stable"],
        ],
        broken: &[
            "forall n in nodes: n.stable <= n.seq",
            "forall a, b in nodes where a != b: a.stable <= b.seq",
        ],
    };
    let snapshots = Subject {
        name: "snapshots",
        run: |recipe| run(Snapshots::default(), recipe),
        held_out: false,
        wanted: [
            &["forall n in nodes: n.log.first <= n.applied"],
            &["forall n in nodes: n.applied <= n.commit"],
            &["forall n in nodes: n.commit <= n.log.last"],
            &[
                "forall a, b in nodes where a != b: \
                 a.role == \"Leader\" and a.term == b.term implies b.role == \"Follower\"",
                "forall a, b in nodes where a != b: \
                 a.role == \"Leader\" and a.term == b.term implies b.role != \"Leader\"",
            ],
            &["forall n in nodes: previous(n.term) <= n.term"],
        ],
        broken: &["forall n in nodes: n.log.first <= n.applied"],
    };
    vec![chain, snapshots]
}

fn sharing() -> Vec<Subject> {
    let stealing = Subject {
        name: "work stealing",
        run: |recipe| run(Stealing::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a, b in nodes where a != b: a.todo disjoint from b.todo"],
            &["forall a, b in nodes where a != b: a.done disjoint from b.done"],
            &["forall a, b in nodes where a != b: a.done disjoint from b.todo"],
            &["forall n in nodes: n.done disjoint from n.todo"],
            &["forall n in nodes: previous(n.done) subset of n.done"],
        ],
        broken: &[
            "forall a, b in nodes where a != b: a.todo disjoint from b.todo",
            "forall a, b in nodes where a != b: a.done disjoint from b.done",
            "forall a, b in nodes where a != b: a.done disjoint from b.todo",
        ],
    };
    let leases = Subject {
        name: "leases",
        run: |recipe| run(Leases::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a, b in tenant nodes where a != b: a.held disjoint from b.held"],
            &["forall a in table nodes, b in tenant nodes: b.held subset of a.leased"],
            &["forall n in tenant nodes: n.dirty subset of n.held"],
            &["forall n in table nodes: n.free disjoint from n.leased"],
            &[
                "forall n in table nodes: len(n.free) == 10 - len(n.leased)",
                "forall n in table nodes: len(n.leased) == 10 - len(n.free)",
            ],
        ],
        broken: &["forall a, b in tenant nodes where a != b: a.held disjoint from b.held"],
    };
    let views = Subject {
        name: "views",
        run: |recipe| run(Views::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a, b in nodes where a != b: a.view == b.view implies a.members == b.members"],
            &["forall a, b in nodes where a != b: a.view == b.view implies a.leader == b.leader"],
            &["forall n in nodes: previous(n.view) <= n.view"],
            &["forall n in nodes: n.leader in n.members"],
            &["on delivery: sender.view <= receiver.view"],
        ],
        broken: &["forall n in nodes: n.leader in n.members"],
    };
    vec![stealing, leases, views, sequencer()]
}

fn sequencer() -> Subject {
    Subject {
        name: "sequencer",
        run: |recipe| run(Sequencer::default(), recipe),
        held_out: false,
        wanted: [
            &["forall a in sequencer nodes, b in replica nodes: b.delivered prefix of a.log"],
            &["forall n in replica nodes: n.next == len(n.delivered)"],
            &[
                "forall n in replica nodes: n.next not in n.early",
                "forall n in replica nodes, x in n.early: x > n.next",
            ],
            &["forall n in replica nodes: previous(n.delivered) prefix of n.delivered"],
            &[
                "forall n in sequencer nodes: len(set(n.log)) == len(n.log)",
                "forall n in replica nodes: len(set(n.delivered)) == len(n.delivered)",
            ],
        ],
        broken: &["forall a in sequencer nodes, b in replica nodes: b.delivered prefix of a.log"],
    }
}

fn fresh() -> Vec<Subject> {
    let auction = Subject {
        name: "auction",
        run: |recipe| run(Auction::default(), recipe),
        held_out: true,
        wanted: [
            &["forall n in bidder nodes: n.committed <= n.purse"],
            &["forall n in bidder nodes: n.purse == 400 - n.spent"],
            &[
                "when all quiet: \
                 sum(n in auctioneer nodes: n.revenue) == sum(n in bidder nodes: n.spent)",
                "when all quiet: \
                 sum(n in auctioneer nodes: n.revenue) + sum(n in bidder nodes: n.purse) == 1600",
            ],
            &["forall a in auctioneer nodes, b in bidder nodes: b.round <= a.round"],
            &["forall n in auctioneer nodes: previous(n.round) <= n.round"],
        ],
        broken: &["forall n in bidder nodes: n.committed <= n.purse"],
    };
    vec![auction, barrier(), shards()]
}

fn barrier() -> Subject {
    Subject {
        name: "barrier",
        run: |recipe| run(Barrier::default(), recipe),
        held_out: true,
        wanted: [
            &["forall a, b in worker nodes where a != b: a.phase <= b.phase + 1"],
            &["forall a in coordinator nodes, b in worker nodes: b.phase <= a.phase"],
            &["forall n in coordinator nodes: n.waiting <= 3"],
            &["forall n in worker nodes: n.phase <= n.finished"],
            &["forall n in worker nodes: previous(n.phase) <= n.phase"],
        ],
        broken: &["forall n in worker nodes: n.phase <= n.finished"],
    }
}

fn shards() -> Subject {
    Subject {
        name: "shards",
        run: |recipe| run(Shards::default(), recipe),
        held_out: true,
        wanted: [
            &["forall a, b in server nodes where a != b: a.owned disjoint from b.owned"],
            &[
                "sum(n in server nodes: len(n.owned)) + in_flight(\"Shard\") == 12",
                "when all quiet: sum(n in server nodes: len(n.owned)) == 12",
            ],
            &[
                "sum(n in server nodes: n.shipped - n.got) == in_flight(\"Shard\")",
                "sum(n in server nodes: n.got) + in_flight(\"Shard\") \
                 == sum(n in server nodes: n.shipped)",
            ],
            &["forall n in directory nodes: n.pending == n.started - n.finished"],
            &["forall n in server nodes: len(n.owned) == n.got - n.shipped + 3"],
        ],
        broken: &["forall a, b in server nodes where a != b: a.owned disjoint from b.owned"],
    }
}
