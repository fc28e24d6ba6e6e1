//! Traces, cuts and the property language: files, slices, enumeration, evaluation.

mod claims;
mod enumerate;
mod evaluate;
mod files;
mod language;
mod slices;
mod traces;

use crate::measure::{Scorecard, cpu_seconds};
use crate::{Options, Part};

/// The parts, in the order in which they run.
const PARTS: [Part; 6] = [
    ("files", files::run),
    ("slices", slices::run),
    ("claims", claims::run),
    ("enumerate", enumerate::run),
    ("evaluate", evaluate::run),
    ("language", language::run),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    if options.only.as_deref() == Some(slices::ALONE) {
        slices::alone(options.size);
        return Scorecard::default();
    }
    options.run(&PARTS)
}

/// The result of some work, and the CPU time that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu_seconds();
    let result = work();
    (result, cpu_seconds() - before)
}
