//! The replicating storage system: both bugs of the paper.

use everhold::prelude::*;
use everhold_systems::storage::{Bug, LIVENESS, SAFETY, system};

fn explore_with(bug: Bug) -> Report {
    Explorer::new().executions(20_000).steps(300).run(system(bug))
}

#[track_caller]
fn check(bug: Bug, property: &str) {
    let report = explore_with(bug);
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), property, "{report}");
    println!("{report}");
}

#[test]
fn counting_reports_is_found() {
    check(Bug::CountsReports, SAFETY);
}

#[test]
fn keeping_the_count_is_found() {
    check(Bug::KeepsCount, LIVENESS);
}

#[test]
fn the_fixed_server_is_clean() {
    let report = explore_with(Bug::None);
    assert_eq!(report.missed_goals().count(), 0);
    report.assert_holds();
}
