//! Token passing: a node that receives a token of 16 bytes sends it to a random node.

use std::path::PathBuf;

use super::{hand, ours, peers};
use crate::measure::{Bound, Contender, Scorecard, Size, race};
use crate::table::{Table, short};

/// The number of deliveries of one execution.
pub(crate) const DELIVERIES: u64 = 50_000;

pub(crate) fn run(size: Size, scores: &mut Scorecard) {
    let mut table = Table::new(&["simulator", "nodes", "deliveries a CPU-second", "spread"]);
    // Building the peers takes minutes, which is too long for a smoke run.
    let program = (size == Size::Full).then(peers::build);
    for nodes in [20, 100] {
        let contenders = [ours::contender(nodes), hand::contender(nodes)];
        let rates = race(&contenders, size);
        for rate in &rates {
            let spread = format!("{:.0} %", rate.spread * 100.0);
            table.row(vec![rate.name.clone(), nodes.to_string(), short(rate.units), spread]);
        }
        let share = rates[0].units / rates[1].units;
        let claim = format!("{nodes} nodes, of a hand-written loop with the same model");
        scores.hold(claim, share, Bound::AtLeast(0.5));
        if let Some(program) = &program {
            let best = others(program, nodes, &mut table);
            let claim = format!("{nodes} nodes, of the faster of nexosim and madsim");
            scores.hold(claim, best.map_or(0.0, |best| rates[0].units / best), Bound::AtLeast(5.0));
        }
    }
    table.print("Token passing, with the whole network model");
}

/// Measures the peers; returns the best rate.
fn others(program: &Result<PathBuf, String>, nodes: u64, table: &mut Table) -> Option<f64> {
    let mut best = None;
    for name in peers::NAMES {
        let rate = program.clone().and_then(|program| peers::rate(&program, name, nodes));
        let shown = rate.as_ref().map_or_else(|e| format!("not measured: {e}"), |r| short(*r));
        table.row(vec![name.to_owned(), nodes.to_string(), shown, String::new()]);
        best = rate.ok().into_iter().chain(best).reduce(f64::max);
    }
    best
}

/// The same with different numbers of nodes.
pub(crate) fn flat(size: Size, scores: &mut Scorecard) {
    let counts = [20, 100, 1_000];
    let contenders: Vec<Contender> = counts.iter().map(|nodes| ours::contender(*nodes)).collect();
    let rates = race(&contenders, size);
    let mut table = Table::new(&["nodes", "deliveries a CPU-second"]);
    for (nodes, rate) in counts.iter().zip(&rates) {
        table.row(vec![nodes.to_string(), short(rate.units)]);
    }
    table.print("Token passing, from few nodes to many");
    let slower = rates[0].units / rates[rates.len() - 1].units;
    scores.hold("slower with 1,000 nodes than with 20", slower, Bound::AtMost(1.5));
}
