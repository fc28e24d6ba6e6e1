//! The cost of a delivery must not grow with the number of nodes.

use everhold::Search;

use crate::explore::ours;
use crate::explore::ping_pong::Shape;
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, Work, race};
use crate::table::{Table, short};

const ACTORS: [u32; 4] = [4, 20, 100, 1_000];
/// The number of messages of one execution. All shapes do the same work in the same number of
/// executions, because the explorer examines the first executions more closely.
const MESSAGES: u32 = 10_000;
/// The largest permitted ratio of the highest cost to the lowest.
const FLAT: f64 = 2.0;

/// A row of the table: its name and its function.
type Row = (&'static str, fn(Shape, u64) -> Work);

const ROWS: [Row; 3] = [
    ("random", |shape, executions| ours::handlers(shape, Search::Random, executions)),
    ("portfolio", |shape, executions| ours::handlers(shape, Search::Portfolio, executions)),
    ("random, faults", |shape, executions| ours::faulty(shape, Search::Random, executions)),
];

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let executions = size.pick(1, 400);
    let mut table = Table::new(&["ns per delivery", "4", "20", "100", "1,000", "highest/lowest"]);
    for (name, body) in ROWS {
        let contender = |actors: u32| {
            let shape = Shape { actors, rounds: MESSAGES / actors };
            Contender::new(actors.to_string(), move |_| body(shape, executions))
        };
        let rates = race(&ACTORS.map(contender), size);
        let costs: Vec<f64> = rates.iter().map(nanoseconds).collect();
        let ratio = ratio(&costs);
        let mut row = vec![format!("everhold {name}")];
        row.extend(costs.iter().map(|cost| short(*cost)));
        row.push(format!("{ratio:.2}x"));
        table.row(row);
        let claim = format!("cost per delivery, 4 to 1,000 nodes, {name}");
        scores.hold(claim, ratio, Bound::AtMost(FLAT));
    }
    table.print("Cost per delivery by number of nodes");
}

fn nanoseconds(rates: &Rates) -> f64 {
    1e9 / rates.units
}

fn ratio(costs: &[f64]) -> f64 {
    let highest = costs.iter().copied().fold(0.0, f64::max);
    let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    highest / lowest
}
