//! Rules about all keys at once, with the keys spread over partitions: several checkers that exchange
//! tuples come to the verdicts of one checker that has all keys.

use std::path::Path;
use std::sync::Arc;

use everhold_property::Verdict;
use everhold_trace::wire::{Record, Tuple, What};
use everhold_watch::entry::shared_entry;
use everhold_watch::{
    CheckOptions, FileStore, IntakeOptions, Log, Notice, PartitionChecker, Place, SegmentLog,
    SegmentOptions, hash_of, partition_of,
};

use crate::engine::{LONG, Probe, Running, folder, hello, next_violation, start_on};
use crate::feed::{Feed, START, ms, notices, observe, violations};

/// One checker with all keys, and one for each partition.
pub(crate) struct Both {
    pub(crate) whole: Feed,
    pub(crate) parts: Vec<Feed>,
}

impl Both {
    fn new(of: u32, rules: &str) -> Both {
        Both::with(of, rules, rules)
    }

    /// The one with all keys has rules of its own.
    pub(crate) fn with(of: u32, whole: &str, rules: &str) -> Both {
        let mut both = Both { whole: Feed::default(), parts: Vec::new() };
        both.whole.rules(START, whole);
        both.parts.resize_with(of as usize, Feed::default);
        both.parts.iter_mut().for_each(|feed| feed.rules(START, rules));
        both.each(|feed| (0..3).for_each(|node| feed.hello(START, node)));
        both
    }

    pub(crate) fn each(&mut self, tell: impl Fn(&mut Feed)) {
        self.parts.iter_mut().chain([&mut self.whole]).for_each(tell);
    }

    /// As an intake splits a batch.
    pub(crate) fn batch(&mut self, at: u64, node: u32, records: Vec<Record>) {
        let of = self.parts.len() as u32;
        for (number, feed) in (0..).zip(&mut self.parts) {
            let is_theirs = |record: &&Record| match &record.what {
                What::Add(tuple) | What::Remove(tuple) => {
                    partition_of(hash_of(&tuple.key), of) == number
                }
                _ => true,
            };
            feed.batch(at, node, records.iter().filter(is_theirs).cloned().collect());
            feed.beat(at, &[node]);
        }
        self.whole.batch(at, node, records);
        self.whole.beat(at, &[node]);
    }

    pub(crate) fn beat(&mut self, at: u64) {
        self.each(|feed| feed.beat(at, &[0, 1, 2]));
    }
}

/// The checkers of all partitions, one entry at a time, in an order that depends on the seed.
pub(crate) struct Many {
    feeds: Vec<Feed>,
    checkers: Vec<PartitionChecker>,
    /// Of each partition: a checkpoint, and which entries come after it.
    saved: Vec<(Vec<u8>, usize)>,
    read: Vec<usize>,
    notices: Vec<Notice>,
    seed: u64,
}

impl Many {
    pub(crate) fn new(feeds: Vec<Feed>, seed: u64) -> Many {
        let of = feeds.len() as u32;
        let checkers: Vec<PartitionChecker> = (0..of).map(|p| fresh(p, of)).collect();
        let saved = checkers.iter().map(|checker| (checker.checkpoint(), 0)).collect();
        let read = vec![0; feeds.len()];
        Many { feeds, checkers, saved, read, notices: Vec::new(), seed }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
        (self.seed >> 33) as usize % below
    }

    pub(crate) fn run(&mut self, kills: bool) {
        loop {
            let open: Vec<usize> = (0..self.feeds.len())
                .filter(|part| self.read[*part] < self.feeds[*part].entries.len())
                .collect();
            if open.is_empty() {
                return;
            }
            let part = open[self.random(open.len())];
            self.step(part);
            if kills && self.random(5) == 0 {
                match self.random(2) {
                    0 => self.saved[part] = (self.checkers[part].checkpoint(), self.read[part]),
                    _ => self.kill(part),
                }
            }
        }
    }

    fn step(&mut self, part: usize) {
        let entry = self.feeds[part].entries[self.read[part]].clone();
        self.read[part] += 1;
        self.checkers[part].apply(&entry, &mut self.notices);
        for (target, message) in self.checkers[part].take_outgoing() {
            self.feeds[target as usize].raw(shared_entry(START * 1_000, &message));
        }
        assert_eq!(self.checkers[part].bad_entries(), 0);
    }

    /// Another checker goes on from the last checkpoint, and tells some things again.
    fn kill(&mut self, part: usize) {
        let place = Place { partition: part as u32, of: self.feeds.len() as u32 };
        let options = CheckOptions { place, ..CheckOptions::default() };
        let (bytes, read) = self.saved[part].clone();
        self.checkers[part] = PartitionChecker::restore(options, &bytes).expect("it was saved");
        self.read[part] = read;
    }

    /// The violations, each once, as the evidence keeps them.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut lines = violations(&self.notices);
        lines.retain(|line| !line.starts_with('?'));
        lines.sort();
        lines.dedup();
        lines
    }

    pub(crate) fn status(&self, rule: &str) -> Vec<(Verdict, Option<String>)> {
        let all = self.checkers.iter().flat_map(PartitionChecker::rules);
        let of_rule = all.filter(|(name, _)| name == rule);
        of_rule.map(|(_, status)| (status.last, status.unknown)).collect()
    }
}

fn fresh(partition: u32, of: u32) -> PartitionChecker {
    let place = Place { partition, of };
    PartitionChecker::new(CheckOptions { place, ..CheckOptions::default() })
}

fn job(at: u64, key: i64, cores: i64) -> Record {
    let tuple = Tuple { relation: "jobs".into(), key: key.into(), value: cores.into() };
    Record::new(ms(at), What::Add(tuple))
}

fn no_job(at: u64, key: i64, cores: i64) -> Record {
    let tuple = Tuple { relation: "jobs".into(), key: key.into(), value: cores.into() };
    Record::new(ms(at), What::Remove(tuple))
}

const CORES: &str = r#"always "cores": forall n in nodes: sum(k in n.jobs: n.jobs[k]) <= n.cores
always "few jobs": sum(n in nodes: count(k in n.jobs)) <= 6
always "no large job": forall n in nodes: n.jobs[key] == null or n.jobs[key] <= 8"#;

/// Jobs come and go at random; some states break the rules.
fn busy(of: u32, seed: u64) -> Both {
    let mut both = Both::new(of, CORES);
    let mut random = seed;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
        (random >> 33) % limit
    };
    let mut held = std::collections::BTreeMap::new();
    for node in 0..3 {
        both.batch(START + 2, node, vec![observe(START + 1, "cores", 12_i64)]);
    }
    let mut at = START + 10;
    for _ in 0..60 {
        let (node, key) = (below(3) as u32, below(12) as i64);
        let record = match held.remove(&(node, key)) {
            Some(cores) => no_job(at, key, cores),
            None => {
                let cores = below(9) as i64 + 1;
                held.insert((node, key), cores);
                job(at, key, cores)
            }
        };
        both.batch(at + 1, node, vec![record]);
        at += 3 + below(20);
        both.beat(at - 1);
    }
    both.beat(at + 500);
    both.beat(at + 1_000);
    both
}

pub(crate) fn expected(both: &Both) -> Vec<String> {
    let mut lines = violations(&notices(CheckOptions::default(), &both.whole.entries));
    lines.sort();
    lines
}

/// A difference would show in the order and the stamps of the violations of any of 36 runs.
#[test]
fn partitions_together_judge_as_one_checker_with_all_keys() {
    for seed in 0..6 {
        for of in [2, 3, 8] {
            for kills in [false, true] {
                let both = busy(of, seed);
                let expected = expected(&both);
                assert!(expected.iter().any(|line| line.starts_with("+cores")), "{expected:?}");
                assert!(expected.iter().any(|line| line.starts_with("+few jobs")), "{expected:?}");
                let mut many = Many::new(both.parts, seed + 1);
                many.run(kills);
                assert_eq!(many.told(), expected, "{of} partitions, seed {seed}, kills {kills}");
            }
        }
    }
}

#[test]
fn a_rule_about_all_keys_is_judged_in_one_partition() {
    let both = busy(4, 1);
    let mut many = Many::new(both.parts, 1);
    many.run(false);
    assert_eq!(many.status("cores").len(), 1);
    assert_eq!(many.status("no large job").len(), 4);
}

/// A rule that comes later sees the tuples that were there before it.
#[test]
fn a_later_rule_sees_what_was_there_before_it() {
    let mut both = Both::new(4, CORES);
    for node in 0..3 {
        let jobs = (0..4).map(|key| job(START + 5, key, 1)).collect();
        both.batch(START + 6, node, jobs);
    }
    both.beat(START + 100);
    let rule = r#"always "at most ten": sum(n in nodes: count(k in n.jobs)) <= 10"#;
    both.each(|feed| feed.rules(START + 110, rule));
    both.beat(START + 200);
    both.beat(START + 400);
    for seed in 0..8 {
        let mut many = Many::new(both.parts.clone(), seed);
        many.run(false);
        let told = many.told();
        let begun = |rule: &str| told.iter().any(|line| line.starts_with(rule));
        // The rules before it were judged until it came, however late each partition hears of it.
        assert!(begun("+few jobs@5") && begun("+at most ten@100"), "seed {seed}: {told:?}");
    }
}

/// While a partition says nothing, nobody knows whether a rule about all keys holds.
#[test]
fn a_partition_that_says_nothing_makes_the_rule_unknown() {
    let both = busy(4, 2);
    let mut many = Many::new(both.parts, 2);
    let names = ["cores", "few jobs"];
    for part in 0..4 {
        while many.read[part] < many.feeds[part].entries.len() && part != 2 {
            many.step(part);
        }
    }
    let unknown = names.iter().flat_map(|name| many.status(name)).filter(|(_, why)| why.is_some());
    let judged = names.iter().flat_map(|name| many.status(name)).count();
    assert_eq!(unknown.count(), judged);
    many.run(false);
    let after = names.iter().flat_map(|name| many.status(name));
    assert!(after.clone().any(|(verdict, _)| verdict != Verdict::Unknown));
}

fn start(folder: &Path) -> Running {
    let options = SegmentOptions { partitions: 4, ..SegmentOptions::default() };
    let log: Arc<dyn Log> = Arc::new(SegmentLog::open(&folder.join("log"), options).unwrap());
    let store = Box::new(FileStore::open(folder, 4).unwrap());
    start_on(folder, IntakeOptions::default(), log, store)
}

/// Probes on sockets, a log with four partitions, and a restart in the middle.
#[test]
fn a_watch_with_partitions_counts_the_keys_of_all() {
    let folder = folder("gathered");
    let rules = r#"always "few locks": sum(n in nodes: count(k in n.locks)) <= 5
always "not many locks": sum(n in nodes: count(k in n.locks)) <= 8"#;
    let running = start(&folder);
    running.watch.set_rules(rules, "rules.prop").unwrap();
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap());
    for key in 0..3 {
        probes.iter_mut().for_each(|probe| probe.add(key, "shared"));
    }
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("few locks null"));
    drop((probes, running));
    let running = start(&folder);
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 2)).unwrap());
    for key in 10..15 {
        probes.iter_mut().for_each(|probe| probe.add(key, "shared"));
    }
    let mut told = next_violation(&running, &mut probes, LONG);
    if told.as_deref() == Some("few locks null") {
        told = next_violation(&running, &mut probes, LONG);
    }
    assert_eq!(told.as_deref(), Some("not many locks null"));
    let told = std::fs::read_to_string(folder.join("violations.jsonl")).unwrap();
    let fired = told.lines().filter(|line| line.contains("\"fired\"") && line.contains("not many"));
    assert_eq!(fired.count(), 1, "{told}");
}

/// A relation of which some partitions have no key yet is not unknown for that.
#[test]
fn rules_about_few_keys_are_taken_by_many_partitions() {
    let folder = folder("few-keys");
    let running = start(&folder);
    let address = running.intake.address();
    let mut probe = Probe::connect(address, hello(0, 1)).unwrap();
    probe.observe("limit", 4);
    probe.add(1, "shared");
    let end = std::time::Instant::now() + LONG;
    let keys = || running.watch.status().values().map(|status| status.sizes.0).sum::<usize>();
    while keys() == 0 && std::time::Instant::now() < end {
        probe.beat();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(keys(), 1);
    running.watch.set_rules(LOCK, "rules.prop").expect("one partition has such a key");
    let wrong = LOCK.replace("locks", "lokcs");
    let message = running.watch.set_rules(&wrong, "rules.prop").expect_err("nobody has it");
    assert!(message.to_string().contains("lokcs"), "{message}");
}

const LOCK: &str = r#"always "no lock": forall n in nodes: n.locks[key] != "exclusive""#;
