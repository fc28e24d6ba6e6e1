//! A sequence diagram in Mermaid, which GitHub and many editors draw.

use std::io::{self, Write};

use super::{label, summary};
use crate::event::{Event, EventKind, MarkKind};
use crate::trace::Execution;

/// Writes an execution as a Mermaid sequence diagram. Meant for short ones: Mermaid itself gives
/// up at a few hundred lines.
pub fn mermaid(execution: &Execution, mut to: impl Write) -> io::Result<()> {
    writeln!(to, "sequenceDiagram")?;
    for (place, node) in execution.nodes().iter().enumerate() {
        writeln!(to, "    participant n{place} as {}", plain(&node.name))?;
    }
    let mut marks = execution.marks().iter().peekable();
    for (place, event) in execution.events().iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.after as usize <= place) {
            write_mark(execution, &mark.kind, &mut to)?;
        }
        write_event(execution, event, &mut to)?;
    }
    marks.try_for_each(|mark| write_mark(execution, &mark.kind, &mut to))
}

fn write_event(execution: &Execution, event: &Event, to: &mut impl Write) -> io::Result<()> {
    for id in event.received() {
        let words = plain(&label(execution, id));
        writeln!(to, "    {}->>{}: {words}", id.sender, event.node)?;
    }
    let words = match (&event.kind, &event.text) {
        (EventKind::Deliver { .. }, None) => return Ok(()),
        (EventKind::Deliver { .. }, Some(text)) => plain(text),
        _ => plain(&summary(execution, event)),
    };
    writeln!(to, "    Note over {}: {words}", event.node)
}

fn write_mark(execution: &Execution, mark: &MarkKind, to: &mut impl Write) -> io::Result<()> {
    let last = execution.nodes().len().saturating_sub(1);
    match mark {
        MarkKind::Lost(id) => {
            let sent = execution.message(*id).and_then(|message| execution.send_of(message));
            let to_node = sent.and_then(|send| send.to).unwrap_or(id.sender);
            writeln!(to, "    {}--x{to_node}: {} lost", id.sender, plain(&label(execution, *id)))
        }
        MarkKind::Duplicated(id) => {
            let words = plain(&label(execution, *id));
            writeln!(to, "    Note over {}: {words} duplicated", id.sender)
        }
        MarkKind::Partition(groups) => {
            let group = |group: &Vec<crate::NodeId>| {
                group.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            };
            let groups: Vec<_> = groups.iter().map(group).collect();
            writeln!(to, "    Note over n0,n{last}: partition {}", groups.join(" | "))
        }
        MarkKind::Heal => writeln!(to, "    Note over n0,n{last}: partition heals"),
        MarkKind::Fault { node, name } => {
            let node = node.unwrap_or_default();
            writeln!(to, "    Note over {node}: fault {}", plain(name))
        }
    }
}

/// Without what Mermaid takes for syntax; an empty text would be an error to it.
fn plain(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| match c {
            ';' => ',',
            '#' => '~',
            c if c.is_control() => ' ',
            c => c,
        })
        .take(80)
        .collect();
    if text.trim().is_empty() { "(nothing)".to_owned() } else { text }
}
