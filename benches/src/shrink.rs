//! The sizes of shrunk findings, and the effort of shrinking: retry loops, and every bug of
//! [`bugs`].

use everhold::{Bounds, Explorer};
use everhold_systems::retries::{self, Bug, Size as Nodes};

use crate::Options;
use crate::bugs::{self, Case};
use crate::measure::{Bound, Scorecard};
use everhold_trace::text::thousands;

use crate::table::Table;

/// The name of the cases to which the bars apply.
const RETRIES: &str = "retries";

/// The bars of the other cases, medians in choices, as far as they were measured;
/// `systems/tests/it/shrunk.rs` pins the same for five seeds.
const MEDIANS: [(&str, f64); 6] = [
    ("storage, CountsReports", 9.0),
    ("storage, KeepsCount", 13.0),
    ("extent, SyncFromExpired", 12.0),
    ("paxos, AdoptsLowest", 21.0),
    ("paxos, ForgetsPromise", 19.0),
    ("two_phase, ForgetsAbort", 9.0),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    let seeds = options.seeds.unwrap_or(options.size.pick(2, 20));
    let mut table = Table::new(&[
        "system, bug",
        "found",
        "length found, median",
        "length shrunk, median",
        "most",
        "tries, median",
        "steps, median",
        "s, median",
        "cut short",
    ]);
    let mut scores = Scorecard::default();
    let mut rounds = Vec::new();
    let cases = retry_loops().into_iter().chain(bugs::cases());
    for case in cases.filter(|case| options.wants(case.system)) {
        let name = format!("{}, {}", case.system, case.bug);
        eprintln!("{name}");
        let shrunk = Shrunk::of(&case, seeds);
        if case.system == RETRIES {
            rounds.extend(&shrunk.lengths);
            let most = shrunk.lengths.last().map_or(f64::INFINITY, |most| *most as f64);
            scores.hold(format!("choices of {name}, longest"), most, Bound::AtMost(39.0));
        } else if let Some(bar) = bar(&name).filter(|_| !shrunk.lengths.is_empty()) {
            let median = middle(&shrunk.lengths) as f64;
            scores.hold(format!("choices of {name}, median"), median, Bound::AtMost(bar));
        }
        table.row(shrunk.row(name, seeds));
    }
    table.print("Shrinking: how many choices are left, and what it takes");
    if options.wants(RETRIES) {
        rounds.sort_unstable();
        let median = middle(&rounds) as f64;
        scores.hold("choices of all retry loops, median", median, Bound::AtMost(24.0));
    }
    scores
}

fn bar(name: &str) -> Option<f64> {
    MEDIANS.iter().find(|(known, _)| *known == name).map(|(_, bar)| *bar)
}

fn retry_loops() -> Vec<Case> {
    let mut cases = Vec::new();
    for (clients, servers) in [(1, 1), (2, 1), (2, 2), (3, 2)] {
        // The lock has one server, and needs two clients to matter.
        let fits = |bug: &Bug| *bug != Bug::ReleasesForOthers || (clients > 1 && servers == 1);
        for bug in Bug::ALL.into_iter().filter(fits) {
            let setup = retries::system(Nodes { clients, servers }, bug);
            let name = format!("{bug:?}, clients {clients}, servers {servers}");
            cases.push(Case { bug: name, ..bugs::case(RETRIES, bug, Bounds::default(), setup) });
        }
    }
    cases
}

/// The findings of one case with all seeds; each column is sorted.
#[derive(Default)]
struct Shrunk {
    found: Vec<u64>,
    lengths: Vec<u64>,
    tries: Vec<u64>,
    steps: Vec<u64>,
    millis: Vec<u64>,
    cut_short: u64,
}

impl Shrunk {
    fn of(case: &Case, seeds: u64) -> Shrunk {
        let mut shrunk = Shrunk::default();
        for seed in 1..=seeds {
            let explorer = Explorer::new().workers(1).regressions(false).seed(seed);
            let report = (case.explore)(explorer.executions(100_000));
            let Some(finding) = report.finding() else { continue };
            shrunk.found.push(finding.original.choices.len() as u64);
            shrunk.lengths.push(finding.schedule.choices.len() as u64);
            shrunk.tries.push(u64::from(finding.shrunk.tries));
            shrunk.steps.push(finding.shrunk.steps);
            shrunk.millis.push(finding.shrunk.time.as_millis() as u64);
            shrunk.cut_short += u64::from(finding.shrunk.cut_short.is_some());
        }
        let Shrunk { found, lengths, tries, steps, millis, .. } = &mut shrunk;
        for column in [found, lengths, tries, steps, millis] {
            column.sort_unstable();
        }
        shrunk
    }

    fn row(&self, name: String, seeds: u64) -> Vec<String> {
        vec![
            name,
            format!("{}/{seeds}", self.found.len()),
            thousands(middle(&self.found)),
            thousands(middle(&self.lengths)),
            thousands(self.lengths.last().copied().unwrap_or(0)),
            thousands(middle(&self.tries)),
            thousands(middle(&self.steps)),
            format!("{:.3}", middle(&self.millis) as f64 / 1e3),
            thousands(self.cut_short),
        ]
    }
}

fn middle(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}
