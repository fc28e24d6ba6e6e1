//! Inference: large tables, many nodes, almost-invariants.

mod almost;
mod nodes;
mod snapshots;

use crate::measure::{Scorecard, cpu_seconds};
use crate::{Options, Part};

/// The parts, in the order in which they run.
const PARTS: [Part; 3] =
    [("snapshots", snapshots::run), ("nodes", nodes::run), ("almost", almost::run)];

pub(crate) fn run(options: &Options) -> Scorecard {
    options.run(&PARTS)
}

/// The result of some work, and the CPU time that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu_seconds();
    let result = work();
    (result, cpu_seconds() - before)
}

/// A sequence of pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
