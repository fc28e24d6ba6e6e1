//! Kademlia: two ways to miss the nearest node.

use everhold::prelude::*;
use everhold_systems::kademlia::{Bug, MINIMAL, SAME_NODE, system};

// Both bugs appear in the first executions.
#[test]
fn both_bugs_are_found() {
    for bug in [Bug::ComparesNumbers, Bug::StopsEarly] {
        let report = Explorer::new().executions(1_000).findings(2).run(system(bug));
        let mut broken: Vec<_> = report.findings.iter().map(|f| f.failure.cause.name()).collect();
        broken.sort_unstable();
        assert_eq!(broken, [SAME_NODE, MINIMAL], "{bug:?}\n{report}");
    }
}

#[test]
fn the_fixed_table_is_clean() {
    let report = Explorer::new().executions(5_000).run(system(Bug::None));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
