//! Rules that are judged for a part of the keys, or at some moments.

use std::collections::BTreeSet;

use everhold_watch::{CheckOptions, PartitionChecker};

use crate::checker::check;
use crate::feed::{Feed, START, add, notices, remove, violations};

/// Two nodes that are up, and a rule.
fn two(rules: &str) -> Feed {
    let mut feed = Feed::default();
    feed.rules(START, rules);
    feed.hello(START, 0);
    feed.hello(START, 1);
    feed
}

/// Of a thousand keys, two nodes hold each.
fn thousand(rule: &str) -> Feed {
    let mut feed = two(rule);
    for node in 0..2 {
        let at = START + 10 + u64::from(node);
        let held = (0..1_000_u64).map(|key| add(at, key, "exclusive")).collect();
        feed.batch(at, node, held);
    }
    feed.beat(START + 20, &[0, 1]);
    feed
}

fn fired(feed: &Feed) -> BTreeSet<String> {
    let all = violations(&notices(CheckOptions::default(), &feed.entries));
    all.into_iter().filter_map(|line| line.split(']').next().map(str::to_owned)).collect()
}

const HOLDERS: &str = r#"count(n in nodes: n.locks[key] == "exclusive") <= 1"#;
const PAIRS: &str =
    r#"forall a, b in nodes where a != b: a.locks[key] == null or b.locks[key] == null"#;

#[test]
fn a_share_of_the_keys_is_judged() {
    for body in [HOLDERS, PAIRS] {
        let all = fired(&thousand(&format!("always \"x\": {body}")));
        let tenth = fired(&thousand(&format!("always \"x\" for 1 in 10 keys: {body}")));
        let half = fired(&thousand(&format!("always \"x\" for 1 in 2 keys: {body}")));
        assert_eq!(all.len(), 1_000);
        // 100 and 500 are expected; 5 standard deviations are 47 and 79.
        assert!((53..147).contains(&tenth.len()), "{}", tenth.len());
        assert!((421..579).contains(&half.len()), "{}", half.len());
        assert!(tenth.is_subset(&half), "a larger share has the keys of a smaller one");
    }
}

#[test]
fn rules_with_one_share_look_at_the_same_keys() {
    let rules = format!(
        "always \"x\" for 1 in 10 keys: {HOLDERS}\n\
         always \"y\" for 1 in 10 keys: {PAIRS}\n\
         always \"z\" for 1 in 10 keys: (exists n in nodes: n.locks[key] != null) leads to false within 1ms"
    );
    let mut feed = thousand(&rules);
    feed.beat(START + 200, &[0, 1]);
    let keys = |rule: &str| -> BTreeSet<String> {
        let of = fired(&feed).into_iter().filter(|line| line[1..].starts_with(rule));
        of.map(|line| line[2..].to_owned()).collect()
    };
    assert!(keys("x").len() > 50);
    assert_eq!(keys("x"), keys("y"));
    assert_eq!(keys("x"), keys("z"));
}

/// The state at each multiple of 100 ms is judged, and nothing between.
#[test]
fn some_moments_are_judged() {
    for body in [HOLDERS, PAIRS] {
        let mut feed = two(&format!("always \"x\" every 100ms: {body}"));
        feed.batch(
            START + 10,
            0,
            vec![add(START + 5, 7, "exclusive"), add(START + 6, 8, "exclusive")],
        );
        feed.batch(START + 12, 1, vec![add(START + 10, 7, "exclusive")]);
        // Between two moments: nobody looks.
        feed.batch(START + 30, 1, vec![remove(START + 20, 7, "exclusive")]);
        feed.beat(START + 150, &[0, 1]);
        feed.batch(START + 160, 1, vec![add(START + 155, 8, "exclusive")]);
        feed.beat(START + 190, &[0, 1]);
        feed.beat(START + 230, &[0, 1]);
        feed.batch(START + 260, 0, vec![remove(START + 250, 8, "exclusive")]);
        feed.beat(START + 320, &[0, 1]);
        check(&feed, &["+x[8]@200", "-x[8]@300"]);
    }
}

#[test]
fn a_rule_about_states_is_judged_at_moments_too() {
    let mut feed = two("always \"x\" every 100ms: count(n in nodes: 7 in n.locks) <= 1");
    feed.batch(START + 10, 0, vec![add(START + 5, 7, "exclusive")]);
    feed.batch(START + 12, 1, vec![add(START + 10, 7, "exclusive")]);
    feed.batch(START + 30, 1, vec![remove(START + 20, 7, "exclusive")]);
    feed.batch(START + 130, 1, vec![add(START + 120, 7, "exclusive")]);
    feed.beat(START + 250, &[0, 1]);
    feed.batch(START + 260, 0, vec![remove(START + 255, 7, "exclusive")]);
    feed.beat(START + 320, &[0, 1]);
    check(&feed, &["+x@200", "-x@300"]);
}

/// A key that was removed is looked at once more, and then forgotten.
#[test]
fn removed_keys_are_freed() {
    let mut feed = two(&format!("always \"x\" for 1 in 2 keys every 100ms: {HOLDERS}"));
    for key in 0..50_u64 {
        let at = START + 10 + key;
        feed.batch(at, 0, vec![add(at - 1, key, "exclusive"), remove(at, key, "exclusive")]);
    }
    feed.beat(START + 300, &[0, 1]);
    feed.beat(START + 320, &[0, 1]);
    let mut checker = PartitionChecker::new(CheckOptions::default());
    feed.entries.iter().for_each(|entry| checker.apply(entry, &mut Vec::new()));
    assert_eq!(checker.sizes().0, 0, "no key is left");
}

#[test]
fn the_status_says_that_a_rule_is_sampled() {
    let feed = thousand(&format!(
        "always \"x\" for 1 in 10 keys every 100ms: {HOLDERS}\nalways \"y\": {HOLDERS}"
    ));
    let mut checker = PartitionChecker::new(CheckOptions::default());
    feed.entries.iter().for_each(|entry| checker.apply(entry, &mut Vec::new()));
    let sampled: Vec<_> = checker.rules().into_iter().map(|(_, status)| status.sampled).collect();
    assert_eq!(sampled, [Some("for 1 in 10 keys every 100ms".to_owned()), None]);
}
