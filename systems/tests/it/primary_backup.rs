//! Primary/backup storage like PacificA's, as in D³S, section 5.1.

use everhold::prelude::*;
use everhold_systems::primary_backup::{Bug, ONE_PRIMARY, system};

fn explore_with(bug: Bug) -> Report {
    Explorer::new().executions(5_000).steps(400).run(system(bug))
}

#[test]
fn answering_before_the_log_is_flushed_is_found() {
    let report = explore_with(Bug::AnswersBeforeFlush);
    let finding = report.finding().unwrap_or_else(|| panic!("it is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), ONE_PRIMARY, "{report}");
    println!("{report}");
}

#[test]
fn the_fixed_server_is_clean() {
    let report = explore_with(Bug::None);
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
