//! Rules about the tuples that have the key as a part, and what the key of a rule is.

use everhold_property::Verdict;
use everhold_trace::Value;
use everhold_trace::wire::{Record, Tuple, What};
use everhold_watch::{CheckOptions, Notice, PartitionChecker, RuleSet};

use crate::feed::{Feed, START, add, ms, notices, observe, refresh, remove, violations, whole};
use crate::gathered::{Both, Many, expected};

/// A job of some worker; its own key is its number.
fn job(number: i64, worker: i64, cores: i64) -> Tuple {
    let user = (number * 3 + cores) % WORKERS;
    let value = Value::record([("worker", worker), ("cores", cores), ("user", user)]);
    Tuple { relation: "jobs".into(), key: number.into(), value }
}

fn room(worker: i64, cores: i64) -> Tuple {
    Tuple { relation: "room".into(), key: worker.into(), value: cores.into() }
}

fn begin(at: u64, tuple: Tuple) -> Record {
    Record::new(ms(at), What::Add(tuple))
}

fn end(at: u64, tuple: Tuple) -> Record {
    Record::new(ms(at), What::Remove(tuple))
}

const WORKERS: i64 = 4;

const GROUPED: &str = r#"
always "load": sum(n in nodes: sum(j -> job in n.jobs where job.worker == key: job.cores)) <= 7
always "few": sum(n in nodes: count(j in n.jobs where job_ok(n) and key == n.jobs[j].worker: n.jobs[j].cores > 0)) <= 3
always "room": forall w in nodes where w.room[key] != null:
  sum(n in nodes, j -> job in n.jobs where job.worker == key and job.cores > 1: job.cores) <= w.room[key]
always "apart": forall n in nodes: forall i, j in n.jobs
  where n.jobs[i].worker == key and n.jobs[j].worker == key and i != j: n.jobs[i].cores != n.jobs[j].cores
always "ends": forall n in nodes: count(j -> job in n.jobs where job.worker == key: job.cores == 4) > 0
  leads to count(j -> job in n.jobs where job.worker == key: job.cores == 4) == 0 within 60ms
always "lonely": sum(n in nodes: count(j -> job in n.jobs where job.user == key: job.cores > 1)) != 1
always "own": forall n in nodes: n.jobs[key] != null implies count(j -> job in n.jobs where key == job.worker: true) <= 1
"#;

fn grouped() -> String {
    GROUPED.replace("job_ok(n) and ", "up(n) and ")
}

/// The same rules, written out for each worker. Without the key they read everything.
fn written_out() -> String {
    let mut text = String::new();
    for worker in 0..WORKERS {
        for rule in grouped().trim().split("\nalways ") {
            let rule = rule.trim_start_matches("always ").replacen('"', &format!("\"{worker} "), 1);
            text += &format!("always {}\n", rule.replace("key", &worker.to_string()));
        }
    }
    text
}

/// Jobs come, go, and move to other workers; some are lost, and told again.
fn busy(of: u32, seed: u64) -> Both {
    let mut both = Both::with(of, &written_out(), &grouped());
    let mut random = seed;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        (random >> 33) % limit
    };
    let mut at = START + 10;
    let rooms = (0..WORKERS).map(|worker| begin(at, room(worker, 6 + worker))).collect();
    both.batch(at + 1, 0, rooms);
    (1..3).for_each(|node| both.batch(at + 1, node, vec![observe(at + 1, "ready", true)]));
    let mut held = std::collections::BTreeMap::new();
    for step in 0..120 {
        at += 3 + below(12);
        let (node, number) = (below(3) as u32, below(9) as i64);
        let new = job(number, below(WORKERS as u64) as i64, below(5) as i64 + 1);
        let record = match held.remove(&(node, number)) {
            Some(old) if below(2) == 0 => end(at, old),
            _ => {
                held.insert((node, number), new.clone());
                begin(at, new)
            }
        };
        if step % 40 == 30 {
            // What the node says now is lost; soon it says everything.
            both.each(|feed| feed.lose(node));
            let of_node = held.iter().filter(|((of, _), _)| *of == node);
            let told = of_node.map(|(_, tuple)| begin(at + 2, tuple.clone()));
            let rooms = (0..WORKERS).filter(|_| node == 0);
            let rooms = rooms.map(|worker| begin(at + 2, room(worker, 6 + worker)));
            let all = [refresh(at + 2)].into_iter().chain(told).chain(rooms).chain([whole(at + 2)]);
            both.batch(at + 3, node, all.collect());
        } else {
            both.batch(at + 1, node, vec![record]);
        }
        both.beat(at + 2);
    }
    both.beat(at + 200);
    both.beat(at + 400);
    both
}

/// `+load[2]@30` for `+2 load@30`, and without what is said of the nodes.
fn under_keys(lines: Vec<String>) -> Vec<String> {
    let line = |line: String| {
        let (sign, rest) = line.split_at_checked(1)?;
        let (worker, rest) = rest.split_once(' ')?;
        let (rule, at) = rest.split_once('@')?;
        Some(format!("{sign}{rule}[{worker}]@{at}"))
    };
    sorted(lines.into_iter().filter_map(line).collect())
}

/// Without the times at which something is noticed to be late, or no more: these are multiples of
/// some milliseconds, or earlier if something else happens.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    for line in lines.iter_mut().filter(|line| line[1..].starts_with("ends")) {
        line.truncate(line.find('@').unwrap_or(line.len()));
    }
    lines.sort();
    lines
}

#[track_caller]
fn agree(told: &[String], expected: &[String], run: &str) {
    let only = |a: &[String], b: &[String]| -> Vec<String> {
        a.iter().filter(|line| !b.contains(line)).cloned().collect()
    };
    let difference = (only(told, expected), only(expected, told));
    assert!(told == expected, "{run}: {difference:?}");
}

/// A difference would show in the order and the stamps of the violations of any of 24 runs.
#[test]
fn groups_are_judged_as_rules_that_are_written_out() {
    for seed in 0..4 {
        for of in [2, 3, 8] {
            for kills in [false, true] {
                let both = busy(of, seed);
                let expected = under_keys(expected(&both));
                for rule in [
                    "+load[", "+few[", "+room[", "+apart[", "+ends[", "+lonely[", "+own[", "-load[",
                ] {
                    assert!(
                        expected.iter().any(|line| line.starts_with(rule)),
                        "{rule} {expected:?}"
                    );
                }
                let mut many = Many::new(both.parts, seed + 1);
                many.run(kills);
                agree(
                    &sorted(many.told()),
                    &expected,
                    &format!("{of}, seed {seed}, kills {kills}"),
                );
            }
        }
    }
}

#[test]
fn one_partition_judges_groups_in_every_form() {
    for seed in 0..4 {
        let both = busy(2, seed);
        let expected = under_keys(expected(&both));
        let mut feed = both.whole;
        feed.entries[0].bytes = everhold_watch::entry::rules_entry(START * 1_000, &grouped());
        for incremental in [true, false] {
            let options = CheckOptions { incremental, ..CheckOptions::default() };
            let mut told = violations(&notices(options, &feed.entries));
            told.retain(|line| !line.starts_with('?'));
            agree(&sorted(told), &expected, &format!("seed {seed}, incremental {incremental}"));
        }
    }
}

/// Every partition judges its own groups, and one of two nodes that are silent hides them all.
#[test]
fn groups_are_spread_over_partitions() {
    let both = busy(4, 1);
    let mut many = Many::new(both.parts, 1);
    many.run(false);
    let status = many.status("load");
    assert_eq!(status.len(), 4);
    assert!(status.iter().filter(|(verdict, _)| *verdict != Verdict::Unknown).count() > 1);
}

/// A rule speaks of the keys of the relations that it reads, and of no others.
#[test]
fn keys_of_other_relations_are_not_judged() {
    let rules = r#"always "has an owner": exists n in nodes: n.locks[key] != null
always "has an owner, later": (exists n in nodes: n.locks[key] == null) leads to (exists n in nodes: n.locks[key] != null) within 20ms"#;
    for incremental in [true, false] {
        let mut feed = Feed::default();
        feed.rules(START, rules);
        feed.hello(START, 0);
        feed.batch(START + 10, 0, vec![add(START + 5, 1, "x"), begin(START + 6, room(7, 1))]);
        feed.beat(START + 50, &[0]);
        feed.batch(START + 90, 0, vec![remove(START + 80, 1, "x")]);
        feed.beat(START + 200, &[0]);
        let options = CheckOptions { incremental, ..CheckOptions::default() };
        let told = violations(&notices(options, &feed.entries));
        assert_eq!(told, ["+has an owner[1]@80", "+has an owner, later[1]@200"], "{incremental}");
    }
}

/// The key of a violation outlives the checkpoint even if no node says anything of it any more.
#[test]
fn a_key_that_nobody_speaks_of_is_kept_while_something_is_owed() {
    let mut feed = Feed::default();
    feed.rules(START, r#"always "has an owner": exists n in nodes: n.locks[key] != null"#);
    feed.hello(START, 0);
    feed.hello(START, 1);
    feed.batch(START + 10, 0, vec![add(START + 5, 1, "x")]);
    feed.beat(START + 20, &[0, 1]);
    feed.restart(START + 30, 0);
    feed.beat(START + 60, &[0, 1]);
    let mut checker = PartitionChecker::new(CheckOptions::default());
    let mut notices = Vec::new();
    feed.entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
    let mut checker =
        PartitionChecker::restore(CheckOptions::default(), &checker.checkpoint()).unwrap();
    let before = feed.entries.len();
    feed.batch(START + 70, 1, vec![add(START + 65, 1, "x")]);
    feed.beat(START + 90, &[0, 1]);
    feed.entries[before..].iter().for_each(|entry| checker.apply(entry, &mut notices));
    notices.retain(|notice| matches!(notice, Notice::Fired(_) | Notice::Resolved { .. }));
    assert_eq!(violations(&notices).len(), 2, "{:?}", violations(&notices));
    assert_eq!(violations(&notices)[1], "-has an owner[1]@65");
}

/// A rule about a key cannot read a relation as if it were a variable: it would always see nothing.
#[test]
fn relations_are_no_variables_under_a_key() {
    let rule =
        r#"always "few": forall n in nodes: n.locks[key] != null implies len(n.room) <= n.limit"#;
    let mut feed = Feed::default();
    feed.rules(START, rule);
    feed.hello(START, 0);
    let shown =
        vec![observe(START + 5, "limit", 3), add(START + 5, 1, "x"), begin(START + 6, room(7, 1))];
    feed.batch(START + 10, 0, shown);
    feed.beat(START + 50, &[0]);
    let mut checker = PartitionChecker::new(CheckOptions::default());
    let mut notices = Vec::new();
    feed.entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
    let (_, status) = checker.rules().remove(0);
    let reason = status.unknown.unwrap_or_default();
    assert!(reason.contains("`room` is a relation"), "{reason}");
    let error = checker.vet(rule, "rules.prop").unwrap_err().to_string();
    assert!(error.contains("`room` is a relation"), "{error}");
}

#[track_caller]
fn refused(rule: &str, expected: &str) {
    let error = RuleSet::parse(rule, "rules.prop").unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn other_uses_of_the_key_are_refused_with_the_remedy() {
    let remedy = "where job.worker == key";
    refused(
        r#"always "a": forall n in nodes: sum(j -> job in n.jobs where job.worker < key: 1) < 3"#,
        remedy,
    );
    refused(r#"always "a": forall n in nodes: n.load < key"#, remedy);
    refused(
        r#"always "a": forall n in nodes: sum(j -> job in n.jobs where job.worker + n.x == key: 1) < 3"#,
        remedy,
    );
}
