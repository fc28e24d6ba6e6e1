//! axum and reqwest, unmodified.

use everhold_host::{Net, Outcome, hosts};
use everhold_hosts::counter::{Adding, serve, two_users};

fn counter(net: &mut Net<'_>, adding: Adding, workers: usize) {
    net.host("counter", move || serve(adding, workers));
    net.client("users", move || two_users(workers));
}

fn check(executions: u64, adding: Adding, workers: usize) -> Outcome {
    hosts(move |net| counter(net, adding, workers))
        .explorer(|e| e.executions(executions).regressions(false))
        .run()
}

#[test]
fn a_careful_counter_loses_nothing() {
    for workers in [0, 2] {
        let outcome = check(50, Adding::Careful, workers);
        assert_eq!(outcome.failed, None, "{}", outcome.report);
    }
}

#[test]
fn a_lost_addition_is_found() {
    let outcome = check(500, Adding::Hasty, 0);
    let failed = outcome.failed.expect("the two requests race");
    assert!(failed.contains("an addition was lost"), "{failed}\n{}", outcome.report);
}
