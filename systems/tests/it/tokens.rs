//! Tokens that an earlier Everhold printed still lead to the same executions.
//!
//! A line that fails here says that a token format, a case study or the meaning of a choice changed.
//! The lines of `tests/data` are not written anew: where a system has to change, the change says
//! why its old line is gone.

use everhold::prelude::*;
use everhold::timed::{Draws, TimedRun};
use everhold_systems::{
    chord, extent, lock, paxos, primary_backup, randtree, retries, storage, swim, timed, two_phase,
};

const SCHEDULES: &str = include_str!("../data/schedules.txt");
const DRAWS: &str = include_str!("../data/draws.txt");

/// The fields of the lines, comments apart.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").collect())
}

/// Explores the system of a line.
fn run(system: &str, explorer: Explorer) -> Report {
    let explorer = explorer.regressions(false);
    match system {
        "storage counts reports" => explorer.run(storage::system(storage::Bug::CountsReports)),
        "storage keeps the count" => {
            explorer.steps(300).run(storage::system(storage::Bug::KeepsCount))
        }
        "two-phase commit forgets an abort" => {
            explorer.run(two_phase::system(3, two_phase::Bug::ForgetsAbort))
        }
        "paxos adopts the lowest" => explorer.run(paxos::system(paxos::Bug::AdoptsLowest)),
        "paxos forgets a promise" => explorer.run(paxos::system(paxos::Bug::ForgetsPromise)),
        "extent manager believes an expired node" => explorer
            .bounds(extent::BOUNDS)
            .run(extent::system(extent::Scenario::Fail, extent::Bug::SyncFromExpired)),
        "chord keeps the range" => {
            explorer.steps(300).run(chord::system(15, chord::Bug::KeepsRange))
        }
        "lock grants before a release" => {
            explorer.steps(300).run(lock::system(lock::Bug::GrantsBeforeRelease))
        }
        "primary answers before the flush" => {
            explorer.steps(400).run(primary_backup::system(primary_backup::Bug::AnswersBeforeFlush))
        }
        "swim answers briefly" => {
            explorer.steps(150).run(swim::system(4, swim::Bug::AnswersBriefly))
        }
        "retries forget in a crash" => {
            let size = retries::Size { clients: 2, servers: 1 };
            explorer.run(retries::system(size, retries::Bug::ForgetsInCrash))
        }
        other => panic!("no system is called {other}"),
    }
}

#[test]
fn schedules_lead_to_the_same_findings() {
    let mut replayed = 0;
    for line in lines(SCHEDULES) {
        let &[system, token, property, values] = &line[..] else { panic!("{line:?}") };
        let schedule = Schedule::parse(token).unwrap_or_else(|error| panic!("{system}: {error}"));
        assert_eq!(schedule.token(), token, "{system} is written as it was");
        let report = run(system, Explorer::new().replay(schedule));
        let finding = report.finding().unwrap_or_else(|| panic!("{system}\n{report}"));
        assert_eq!(finding.failure.cause.name(), property, "{report}");
        assert!(values == "-" || finding.failure.message == values, "{values}\n{report}");
        assert!(report.problems.is_empty(), "{report}");
        replayed += 1;
    }
    assert_eq!(replayed, 11);
}

fn run_timed(system: &str, draws: Draws) -> TimedRun {
    match system {
        "randtree forgets a join" => timed::randtree(4, randtree::Bug::ForgetsJoin).run(draws),
        "randtree of 20" => timed::randtree(20, randtree::Bug::None).run(draws),
        "chord tells nobody" => timed::chord(8, chord::Bug::TellsNobody).run(draws),
        other => panic!("no system is called {other}"),
    }
}

#[test]
fn draws_lead_to_the_same_executions() {
    let mut replayed = 0;
    for line in lines(DRAWS) {
        let &[system, token, time, events] = &line[..] else { panic!("{line:?}") };
        let draws = Draws::parse(token).unwrap_or_else(|error| panic!("{system}: {error}"));
        assert_eq!(draws.token(), token, "{system} is written as it was");
        let run = run_timed(system, draws);
        assert!(run.is_done(), "{system}: {run}");
        assert_eq!(
            (run.time.as_nanos().to_string(), run.events.to_string()),
            (time.into(), events.into())
        );
        replayed += 1;
    }
    assert_eq!(replayed, 4);
}
