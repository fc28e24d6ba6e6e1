//! Termination detection: a token that is told too little, and one that comes too early.

use everhold::prelude::*;
use everhold_systems::termination::{AT_REST, Bug, system};

#[track_caller]
fn check(bug: Bug) {
    let report = Explorer::new().executions(20_000).steps(200).run(system(bug));
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), AT_REST, "{report}");
}

#[test]
fn staying_white_is_found() {
    check(Bug::StaysWhite);
}

#[test]
fn passing_while_active_is_found() {
    check(Bug::PassesWhileActive);
}

#[test]
fn the_fixed_ring_is_clean() {
    let report = Explorer::new().executions(5_000).steps(300).run(system(Bug::None));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
