//! Fixed columns for a terminal: step, node, what happened, what was sent, what changed.

use std::io::{self, Write};

use super::{label, summary};
use crate::event::{Event, MarkKind};
use crate::trace::Execution;
use crate::value::diff;
use crate::{EventId, LocalStates};

/// The width of the column of what happened; longer text pushes the rest of its line.
const WHAT: usize = 36;

/// Writes an execution as text in fixed columns, one line an event, with the changes of its state.
pub fn text(execution: &Execution, mut to: impl Write) -> io::Result<()> {
    for (key, value) in execution.notes() {
        writeln!(to, "{key}: {value}")?;
    }
    let names = execution.nodes().iter().map(|node| node.name.chars().count());
    let width = names.max().unwrap_or(0).max(4);
    writeln!(to, "{:>5}  {:width$}  {:WHAT$}  sends, changes", "step", "node", "what")?;
    let states = execution.local_states();
    let mut marks = execution.marks().iter().peekable();
    for (place, event) in execution.events().iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.after as usize <= place) {
            writeln!(to, "{:>5}  {:width$}  {}", "", "", mark_words(execution, &mark.kind))?;
        }
        let name = &execution.node(event.node).name;
        let what = summary(execution, event).replace(['\n', '\r'], " ");
        let effects = effects(execution, &states, place, event).join("; ");
        let line = format!("{place:>5}  {name:width$}  {what:WHAT$}  {effects}");
        writeln!(to, "{}", line.trim_end())?;
    }
    for mark in marks {
        writeln!(to, "{:>5}  {:width$}  {}", "", "", mark_words(execution, &mark.kind))?;
    }
    Ok(())
}

fn effects(
    execution: &Execution,
    states: &LocalStates<'_>,
    place: usize,
    event: &Event,
) -> Vec<String> {
    let mut effects: Vec<String> = Vec::new();
    for (send, id) in event.sends.iter().zip(event.sent()) {
        let to = send.to.map_or("all", |to| execution.node(to).name.as_str());
        effects.push(format!("{} -> {to}", label(execution, id)));
    }
    let id = EventId(u32::try_from(place).expect("event ids are 32 bits"));
    let count = execution.index_in_node(id);
    match (states.at(event.node, count), states.at(event.node, count + 1)) {
        (Some(before), Some(after)) => {
            effects.extend(diff(before, after).iter().map(ToString::to_string));
        }
        (None, Some(after)) => effects.push(after.to_string()),
        (_, None) => {}
    }
    effects
}

fn mark_words(execution: &Execution, mark: &MarkKind) -> String {
    let name = |node: crate::NodeId| execution.node(node).name.clone();
    match mark {
        MarkKind::Lost(id) => format!("* lost: {} from {}", label(execution, *id), name(id.sender)),
        MarkKind::Duplicated(id) => {
            format!("* duplicated: {} from {}", label(execution, *id), name(id.sender))
        }
        MarkKind::Partition(groups) => {
            let group = |group: &Vec<crate::NodeId>| {
                group.iter().map(|node| name(*node)).collect::<Vec<_>>().join(" ")
            };
            format!("* partition: {}", groups.iter().map(group).collect::<Vec<_>>().join(" | "))
        }
        MarkKind::Heal => "* partition heals".to_owned(),
        MarkKind::Fault { node: Some(node), name: fault } => {
            format!("* fault at {}: {fault}", name(*node))
        }
        MarkKind::Fault { node: None, name: fault } => format!("* fault: {fault}"),
    }
}
