//! The lock service of D³S, section 2.1.

use everhold::prelude::*;
use everhold_systems::lock::{Bug, CONSISTENT, system};

fn explore_with(bug: Bug) -> Report {
    Explorer::new().executions(5_000).steps(300).run(system(bug))
}

#[test]
fn a_double_grant_is_found() {
    let report = explore_with(Bug::GrantsBeforeRelease);
    let finding = report.finding().unwrap_or_else(|| panic!("it is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), CONSISTENT, "{report}");
    println!("{report}");
}

#[test]
fn the_fixed_service_is_clean_though_clients_die() {
    let report = explore_with(Bug::None);
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}
