//! Fixed columns: one line for each event.

use std::io::{self, Write};

use everhold_trace::{EventId, Execution};

use super::Part;
use crate::words::{self, pad, short};

/// The width of the column that describes the event; longer text is cut.
const WHAT: usize = 40;

pub(super) fn write(part: &Part<'_>, out: &mut impl Write) -> io::Result<()> {
    let execution = part.execution;
    for (key, value) in execution.notes() {
        writeln!(out, "{key}: {value}")?;
    }
    let names = execution.nodes().iter().map(|node| node.name.chars().count());
    let width = names.max().unwrap_or(0).max(4);
    let clock = Clock::of(execution);
    let head = format!(
        "{}  {}{}  {}",
        pad("event", 6),
        clock.title(),
        pad("node", width),
        pad("what", WHAT)
    );
    writeln!(out, "{head}  sends, state changes")?;
    let states = execution.local_states();
    let mut marks = execution.marks().iter().peekable();
    while marks.next_if(|mark| (mark.after as usize) < part.range.start).is_some() {}
    for id in part.events() {
        while let Some(mark) = marks.next_if(|mark| mark.after <= id.0) {
            writeln!(out, "        * {}", words::mark(execution, &mark.kind))?;
        }
        let name = pad(&execution.node(execution.event(id).node).name, width);
        let what = pad(&short(&words::event(execution, id), WHAT), WHAT);
        let effects = words::effects(execution, &states, id).join("; ");
        let line = format!(
            "{:>6}  {}{name}  {what}  {}",
            id.0,
            clock.time(execution, id),
            effects.replace('\n', " ")
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    for mark in marks.filter(|mark| mark.after as usize <= part.range.end) {
        writeln!(out, "        * {}", words::mark(execution, &mark.kind))?;
    }
    if !execution.is_complete() && part.range.end == execution.events().len() {
        writeln!(out, "        * the recording stops here, without its end")?;
    }
    Ok(())
}

/// The kinds of times that an execution can have.
enum Clock {
    None,
    Logical,
    /// Time since the first event with a time, in nanoseconds.
    Physical(i64),
}

impl Clock {
    fn of(execution: &Execution) -> Clock {
        let mut times = execution.events().iter().map(|event| event.time);
        if let Some(begin) = times.clone().filter_map(|time| time.physical_ns).min() {
            return Clock::Physical(begin);
        }
        if times.any(|time| time.logical.is_some()) { Clock::Logical } else { Clock::None }
    }

    fn title(&self) -> &'static str {
        match self {
            Clock::None => "",
            Clock::Logical => "      time  ",
            Clock::Physical(_) => "     time ms  ",
        }
    }

    fn time(&self, execution: &Execution, id: EventId) -> String {
        let time = execution.event(id).time;
        match self {
            Clock::None => String::new(),
            Clock::Logical => {
                let ticks = time.logical.map_or(String::new(), |ticks| ticks.to_string());
                format!("{ticks:>10}  ")
            }
            Clock::Physical(begin) => {
                let us = time.physical_ns.map(|ns| ns.saturating_sub(*begin) / 1_000);
                let ms = us.map_or(String::new(), |us| format!("{}.{:03}", us / 1_000, us % 1_000));
                format!("{ms:>12}  ")
            }
        }
    }
}
