//! Table 2 of the P# paper: the bugs of MigratingTable and of the extent manager.

use std::time::Duration;

use everhold::{Bounds, Explorer, Search};
use everhold_systems::{extent, fabric, migrating_table};

use super::{median, seeds};
use crate::Options;
use crate::bugs::{Case, case};
use crate::measure::{Bound, Scorecard, cpu_seconds};
use everhold_trace::text::thousands;

use crate::table::Table;

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
const CHOICES: usize = 40;

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
    rows.extend(fabric_rows());
    rows
}

/// The bugs of section 5, for which the paper gives no times.
fn fabric_rows() -> [Row; 2] {
    use fabric::{Bug, counter, pipeline};
    let bounds = Bounds { steps_max: 300, ..Bounds::default() };
    let row = |case| Row { case, random: "no figure", priorities: "no figure" };
    let bug = Bug::PromotesElected;
    let promotes = case("fabric", bug, bounds, counter::system(bug));
    let bug = pipeline::Bug::NeedsItsCopy;
    [row(promotes), row(case("fabric", bug, bounds, pipeline::system(bug)))]
}

fn time(options: &Options) -> Duration {
    options.seconds.map_or(TIME, Duration::from_secs)
}

/// The searches that found the bug: executions, CPU-seconds.
fn hunt(case: &Case, search: &Search, options: &Options) -> Vec<(u64, f64)> {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let one = |seed: u64| {
        let explorer = Explorer::new().workers(1).regressions(false).search(search.clone());
        let explorer = explorer.seed(seed).executions(executions).time(time(options));
        let before = cpu_seconds();
        let report = (case.explore)(explorer.shrink_time(Duration::ZERO));
        let executions = report.finding()?.origin.execution? + 1;
        Some((executions, cpu_seconds() - before))
    };
    (1..=seeds(options)).filter_map(one).collect()
}

/// The choices of the smallest schedule of one finding, if there is one.
fn choices(case: &Case, options: &Options) -> Option<usize> {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let explorer = Explorer::new().workers(1).regressions(false).executions(executions);
    let explorer = explorer.time(time(options));
    (case.explore)(explorer).finding().map(|finding| finding.schedule.choices.len())
}

/// The medians of a search over the seeds.
struct Measured {
    found: usize,
    executions: Option<u64>,
    seconds: Option<f64>,
    choices: Option<usize>,
}

impl Measured {
    /// Only the default search's finding is made small.
    fn of(case: &Case, search: &Search, options: &Options) -> Measured {
        let (mut found, seeds) = (hunt(case, search, options), seeds(options));
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let seconds = median(&found, seeds).map(|(_, seconds)| seconds);
        found.sort_unstable_by_key(|(executions, _)| *executions);
        let executions = median(&found, seeds).map(|(executions, _)| executions);
        let choices = (*search == Search::Portfolio).then(|| choices(case, options)).flatten();
        Measured { found: found.len(), executions, seconds, choices }
    }

    fn cells(&self, row: &Row, search: &Search, seeds: u64) -> Vec<String> {
        vec![
            format!("{}, {}, {search}", row.case.system, row.case.bug),
            row.random.to_owned(),
            row.priorities.to_owned(),
            format!("{}/{seeds}", self.found),
            self.executions.map_or("-".to_owned(), thousands),
            self.seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.2}")),
            self.choices.map_or("-".to_owned(), |choices| choices.to_string()),
        ]
    }
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    let default = Search::Portfolio;
    let searches =
        [Search::Random, Search::Pct { depth: 2 }, Search::Pos, Search::Guided, default.clone()];
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
            let name = format!("{}, {}, {search}", row.case.system, row.case.bug);
            if !options.wants_row(&name) {
                continue;
            }
            eprintln!("{name}");
            let measured = Measured::of(&row.case, search, options);
            if *search == default && row.case.system == "migrating_table" {
                slow += usize::from(measured.seconds.is_none_or(|seconds| seconds > SECONDS));
                long += usize::from(measured.choices.is_none_or(|choices| choices > CHOICES));
            }
            table.row(measured.cells(&row, search, seeds(options)));
        }
    }
    table.print("P#, Table 2 and section 5: time to find each bug, one worker");
    scores.hold("bugs of MigratingTable not found in 10 s", slow as f64, Bound::AtMost(0.0));
    scores.hold("schedules of more than 40 choices", long as f64, Bound::AtMost(0.0));
}
