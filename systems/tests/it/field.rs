//! The benchmarks of the field: each protocol with its bug, and without.

use everhold::System;
use everhold::node::Message;
use everhold::prelude::*;
use everhold_systems::field::{chain_replication, failure_detector, german, raft_votes};

/// Checks that the bug is found as a violation of the property, and that there is no finding without it.
#[track_caller]
fn check<M: Message>(
    property: &str,
    buggy: impl Fn(&mut System<M>) + Send + Sync + 'static,
    fixed: impl Fn(&mut System<M>) + Send + Sync + 'static,
) {
    let explorer = Explorer::new().executions(10_000).steps(200);
    let report = explorer.clone().run(buggy);
    let finding = report.finding().unwrap_or_else(|| panic!("{property}\n{report}"));
    assert_eq!(finding.failure.cause.name(), property, "{report}");
    explorer.executions(3_000).run(fixed).assert_holds();
}

#[test]
fn counting_answers_elects_two_leaders() {
    use raft_votes::{Bug, ONE_LEADER, system};
    check(ONE_LEADER, system(Bug::CountsAnswers), system(Bug::None));
}

#[test]
fn a_stale_timeout_makes_a_node_owe_answers() {
    use failure_detector::{Bug, FEW_PINGS, system};
    check(FEW_PINGS, system(Bug::StaleTimeout), system(Bug::None));
}

#[test]
fn sending_everything_again_repeats_updates() {
    use chain_replication::{Bug, SORTED, system};
    check(SORTED, system(Bug::ResendsEverything), system(Bug::None));
}

#[test]
fn sharing_an_exclusive_line_is_found() {
    use german::{Bug, COHERENT, system};
    check(COHERENT, system(Bug::SharesExclusive), system(Bug::None));
}
