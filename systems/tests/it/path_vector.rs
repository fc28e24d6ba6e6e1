//! Path-vector routing: the bug that Avenger found in XORP, and a persistent loop.

use everhold::prelude::*;
use everhold_systems::path_vector::{Bug, NO_LOOPS, REACHABLE, system};

/// Checks that `bug` breaks exactly these properties.
#[track_caller]
fn check(bug: Bug, properties: &[&str]) {
    let explorer = Explorer::new().executions(400).steps(250).findings(properties.len());
    let report = explorer.shrink_time(Duration::from_secs(1)).run(system(bug));
    let mut broken: Vec<_> = report.findings.iter().map(|f| f.failure.cause.name()).collect();
    broken.sort_unstable();
    assert_eq!(broken, properties, "{bug:?}\n{report}");
}

// Of 10 seeds none needed more than 2 executions.
#[test]
fn mistaking_trans_is_found() {
    check(Bug::MistakesTrans, &[REACHABLE]);
}

// A stale route to a withdrawn network appears in the first executions, a loop in about one of ten.
#[test]
fn keeping_what_was_replaced_is_found() {
    check(Bug::KeepsReplaced, &[NO_LOOPS, REACHABLE]);
}

#[test]
fn the_fixed_routers_are_clean() {
    let report = Explorer::new().executions(1_000).steps(250).run(system(Bug::None));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
