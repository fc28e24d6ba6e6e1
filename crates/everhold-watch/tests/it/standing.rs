//! That a rule holds is said only of what is known; everything else is unknown, with its reason.

use everhold_trace::NodeId;
use everhold_trace::wire::{Frame, Hello, Ordering, VERSION};
use everhold_watch::{CheckOptions, PartitionChecker};

use crate::feed::{Feed, START, add, ms, observe, refresh, remove, whole};

const LEADERS: &str = r#"always "rule": count(n in nodes: n.role == "leader") <= 1"#;
const SERVERS: &str = r#"always "rule": forall s in server nodes: s.load < 9"#;
const CLIENTS: &str = r#"always "rule": forall c in client nodes: c.load < 9"#;
const LOCKS: &str = r#"always "rule": forall n in nodes: n.locks[key] != "broken""#;
const LIMITED: &str = r#"always "rule": forall n in nodes: n.locks[key] == null or n.limit > 0"#;
const PAIRS: &str = r#"always "rule": forall a, b in nodes where a != b:
  a.locks[key] == null or b.locks[key] == null or a.limit + b.limit > 0"#;
const FREED: &str = r#"always "rule": (exists n in nodes: n.locks[key] == "asked")
  leads to (exists n in nodes: n.locks[key] == "given") within 5s"#;

/// Checks why the rule is unknown after the entries, also to checkers that take over; empty: it is
/// known to hold.
#[track_caller]
fn check(rule: &str, play: impl Fn(&mut Feed), expected: &str) {
    let mut feed = Feed::default();
    feed.rules(START, rule);
    play(&mut feed);
    for incremental in [true, false] {
        let options = CheckOptions { incremental, ..CheckOptions::default() };
        let mut checker = PartitionChecker::new(options);
        let mut notices = Vec::new();
        for entry in &feed.entries {
            checker.apply(entry, &mut notices);
        }
        let bytes = checker.checkpoint();
        let restored = PartitionChecker::restore(options, &bytes).expect("it was just written");
        assert_eq!(restored.checkpoint(), bytes, "a checkpoint comes back whole");
        let (_, status) = checker.rules().remove(0);
        assert_eq!(status.unknown.as_deref().unwrap_or_default(), expected, "{notices:?}");
        assert_eq!(status.firing, 0);
        let (_, after) = restored.rules().remove(0);
        if rule.contains("key") {
            assert_eq!(after.unknown, status.unknown, "after a restart");
        }
    }
}

fn two(feed: &mut Feed) {
    feed.hello(START, 0);
    feed.hello(START, 1);
    for node in [0, 1] {
        let shown = vec![
            refresh(START + 1),
            observe(START + 2, "load", 1),
            observe(START + 2, "role", "follower"),
            add(START + 3, 7, "held"),
            whole(START + 4),
        ];
        feed.batch(START + 5, node, shown);
    }
    feed.beat(START + 10, &[0, 1]);
}

#[test]
fn what_is_known_holds() {
    for rule in [LEADERS, SERVERS, LOCKS] {
        check(rule, two, "");
    }
}

#[test]
fn nobody_is_there() {
    for rule in [LEADERS, SERVERS, LOCKS] {
        check(rule, |_| {}, "no node is connected");
    }
}

#[test]
fn a_kind_that_a_rule_names_is_absent() {
    check(CLIENTS, two, "no client is connected");
    let gone = |feed: &mut Feed| {
        two(feed);
        for node in [0, 1] {
            feed.frames(START + 20, &[(node, Frame::Bye { at: ms(START + 20) })]);
        }
        client(feed, START + 21);
    };
    check(SERVERS, gone, "no server is connected");
}

/// Another kind of node is there.
fn client(feed: &mut Feed, at: u64) {
    let hello = Hello {
        version: VERSION,
        system: "test".into(),
        node: NodeId(9),
        name: "n9".to_owned(),
        kind: "client".into(),
        incarnation: 1,
        order: Ordering::Clocks,
        proof: None,
    };
    feed.frames(at, &[(9, Frame::Hello(hello)), (9, Frame::Heartbeat { at: ms(at) })]);
    feed.batch(at + 1, 9, vec![observe(at + 1, "load", 1)]);
    feed.beat(at + 2, &[9]);
}

/// One node is silent from the beginning until so many milliseconds later.
fn one_silent(until: u64) -> impl Fn(&mut Feed) {
    move |feed| {
        two(feed);
        for at in (50..=until).step_by(50) {
            feed.beat(START + at, &[0]);
        }
    }
}

#[test]
fn a_node_is_silent_and_may_come_back() {
    let silent = "nothing is heard of n1, which may be stopped";
    for rule in [LEADERS, SERVERS, LOCKS] {
        check(rule, one_silent(900), "");
        check(rule, one_silent(1_500), silent);
        check(rule, one_silent(9_000), silent);
        check(rule, one_silent(12_000), "");
    }
}

#[test]
fn a_silent_node_of_another_kind_is_nothing_to_a_rule() {
    let play = |feed: &mut Feed| {
        client(feed, START);
        one_silent(2_000)(feed);
    };
    check(LEADERS, play, "nothing is heard of n1 and n9, which may be stopped");
    check(SERVERS, play, "nothing is heard of n1, which may be stopped");
}

#[test]
fn all_nodes_are_silent() {
    let play = |feed: &mut Feed| {
        two(feed);
        (50..2_000).step_by(50).for_each(|at| feed.frames(START + at, &[]));
    };
    check(LOCKS, play, "nothing is heard of n0 and n1, which may be stopped");
}

#[test]
fn a_node_speaks_but_does_not_come_further() {
    let play = |feed: &mut Feed| {
        two(feed);
        for at in (50..=3_000).step_by(50) {
            let beat = |node, at| (node, Frame::Heartbeat { at: ms(at) });
            feed.frames(START + at, &[beat(0, START + at), beat(1, START + 10)]);
        }
    };
    for rule in [LEADERS, SERVERS, LOCKS] {
        check(rule, play, "n1 does not say how far it has come");
    }
}

#[test]
fn a_node_that_lost_records_is_not_known() {
    let play = |feed: &mut Feed| {
        two(feed);
        feed.lose(1);
        feed.batch(START + 20, 1, vec![observe(START + 15, "load", 2)]);
        feed.beat(START + 30, &[0, 1]);
    };
    check(LEADERS, play, "of n1 not all is known");
    check(LOCKS, play, "of n1 not all is known");
}

#[test]
fn a_key_is_undecided_although_others_are_judged_after_it() {
    let play = |feed: &mut Feed| {
        two(feed);
        feed.batch(START + 20, 0, vec![add(START + 15, 3, "held"), add(START + 15, 4, "held")]);
        feed.batch(START + 20, 0, vec![remove(START + 16, 7, "held")]);
        feed.batch(START + 21, 1, vec![remove(START + 16, 7, "held")]);
        // Key 5 has no holder: whatever the limit is, the rule holds for it.
        feed.batch(START + 30, 0, vec![add(START + 25, 5, "held"), remove(START + 26, 5, "held")]);
        feed.beat(START + 40, &[0, 1]);
    };
    let unseen = "of key 3 and 1 more: something that it reads was not shown";
    check(LIMITED, play, unseen);
    let pairs = |feed: &mut Feed| {
        two(feed);
        feed.batch(START + 20, 0, vec![add(START + 15, 8, "held")]);
        feed.beat(START + 40, &[0, 1]);
    };
    check(PAIRS, pairs, "of key 7: something that it reads was not shown");
    let decided = |feed: &mut Feed| {
        play(feed);
        for node in [0, 1] {
            feed.batch(START + 50, node, vec![observe(START + 45, "limit", 1)]);
        }
        feed.beat(START + 60, &[0, 1]);
    };
    check(LIMITED, decided, "");
    let removed = |feed: &mut Feed| {
        pairs(feed);
        feed.batch(START + 50, 0, vec![remove(START + 45, 7, "held")]);
        feed.beat(START + 60, &[0, 1]);
    };
    check(PAIRS, removed, "");
}

#[test]
fn a_key_waits_for_what_is_not_due_yet() {
    let asked = |feed: &mut Feed| {
        two(feed);
        feed.batch(START + 20, 0, vec![add(START + 15, 3, "asked")]);
        feed.batch(START + 30, 0, vec![add(START + 25, 4, "given")]);
        feed.beat(START + 40, &[0, 1]);
    };
    check(FREED, asked, "of key 3: what it waits for has not happened yet");
    let given = |feed: &mut Feed| {
        asked(feed);
        feed.batch(START + 50, 1, vec![add(START + 45, 3, "given")]);
        feed.beat(START + 60, &[0, 1]);
    };
    check(FREED, given, "");
}
