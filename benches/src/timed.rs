//! Timed simulation: token passing under the full network model, against a hand-written loop and
//! other simulators; the systems of the MacePC paper.

mod cases;
mod hand;
mod ours;
mod peers;
mod tokens;

use crate::Options;
use crate::measure::{Scorecard, Size};

/// The parts, in the order in which they run.
const PARTS: [(&str, fn(Size, &mut Scorecard)); 5] = [
    ("tokens", tokens::run),
    ("flat", tokens::flat),
    ("fork", ours::fork),
    ("bullet", cases::bullet),
    ("pastry", cases::pastry),
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
