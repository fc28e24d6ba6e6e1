//! The streaming reader, and whole executions on top of it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, BufRead};

use serde_json::Value as Json;
use serde_json::error::Category;

use super::wire::{self, ChangeIn, Changes, NodeRef, SendIn, VERSION};
use crate::event::{Event, EventKind, Mark, MarkKind, MessageId, Observation, Send, Time};
use crate::format::error::{Diagnostic, DiagnosticKind as D, ReadError};
use crate::format::input::{Judge, Line, Lines, ReadOptions, plain};
use crate::trace::{Assembly, Execution, NodeInfo, assemble};
use crate::value::{Change, Path, Step, json};
use crate::{NodeId, Value};

/// One line of a trace, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A run begins.
    Run {
        /// Its name.
        name: String,
        /// Facts about it.
        notes: BTreeMap<String, Value>,
    },
    /// A node of the run; its id is the count of nodes before it.
    Node(NodeInfo),
    /// An event.
    Event(Box<Event>),
    /// Something between two events.
    Mark(MarkKind),
    /// The run ends in order.
    End,
}

/// Reads a trace line by line, holding one line and the names of the run's nodes.
///
/// ```
/// use everhold_trace::format::{Item, Reader, ReadOptions};
///
/// let file = "{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n\
///             {\"is\":\"event\",\"node\":\"a\",\"kind\":\"start\"}\n";
/// let mut reader = Reader::new(file.as_bytes(), &ReadOptions::strict())?;
/// let mut events = 0;
/// while let Some(item) = reader.next_item()? {
///     events += u32::from(matches!(item, Item::Event(_)));
/// }
/// assert_eq!(events, 1);
/// # Ok::<(), everhold_trace::format::ReadError>(())
/// ```
pub struct Reader<'a> {
    lines: Lines<Box<dyn BufRead + 'a>>,
    judge: Judge,
    names: Names,
    /// Nodes that a line mentions for the first time come before the line itself.
    ready: VecDeque<Item>,
    headed: bool,
    in_run: bool,
    events: u64,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("line", &self.lines.number).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// Reads from `input`, which is decompressed if it is compressed.
    pub fn new(input: impl BufRead + 'a, options: &ReadOptions) -> Result<Reader<'a>, ReadError> {
        Ok(Reader {
            lines: Lines::new(plain(input)?, options),
            judge: Judge::new(options),
            names: Names::default(),
            ready: VecDeque::new(),
            headed: false,
            in_run: false,
            events: 0,
        })
    }

    /// The next item, or `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return self.end_of_file().map(|()| None),
                Err(error) => return self.broken_input(error).map(|()| None),
            };
            match self.understand(&line) {
                Ok(()) => {}
                Err(kind) => {
                    // The line is dropped, but later lines may name its nodes.
                    self.ready.extend(self.names.added.drain(..).map(Item::Node));
                    self.judge.hear(Some(self.lines.number), kind)?;
                }
            }
        }
    }

    /// The number of the line read last, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.lines.number
    }

    /// The parts that a lenient reader has left out so far.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.judge.kept
    }

    fn end_of_file(&mut self) -> Result<(), ReadError> {
        if self.headed {
            return Ok(());
        }
        self.headed = true;
        self.judge.hear(None, D::NotATrace { looks_like: "an empty file" })
    }

    /// A compressed file that ends in the middle keeps what was whole; other errors are real.
    fn broken_input(&mut self, error: io::Error) -> Result<(), ReadError> {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.judge.hear(Some(self.lines.number + 1), D::Truncated)
            }
            _ => Err(error.into()),
        }
    }

    fn understand(&mut self, line: &Line) -> Result<(), D> {
        if matches!(line, Line::TooLong) {
            let bytes_max = self.lines.bytes_max();
            return Err(self.or_foreign(D::LineTooLong { bytes_max }));
        }
        if self.lines.bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        let parsed = parse(&self.lines.bytes, matches!(line, Line::Unterminated));
        let line = parsed.map_err(|error| self.or_foreign(error))?;
        if !self.headed || line.everhold.is_some() {
            return self.header(line);
        }
        self.dispatch(line)
    }

    /// An error on the first line is most likely a file of another kind.
    fn or_foreign(&mut self, error: D) -> D {
        if std::mem::replace(&mut self.headed, true) {
            return error;
        }
        match (looks_like(&self.lines.bytes), &error) {
            ("JSON of another shape", D::Truncated) => error,
            (looks_like, _) => D::NotATrace { looks_like },
        }
    }

    fn header(&mut self, line: wire::Line) -> Result<(), D> {
        self.headed = true;
        match (line.everhold.as_deref(), line.version) {
            (Some("trace"), Some(VERSION)) => Ok(()),
            (Some("trace"), Some(found)) => Err(D::UnknownVersion { found }),
            (Some("trace"), None) => Err(D::MissingField { of: "the header", field: "version" }),
            // A lenient reader goes on with the line; its header may have been lost.
            _ if line.is.is_some() && self.judge.is_lenient() => {
                let kind = D::NotATrace { looks_like: "a trace without its first line" };
                let _ = self.judge.hear(Some(self.lines.number), kind);
                self.dispatch(line)
            }
            _ => Err(D::NotATrace { looks_like: "JSON of another shape" }),
        }
    }

    fn dispatch(&mut self, line: wire::Line) -> Result<(), D> {
        let is = line.is.as_deref().ok_or(D::MissingField { of: "a line", field: "is" })?;
        let in_run = self.in_run || self.judge.is_lenient();
        let item = match is {
            "run" => self.run(line)?,
            "node" | "event" | "lost" | "duplicated" | "partition" | "heal" | "fault" | "end"
                if !in_run =>
            {
                return Err(D::OutsideRun);
            }
            "node" => return self.declare(line),
            "event" => Item::Event(Box::new(self.event(line)?)),
            "lost" => Item::Mark(MarkKind::Lost(self.message(line.message, "a lost mark")?)),
            "duplicated" => {
                Item::Mark(MarkKind::Duplicated(self.message(line.message, "a duplicated mark")?))
            }
            "partition" => Item::Mark(self.partition(line)?),
            "heal" => Item::Mark(MarkKind::Heal),
            "fault" => Item::Mark(self.fault(line)?),
            "end" => self.end(&line)?,
            found => {
                let expected = "run, node, event, lost, duplicated, partition, heal, fault or end";
                return Err(D::UnknownWord { field: "is", found: found.to_owned(), expected });
            }
        };
        self.push(item);
        Ok(())
    }

    fn push(&mut self, item: Item) {
        self.ready.extend(self.names.added.drain(..).map(Item::Node));
        self.ready.push_back(item);
    }

    fn run(&mut self, line: wire::Line) -> Result<Item, D> {
        let notes = line.notes.unwrap_or_default().into_iter();
        let note = |(key, json)| Ok((key, value(json)?));
        let notes = notes.map(note).collect::<Result<_, D>>()?;
        self.names = Names::default();
        self.in_run = true;
        self.events = 0;
        Ok(Item::Run { name: line.name.unwrap_or_default(), notes })
    }

    fn declare(&mut self, line: wire::Line) -> Result<(), D> {
        let name = line.name.ok_or(D::MissingField { of: "a node", field: "name" })?;
        let info = NodeInfo { name, kind: line.kind.unwrap_or_default(), incarnations: 1 };
        self.names.declare(&info)?;
        self.ready.push_back(Item::Node(info));
        Ok(())
    }

    fn end(&mut self, line: &wire::Line) -> Result<Item, D> {
        self.in_run = false;
        self.names = Names::default();
        match line.events {
            Some(stated) if stated != self.events => {
                let kind = D::WrongCount { stated, read: self.events };
                if !self.judge.is_lenient() {
                    return Err(kind);
                }
                let _ = self.judge.hear(Some(self.lines.number), kind);
                Ok(Item::End)
            }
            _ => Ok(Item::End),
        }
    }

    fn event(&mut self, line: wire::Line) -> Result<Event, D> {
        let of = "an event";
        let node = self.names.find(line.node.ok_or(D::MissingField { of, field: "node" })?)?;
        let kind = line.kind.ok_or(D::MissingField { of, field: "kind" })?;
        let message = match (line.from, line.seq) {
            (Some(from), Some(seq)) => Some(MessageId { sender: self.names.find(from)?, seq }),
            _ => None,
        };
        let kind = event_kind(&kind, message, line.name)?;
        let also = line.also.unwrap_or_default().into_iter();
        let joins = also.map(|(from, seq)| Ok(MessageId { sender: self.names.find(from)?, seq }));
        let joins = joins.collect::<Result<_, D>>()?;
        let sends = line.sends.unwrap_or_default().into_iter();
        let sends = sends.map(|send| self.send(send)).collect::<Result<_, D>>()?;
        let observation = observation(line.state, line.changes)?;
        let clock = line.clock.map(|clock| self.clock(clock)).transpose()?;
        self.events += 1;
        let time = Time { logical: line.time, physical_ns: line.wall_ns };
        Ok(Event { node, kind, joins, time, sends, observation, text: line.text, clock })
    }

    fn send(&mut self, send: SendIn) -> Result<Send, D> {
        let to = send.to.map(|to| self.names.find(to)).transpose()?;
        let payload = send.payload.map(value).transpose()?;
        Ok(Send { to, seq: send.seq, label: send.label, payload })
    }

    fn clock(&mut self, clock: BTreeMap<String, u64>) -> Result<BTreeMap<NodeId, u64>, D> {
        let entry = |(name, count)| Ok((self.names.find(NodeRef::Name(name))?, count));
        clock.into_iter().map(entry).collect()
    }

    fn message(&mut self, id: Option<(NodeRef, u64)>, of: &'static str) -> Result<MessageId, D> {
        let (sender, seq) = id.ok_or(D::MissingField { of, field: "message" })?;
        Ok(MessageId { sender: self.names.find(sender)?, seq })
    }

    fn partition(&mut self, line: wire::Line) -> Result<MarkKind, D> {
        let groups = line.groups.ok_or(D::MissingField { of: "a partition", field: "groups" })?;
        let names = &mut self.names;
        let group = |group: Vec<NodeRef>| group.into_iter().map(|node| names.find(node)).collect();
        groups.into_iter().map(group).collect::<Result<_, D>>().map(MarkKind::Partition)
    }

    fn fault(&mut self, line: wire::Line) -> Result<MarkKind, D> {
        let name = line.name.ok_or(D::MissingField { of: "a fault", field: "name" })?;
        let node = line.node.map(|node| self.names.find(node)).transpose()?;
        Ok(MarkKind::Fault { node, name })
    }
}

/// The nodes of the run, by name. A run either declares all of them or none.
#[derive(Default)]
struct Names {
    ids: BTreeMap<String, NodeId>,
    declared: bool,
    /// Nodes that the current line mentions for the first time.
    added: Vec<NodeInfo>,
}

impl Names {
    fn find(&mut self, node: NodeRef) -> Result<NodeId, D> {
        match node {
            NodeRef::Name(name) => match self.ids.get(&name) {
                Some(id) => Ok(*id),
                None if self.declared => Err(D::UnknownNode { name }),
                None => {
                    let info = NodeInfo { name, kind: String::new(), incarnations: 1 };
                    let id = self.add(&info);
                    self.added.push(info);
                    Ok(id)
                }
            },
            NodeRef::Number(number) => match u32::try_from(number) {
                Ok(id) if (id as usize) < self.ids.len() => Ok(NodeId(id)),
                _ => Err(D::UnknownNode { name: number.to_string() }),
            },
        }
    }

    fn declare(&mut self, info: &NodeInfo) -> Result<(), D> {
        if self.ids.contains_key(&info.name) {
            return Err(D::DuplicateNode { name: info.name.clone() });
        }
        self.declared = true;
        self.add(info);
        Ok(())
    }

    fn add(&mut self, info: &NodeInfo) -> NodeId {
        let id = NodeId(u32::try_from(self.ids.len()).expect("node ids are 32 bits"));
        self.ids.insert(info.name.clone(), id);
        id
    }
}

fn parse(bytes: &[u8], unterminated: bool) -> Result<wire::Line, D> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if unterminated && error.error_len().is_none() => return Err(D::Truncated),
        Err(error) => return Err(D::InvalidUtf8 { column: error.valid_up_to() + 1 }),
    };
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => D::Truncated,
        Category::Io | Category::Syntax | Category::Data => {
            D::Json { column: error.column(), message: json_message(&error) }
        }
    })
}

/// The parser's message without its own idea of the line, which is always 1.
fn json_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    match message {
        "recursion limit exceeded" => {
            "nested deeper than 128 levels; record a flatter value".to_owned()
        }
        other => other.to_owned(),
    }
}

fn looks_like(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii();
    match text.first() {
        None => "an empty file",
        Some(_) if bytes.starts_with(&[0x1f, 0x8b]) => "a gzip file (run `gunzip` first)",
        Some(_) if bytes.contains(&0) => "a binary file",
        Some(b'{' | b'[') => "JSON of another shape",
        Some(_) if bytes.windows(3).any(|w| w == b"(?<") => "a ShiViz file (import it)",
        Some(_) if text.contains(&b'{') => "a log with vector clocks (import it as ShiViz)",
        Some(_) if text.contains(&b',') => "comma-separated values (import it as CSV)",
        Some(_) => "text of another format",
    }
}

fn event_kind(
    kind: &str,
    message: Option<MessageId>,
    name: Option<String>,
) -> Result<EventKind, D> {
    let named = |of| name.clone().ok_or(D::MissingField { of, field: "name" });
    Ok(match kind {
        "start" => EventKind::Start,
        "deliver" => {
            let of = "a delivery";
            EventKind::Deliver {
                message: message.ok_or(D::MissingField { of, field: "from, seq" })?,
            }
        }
        "timer" => EventKind::Timer { name: named("a timer")? },
        "input" => EventKind::Input { name: named("an input")? },
        "crash" => EventKind::Crash,
        "restart" => EventKind::Restart,
        "local" => EventKind::Local { name: name.unwrap_or_default() },
        // A step that only sends is a local step with sends; both words are understood.
        "send" => EventKind::Local { name: name.unwrap_or_else(|| "send".to_owned()) },
        found => {
            let expected = "start, send, deliver, timer, input, crash, restart or local";
            return Err(D::UnknownWord { field: "kind", found: found.to_owned(), expected });
        }
    })
}

fn value(json: Json) -> Result<Value, D> {
    json::from_json(json).map_err(D::Value)
}

fn observation(state: Option<Json>, changes: Option<Changes>) -> Result<Option<Observation>, D> {
    Ok(match (state, changes) {
        (Some(state), _) => Some(Observation::State(value(state)?)),
        (None, Some(Changes::Full(changes))) => {
            let changes = changes.into_iter().map(change).collect::<Result<_, D>>()?;
            Some(Observation::Changes(changes))
        }
        (None, Some(Changes::Fields(fields))) => {
            let field = |(name, json)| {
                let path = Path(vec![Step::Field(name)]);
                Ok(Change { path, old: None, new: Some(value(json)?) })
            };
            Some(Observation::Changes(fields.into_iter().map(field).collect::<Result<_, D>>()?))
        }
        (None, None) => None,
    })
}

fn change(wire: ChangeIn) -> Result<Change, D> {
    let path = Path(wire.at.into_iter().map(step).collect::<Result<_, D>>()?);
    let old = wire.old.map(value).transpose()?;
    let new = wire.new.map(value).transpose()?;
    Ok(Change { path, old, new })
}

fn step(json: Json) -> Result<Step, D> {
    let expected = "a field name, a position, {\"key\": value} or null";
    let wrong = |json: &Json| D::UnknownWord { field: "at", found: json.to_string(), expected };
    match json {
        Json::String(name) => Ok(Step::Field(name)),
        Json::Null => Ok(Step::Payload),
        Json::Number(number) => {
            let index = number.as_u64().and_then(|index| usize::try_from(index).ok());
            index.map(Step::Index).ok_or_else(|| wrong(&Json::Number(number)))
        }
        Json::Object(mut fields) if fields.len() == 1 && fields.contains_key("key") => {
            Ok(Step::Key(value(fields.remove("key").unwrap_or_default())?))
        }
        other => Err(wrong(&other)),
    }
}

/// Whole executions, one at a time, so that a file with many runs never is in memory at once.
pub struct Executions<'a> {
    reader: Reader<'a>,
    /// The run that a `run` line has just begun.
    next: Option<Assembly>,
    done: bool,
}

impl fmt::Debug for Executions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executions").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl<'a> Executions<'a> {
    /// Reads from `input`.
    pub fn new(input: impl BufRead + 'a, options: &ReadOptions) -> Result<Self, ReadError> {
        Ok(Executions { reader: Reader::new(input, options)?, next: None, done: false })
    }

    /// The parts that a lenient reader has left out so far.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.reader.diagnostics()
    }

    fn read(&mut self) -> Result<Option<Execution>, ReadError> {
        let mut parts = self.next.take();
        loop {
            let line = match self.reader.next_item()? {
                None => break,
                Some(Item::Run { name, notes }) => {
                    let begun = Assembly { name, notes, ..Assembly::default() };
                    // The run before had no end line: hand it out, and keep what has begun.
                    if let Some(before) = parts.replace(begun) {
                        self.next = parts;
                        return self.assemble(before).map(Some);
                    }
                    continue;
                }
                Some(item) => item,
            };
            // Only a lenient reader hands out items before a run.
            let open = parts.get_or_insert_with(Assembly::default);
            if add(open, line, self.reader.line()) {
                break;
            }
        }
        parts.map(|parts| self.assemble(parts)).transpose()
    }

    fn assemble(&mut self, parts: Assembly) -> Result<Execution, ReadError> {
        let (execution, problems) = assemble(parts);
        self.reader.judge.hear_all(problems.into_iter().map(Into::into).collect())?;
        Ok(execution)
    }
}

/// Adds an item to the run; true when it ends the run.
fn add(parts: &mut Assembly, item: Item, line: u64) -> bool {
    match item {
        Item::Run { .. } => {}
        Item::Node(info) => parts.nodes.push(info),
        Item::Event(event) => {
            parts.events.push(*event);
            parts.lines.push(line);
        }
        Item::Mark(kind) => {
            let after = u32::try_from(parts.events.len()).expect("event ids are 32 bits");
            parts.marks.push(Mark { after, kind });
        }
        Item::End => parts.complete = true,
    }
    parts.complete
}

impl Iterator for Executions<'_> {
    type Item = Result<Execution, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let read = self.read().transpose();
        self.done = !matches!(read, Some(Ok(_)));
        read
    }
}

/// All runs of a file, with what a lenient reader left out.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// The runs, in the order of the file.
    pub executions: Vec<Execution>,
    /// Parts that were left out or are doubtful; empty when read strictly.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads all runs of a file into memory.
pub fn read_all(input: impl BufRead, options: &ReadOptions) -> Result<TraceFile, ReadError> {
    let mut reader = Executions::new(input, options)?;
    let executions = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok(TraceFile { executions, diagnostics: reader.diagnostics().to_vec() })
}
