//! Systematic testing: the explorer against Shuttle and Stateright, and against itself.

mod exhaustive;
mod flat;
pub(crate) mod memory;
mod ours;
mod ping_pong;
mod shuttle;
mod stateright;

use crate::measure::{Scorecard, Work};
use crate::{Options, Part};

/// The parts, in the order in which they run.
const PARTS: [Part; 4] = [
    ("memory", memory::run),
    ("ping-pong", ping_pong::run),
    ("flat", flat::run),
    ("exhaustive", exhaustive::run),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    options.run(&PARTS)
}

/// Shuttle's threads and channels: two actors, 100 round trips, its random scheduler.
pub(crate) fn channels(executions: u64) -> Work {
    let shape = ping_pong::Shape { actors: 2, rounds: 100 };
    shuttle::threads(shape, shuttle::By::Random, executions)
}
