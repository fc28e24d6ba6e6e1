//! A Chrome trace: one row a node, arrows for messages. Opens in Perfetto.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use super::{label, summary};
use crate::event::Observation;
use crate::trace::Execution;
use crate::value::json::to_json;

/// Writes an execution in Chrome's trace event format (JSON).
///
/// Time is physical where the trace has it, otherwise one microsecond an event.
pub fn chrome(execution: &Execution, mut to: impl Write) -> io::Result<()> {
    to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut comma = "\n";
    let mut put = |to: &mut dyn Write, json: &Json| {
        write!(to, "{comma}{json}")?;
        comma = ",\n";
        io::Result::Ok(())
    };
    for (tid, node) in execution.nodes().iter().enumerate() {
        let args = json!({"name": node.name});
        let row = json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": args});
        put(&mut to, &row)?;
    }
    for place in 0..execution.events().len() {
        for json in event_rows(execution, place) {
            put(&mut to, &json)?;
        }
    }
    to.write_all(b"\n]}\n")
}

fn event_rows(execution: &Execution, place: usize) -> Vec<Json> {
    let event = &execution.events()[place];
    let (at, tid) = (micros(execution, place), event.node.0);
    let mut args = Map::new();
    if let Some(text) = &event.text {
        args.insert("text".into(), text.clone().into());
    }
    if let Some(Observation::State(state)) = &event.observation {
        args.insert("state".into(), to_json(state));
    }
    let name = summary(execution, event);
    let slice = json!({"ph": "X", "cat": event.kind.word(), "name": name, "pid": 1, "tid": tid,
        "ts": at, "dur": 0.8, "args": args});
    let mut rows = vec![slice];
    // An arrow needs one id at both ends; a message has it already.
    let flow = |phase: &str, id: crate::MessageId| {
        json!({"ph": phase, "bp": "e", "cat": "message", "name": label(execution, id),
            "id": id.to_string(), "pid": 1, "tid": tid, "ts": at})
    };
    let delivered = |id: &crate::MessageId| {
        execution.message(*id).is_some_and(|message| !message.delivered.is_empty())
    };
    rows.extend(event.sent().filter(delivered).map(|id| flow("s", id)));
    rows.extend(event.received().map(|id| flow("f", id)));
    rows
}

fn micros(execution: &Execution, place: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "Chrome's times are floats")]
    let float = |number: i64| number as f64;
    let start = execution.events().iter().find_map(|event| event.time.physical_ns);
    match (execution.events()[place].time.physical_ns, start) {
        (Some(now), Some(start)) => float(now.saturating_sub(start)) / 1000.0,
        _ => float(i64::try_from(place).expect("event ids are 32 bits")),
    }
}
