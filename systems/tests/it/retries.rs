//! Retry loops: the bugs of their servers are found, and shrinking removes every round that does
//! not matter.

use std::fmt::Debug;

use everhold::Stop;
use everhold::System;
use everhold::node::Message;
use everhold::prelude::*;
use everhold_systems::retries::{Bug, Size, system};

/// The sizes and bugs that are tried.
const CASES: [(u32, u32, Bug); 13] = [
    (1, 1, Bug::ForgetsInCrash),
    (1, 1, Bug::RemembersFew),
    (1, 1, Bug::NumbersWrap),
    (2, 1, Bug::ForgetsInCrash),
    (2, 1, Bug::RemembersFew),
    (2, 1, Bug::NumbersWrap),
    (2, 1, Bug::ReleasesForOthers),
    (2, 2, Bug::ForgetsInCrash),
    (2, 2, Bug::RemembersFew),
    (2, 2, Bug::NumbersWrap),
    (3, 2, Bug::ForgetsInCrash),
    (3, 2, Bug::RemembersFew),
    (3, 2, Bug::NumbersWrap),
];
const SEEDS: u64 = 20;

/// The lengths to which the findings of all seeds shrink, in order. Every finding must replay from
/// its token, and no bound may end the shrinking.
#[track_caller]
fn lengths<M: Message>(
    what: impl Debug,
    setup: impl Fn(&mut System<M>) + Clone + Send + Sync + 'static,
) -> Vec<usize> {
    let mut lengths: Vec<usize> = (1..=SEEDS)
        .map(|seed| {
            let explorer = Explorer::new().seed(seed).executions(20_000).regressions(false);
            // Only the bound on steps may count: it is the same on a busy machine.
            let report = explorer.shrink_time(Duration::from_secs(600)).run(setup.clone());
            let finding = report.finding().unwrap_or_else(|| panic!("{what:?}: {report}"));
            assert_eq!(finding.shrunk.cut_short, None, "{what:?}: {report}");
            let token = Schedule::parse(&finding.schedule.token()).expect("a token is read back");
            let replayed = Explorer::new().replay(token).run(setup.clone());
            assert_eq!(replayed.stop, Stop::Replayed { skipped: None }, "{what:?}: {replayed}");
            assert_eq!(replayed.finding().map(|again| &again.failure), Some(&finding.failure));
            finding.schedule.choices.len()
        })
        .collect();
    lengths.sort_unstable();
    lengths
}

// Before shrinking identified messages by the step that sent them, the lengths went up to 97
// choices; the first case had a median of 45. `benches -- shrink` prints the table.
#[test]
fn whole_rounds_are_taken_out() {
    let mut all = Vec::new();
    for (clients, servers, bug) in CASES {
        let what = (clients, servers, bug);
        let lengths = lengths(what, system(Size { clients, servers }, bug));
        assert!(lengths.iter().all(|length| *length < 40), "{what:?}: {lengths:?}");
        all.extend(lengths);
    }
    all.sort_unstable();
    // The median of all programs together; with two clients and two servers it is 26.
    assert!(all[all.len() / 2] < 25, "{all:?}");
}

// Six requests arrive and five are answered, the server crashes and restarts, the timer of the
// first request fired before, and its message arrives last: none of these fifteen choices can be
// left out.
#[test]
fn a_lone_client_needs_fifteen_choices() {
    let size = Size { clients: 1, servers: 1 };
    let lengths = lengths(size, system(size, Bug::ForgetsInCrash));
    assert_eq!(lengths, vec![15; SEEDS as usize]);
}

#[test]
fn the_fixed_server_is_clean() {
    for (clients, servers) in [(1, 1), (2, 1), (3, 2)] {
        let explorer = Explorer::new().executions(1_000).steps(400);
        explorer.run(system(Size { clients, servers }, Bug::None)).assert_holds();
    }
}
