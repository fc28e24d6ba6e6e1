//! A search engine as watched processes: a statistical predicate is refined while it runs (D3S, section
//! 5.3).

use std::time::Duration;

use everhold_systems::search_engine::{
    BALANCED, BALANCED_TIERS, RESPONSE_TIMES, SERVERS, SLOW, TIER_TIMES,
};

use crate::live::{Cluster, PATIENCE, Watcher, folder};

#[test]
fn the_slow_part_is_found_by_refining_the_predicate() {
    let folder = folder("search-slow");
    let watcher = Watcher::start(&folder, BALANCED);
    let cluster = Cluster::start(&folder, "search-engine", "slow-tier", SERVERS + 1, &watcher);
    let violation = watcher.violation(2 * PATIENCE).expect("one server is slow");
    assert_eq!(violation.rule, RESPONSE_TIMES);
    // The average says that a server is slow; which of its tiers it is, the next predicate says.
    watcher.watch.set_rules(&format!("{BALANCED}{BALANCED_TIERS}"), "rules.prop").unwrap();
    let refined = loop {
        let violation = watcher.violation(2 * PATIENCE).expect("one tier is slow");
        if violation.rule == TIER_TIMES {
            break violation;
        }
    };
    let tier = refined.witness.iter().find(|(name, _)| name == "t").map(|(_, tier)| tier.clone());
    assert_eq!(tier, Some(SLOW.1.to_string()), "{:?}", refined.witness);
    cluster.end();
}

#[test]
fn an_even_engine_is_no_alarm() {
    let folder = folder("search-even");
    let watcher = Watcher::start(&folder, &format!("{BALANCED}{BALANCED_TIERS}"));
    let cluster = Cluster::start(&folder, "search-engine", "none", SERVERS + 1, &watcher);
    assert_eq!(watcher.violation(Duration::from_secs(10)), None);
    assert!(watcher.evaluations() > 0, "nothing was judged");
    cluster.end();
}
