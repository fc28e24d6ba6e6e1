//! The systems of the papers: each bug with the paper's figure beside ours.
//!
//! Each row is a system with a bug. `--only` takes a part: `p#` (the paper's Table 2), `field` (rates
//! of buggy executions), `silence` (the corrected systems) or `d3s` (deployed systems).

pub(crate) mod d3s;
mod deployed;
mod field;
mod silence;
mod table_two;

use crate::Options;
use crate::measure::Scorecard;

/// The number of seeds of each row.
fn seeds(options: &Options) -> u64 {
    options.seeds.unwrap_or(options.size.pick(1, 20))
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    for (name, part) in [
        ("p#", table_two::run as fn(&Options, &mut Scorecard)),
        ("field", field::run),
        ("silence", silence::run),
        ("d3s", d3s::run),
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
