//! Chord: both bugs that Avenger found. MacePC's bug needs a clock and is tested in `macepc`.

use everhold::prelude::*;
use everhold_systems::chord::{ALONE, Bug, NONE_BETWEEN, system};

const NODES: usize = 15;

fn explorer() -> Explorer {
    Explorer::new().executions(2_000).steps(300)
}

/// Checks that `bug` breaks `property`.
#[track_caller]
fn check(bug: Bug, property: &str) {
    let report = explorer().run(system(NODES, bug));
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert_eq!(finding.failure.cause.name(), property, "{report}");
    println!("{report}");
}

// Every second execution meets the bug.
#[test]
fn counting_itself_is_found() {
    check(Bug::CountsItself, ALONE);
}

// Of 20 seeds the slowest needed 68 executions; the average was 10.
#[test]
fn keeping_the_range_is_found() {
    check(Bug::KeepsRange, NONE_BETWEEN);
}

#[track_caller]
fn check_clean(bug: Bug) {
    let report = explorer().run(system(NODES, bug));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}

#[test]
fn the_fixed_ring_is_clean() {
    check_clean(Bug::None);
}

#[test]
fn slowness_is_not_unsafe() {
    check_clean(Bug::TellsNobody);
}
