//! Keys that move: two bugs by which a key gets two owners.

use everhold::prelude::*;
use everhold_systems::shards::{Bug, ONE_OWNER, system};

/// Checks that the bug is found, and shrinks to at most `steps`.
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

// Of 10 seeds the slowest needed 46 executions; the average was 15.
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
