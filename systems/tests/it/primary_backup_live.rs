//! PacificA as watched processes, with failures injected as by D³S (section 5.1): two primaries are
//! detected live, and the recording reproduces them in the explorer.
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use everhold::prelude::*;
use everhold_live::Client;
use everhold_live::recording::merge;
use everhold_systems::live::Case;
use everhold_systems::primary_backup::{Msg, ONE_PRIMARY, RULES, Role};

use crate::live::{Cluster, PATIENCE, Watcher, folder};

const META: u32 = 0;

/// The delay after which an action of a node is in its recording, even if the node is killed.
const RECORDED: Duration = Duration::from_millis(80);

/// Asks a replica until it is the primary.
fn wait_until_primary(client: &mut Client<Msg>) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(Msg::Shown(Role::Primary, _)) = client.call(&Msg::Show, PATIENCE) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody leads");
}

/// Kills the primary and, as soon as another replica leads, the metadata server, which restarts.
/// Returns the recordings if that led to two primaries.
fn inject(round: u32, bug: &'static str, patience: Duration) -> Option<PathBuf> {
    let folder = folder(&format!("primary-{bug}-{round}"));
    let watcher = Watcher::start(&folder, RULES);
    let mut cluster = Cluster::start(&folder, "primary-backup", bug, 4, &watcher);
    let (mut first, mut second) = (cluster.client(1), cluster.client(2));
    wait_until_primary(&mut first);
    assert_eq!(first.call(&Msg::Write(7), PATIENCE).unwrap(), Msg::Written(1));
    std::thread::sleep(RECORDED);
    cluster.kill(1);
    wait_until_primary(&mut second);
    std::thread::sleep(RECORDED);
    cluster.kill(META);
    cluster.launch(META);
    let violation = watcher.violation(patience);
    assert!(watcher.evaluations() > 0, "nothing was judged");
    let recordings = cluster.end();
    violation.map(|violation| {
        assert_eq!(violation.rule, ONE_PRIMARY);
        recordings
    })
}

/// A round misses if the third replica hears of the new group before the metadata server has
/// restarted, which takes 0.3 to 0.8 s.
#[test]
fn two_primaries_are_caught_and_shown_again() {
    let rounds =
        (0..5).find_map(|round| inject(round, "answers-before-flush", Duration::from_secs(6)));
    let recordings = rounds.expect("two primaries");
    let whole = merge([&recordings]).unwrap();
    let case = Case::find("primary-backup").unwrap();
    let explorer = Explorer::new().regressions(false);
    let report = case.replay(explorer, &whole.executions[0], "answers-before-flush").unwrap();
    println!("{report}");
    let finding = report.finding().unwrap_or_else(|| panic!("it is not reproduced: {report}"));
    assert_eq!(finding.failure.cause.name(), ONE_PRIMARY);
    assert!(finding.schedule.steps() < finding.original.steps() / 2, "{report}");
    assert!(!finding.schedule.follows_clocks(), "{report}");

    // The fixed system diverges from the recording, and the report gives the place.
    let report = case.replay(Explorer::new(), &whole.executions[0], "none").unwrap();
    assert_eq!(report.verdict(), SimVerdict::Diverged, "{report}");
    println!("{report}");
}

#[test]
fn the_fixed_server_survives_the_same_failures() {
    assert_eq!(inject(0, "none", Duration::from_secs(3)), None);
}
