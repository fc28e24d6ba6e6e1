//! Termination detection: a token that is not informed, and one that is passed on too early.

use everhold::prelude::*;
use everhold_systems::termination::{AT_REST, Bug, system};

/// Checks that the bug is found, and shrinks to at most `steps`.
#[track_caller]
fn check(bug: Bug, steps: usize) {
    let report = Explorer::new().executions(5_000).steps(200).run(system(bug));
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), AT_REST, "{report}");
    assert!(finding.schedule.steps() <= steps, "{report}");
}

// Of 10 seeds the slowest needed 300 executions; the average was 63.
#[test]
fn staying_white_is_found() {
    check(Bug::StaysWhite, 20);
}

// Of 10 seeds the slowest needed 2 executions.
#[test]
fn passing_while_active_is_found() {
    check(Bug::PassesWhileActive, 8);
}

#[test]
fn the_fixed_ring_is_clean() {
    let report = Explorer::new().executions(5_000).steps(300).run(system(Bug::None));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
