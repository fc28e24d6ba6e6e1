//! The election of a Paxos service in the explorer.

use everhold::prelude::*;
use everhold_systems::mps::{Bug, RETURNS, system};

#[test]
fn a_node_that_promotes_itself_for_ever_is_found() {
    let explorer = Explorer::new().executions(20_000).shrink_time(Duration::ZERO);
    let report = explorer.run(system(Bug::AsksTheLiving));
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(finding.failure.cause.name(), RETURNS, "{report}");
}

#[test]
fn the_fixed_service_is_clean() {
    Explorer::new().executions(300).run(system(Bug::None)).assert_holds();
}
