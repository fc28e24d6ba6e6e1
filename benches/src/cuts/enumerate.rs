//! All consistent cuts in lexical order, on one core.

use std::hint::black_box;

use everhold_trace::{Order, Slice};

use crate::cuts::timed;
use crate::cuts::traces::ring;
use crate::measure::{Bound, Scorecard, Size};
use everhold_trace::text::thousands;

use crate::table::{Table, short};

/// The numbers of nodes, of rounds, and of a node's own events in each round.
const SHAPES: [(u32, usize, usize); 3] = [(3, 10, 200), (5, 3, 15), (10, 2, 3)];
/// The required number of cuts per second.
const RATE: f64 = 50e6;
const RUNS: usize = 3;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let cuts_max = size.pick(10_000, 100_000_000);
    let mut table = Table::new(&["nodes", "rounds", "events alone", "cuts", "cuts per CPU-second"]);
    let rates = SHAPES.map(|(nodes, rounds, work)| {
        let (cuts, rate) = measure((nodes, rounds, work), cuts_max);
        let numbers = [u64::from(nodes), rounds as u64, work as u64, cuts].map(thousands);
        table.row(numbers.into_iter().chain([short(rate)]).collect());
        rate
    });
    table.print(&format!("Enumeration of consistent cuts, {} at most", thousands(cuts_max)));
    let slowest = rates.into_iter().fold(f64::INFINITY, f64::min);
    scores.hold("cuts enumerated, to 50 M a CPU-second", slowest / RATE, Bound::AtLeast(1.0));
}

/// The number of cuts, and the best of several rates.
fn measure((nodes, rounds, work): (u32, usize, usize), cuts_max: u64) -> (u64, f64) {
    let order = Order::of(&ring(nodes, rounds, work, |_, _| None));
    let runs = (0..RUNS).map(|_| timed(|| enumerate(&order, cuts_max)));
    let best = runs.min_by(|a, b| a.1.total_cmp(&b.1));
    let (cuts, seconds) = best.expect("it ran at least once");
    (cuts, cuts as f64 / seconds)
}

fn enumerate(order: &Order, cuts_max: u64) -> u64 {
    let mut cuts = Slice::consistent(order).cuts();
    let (mut seen, mut sum) = (0u64, 0u64);
    while let Some(cut) = cuts.next_cut() {
        seen += 1;
        sum = sum.wrapping_add(u64::from(cut[cut.len() - 1]));
        if seen == cuts_max {
            break;
        }
    }
    black_box(sum);
    seen
}
