//! Traces for other tools and for people.
//!
//! Each function writes executions to anything that takes bytes:
//!
//! - [`shiviz`]: a log for ShiViz (with times: TSViz), parser expression included.
//! - [`chrome`]: a Chrome trace, for Perfetto and `about:tracing`.
//! - [`mermaid`]: a sequence diagram for Markdown.
//! - [`csv`]: a table of events and states.
//! - [`text`]: fixed columns for a terminal.
//!
//! ```
//! use everhold_trace::{EventKind, TraceBuilder, export};
//!
//! let mut trace = TraceBuilder::new();
//! let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
//! trace.begin(a, EventKind::Start);
//! let ping = trace.send(b, "Ping", None);
//! trace.begin(b, EventKind::Deliver { message: ping });
//! let mut diagram = Vec::new();
//! export::mermaid(&trace.finish(), &mut diagram)?;
//! assert!(String::from_utf8(diagram)?.contains("n0->>n1: Ping"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chrome;
mod csv;
mod mermaid;
mod shiviz;
mod text;

pub use chrome::chrome;
pub use csv::csv;
pub use mermaid::mermaid;
pub use shiviz::{SHIVIZ_DELIMITER, SHIVIZ_PARSER, shiviz};
pub use text::text;

use crate::event::{Event, EventKind, MessageId};
use crate::trace::Execution;

/// The label of a message, or its identity when it has none.
fn label(execution: &Execution, id: MessageId) -> String {
    let message = execution.message(id);
    let send = message.and_then(|message| execution.send_of(message));
    match send.map(|send| send.label.as_str()) {
        Some("") | None => format!("{}#{}", node_name(execution, id), id.seq),
        Some(label) => label.to_owned(),
    }
}

fn node_name(execution: &Execution, id: MessageId) -> String {
    let node = execution.nodes().get(id.sender.index());
    node.map_or_else(|| id.sender.to_string(), |node| node.name.clone())
}

/// An event in a few words.
fn summary(execution: &Execution, event: &Event) -> String {
    match &event.kind {
        EventKind::Deliver { message } => {
            format!(
                "deliver {} from {}",
                label(execution, *message),
                node_name(execution, *message)
            )
        }
        kind => match kind.name() {
            None | Some("") => match &event.text {
                Some(text) => text.lines().next().unwrap_or_default().to_owned(),
                None => kind.word().to_owned(),
            },
            Some(name) => format!("{} {name}", kind.word()),
        },
    }
}
