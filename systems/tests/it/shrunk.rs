//! The lengths to which findings shrink, pinned for ten systems: a change of the search or of
//! shrinking must not make them longer. `benches -- shrink` has the same bars for more seeds.

use everhold::prelude::*;
use everhold_systems::{chord, extent, lock, paxos, primary_backup, storage, swim, two_phase};

const SEEDS: u64 = 5;

/// Each system with the median and the longest of its shrunk findings, in choices.
const LENGTHS: [(&str, usize, usize); 10] = [
    ("storage, CountsReports", 9, 9),
    ("storage, KeepsCount", 13, 13),
    ("extent, SyncFromExpired", 12, 12),
    ("paxos, AdoptsLowest", 21, 23),
    ("paxos, ForgetsPromise", 18, 22),
    ("two_phase, ForgetsAbort", 9, 9),
    ("chord, KeepsRange", 21, 36),
    ("lock, GrantsBeforeRelease", 11, 21),
    ("primary_backup, AnswersBeforeFlush", 13, 17),
    ("swim, AnswersBriefly", 13, 14),
];

fn explore(system: &str, explorer: Explorer) -> Report {
    let steps = |steps| explorer.clone().steps(steps);
    match system {
        "storage, CountsReports" => steps(300).run(storage::system(storage::Bug::CountsReports)),
        "storage, KeepsCount" => steps(300).run(storage::system(storage::Bug::KeepsCount)),
        "extent, SyncFromExpired" => {
            let setup = extent::system(extent::Scenario::Fail, extent::Bug::SyncFromExpired);
            explorer.bounds(extent::BOUNDS).run(setup)
        }
        "paxos, AdoptsLowest" => explorer.run(paxos::system(paxos::Bug::AdoptsLowest)),
        "paxos, ForgetsPromise" => explorer.run(paxos::system(paxos::Bug::ForgetsPromise)),
        "two_phase, ForgetsAbort" => {
            explorer.run(two_phase::system(3, two_phase::Bug::ForgetsAbort))
        }
        "chord, KeepsRange" => steps(300).run(chord::system(15, chord::Bug::KeepsRange)),
        "lock, GrantsBeforeRelease" => steps(300).run(lock::system(lock::Bug::GrantsBeforeRelease)),
        "primary_backup, AnswersBeforeFlush" => {
            let bug = primary_backup::Bug::AnswersBeforeFlush;
            steps(400).run(primary_backup::system(bug))
        }
        "swim, AnswersBriefly" => steps(150).run(swim::system(4, swim::Bug::AnswersBriefly)),
        other => panic!("no system is called {other}"),
    }
}

#[test]
fn shrunk_findings_do_not_grow() {
    let mut longer = Vec::new();
    for (system, median, longest) in LENGTHS {
        let length = |seed: u64| {
            let explorer = Explorer::new().seed(seed).executions(100_000).regressions(false);
            // Only the bound on steps may count: it is the same on a busy machine.
            let explorer = explorer.time(Duration::from_secs(600));
            let report = explore(system, explorer.shrink_time(Duration::from_secs(600)));
            let finding = report.finding().unwrap_or_else(|| panic!("{system}\n{report}"));
            finding.schedule.choices.len()
        };
        let mut lengths: Vec<usize> = (1..=SEEDS).map(length).collect();
        lengths.sort_unstable();
        let now = (lengths[lengths.len() / 2], lengths[lengths.len() - 1]);
        if now.0 > median || now.1 > longest {
            longer.push(format!("{system}: {lengths:?} instead of {median} and {longest}"));
        }
    }
    assert!(longer.is_empty(), "{}", longer.join("\n"));
}
