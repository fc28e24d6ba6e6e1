//! Ricart and Agrawala's mutual exclusion, explored.

use everhold::prelude::*;
use everhold_systems::ricart_agrawala::{Bug, system};

fn explored(bug: Bug) -> Report {
    Explorer::new().executions(300).run(system(3, bug))
}

// All nodes ask, and all agree: nearly every execution meets the bug.
#[test]
fn two_nodes_are_inside_if_all_agree() {
    assert!(explored(Bug::AlwaysAgrees).finding().is_some());
}

#[test]
fn one_node_is_inside_otherwise() {
    let report = explored(Bug::None);
    assert!(report.finding().is_none(), "{report}");
}
