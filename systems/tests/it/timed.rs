//! The systems of the MacePC paper on a virtual clock: what is slow is found and named, what is
//! fixed is left in peace.

use everhold::prelude::*;
use everhold::sim::perf::{Finding, Perf, PerfReport, compare_versions};
use everhold_systems::timed::{chord, randtree};
use everhold_systems::{chord as ring, randtree as tree};

fn run(nodes: usize, bug: tree::Bug) -> PerfReport {
    Perf::new(randtree(nodes, bug)).executions(150).run()
}

/// Clusters at multiples of the recovery timer, nearly all executions slow.
#[test]
fn randtree_waits_for_recovery() {
    for nodes in [4, 8, 20] {
        let report = run(nodes, tree::Bug::ForgetsJoin);
        let finding = report.finding().unwrap_or_else(|| panic!("{nodes} nodes: {report}"));
        let wait = finding.wait.as_ref().expect("it waits");
        assert_eq!(wait.short_name(), "recovery", "{report}");
        let fit = report.detection.multiples.as_ref().expect("the timer is named");
        assert_eq!((fit.timer.name.as_str(), fit.timer.period), ("recovery", 10.0), "{report}");
        assert!(report.detection.slow_share > 0.9, "{report}");
    }
}

/// Figure 1 of the paper: the answer comes after another node's request.
#[test]
fn randtrees_race_is_named() {
    let report = run(4, tree::Bug::ForgetsJoin);
    let because = report.finding().and_then(Finding::because).expect("a cause");
    assert!(because.contains("Accepted") && because.contains("arrived after Join"), "{because}");
    assert!(report.correlations.iter().any(|c| c.what.contains("Remove")), "{report}");
}

#[test]
fn the_fixed_tree_is_fast() {
    for nodes in [4, 8, 20] {
        let report = run(nodes, tree::Bug::None);
        assert_eq!(report.verdict(), Verdict::Holds, "{nodes} nodes: {report}");
        assert!(report.detection.times.quantile(1.0) < 1.0, "{report}");
    }
}

/// Chord is slow in every execution alike, so it takes a reference to see it.
#[test]
fn chord_is_slower_than_its_fix() {
    let (slow, fixed) = (chord(20, ring::Bug::TellsNobody), chord(20, ring::Bug::None));
    let found = compare_versions(&slow, &fixed, 60);
    assert!(found.ratio < 1.0 && found.p_value < 0.01, "{found:?}");
}
