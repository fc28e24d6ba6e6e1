//! A space-time picture, as in the report of a failing test.

use std::io::{self, IsTerminal, Write};

use everhold_report::picture::{self, Paper, Picture};

use super::Part;
use crate::{terminal, words};

/// The width that is tried where output does not go to a terminal and lanes for all nodes do not
/// fit.
const WIDE: usize = 140;

pub(super) fn write(part: &Part<'_>, out: &mut impl Write) -> io::Result<()> {
    let execution = part.execution;
    let chosen = picture::Part { events: Some(part.range.clone()), nodes: part.nodes.clone() };
    let own = Paper { rows_max: usize::MAX, ..terminal::paper() };
    let picture = Picture::of(execution, &chosen, &own);
    let mut papers = vec![own];
    if !io::stdout().is_terminal() && std::env::var_os("COLUMNS").is_none() {
        papers.push(Paper { width_max: WIDE, ..own });
    }
    let paper = papers.iter().find(|paper| picture.has_lanes(paper)).unwrap_or(&own);
    out.write_all(picture.draw(paper).as_bytes())?;
    if !part.is_whole() {
        let (all, shown) = (execution.events().len(), part.events().count());
        writeln!(out, "{} of {} events", words::number(shown as u64), words::number(all as u64))?;
    }
    Ok(())
}
