//! The cost of a delivery must not grow with the number of nodes.

use everhold::Search;

use crate::explore::ours;
use crate::explore::ping_pong::Shape;
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, race};
use crate::table::{Table, short};

const ACTORS: [u32; 4] = [4, 20, 100, 1_000];
/// The same for all, so that the share of starting and resetting a node is the same too.
const ROUNDS: u32 = 100;
/// The most expensive may cost this many times the cheapest.
const FLAT: f64 = 2.0;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let searches = [Search::Random, Search::Portfolio, Search::Pct { depth: 3 }];
    let mut table = Table::new(&["ns per delivery", "4", "20", "100", "1,000", "highest/lowest"]);
    for search in &searches {
        let rates = race(&contenders(search), size);
        let costs: Vec<f64> = rates.iter().map(nanoseconds).collect();
        let ratio = ratio(&costs);
        let mut row = vec![format!("everhold {search}")];
        row.extend(costs.iter().map(|cost| short(*cost)));
        row.push(format!("{ratio:.2}x"));
        table.row(row);
        if !matches!(search, Search::Pct { .. }) {
            let claim = format!("cost per delivery, 4 to 1,000 nodes, {search}");
            scores.hold(claim, ratio, Bound::AtMost(FLAT));
        }
    }
    table.print("Cost per delivery by number of nodes");
}

fn contenders(search: &Search) -> Vec<Contender> {
    let contender = |actors: u32| {
        let (shape, search) = (Shape { actors, rounds: ROUNDS }, search.clone());
        let body = move |executions| ours::handlers(shape, search.clone(), executions);
        Contender::new(actors.to_string(), body)
    };
    ACTORS.map(contender).into()
}

fn nanoseconds(rates: &Rates) -> f64 {
    1e9 / rates.units
}

fn ratio(costs: &[f64]) -> f64 {
    let highest = costs.iter().copied().fold(0.0, f64::max);
    let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    highest / lowest
}
