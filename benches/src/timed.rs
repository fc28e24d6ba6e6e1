//! Timed simulation: token passing under the full network model, compared with a hand-written loop
//! and other simulators; and the systems of the MacePC paper.

mod cases;
mod hand;
mod ours;
pub(crate) mod peers;
mod tokens;

use crate::measure::Scorecard;
use crate::{Options, Part};

/// The parts, in the order in which they run.
const PARTS: [Part; 5] = [
    ("tokens", tokens::run),
    ("flat", tokens::flat),
    ("fork", ours::fork),
    ("bullet", cases::bullet),
    ("pastry", cases::pastry),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    options.run(&PARTS)
}
