//! `everhold show`: a trace as text, as a space-time picture, or as statistics.

mod picture;
mod stats;
mod text;

use std::io::{self, BufWriter, Write};
use std::ops::Range;

use anyhow::Result;
use everhold_property::nearest;
use everhold_trace::{EventId, Execution, NodeId};

use crate::args::{Form, ShowArgs};
use crate::exit::{BadInput, Code};
use crate::hint;
use crate::input::{self, choose_run};
use crate::plain::Plain;
use crate::words::{counted, event_id};

pub(crate) fn run(args: &ShowArgs) -> Result<Code> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        return Err(BadInput(format!("--from {from} is after --to {to}; swap them")).into());
    }
    let limits = args.from.is_some() || args.to.is_some() || !args.nodes.is_empty();
    if limits && args.form == Form::Stats {
        let text = "--from, --to and --node are for --as text and --as picture; statistics are of \
                    whole runs";
        return Err(BadInput(text.into()).into());
    }
    let given = input::read_one(&args.trace, &args.input)?;
    let executions = choose_run(&given, args.run.as_deref())?;
    let several = executions.len() > 1;
    let mut out = Plain(BufWriter::new(io::stdout().lock()));
    for (place, execution) in executions.into_iter().enumerate() {
        if several {
            let gap = if place > 0 { "\n" } else { "" };
            writeln!(out, "{gap}run {} {}", place + 1, execution.name())?;
        }
        match args.form {
            Form::Text => text::write(&Part::choose(execution, args)?, &mut out)?,
            Form::Picture => picture::write(&Part::choose(execution, args)?, &mut out)?,
            Form::Stats => stats::write(execution, &mut out)?,
        }
    }
    out.flush()?;
    let name = hint::quoted(&args.trace.display().to_string());
    let form = if args.form == Form::Stats { "picture --to 40" } else { "stats" };
    hint::next(&format!("everhold show {name}{} --as {form}", hint::reading(&args.input)));
    Ok(Code::Holds)
}

/// The selected part of an execution.
#[derive(Debug)]
struct Part<'a> {
    execution: &'a Execution,
    range: Range<usize>,
    /// The selected nodes; empty for all.
    nodes: Vec<NodeId>,
}

impl<'a> Part<'a> {
    fn choose(execution: &'a Execution, args: &ShowArgs) -> Result<Part<'a>> {
        let count = execution.events().len();
        let end = args.to.map_or(count, |to| to.saturating_add(1).min(count));
        let begin = args.from.unwrap_or(0);
        if begin >= count && args.from.is_some() {
            let last = counted(count, "event");
            return Err(BadInput(format!("--from {begin}: the run has {last}, from 0 on")).into());
        }
        let find = |name: &String| {
            execution.node_named(name).ok_or_else(|| {
                let names: Vec<&str> = execution.nodes().iter().map(|n| n.name.as_str()).collect();
                let help = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", names.join(", ")),
                };
                BadInput(format!("no node `{name}`; {help}"))
            })
        };
        let nodes = args.nodes.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Part { execution, range: begin..end, nodes })
    }

    /// The selected events, in order.
    fn events(&self) -> impl Iterator<Item = EventId> {
        self.range.clone().map(event_id).filter(|id| self.has(self.execution.event(*id).node))
    }

    fn has(&self, node: NodeId) -> bool {
        self.nodes.is_empty() || self.nodes.contains(&node)
    }

    /// Whether the part is the whole execution.
    fn is_whole(&self) -> bool {
        self.range == (0..self.execution.events().len()) && self.nodes.is_empty()
    }
}
