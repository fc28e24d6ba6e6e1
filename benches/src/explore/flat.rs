//! The cost of a delivery must not grow with the number of nodes.

use everhold::Search;

use crate::explore::ours;
use crate::explore::ping_pong::Shape;
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, Work, race};
use crate::table::{Table, short};

const ACTORS: [u32; 4] = [4, 20, 100, 1_000];
/// The same for all, so that the share of starting and resetting a node is the same too.
const ROUNDS: u32 = 100;
/// The most expensive may cost this many times the cheapest.
const FLAT: f64 = 2.0;

/// What is run, how it is called, and whether it is held to the bar.
type Row = (&'static str, fn(Shape, u64) -> Work, bool);

const ROWS: [Row; 4] = [
    ("random", |shape, executions| ours::handlers(shape, Search::Random, executions), true),
    ("portfolio", |shape, executions| ours::handlers(shape, Search::Portfolio, executions), true),
    ("pct", |shape, count| ours::handlers(shape, Search::Pct { depth: 3 }, count), false),
    ("random, faults", |shape, count| ours::faulty(shape, Search::Random, count), true),
];

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let mut table = Table::new(&["ns per delivery", "4", "20", "100", "1,000", "highest/lowest"]);
    for (name, body, held) in ROWS {
        let contender = |actors: u32| {
            let shape = Shape { actors, rounds: ROUNDS };
            Contender::new(actors.to_string(), move |executions| body(shape, executions))
        };
        let rates = race(&ACTORS.map(contender), size);
        let costs: Vec<f64> = rates.iter().map(nanoseconds).collect();
        let ratio = ratio(&costs);
        let mut row = vec![format!("everhold {name}")];
        row.extend(costs.iter().map(|cost| short(*cost)));
        row.push(format!("{ratio:.2}x"));
        table.row(row);
        if held {
            let claim = format!("cost per delivery, 4 to 1,000 nodes, {name}");
            scores.hold(claim, ratio, Bound::AtMost(FLAT));
        }
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
