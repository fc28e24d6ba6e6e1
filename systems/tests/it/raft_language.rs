//! The `raft` crate with its properties as text: the same bugs are found, and nothing else.

use everhold::prelude::*;
use everhold::property::{Library, Snapshot, State, Verdict as Judged, evaluate, parse};
use everhold::{Cause, Finding, Value};
use everhold_systems::raft::{
    Bug, ELECTION_SAFETY, LEADER_COMPLETENESS, LOG_MATCHING, STATE_MACHINE_SAFETY, system,
    system_in_language,
};

const STEPS: u32 = 100;

fn faults() -> Faults {
    Faults::none().crash(2).partition(1).lose(2).duplicate(2)
}

/// Checks that with three peers `bug` breaks a property of `broken`, within 10,000 executions and
/// in at most `steps_max` steps, and that the report shows the values. The crate itself may panic
/// first, because of the log that a crash left.
#[track_caller]
fn check(bug: Bug, broken: &[&str], steps_max: usize) {
    let explorer = Explorer::new().executions(10_000).steps(STEPS).findings(2);
    let report = explorer.run(system_in_language(3, bug, faults()));
    let is_expected = |finding: &&Finding| broken.contains(&finding.failure.cause.name());
    let finding = report.findings.iter().find(is_expected);
    let finding = finding.unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    assert!(matches!(finding.failure.cause, Cause::Always(_)), "{}", finding.failure);
    assert!(finding.failure.message.contains("raft-"), "{}", finding.failure);
    let steps = finding.schedule.choices.iter().filter(|choice| choice.is_step()).count();
    assert!(steps <= steps_max, "the smallest schedule has {steps} steps");
    check_typed(bug, finding);
}

/// The closures and monitors must report the same execution.
#[track_caller]
fn check_typed(bug: Bug, finding: &Finding) {
    let explorer = Explorer::new().steps(STEPS).replay(finding.schedule.clone());
    let report = explorer.run(system(3, bug, faults()));
    assert!(!report.findings.is_empty(), "only the language sees it: {}", finding.failure);
}

#[test]
fn answering_before_sync_is_found() {
    check(Bug::AnswersBeforeSync, &[ELECTION_SAFETY, LEADER_COMPLETENESS], 16);
}

#[test]
fn the_wrong_incarnation_is_found() {
    check(Bug::WrongIncarnation, &[ELECTION_SAFETY, LEADER_COMPLETENESS], 18);
}

#[test]
fn applying_before_commit_is_found() {
    check(Bug::AppliesBeforeCommit, &[STATE_MACHINE_SAFETY], 30);
}

#[track_caller]
fn check_clean(peers: usize, executions: u64, steps: u32) {
    let explorer = Explorer::new().executions(executions).steps(steps);
    let report = explorer.run(system_in_language(peers, Bug::None, faults()));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    report.assert_holds();
}

#[test]
fn three_peers_are_clean() {
    check_clean(3, 6_000, STEPS);
}

#[test]
fn five_peers_are_clean() {
    check_clean(5, 2_000, 150);
}

/// The verdict of "log matching", which none of the bugs violates, on two logs of terms and
/// commands.
fn logs_match(a: &[(i64, i64)], b: &[(i64, i64)]) -> bool {
    let properties = parse(include_str!("../../src/raft/raft.prop")).properties;
    let property = properties.iter().find(|property| property.name == LOG_MATCHING);
    let mut state = Snapshot::default();
    for (id, log) in [(1, a), (2, b)] {
        let node = state.add(&format!("raft-{id}"), "raft");
        state.set(node, Value::record([("id", Value::Int(id)), ("log", Value::of(&log))]));
    }
    let history: [&dyn State; 1] = [&state];
    let property = property.expect("the property is in the file");
    evaluate(property, &Library::new(), &history, &[]) == Some(Judged::Holds)
}

#[test]
fn log_matching_tells_logs_apart() {
    for (one, other, expected) in [
        (&[(1, 1), (2, 2)][..], &[(1, 1), (2, 2)][..], true),
        (&[(1, 1), (2, 2)], &[(1, 1)], true),
        (&[(1, 1), (2, 2)], &[(1, 1), (3, 5), (3, 6)], true),
        (&[(1, 1), (2, 2)], &[(1, 1), (2, 3)], false),
        (&[(1, 1), (3, 2)], &[(2, 1), (3, 2)], false),
        (&[(1, 1), (1, 2), (3, 4)], &[(1, 9), (2, 2), (3, 4), (3, 5)], false),
    ] {
        assert_eq!(logs_match(one, other), expected, "{one:?} and {other:?}");
        assert_eq!(logs_match(other, one), expected, "{other:?} and {one:?}");
    }
}
