//! Pastry and Bamboo in the explorer: their performance bugs do not violate properties.

use everhold::System;
use everhold::prelude::*;
use everhold_systems::dht::Ids;
use everhold_systems::{bamboo, pastry};

#[track_caller]
fn check<M: Clone + std::fmt::Debug + Serialize + 'static>(
    setup: impl Fn(&mut System<M>) + Clone + Send + Sync + 'static,
) {
    let report = Explorer::new().executions(200).steps(300).run(setup);
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}

#[test]
fn pastry_joins_in_any_order() {
    check(pastry::system(3, pastry::Bug::None));
    check(pastry::system(3, pastry::Bug::SilentEviction));
}

#[test]
fn bamboo_joins_in_any_order() {
    check(bamboo::system(4, Ids::Even, bamboo::Bug::None));
    check(bamboo::system(4, Ids::Crowded, bamboo::Bug::SilentNeighbours));
}
