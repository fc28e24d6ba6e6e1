//! Table 2 of the P# paper: the bugs of MigratingTable and of the extent manager.

use std::time::Duration;

use everhold::{Bounds, Explorer, Search};
use everhold_systems::{extent, migrating_table};

use super::{median, seeds};
use crate::Options;
use crate::bugs::{Case, case};
use crate::measure::{Bound, Scorecard, cpu_seconds};
use crate::table::{Table, whole};

/// A row of the paper: a bug, and the seconds that its random and its priority-based scheduler took.
struct Row {
    case: Case,
    random: &'static str,
    priorities: &'static str,
}

/// The executions of a search that finds nothing.
const EXECUTIONS: u64 = 100_000;
/// The time of one.
const TIME: Duration = Duration::from_secs(20);
/// The bar: CPU-seconds of the default search, in the median of the seeds.
const SECONDS: f64 = 10.0;
/// The bar: the choices of the smallest schedule.
const CHOICES: f64 = 40.0;

/// The paper's figures; "custom" marks those that a custom test case was written for.
fn rows() -> Vec<Row> {
    use migrating_table::Bug;
    let figures = [
        ("157.22", "350.46"),
        ("2121.45", "6.58"),
        ("not found", "5.95"),
        ("not found", "4.69"),
        ("2.72", "2.37"),
        ("25.17", "1.57"),
        ("8.25", "3.40"),
        ("custom 0.55", "custom 0.41"),
        ("not found", "custom 1.13"),
        ("not found", "custom 1.16"),
        ("custom 0.32", "custom 0.31"),
    ];
    let row = |(bug, (random, priorities)): (Bug, (&'static str, &'static str))| {
        let case = case("migrating_table", bug, Bounds::default(), migrating_table::system(bug));
        Row { case, random, priorities }
    };
    let mut rows: Vec<Row> = Bug::OF_THE_PAPER.into_iter().zip(figures).map(row).collect();
    let bug = extent::Bug::SyncFromExpired;
    let extent = extent::system(extent::Scenario::Fail, bug);
    let case = case("extent", bug, extent::BOUNDS, extent);
    rows.push(Row { case, random: "10.56", priorities: "10.77" });
    rows
}

/// The searches that found the bug: executions, CPU-seconds.
fn hunt(case: &Case, search: &Search, options: &Options) -> Vec<(u64, f64)> {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let one = |seed: u64| {
        let explorer = Explorer::new().workers(1).regressions(false).search(search.clone());
        let explorer = explorer.seed(seed).executions(executions).time(TIME);
        let before = cpu_seconds();
        let report = (case.explore)(explorer.shrink_time(Duration::ZERO));
        let executions = report.finding()?.origin.execution? + 1;
        Some((executions, cpu_seconds() - before))
    };
    (1..=seeds(options.size)).filter_map(one).collect()
}

/// The choices of the smallest schedule of one finding, if there is one.
fn choices(case: &Case, options: &Options) -> Option<usize> {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let explorer = Explorer::new().workers(1).regressions(false).executions(executions).time(TIME);
    (case.explore)(explorer).finding().map(|finding| finding.schedule.choices.len())
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    let searches = [
        Search::Random,
        Search::Pct { depth: 2 },
        Search::Pos,
        Search::Guided,
        Search::Portfolio,
    ];
    let mut table = Table::new(&[
        "system, bug, search",
        "paper: random s",
        "paper: priorities s",
        "found",
        "median executions",
        "median CPU s",
        "choices",
    ]);
    let (mut slow, mut long) = (0, 0);
    for row in rows() {
        for search in &searches {
            let is_default = *search == Search::Portfolio;
            eprintln!("{}, {}, {search}", row.case.system, row.case.bug);
            let mut found = hunt(&row.case, search, options);
            let count = found.len();
            found.sort_by(|a, b| a.1.total_cmp(&b.1));
            let seconds = median(&found, seeds(options.size)).map(|(_, seconds)| seconds);
            found.sort_unstable_by_key(|(executions, _)| *executions);
            let executions = median(&found, seeds(options.size)).map(|(executions, _)| executions);
            let choices = is_default.then(|| choices(&row.case, options)).flatten();
            if is_default && row.case.system == "migrating_table" {
                slow += usize::from(seconds.is_none_or(|seconds| seconds > SECONDS));
                long += usize::from(choices.is_none_or(|choices| choices as f64 > CHOICES));
            }
            table.row(vec![
                format!("{}, {}, {search}", row.case.system, row.case.bug),
                row.random.to_owned(),
                row.priorities.to_owned(),
                format!("{count}/{}", seeds(options.size)),
                executions.map_or("-".to_owned(), whole),
                seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.2}")),
                choices.map_or("-".to_owned(), |choices| choices.to_string()),
            ]);
        }
    }
    table.print("P#, Table 2: time to find each bug, one worker");
    scores.hold("bugs of MigratingTable not found in 10 s", slow as f64, Bound::AtMost(0.0));
    scores.hold("schedules of more than 40 choices", long as f64, Bound::AtMost(0.0));
}
