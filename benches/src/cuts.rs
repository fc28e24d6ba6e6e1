//! Traces, cuts and the property language: files, slices, enumeration, evaluation.

mod enumerate;
mod evaluate;
mod files;
mod language;
mod slices;
mod traces;

use crate::Options;
use crate::measure::{Scorecard, Size, cpu_seconds};

/// The parts, in the order in which they run.
const PARTS: [(&str, fn(Size, &mut Scorecard)); 5] = [
    ("files", files::run),
    ("slices", slices::run),
    ("enumerate", enumerate::run),
    ("evaluate", evaluate::run),
    ("language", language::run),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    if options.only.as_deref() == Some(slices::ALONE) {
        slices::alone(options.size);
        return scores;
    }
    for (name, part) in PARTS {
        if options.wants(name) {
            part(options.size, &mut scores);
        }
    }
    scores
}

/// What came of some work, and the CPU time it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu_seconds();
    let result = work();
    (result, cpu_seconds() - before)
}
