//! A counter on axum and reqwest, on runtimes of one thread and of several.

mod common;

use common::{found, silent};
use everhold::Net;
use everhold_services::counter::{Adding, serve, two_users};

fn counter(net: &mut Net<'_>, adding: Adding, workers: usize) {
    net.host("counter", move || serve(adding, workers));
    net.client("users", move || two_users(workers));
}

#[test]
fn a_careful_counter_loses_nothing() {
    for workers in [0, 2] {
        let name = format!("counter, {workers} workers");
        silent(&name, 50, move |net| counter(net, Adding::Careful, workers));
    }
}

#[test]
fn a_lost_addition_is_found() {
    found("counter, hasty", "an addition was lost", 500, |net| counter(net, Adding::Hasty, 0));
}
