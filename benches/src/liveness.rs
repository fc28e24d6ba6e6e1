//! Verdicts on progress: correct systems of many sizes have no finding, and each bug is found.

use std::time::Duration;

use everhold::{Clocks, Explorer};
use everhold_systems::progress::Family;

use crate::Options;
use crate::measure::{Bound, Scorecard, cpu_seconds};
use everhold_trace::text::thousands;

use crate::table::Table;

const SIZES: [u32; 5] = [3, 5, 7, 15, 30];
const CLOCKS: [Clocks; 2] = [Clocks::Independent, Clocks::Shared];
const SEEDS: u64 = 5;

/// A system with its clocks and the number of its nodes.
type Case = (Family, Clocks, u32);

pub(crate) fn run(options: &Options) -> Scorecard {
    let executions = options.executions.unwrap_or(options.size.pick(5, 10_000));
    let sizes = options.size.pick(&SIZES[..2], &SIZES[..]);
    let seeds = options.seeds.unwrap_or(options.size.pick(1, SEEDS));
    let mut table = Table::new(&[
        "system",
        "clocks",
        "nodes",
        "seeds",
        "executions",
        "alarms",
        "not judged",
        "bug found",
        "executions to it, median",
        "CPU s",
    ]);
    let (mut alarms, mut unjudged, mut missed) = (0, 0, 0);
    for family in Family::ALL.into_iter().filter(|f| options.wants(&name(*f))) {
        for (nodes, clocks) in sizes.iter().flat_map(|nodes| CLOCKS.map(|clocks| (*nodes, clocks)))
        {
            eprintln!("{family:?}, {clocks:?} clocks, {nodes} nodes");
            let tried = Tried::of((family, clocks, nodes), seeds, executions);
            alarms += tried.alarms;
            unjudged += tried.unjudged;
            missed += seeds - tried.found.len() as u64;
            table.row(tried.row((family, clocks, nodes), seeds, executions));
        }
    }
    table.print("Liveness: correct systems, and the same with a bug");
    let mut scores = Scorecard::default();
    scores.hold("alarms on correct systems", alarms as f64, Bound::AtMost(0.0));
    scores.hold("executions of correct systems not judged", unjudged as f64, Bound::AtMost(0.0));
    scores.hold("bugs not found", missed as f64, Bound::AtMost(0.0));
    scores
}

fn name(family: Family) -> String {
    format!("{family:?}").to_lowercase()
}

/// One system of one size, with all seeds.
#[derive(Default)]
struct Tried {
    alarms: u64,
    unjudged: u64,
    /// The number of executions that each seed needed to find the bug.
    found: Vec<u64>,
    seconds: f64,
}

impl Tried {
    fn of((family, clocks, nodes): Case, seeds: u64, executions: u64) -> Tried {
        let before = cpu_seconds();
        let mut tried = Tried::default();
        for seed in 1..=seeds {
            let explorer = Explorer::new().regressions(false).seed(seed).executions(executions);
            let explorer = explorer.shrink_time(Duration::ZERO);
            let correct = family.explore_on(clocks, nodes, false, explorer.clone());
            if !correct.findings.is_empty() {
                eprintln!("{correct}");
            }
            tried.alarms += correct.findings.len() as u64;
            tried.unjudged += correct.unjudged;
            let wrong = family.explore_on(clocks, nodes, true, explorer);
            let found = wrong.finding().and_then(|finding| finding.origin.execution);
            tried.found.extend(found.map(|index| index + 1));
        }
        tried.found.sort_unstable();
        tried.seconds = cpu_seconds() - before;
        tried
    }

    fn row(&self, (family, clocks, nodes): Case, seeds: u64, executions: u64) -> Vec<String> {
        let median = self.found.get((seeds as usize - 1) / 2);
        vec![
            name(family),
            format!("{clocks:?}").to_lowercase(),
            nodes.to_string(),
            seeds.to_string(),
            thousands(executions),
            thousands(self.alarms),
            thousands(self.unjudged),
            format!("{}/{seeds}", self.found.len()),
            median.map_or("-".to_owned(), |median| thousands(*median)),
            format!("{:.1}", self.seconds),
        ]
    }
}
