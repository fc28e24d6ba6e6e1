//! The streaming writer.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use super::wire::{self, VERSION};
use crate::event::{Event, EventKind, Mark, MarkKind, MessageId, Observation};
use crate::trace::{Execution, NodeInfo};
use crate::value::json::{AsJson, depth};
use crate::value::{Change, diff};
use crate::{NodeId, Value};

/// JSON readers commonly stop at a nesting of 128; the line around a value takes a few levels.
const DEPTH_MAX: usize = 120;

/// Writes executions as JSON lines.
///
/// Each line is one `write_all`, so a program that dies leaves whole lines behind (give it an
/// unbuffered file when that matters more than speed). Either write whole executions with
/// [`execution`](Self::execution), or record as things happen with [`begin_run`](Self::begin_run),
/// [`node`](Self::node), [`event`](Self::event), [`mark`](Self::mark), [`end_run`](Self::end_run).
///
/// ```
/// use everhold_trace::format::Writer;
/// use everhold_trace::{Event, EventKind, NodeId};
///
/// let mut writer = Writer::new(Vec::new());
/// writer.begin_run("first", &Default::default())?;
/// let a = writer.node("a", "server")?;
/// writer.event(&Event::new(a, EventKind::Start))?;
/// writer.end_run()?;
/// let file = String::from_utf8(writer.finish()?)?;
/// assert_eq!(file.lines().nth(3), Some(r#"{"is":"event","node":"a","kind":"start"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "call `finish` to flush what is written and to learn of errors"]
pub struct Writer<W: Write> {
    sink: Sink<W>,
    line: Vec<u8>,
    started: bool,
    names: Vec<String>,
    events: u64,
    /// The last state written for each node; used when states are written as changes.
    states: Vec<Option<Value>>,
    as_changes: bool,
}

impl<W: Write> Writer<W> {
    /// Writes plain text.
    pub fn new(output: W) -> Writer<W> {
        Writer::over(Sink::Plain(output))
    }

    /// Writes zstd-compressed text.
    #[cfg(feature = "zstd")]
    pub fn compressed(output: W) -> io::Result<Writer<W>> {
        let encoder = zstd::stream::write::Encoder::new(output, 0)?;
        Ok(Writer::over(Sink::Zstd(Box::new(encoder))))
    }

    fn over(sink: Sink<W>) -> Writer<W> {
        Writer {
            sink,
            line: Vec::new(),
            started: false,
            names: Vec::new(),
            events: 0,
            states: Vec::new(),
            as_changes: false,
        }
    }

    /// Writes a state as its changes since the node's previous state where that is shorter.
    pub fn with_changes(mut self) -> Writer<W> {
        self.as_changes = true;
        self
    }

    /// Writes one whole run.
    pub fn execution(&mut self, execution: &Execution) -> io::Result<()> {
        self.begin_run(execution.name(), execution.notes())?;
        for NodeInfo { name, kind, .. } in execution.nodes() {
            self.node(name, kind)?;
        }
        let mut marks = execution.marks().iter().peekable();
        for (place, event) in execution.events().iter().enumerate() {
            while let Some(Mark { kind, .. }) = marks.next_if(|mark| mark.after as usize <= place) {
                self.mark(kind)?;
            }
            self.event(event)?;
        }
        for Mark { kind, .. } in marks {
            self.mark(kind)?;
        }
        if execution.is_complete() { self.end_run() } else { Ok(()) }
    }

    /// Begins a run.
    pub fn begin_run(&mut self, name: &str, notes: &BTreeMap<String, Value>) -> io::Result<()> {
        if !self.started {
            self.write(&wire::Header { everhold: "trace", version: VERSION })?;
            self.started = true;
        }
        self.names.clear();
        self.states.clear();
        self.events = 0;
        notes.values().try_for_each(check_depth)?;
        self.write(&wire::Run { is: "run", name, notes: wire::Notes(notes) })
    }

    /// Declares a node of the run; its name must be unique.
    pub fn node(&mut self, name: &str, kind: &str) -> io::Result<NodeId> {
        let info = NodeInfo { name: name.to_owned(), kind: kind.to_owned(), incarnations: 1 };
        self.write(&wire::Node::from(&info))?;
        let id = NodeId(u32::try_from(self.names.len()).expect("node ids are 32 bits"));
        self.names.push(info.name);
        self.states.push(None);
        Ok(id)
    }

    /// Writes one event of a declared node.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        check_event(event)?;
        let changes = if self.as_changes { self.shorter(event) } else { None };
        let names = std::mem::take(&mut self.names);
        let result = wire_event(&names, event, changes.as_deref()).and_then(|w| self.write(&w));
        self.names = names;
        self.events += 1;
        result
    }

    /// Writes a mark between two events.
    pub fn mark(&mut self, kind: &MarkKind) -> io::Result<()> {
        let names = std::mem::take(&mut self.names);
        let result = wire_mark(&names, kind).and_then(|mark| self.write(&mark));
        self.names = names;
        result
    }

    /// Ends a run. A run without an end reads as incomplete.
    pub fn end_run(&mut self) -> io::Result<()> {
        self.write(&wire::End { is: "end", events: self.events })?;
        self.sink.flush()
    }

    /// Hands everything written so far to the output's owner: the file, the socket.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.started {
            // A file without runs is still a trace file.
            self.write(&wire::Header { everhold: "trace", version: VERSION })?;
        }
        self.sink.finish()
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.sink.write_all(&self.line)
    }

    /// The changes that say what the event's state says in fewer bytes, if any do.
    fn shorter(&mut self, event: &Event) -> Option<Vec<Change>> {
        let last = self.states.get_mut(event.node.index())?;
        match &event.observation {
            None => {
                if event.kind == EventKind::Crash {
                    *last = None;
                }
                None
            }
            Some(Observation::State(state)) => {
                let changes = last.as_ref().map(|last| diff(last, state));
                *last = Some(state.clone());
                changes.filter(|changes| is_shorter(changes, state))
            }
            Some(Observation::Changes(changes)) => {
                // A base that the changes do not fit cannot serve for later differences.
                let fits = last.as_mut().is_some_and(|s| crate::value::apply(s, changes).is_ok());
                if !fits {
                    *last = None;
                }
                None
            }
        }
    }
}

fn is_shorter(changes: &[Change], state: &Value) -> bool {
    let out: Vec<_> = changes.iter().map(wire::ChangeOut::from).collect();
    let len = |json: serde_json::Result<String>| json.map_or(usize::MAX, |text| text.len());
    len(serde_json::to_string(&out)) < len(serde_json::to_string(&AsJson(state)))
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("events", &self.events).finish_non_exhaustive()
    }
}

enum Sink<W: Write> {
    Plain(W),
    #[cfg(feature = "zstd")]
    Zstd(Box<zstd::stream::write::Encoder<'static, W>>),
}

impl<W: Write> Sink<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(output) => output.write_all(bytes),
            #[cfg(feature = "zstd")]
            Sink::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(output) => output.flush(),
            #[cfg(feature = "zstd")]
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Sink::Plain(mut output) => output.flush().map(|()| output),
            #[cfg(feature = "zstd")]
            Sink::Zstd(encoder) => {
                let mut output = encoder.finish()?;
                output.flush().map(|()| output)
            }
        }
    }
}

fn check_event(event: &Event) -> io::Result<()> {
    event.sends.iter().filter_map(|send| send.payload.as_ref()).try_for_each(check_depth)?;
    match &event.observation {
        Some(Observation::State(state)) => check_depth(state),
        Some(Observation::Changes(changes)) => {
            let sides = changes.iter().flat_map(|change| [&change.old, &change.new]);
            sides.flatten().try_for_each(check_depth)
        }
        None => Ok(()),
    }
}

/// Refuses to write a value that is nested too deeply for the reader.
fn check_depth(value: &Value) -> io::Result<()> {
    if depth(value) <= DEPTH_MAX {
        return Ok(());
    }
    let message = format!("a value nests deeper than {DEPTH_MAX} levels; record a flatter one");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn name_of(names: &[String], node: NodeId) -> io::Result<&str> {
    names.get(node.index()).map(String::as_str).ok_or_else(|| {
        let message = format!("{node} was not declared; call `node` before its first event");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

fn message<'a>(names: &'a [String], id: &MessageId) -> io::Result<(&'a str, u64)> {
    Ok((name_of(names, id.sender)?, id.seq))
}

fn wire_event<'a>(
    names: &'a [String],
    event: &'a Event,
    shorter: Option<&'a [Change]>,
) -> io::Result<wire::Event<'a>> {
    let (from, seq) = match &event.kind {
        EventKind::Deliver { message } => {
            (Some(name_of(names, message.sender)?), Some(message.seq))
        }
        _ => (None, None),
    };
    let (state, changes) = match (shorter, &event.observation) {
        (Some(changes), _) => (None, Some(changes)),
        (None, Some(Observation::Changes(changes))) => (None, Some(changes.as_slice())),
        (None, Some(Observation::State(state))) => (Some(AsJson(state)), None),
        (None, None) => (None, None),
    };
    Ok(wire::Event {
        is: "event",
        node: name_of(names, event.node)?,
        kind: event.kind.word(),
        name: event.kind.name(),
        from,
        seq,
        also: event.joins.iter().map(|id| message(names, id)).collect::<Result<_, _>>()?,
        time: event.time.logical,
        wall_ns: event.time.physical_ns,
        sends: event.sends.iter().map(|s| wire_send(names, s)).collect::<Result<_, _>>()?,
        state,
        changes: changes.map(|changes| changes.iter().map(Into::into).collect()),
        text: event.text.as_deref(),
        clock: wire_clock(names, event)?,
    })
}

fn wire_send<'a>(names: &'a [String], send: &'a crate::Send) -> io::Result<wire::Send<'a>> {
    Ok(wire::Send {
        to: send.to.map(|to| name_of(names, to)).transpose()?,
        seq: send.seq,
        label: &send.label,
        payload: send.payload.as_ref().map(AsJson),
    })
}

fn wire_clock<'a>(
    names: &'a [String],
    event: &Event,
) -> io::Result<Option<BTreeMap<&'a str, u64>>> {
    let Some(clock) = &event.clock else { return Ok(None) };
    let entry = |(node, count): (&NodeId, &u64)| Ok((name_of(names, *node)?, *count));
    clock.iter().map(entry).collect::<io::Result<_>>().map(Some)
}

fn wire_mark<'a>(names: &'a [String], kind: &'a MarkKind) -> io::Result<wire::Mark<'a>> {
    let blank = wire::Mark { is: "heal", message: None, groups: None, node: None, name: None };
    Ok(match kind {
        MarkKind::Lost(id) => {
            wire::Mark { is: "lost", message: Some(message(names, id)?), ..blank }
        }
        MarkKind::Duplicated(id) => {
            wire::Mark { is: "duplicated", message: Some(message(names, id)?), ..blank }
        }
        MarkKind::Partition(groups) => {
            let group = |group: &'a Vec<NodeId>| group.iter().map(|n| name_of(names, *n)).collect();
            let groups = groups.iter().map(group).collect::<io::Result<_>>()?;
            wire::Mark { is: "partition", groups: Some(groups), ..blank }
        }
        MarkKind::Heal => blank,
        MarkKind::Fault { node, name } => wire::Mark {
            is: "fault",
            node: node.map(|node| name_of(names, node)).transpose()?,
            name: Some(name),
            ..blank
        },
    })
}
