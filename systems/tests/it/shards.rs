//! Keys that move: two ways to have two owners.

use everhold::prelude::*;
use everhold_systems::shards::{Bug, ONE_OWNER, system};

/// Finds the bug, and shrinks it to at most `steps`.
#[track_caller]
fn check(bug: Bug, steps: usize) {
    let report = Explorer::new().executions(2_000).steps(300).run(system(bug));
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), ONE_OWNER, "{report}");
    assert!(finding.schedule.steps() <= steps, "{report}");
}

#[test]
fn keeping_until_confirmed_is_found() {
    check(Bug::KeepsUntilConfirmed, 2);
}

// Of 10 seeds the slowest needed 46 executions, and on average it took 15.
#[test]
fn taking_twice_is_found() {
    check(Bug::TakesTwice, 20);
}

#[test]
fn the_fixed_owners_are_clean() {
    let report = Explorer::new().executions(5_000).steps(300).run(system(Bug::None));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
