//! A table: one row an event, one column a variable.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::event::{Event, MessageId};
use crate::trace::Execution;
use crate::value::json::to_json;
use crate::{EventId, NodeId, Value};

/// Writes executions as one table of events with the state after each.
///
/// The columns are those that the CSV importer reads; a cell of a variable is JSON, and empty
/// when the state lacks it. A state that is no record is the column `state`.
pub fn csv(executions: &[Execution], mut to: impl Write) -> io::Result<()> {
    let variables = variables(executions);
    let fixed = "run,node,kind,name,received,sent,time,wall_ns,text";
    let names = variables.iter().map(|name| format!(",{}", quoted(name)));
    writeln!(to, "{fixed}{}", names.collect::<String>())?;
    for (place, execution) in executions.iter().enumerate() {
        let run = match execution.name() {
            "" => (place + 1).to_string(),
            name => name.to_owned(),
        };
        write_run(execution, &run, &variables, &mut to)?;
    }
    Ok(())
}

fn write_run(
    execution: &Execution,
    run: &str,
    variables: &BTreeSet<String>,
    to: &mut impl Write,
) -> io::Result<()> {
    let states = execution.local_states();
    for (place, event) in execution.events().iter().enumerate() {
        let id = EventId(u32::try_from(place).expect("event ids are 32 bits"));
        let cells = fixed_cells(execution, run, event);
        write!(to, "{}", cells.map(|cell| quoted(&cell).into_owned()).join(","))?;
        let state = states.at(event.node, execution.index_in_node(id) + 1);
        for name in variables {
            let cell = state.and_then(|state| variable(state, name)).map(to_json);
            write!(to, ",{}", cell.map_or(String::new(), |json| quoted(&json.to_string()).into()))?;
        }
        writeln!(to)?;
    }
    Ok(())
}

fn fixed_cells(execution: &Execution, run: &str, event: &Event) -> [String; 9] {
    let name = |node: NodeId| one_word(&execution.node(node).name);
    let received = event.received().map(|MessageId { sender, seq }| {
        let known = execution.nodes().get(sender.index()).is_some();
        let sender = if known { name(sender) } else { sender.to_string() };
        format!("{sender}#{seq}")
    });
    let is_lost = |seq: u64| {
        let sent = execution.message(MessageId { sender: event.node, seq });
        sent.is_some_and(|message| message.lost)
    };
    let sent = event.sends.iter().map(|send| {
        let to = send.to.map_or_else(|| "*".to_owned(), name);
        format!("{to}#{}{}", send.seq, if is_lost(send.seq) { "!" } else { "" })
    });
    [
        run.to_owned(),
        name(event.node),
        event.kind.word().to_owned(),
        event.kind.name().unwrap_or_default().to_owned(),
        received.collect::<Vec<_>>().join(" "),
        sent.collect::<Vec<_>>().join(" "),
        event.time.logical.map_or(String::new(), |ticks| ticks.to_string()),
        event.time.physical_ns.map_or(String::new(), |ns| ns.to_string()),
        event.text.clone().unwrap_or_default(),
    ]
}

/// Messages are listed with spaces between, so a name must have none.
fn one_word(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_")
}

const FIXED: [&str; 10] =
    ["run", "snapshot", "node", "kind", "name", "received", "sent", "time", "wall_ns", "text"];

fn variables(executions: &[Execution]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for execution in executions {
        let states = execution.local_states();
        for node in execution.node_ids() {
            for count in 1..=execution.events_of(node).len() {
                match states.at(node, count) {
                    Some(Value::Record(fields)) => {
                        names.extend(fields.keys().map(|name| column(name).into_owned()));
                    }
                    Some(_) => drop(names.insert("state".to_owned())),
                    None => {}
                }
            }
        }
    }
    names
}

/// A variable with the name of a fixed column gets a mark, so that no two columns have one name.
fn column(variable: &str) -> Cow<'_, str> {
    if FIXED.contains(&variable) { format!("{variable}_").into() } else { variable.into() }
}

fn variable<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    match state {
        Value::Record(fields) => {
            fields.iter().find(|(field, _)| column(field) == name).map(|(_, value)| value)
        }
        other => (name == "state").then_some(other),
    }
}

fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}
