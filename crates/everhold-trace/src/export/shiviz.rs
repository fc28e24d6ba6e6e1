//! A log for ShiViz, which shows the space-time diagram in a browser.

use std::io::{self, Write};

use super::summary;
use crate::EventId;
use crate::event::Event;
use crate::order::Order;
use crate::trace::Execution;

/// The parser expression of the logs written here; it is also their first line.
pub const SHIVIZ_PARSER: &str = r"^(?<timestamp>-?\d+) (?<host>\S+) (?<clock>{.*})\n(?<event>.*)$";

/// The delimiter between the executions of the logs written here; also their second line.
pub const SHIVIZ_DELIMITER: &str = r"^=== (?<trace>.*) ===$";

/// Writes executions as a ShiViz log whose first two lines say how to read it.
///
/// Host names lose their white space, events become one line of text. States and payloads are
/// left out: ShiViz has no place for them.
pub fn shiviz(executions: &[Execution], mut to: impl Write) -> io::Result<()> {
    writeln!(to, "{SHIVIZ_PARSER}\n{SHIVIZ_DELIMITER}")?;
    for execution in executions {
        writeln!(to, "=== {} ===", one_line(execution.name()))?;
        write_run(execution, &mut to)?;
    }
    Ok(())
}

fn write_run(execution: &Execution, to: &mut impl Write) -> io::Result<()> {
    let order = Order::of(execution);
    let hosts: Vec<String> = execution.nodes().iter().map(|node| host(&node.name)).collect();
    for (place, event) in execution.events().iter().enumerate() {
        let id = EventId(u32::try_from(place).expect("event ids are 32 bits"));
        let (node, state) = order.place(id);
        write!(to, "{} {} {{", timestamp(event, place), hosts[node.index()])?;
        let mut comma = "";
        for (host, count) in hosts.iter().zip(order.clock(node, state)).filter(|(_, c)| **c > 0) {
            write!(to, "{comma}{}:{count}", serde_json::to_string(host)?)?;
            comma = ", ";
        }
        writeln!(to, "}}\n{}", one_line(&words(execution, event)))?;
    }
    Ok(())
}

fn words(execution: &Execution, event: &Event) -> String {
    match &event.text {
        Some(text) => text.clone(),
        None => summary(execution, event),
    }
}

fn timestamp(event: &Event, place: usize) -> i64 {
    let logical = event.time.logical.and_then(|ticks| i64::try_from(ticks).ok());
    let place = i64::try_from(place).expect("event ids are 32 bits");
    event.time.physical_ns.or(logical).unwrap_or(place)
}

fn host(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_")
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}
