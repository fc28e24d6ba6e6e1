//! The model of Service Fabric: its own bug, and that of a service on it.

use everhold::prelude::*;
use everhold_systems::fabric::{Bug, PROMOTED, counter, pipeline};

fn explorer() -> Explorer {
    Explorer::new().executions(5_000).steps(300)
}

#[test]
fn promoting_an_elected_replica_is_found() {
    let report = explorer().run(counter::system(Bug::PromotesElected));
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(finding.failure.cause.name(), PROMOTED, "{report}");
}

#[test]
fn a_stage_without_its_copy_is_found() {
    let report = explorer().run(pipeline::system(pipeline::Bug::NeedsItsCopy));
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert!(finding.failure.message.contains("a stage has its window"), "{report}");
}

#[test]
fn the_corrected_platform_keeps_what_it_acknowledged() {
    explorer().run(counter::system(Bug::None)).assert_holds();
    explorer().run(pipeline::system(pipeline::Bug::None)).assert_holds();
}
