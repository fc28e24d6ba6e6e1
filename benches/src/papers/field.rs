//! Rates of buggy executions beside those that Coyote's authors published.

use std::time::Duration;

use everhold::{Bounds, Explorer};
use everhold_systems::field::{chain_replication, failure_detector, german, raft_votes};
use everhold_systems::{paxos, two_phase};

use super::{median, seeds};
use crate::Options;
use crate::bugs::{Case, case};
use crate::measure::{Bound, Scorecard, cpu_seconds};
use crate::table::Table;

/// A bug, and the share of buggy executions that was published.
struct Published {
    case: Case,
    percent: Option<f64>,
}

/// The executions of each search; the published figures are of as many.
const EXECUTIONS: u64 = 10_000;
/// The bar: our share of buggy executions over the published one.
const TIMES: f64 = 10.0;

/// The published figures are those of Coyote's random scheduler in the Nekara paper (ASE 2021, Table
/// VI); `None` where no share was published.
fn rows() -> Vec<Published> {
    let row = |case, percent| Published { case, percent };
    let raft = case(
        "raft_votes",
        raft_votes::Bug::CountsAnswers,
        SHORT,
        raft_votes::system(raft_votes::Bug::CountsAnswers),
    );
    let bug = failure_detector::Bug::StaleTimeout;
    let detector = case("failure_detector", bug, SHORT, failure_detector::system(bug));
    let bug = chain_replication::Bug::ResendsEverything;
    let chain = case("chain_replication", bug, SHORT, chain_replication::system(bug));
    let bug = paxos::Bug::AdoptsLowest;
    let paxos = case("paxos", bug, Bounds::default(), paxos::system(bug));
    let bug = two_phase::Bug::CommitsEarly;
    let two_phase = case("two_phase", bug, Bounds::default(), two_phase::system(3, bug));
    let bug = german::Bug::SharesExclusive;
    let german = case("german", bug, SHORT, german::system(bug));
    vec![
        row(raft, Some(0.38)),
        row(detector, Some(0.07)),
        row(chain, Some(0.01)),
        row(paxos, Some(0.06)),
        row(two_phase, None),
        row(german, None),
    ]
}

/// The bound on the steps of the small protocols.
const SHORT: Bounds = Bounds { steps_max: 200, temperature_max: 2_000 };

/// The share of buggy executions in percent, for each seed.
fn shares(case: &Case, options: &Options) -> Vec<f64> {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let one = |seed: u64| {
        let explorer = Explorer::new().workers(1).regressions(false).seed(seed);
        let explorer = explorer.executions(executions).findings(usize::MAX);
        let report = (case.explore)(explorer.shrink_time(Duration::ZERO));
        let failures: u64 = report.tally.iter().map(|tally| tally.failures).sum();
        100.0 * failures as f64 / report.executions.max(1) as f64
    };
    (1..=seeds(options)).map(one).collect()
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    let mut table = Table::new(&["system, bug", "published %", "ours %, median", "times", "CPU s"]);
    for row in rows() {
        let name = format!("{}, {}", row.case.system, row.case.bug);
        if !options.wants_row(&name) {
            continue;
        }
        eprintln!("{name}");
        let before = cpu_seconds();
        let mut shares = shares(&row.case, options);
        shares.sort_by(f64::total_cmp);
        let share = median(&shares, seeds(options)).unwrap_or(0.0);
        let times = row.percent.map(|percent| share / percent);
        if let Some(times) = times {
            scores.hold(format!("{name}: share of buggy executions"), times, Bound::AtLeast(TIMES));
        }
        let text =
            |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
        table.row(vec![
            name,
            text(row.percent),
            format!("{share:.2}"),
            text(times),
            format!("{:.1}", cpu_seconds() - before),
        ]);
    }
    table.print("Rates of buggy executions, the default search, one worker");
}
