//! A space-time picture, as in the report of a failing test.

use std::io::{self, Write};

use everhold_report::picture::{self, Paper, Picture};

use super::Part;
use crate::words;

/// The widths that are tried, in columns. The wider one is used where only it has room for a lane
/// for each node.
const WIDTHS: [usize; 2] = [100, 140];

pub(super) fn write(part: &Part<'_>, out: &mut impl Write) -> io::Result<()> {
    let execution = part.execution;
    let chosen = picture::Part { events: Some(part.range.clone()), nodes: part.nodes.clone() };
    let paper = |width_max| Paper { width_max, rows_max: usize::MAX, ..Paper::default() };
    let picture = Picture::of(execution, &chosen, &paper(WIDTHS[0]));
    let papers = WIDTHS.map(paper);
    let paper = papers.iter().find(|paper| picture.has_lanes(paper)).unwrap_or(&papers[0]);
    out.write_all(picture.draw(paper).as_bytes())?;
    if !part.is_whole() {
        let (all, shown) = (execution.events().len(), part.events().count());
        writeln!(out, "{} of {} events", words::number(shown as u64), words::number(all as u64))?;
    }
    Ok(())
}
