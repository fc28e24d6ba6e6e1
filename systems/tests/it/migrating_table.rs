//! Live table migration: ten of the eleven bugs of the P# paper. `DeleteNoLeaveTombstonesEtag` takes thousands of
//! executions; `benches -- papers` measures it.

use everhold::prelude::*;
use everhold_systems::migrating_table::{Bug, MATCHES, STREAMS, Scenario, WELL_FORMED, scenario};

fn explore_with(test: Scenario, bug: Bug, executions: u64) -> Report {
    Explorer::new().executions(executions).run(scenario(test, bug))
}

/// Checks that a bug is found as one of these causes.
#[track_caller]
fn check(test: Scenario, bug: Bug, causes: &[&str]) {
    let explorer = Explorer::new().executions(30_000).shrink_time(Duration::ZERO);
    let report = explorer.run(scenario(test, bug));
    let finding = report.finding().unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    let cause = finding.failure.cause.name();
    assert!(causes.contains(&cause), "{bug:?} is found as {cause}\n{report}");
}

// The slowest of these took 546 executions with another seed.
#[test]
fn common_bugs_are_found_by_the_default_test() {
    for (bug, causes) in [
        (Bug::DeletePrimaryKey, &[WELL_FORMED][..]),
        (Bug::EnsurePartitionSwitchedFromPopulated, &[MATCHES, STREAMS]),
        (Bug::TombstoneOutputEtag, &[MATCHES]),
        (Bug::QueryAtomicFilterShadowing, &[MATCHES]),
        (Bug::QueryStreamedBackUpNewStream, &[STREAMS]),
        (Bug::QueryStreamedLock, &[STREAMS]),
    ] {
        check(Scenario::Free, bug, causes);
    }
}

#[test]
fn custom_tests_find_their_bugs() {
    for (test, bug, causes) in [
        (Scenario::FilterShadowing, Bug::QueryStreamedFilterShadowing, &[STREAMS][..]),
        (Scenario::SkipPreferOld, Bug::MigrateSkipPreferOld, &[MATCHES]),
        (Scenario::SkipUseNewWithTombstones, Bug::MigrateSkipUseNewWithTombstones, &[MATCHES]),
        (Scenario::InsertBehind, Bug::InsertBehindMigrator, &[MATCHES]),
    ] {
        check(test, bug, causes);
    }
}

#[test]
fn the_correct_table_is_clean() {
    explore_with(Scenario::Free, Bug::None, 300).assert_holds();
}

// It opens one more stream, whose rows are the same.
#[test]
fn the_mistake_without_an_effect_is_not_found() {
    explore_with(Scenario::Free, Bug::QueryStreamedSaveNewConfig, 300).assert_holds();
}
