//! The work of the nodes while things fail: correct work that must not alarm, and planted violations.
//!
//! One thread gives all commands and waits for each answer, so the real order is known: a lock that
//! one node gave back before another took it was never held by both, whether a message between the
//! nodes carried an envelope or not.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, NODES};

/// How often a violation is planted.
const PLANT: Duration = Duration::from_millis(80);

/// How long every second one lasts at least; the others last to the end.
const LAST: Duration = Duration::from_secs(5);

/// How many locks are handed round.
const LEASES: usize = 6;

/// After the last violation nothing more may come for so long.
const QUIET: Duration = Duration::from_millis(1_500);

/// The longest wait for reports that are still to come.
const SETTLE: Duration = Duration::from_secs(30);

const HOLDER: &str = "one holder";
const ANSWERED: &str = "answered";

/// Two nodes hold the same lock.
struct Planted {
    key: i64,
    nodes: [usize; 2],
    until: Option<Instant>,
}

/// A lock that is handed round.
struct Lease {
    key: i64,
    holder: usize,
    rounds: usize,
}

/// The outcome of a row.
pub(super) struct Outcome {
    pub(super) planted: usize,
    pub(super) reported: usize,
    pub(super) twice: usize,
    pub(super) wrong: usize,
    /// Seconds in which the watch did not know of every node and every rule.
    pub(super) unknown: f64,
    /// The longest time from the end of a fault until it knew everything again.
    pub(super) recovery: f64,
    pub(super) dropped: u64,
    /// The most memory of a watch, in KiB.
    pub(super) memory: u64,
    /// Correct hand-overs of a lock.
    pub(super) handed: u64,
    /// Claims of the row itself that do not hold.
    pub(super) unmet: Vec<String>,
}

pub(super) struct Work {
    pub(super) cluster: Cluster,
    /// Which nodes take part.
    able: [bool; NODES],
    held: Vec<Planted>,
    leases: Vec<Lease>,
    planted: BTreeSet<(String, i64)>,
    next_key: i64,
    next_plant: Instant,
    asking: Option<(usize, i64)>,
    handed: u64,
    /// When the last fault ended, until the watch is whole again.
    fault: Option<Instant>,
    recovery: f64,
    unknown: f64,
    looked: Instant,
    unmet: Vec<String>,
}

impl Work {
    /// Begins when the watch knows all nodes.
    pub(super) fn start(mut cluster: Cluster) -> Work {
        let begun = Instant::now();
        while !cluster.standings().any(|said| said.nodes == NODES) {
            let said: Vec<_> = cluster.standings().cloned().collect();
            assert!(begun.elapsed() < SETTLE, "it begins well: {said:?}");
            sleep(Duration::from_millis(10));
            cluster.listen();
        }
        let now = Instant::now();
        let mut work = Work {
            cluster,
            able: [true; NODES],
            held: Vec::new(),
            leases: Vec::new(),
            planted: BTreeSet::new(),
            next_key: 1,
            next_plant: now,
            asking: None,
            handed: 0,
            fault: None,
            recovery: 0.0,
            unknown: 0.0,
            looked: now,
            unmet: Vec::new(),
        };
        (0..LEASES).for_each(|at| work.lease(at % NODES));
        work
    }

    fn key(&mut self) -> i64 {
        self.next_key += 1;
        self.next_key
    }

    fn lease(&mut self, holder: usize) {
        let key = self.key();
        self.cluster.nodes[holder].call(&format!("take {key}"));
        self.leases.push(Lease { key, holder, rounds: 0 });
    }

    fn able(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.able[*node]).collect()
    }

    /// A node takes part in nothing new.
    pub(super) fn spare(&mut self, node: usize) {
        self.able[node] = false;
    }

    /// A node takes part again.
    pub(super) fn include(&mut self, node: usize) {
        self.able[node] = true;
    }

    /// A node has died: nobody holds what it held. Others take its leases at once.
    pub(super) fn forget(&mut self, node: usize) {
        self.held.retain(|planted| !planted.nodes.contains(&node));
        let next = self.able()[0];
        for lease in self.leases.iter_mut().filter(|lease| lease.holder == node) {
            self.cluster.nodes[next].call(&format!("take {}", lease.key));
            lease.holder = next;
        }
    }

    /// Another node takes the leases of one that does not know: it is stopped, and holds them.
    pub(super) fn rob(&mut self, node: usize) {
        let thief = self.able()[0];
        let (robbed, rest): (Vec<_>, _) =
            std::mem::take(&mut self.leases).into_iter().partition(|lease| lease.holder == node);
        self.leases = rest;
        for lease in robbed {
            self.cluster.nodes[thief].call(&format!("take {}", lease.key));
            self.planted.insert((HOLDER.to_owned(), lease.key));
            self.held.push(Planted { key: lease.key, nodes: [thief, node], until: None });
        }
    }

    /// The fault is over from now on: the time until everything is known again counts.
    pub(super) fn mended(&mut self) {
        self.note_recovery(false);
        self.fault = Some(Instant::now());
    }

    /// The row claims something beside what all rows do.
    pub(super) fn claim(&mut self, claim: &str, holds: bool) {
        if !holds {
            self.unmet.push(claim.to_owned());
        }
    }

    /// Works for a while.
    pub(super) fn go_on(&mut self, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() < end {
            self.round(true);
            sleep(Duration::from_millis(8));
        }
    }

    fn round(&mut self, plants: bool) {
        self.hand_over();
        self.ask();
        if plants && Instant::now() >= self.next_plant {
            self.plant();
            self.next_plant = Instant::now() + PLANT;
        }
        self.give_back();
        self.look();
    }

    /// Each lease goes to the next node, every second with an envelope.
    fn hand_over(&mut self) {
        let able = self.able();
        let nodes = &mut self.cluster.nodes;
        for lease in self.leases.iter_mut().filter(|lease| able.contains(&lease.holder)) {
            let place = able.iter().position(|node| *node == lease.holder).unwrap_or(0);
            let to = able[(place + 1) % able.len()];
            let envelope = nodes[lease.holder].call(&format!("give {}", lease.key));
            let envelope = if lease.rounds.is_multiple_of(2) { &envelope } else { "" };
            nodes[to].call(format!("take {} {envelope}", lease.key).trim_end());
            lease.holder = to;
            lease.rounds += 1;
            self.handed += 1;
        }
    }

    /// Something is asked for and comes, in time.
    fn ask(&mut self) {
        match self.asking.take() {
            Some((node, key)) if self.able[node] => {
                self.cluster.nodes[node].call(&format!("got {key}"));
            }
            _ => {
                let key = self.key();
                let able = self.able();
                let node = able[key as usize % able.len()];
                self.cluster.nodes[node].call(&format!("ask {key}"));
                self.asking = Some((node, key));
            }
        }
    }

    fn plant(&mut self) {
        let key = self.key();
        let able = self.able();
        let first = self.planted.len() % able.len();
        let nodes = [able[first], able[(first + 1) % able.len()]];
        for node in nodes {
            self.cluster.nodes[node].call(&format!("take {key}"));
        }
        let until = (self.planted.len().is_multiple_of(2)).then(|| Instant::now() + LAST);
        self.planted.insert((HOLDER.to_owned(), key));
        self.held.push(Planted { key, nodes, until });
    }

    /// Something is asked for and never comes.
    pub(super) fn plant_late(&mut self) {
        let key = self.key();
        self.cluster.nodes[0].call(&format!("ask {key}"));
        self.planted.insert((ANSWERED.to_owned(), key));
    }

    fn give_back(&mut self) {
        let (now, able) = (Instant::now(), self.able);
        let is_over = |planted: &Planted| {
            let free = planted.nodes.iter().all(|node| able[*node]);
            free && planted.until.is_some_and(|until| until <= now)
        };
        let (over, rest) = std::mem::take(&mut self.held).into_iter().partition(is_over);
        self.held = rest;
        let over: Vec<Planted> = over;
        for planted in over {
            for node in planted.nodes {
                self.cluster.nodes[node].call(&format!("give {}", planted.key));
            }
        }
    }

    /// The present status of the watch.
    pub(super) fn look(&mut self) {
        self.cluster.listen();
        let lately = Instant::now() - Duration::from_millis(250);
        let passed = self.looked.elapsed().as_secs_f64();
        self.looked = Instant::now();
        if !self.cluster.is_whole_since(lately) {
            self.unknown += passed;
        }
        let whole = self.fault.is_some_and(|then| self.cluster.is_whole_since(then));
        self.note_recovery(whole);
    }

    fn note_recovery(&mut self, whole: bool) {
        let Some(then) = self.fault else { return };
        self.recovery = self.recovery.max(then.elapsed().as_secs_f64());
        if whole {
            self.fault = None;
        }
    }

    /// Waits for what is still to come, and a little longer for what should not.
    pub(super) fn finish(mut self) -> Outcome {
        let end = Instant::now() + SETTLE;
        let mut quiet: Option<Instant> = None;
        while Instant::now() < end && quiet.is_none_or(|since| since.elapsed() < QUIET) {
            self.round(false);
            sleep(Duration::from_millis(50));
            let told = self.cluster.told();
            let all = self.planted.iter().all(|planted| told.contains_key(planted));
            quiet = (all && self.fault.is_none()).then(|| quiet.unwrap_or_else(Instant::now));
        }
        let whole = self.fault.is_none();
        self.claim("all is known again at the end", whole);
        let told = self.cluster.told();
        let reported = self.planted.iter().filter(|planted| told.contains_key(planted)).count();
        let wrong = told.keys().filter(|told| !self.planted.contains(told)).count();
        let dropped = self.cluster.standings().map(|said| said.dropped).max().unwrap_or(0);
        self.explain(&told);
        Outcome {
            planted: self.planted.len(),
            reported,
            twice: told.values().filter(|times| **times > 1).count(),
            wrong,
            unknown: self.unknown,
            recovery: self.recovery,
            dropped,
            memory: self.cluster.peak(),
            handed: self.handed,
            unmet: self.unmet,
        }
    }

    /// For whoever looks into a row that missed its bars: which keys, and what was said.
    fn explain(&self, told: &BTreeMap<(String, i64), usize>) {
        if std::env::var_os("EVERHOLD_BENCH_ERRORS").is_none() {
            return;
        }
        let missing: Vec<_> = self.planted.iter().filter(|key| !told.contains_key(key)).collect();
        let wrong: Vec<_> = told.keys().filter(|key| !self.planted.contains(key)).collect();
        let twice: Vec<_> = told.iter().filter(|(_, times)| **times > 1).collect();
        eprintln!("missing {missing:?}\nwrong {wrong:?}\ntwice {twice:?}");
        for watch in &self.cluster.watches {
            eprintln!("{:?}", watch.troubles);
        }
        for node in &self.cluster.nodes {
            eprintln!("{:?}", node.reports);
        }
        self.cluster.standings().for_each(|said| eprintln!("{said:?}"));
    }
}
