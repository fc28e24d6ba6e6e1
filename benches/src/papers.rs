//! The systems of the papers: each bug with the paper's figure beside ours.
//!
//! Each row is a system with a bug. `--only` takes a part: `p#` (the paper's Table 2), `field` (rates
//! of buggy executions) or `silence` (the corrected systems).

mod field;
mod silence;
mod table_two;

use crate::Options;
use crate::measure::{Scorecard, Size};

/// The number of seeds of each row.
fn seeds(size: Size) -> u64 {
    size.pick(1, 20)
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    for (name, part) in [
        ("p#", table_two::run as fn(&Options, &mut Scorecard)),
        ("field", field::run),
        ("silence", silence::run),
    ] {
        if options.wants(name) {
            part(options, &mut scores);
        }
    }
    scores
}

/// The middle of a list, in which what was not found counts as longer than anything.
fn median<T: Copy>(sorted: &[T], of: u64) -> Option<T> {
    sorted.get((of as usize - 1) / 2).copied()
}
