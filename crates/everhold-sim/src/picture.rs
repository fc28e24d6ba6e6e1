//! The space-time picture of a recording, drawn by `everhold_report::picture`.
//!
//! It is made of the recording and not of its trace, since a trace knows nothing of the fair tail,
//! of rounds that repeat for ever, and of the messages that a fault delays.
//!
//! - `scene`: the steps of the recording in words.

mod scene;

use everhold_report::picture::Paper;

use crate::record::RunRecord;

/// Draws a recording; every line ends in a newline. Empty if nothing happened.
pub(crate) fn draw(recording: &RunRecord, paper: &Paper) -> String {
    scene::picture(recording, paper.charset).draw(paper)
}

#[cfg(test)]
mod tests;
