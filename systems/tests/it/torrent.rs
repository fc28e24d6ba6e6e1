//! The BitTorrent client in the explorer.

use everhold::prelude::*;
use everhold_systems::torrent::{Bug, ONCE, system};

#[test]
fn a_neighbour_that_is_added_again_is_found() {
    let explorer = Explorer::new().executions(1_000).shrink_time(Duration::ZERO);
    let report = explorer.run(system(3, Bug::AddsAgain));
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(finding.failure.cause.name(), ONCE, "{report}");
}

#[test]
fn the_fixed_client_is_clean() {
    Explorer::new().executions(100).run(system(3, Bug::None)).assert_holds();
}
