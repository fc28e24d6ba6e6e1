//! The `raft` crate: each bug of its environment is found, and the correct environment has no
//! finding.

use everhold::prelude::*;
use everhold::{Cause, Finding};
use everhold_systems::raft::{
    Bug, ELECTION_SAFETY, LEADER_COMPLETENESS, LOG_MATCHING, STATE_MACHINE_SAFETY, system,
};

/// The name for a panic in the crate, which detects some mistakes of its environment.
const OWN_ASSERTION: &str = "the crate's own assertions";
const STEPS: u32 = 100;

fn faults() -> Faults {
    Faults::none().crash(2).partition(1).lose(2).duplicate(2)
}

/// Checks that with three peers `bug` breaks the first property of `broken`, within 20,000
/// executions and in at most `steps_max` steps; any other finding must be in `broken` too.
#[track_caller]
fn check(bug: Bug, broken: &[&str], steps_max: usize) {
    let explorer = Explorer::new().executions(20_000).steps(STEPS).findings(broken.len());
    let report = explorer.run(system(3, bug, faults()));
    println!("{report}");
    for finding in &report.findings {
        assert!(broken.contains(&name(finding)), "{bug:?} breaks {}", finding.failure);
        check_token(bug, finding);
    }
    let finding = report.findings.iter().find(|finding| name(finding) == broken[0]);
    let finding = finding.unwrap_or_else(|| panic!("{bug:?} is not found\n{report}"));
    let steps = finding.schedule.choices.iter().filter(|choice| choice.is_step()).count();
    assert!(steps <= steps_max, "the smallest schedule has {steps} steps");
}

/// The printed schedule must fail in the same way.
#[track_caller]
fn check_token(bug: Bug, finding: &Finding) {
    let schedule = Schedule::parse(&finding.schedule.token()).expect("a token is readable");
    let report = Explorer::new().steps(STEPS).replay(schedule).run(system(3, bug, faults()));
    assert_eq!(report.finding().map(|replayed| &replayed.failure), Some(&finding.failure));
}

fn name(finding: &Finding) -> &str {
    match &finding.failure.cause {
        Cause::Panic(place) if place.contains("raft-0.7") => OWN_ASSERTION,
        cause => cause.name(),
    }
}

#[test]
fn answering_before_sync_is_found() {
    let broken =
        [ELECTION_SAFETY, LEADER_COMPLETENESS, LOG_MATCHING, STATE_MACHINE_SAFETY, OWN_ASSERTION];
    check(Bug::AnswersBeforeSync, &broken, 14);
}

#[test]
fn the_wrong_incarnation_is_found() {
    check(Bug::WrongIncarnation, &[ELECTION_SAFETY, LEADER_COMPLETENESS], 18);
}

#[test]
fn applying_before_commit_is_found() {
    check(Bug::AppliesBeforeCommit, &[STATE_MACHINE_SAFETY], 26);
}

/// The correct environment has no finding, every goal is reached, and repeated executions are
/// identical although the crate draws from the operating system's randomness.
#[track_caller]
fn check_clean(peers: usize, executions: u64, steps: u32) {
    let explorer = Explorer::new().executions(executions).steps(steps);
    let report = explorer.run(system(peers, Bug::None, faults()));
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    assert!(report.rechecked >= executions / 512, "{} executions ran twice", report.rechecked);
    report.assert_holds();
}

#[test]
fn three_peers_are_clean() {
    check_clean(3, 50_000, STEPS);
}

#[test]
fn five_peers_are_clean() {
    check_clean(5, 20_000, 150);
}
