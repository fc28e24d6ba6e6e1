//! Systematic testing: the explorer against Shuttle and Stateright, and against itself.

mod exhaustive;
mod flat;
pub(crate) mod memory;
mod ours;
mod ping_pong;
mod shuttle;
mod stateright;

use crate::Options;
use crate::measure::{Scorecard, Size};

/// The parts, in the order in which they run.
const PARTS: [(&str, fn(Size, &mut Scorecard)); 4] = [
    ("memory", memory::run),
    ("ping-pong", ping_pong::run),
    ("flat", flat::run),
    ("exhaustive", exhaustive::run),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    for (name, part) in PARTS {
        if options.wants(name) {
            part(options.size, &mut scores);
        }
    }
    scores
}
