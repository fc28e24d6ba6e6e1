//! Logs of JSON lines from any program, by a small mapping that says which field is what.
//!
//! A mapping is a JSON object; paths name fields within a line, with dots:
//!
//! | key | meaning |
//! |---|---|
//! | `where` | lines that count: `{path: value}`, all must match; others are skipped |
//! | `node` | path of the node's name (required) |
//! | `name` | path of the event's name |
//! | `time_s`, `time_ms`, `time_ns` | path of the wall-clock time, in that unit |
//! | `clock` | path of the event's vector clock: an object of counts by node, or a list of counts by position, in the order of the nodes' names |
//! | `state` | path of the state, or an object of variables with their paths |
//! | `send`, `receive` | `where` such a line sends or receives; `to` or `from`: path of the other node; `id`: paths that identify the message; `label`, `payload` |
//!
//! A value in `where` may end with `*` to match a beginning, or be a list of alternatives. A
//! receive belongs to the earliest send from the same node to the same node with an equal `id`
//! that is not yet received. With `clock`, lines may stand in any order, a receive without a send is
//! a step of its node, and without `send` and `receive` the messages come from the clocks.
//!
//! ```
//! use everhold_trace::format::ReadOptions;
//! use everhold_trace::import::ndjson::{Mapping, read};
//!
//! let mapping = Mapping::parse(r#"{
//!     "node": "host", "state": {"x": "vars.x"},
//!     "send": {"where": {"op": "send"}, "to": "peer", "id": ["n"]},
//!     "receive": {"where": {"op": "recv"}, "from": "peer", "id": ["n"]}
//! }"#)?;
//! let log = r#"{"host": "a", "op": "send", "peer": "b", "n": 1}
//! {"host": "b", "op": "recv", "peer": "a", "n": 1, "vars": {"x": 5}}"#;
//! let recording = read(log.as_bytes(), &mapping, &ReadOptions::strict())?;
//! assert_eq!(recording.executions[0].messages().len(), 1);
//! # Ok::<(), everhold_trace::format::ReadError>(())
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value as Json;

use super::clocks::{ClockLog, Said};
use super::{expected, finish, judge, natural, recording, without_bom};
use crate::event::{Event, EventKind, MessageId, Observation, Send, Time};
use crate::format::error::{Diagnostic, DiagnosticKind, ReadError};
use crate::format::input::{Judge, Line, Lines, plain};
use crate::format::{ReadOptions, TraceFile};
use crate::trace::{Assembly, NodeInfo};
use crate::value::json::from_json;
use crate::{NodeId, Value};

/// Which field is what; see the [module](self).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    #[serde(default, rename = "where")]
    filter: BTreeMap<String, Json>,
    node: String,
    name: Option<String>,
    time_s: Option<String>,
    time_ms: Option<String>,
    time_ns: Option<String>,
    clock: Option<String>,
    state: Option<Json>,
    send: Option<Side>,
    receive: Option<Side>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    #[serde(default, rename = "where")]
    filter: BTreeMap<String, Json>,
    #[serde(alias = "to", alias = "from")]
    other: String,
    id: Vec<String>,
    label: Option<String>,
    payload: Option<String>,
}

impl Mapping {
    /// Reads a mapping from its JSON text.
    pub fn parse(text: &str) -> Result<Mapping, ReadError> {
        serde_json::from_str(text).map_err(|error| {
            let kind = expected(format!("the mapping cannot be used: {error}"));
            ReadError::Refused(vec![Diagnostic { line: None, kind }])
        })
    }
}

/// Reads a log of JSON lines.
pub fn read(
    input: impl BufRead,
    mapping: &Mapping,
    options: &ReadOptions,
) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let mut lines = Lines::new(plain(input)?, options);
    let mut importer = Importer::new(mapping);
    while let Some(line) = lines.next()? {
        let result = match line {
            Line::TooLong => Err(DiagnosticKind::LineTooLong { bytes_max: lines.bytes_max() }),
            Line::Whole | Line::Unterminated => {
                let bytes = without_bom(&lines.bytes, lines.number == 1);
                importer.line(bytes, lines.number)
            }
        };
        if let Err(kind) = result {
            judge.hear(Some(lines.number), kind)?;
        }
    }
    importer.finish(judge)
}

struct Importer<'a> {
    mapping: &'a Mapping,
    parts: Assembly,
    ids: BTreeMap<String, NodeId>,
    next_seq: Vec<u64>,
    /// Sent and not yet received, by sender, receiver and content.
    flying: BTreeMap<(NodeId, NodeId, String), VecDeque<MessageId>>,
    /// Receives that came before their send in the file: matched at the end.
    waiting: Vec<(usize, (NodeId, NodeId, String))>,
    /// With clocks: the lines, to be put in order.
    clocked: Vec<Clocked>,
    /// The number of lines that had the fields to be an event, and that the mapping left out.
    read: u64,
    left_out: u64,
}

/// A line with its vector clock.
struct Clocked {
    number: u64,
    json: Json,
    clock: BTreeMap<String, u64>,
}

impl<'a> Importer<'a> {
    fn new(mapping: &'a Mapping) -> Importer<'a> {
        Importer {
            mapping,
            parts: Assembly::default(),
            ids: BTreeMap::new(),
            next_seq: Vec::new(),
            flying: BTreeMap::new(),
            waiting: Vec::new(),
            clocked: Vec::new(),
            read: 0,
            left_out: 0,
        }
    }

    fn line(&mut self, bytes: &[u8], number: u64) -> Result<(), DiagnosticKind> {
        if bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| DiagnosticKind::InvalidUtf8 { column: error.valid_up_to() + 1 })?;
        let json: Json = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => DiagnosticKind::Truncated,
            _ => DiagnosticKind::Json { column: error.column(), message: error.to_string() },
        })?;
        if !matches(&json, &self.mapping.filter) {
            self.left_out += 1;
            return Ok(());
        }
        self.read += 1;
        if let Some(path) = &self.mapping.clock {
            let clock = at(&json, path).ok_or_else(|| {
                expected(format!("no field `{path}`, which the mapping says is the clock"))
            })?;
            let clock = counts(clock)?;
            self.clocked.push(Clocked { number, json, clock });
            return Ok(());
        }
        let event = self.event(&json)?;
        self.parts.events.push(event);
        self.parts.lines.push(number);
        Ok(())
    }

    fn event(&mut self, json: &Json) -> Result<Event, DiagnosticKind> {
        let mapping = self.mapping;
        let node = self.node(json, &mapping.node)?;
        let name = mapping.name.as_ref().and_then(|path| at(json, path)).map(word);
        let name = name.unwrap_or_default();
        let mut event = Event::new(node, EventKind::Local { name: name.clone() });
        if let Some(side) = mapping.receive.as_ref().filter(|side| matches(json, &side.filter)) {
            let from = self.node(json, &side.other)?;
            let key = (from, node, content(json, &side.id)?);
            match self.flying.get_mut(&key).and_then(VecDeque::pop_front) {
                Some(message) => event.kind = EventKind::Deliver { message },
                None => self.waiting.push((self.parts.events.len(), key)),
            }
            event.text = Some(name).filter(|name| !name.is_empty());
        }
        if let Some(side) = mapping.send.as_ref().filter(|side| matches(json, &side.filter)) {
            let to = self.node(json, &side.other)?;
            let seq = self.next_seq[node.index()];
            self.next_seq[node.index()] += 1;
            let field = |path: &Option<String>| path.as_ref().and_then(|path| at(json, path));
            let label = field(&side.label).map(word).unwrap_or_default();
            let payload = field(&side.payload).map(value).transpose()?;
            event.sends.push(Send { to: Some(to), seq, label, payload });
            let key = (node, to, content(json, &side.id)?);
            self.flying.entry(key).or_default().push_back(MessageId { sender: node, seq });
        }
        event.time = self.time(json);
        event.observation = self.state(json)?.map(Observation::State);
        Ok(event)
    }

    fn node(&mut self, json: &Json, path: &str) -> Result<NodeId, DiagnosticKind> {
        let name = at(json, path).filter(|json| !json.is_null()).map(word).ok_or_else(|| {
            expected(format!("no field `{path}`, which the mapping says is a node"))
        })?;
        if let Some(id) = self.ids.get(&name) {
            return Ok(*id);
        }
        let id = NodeId(u32::try_from(self.ids.len()).expect("node ids are 32 bits"));
        self.ids.insert(name.clone(), id);
        self.parts.nodes.push(NodeInfo { name, kind: String::new(), incarnations: 1 });
        self.next_seq.push(0);
        Ok(id)
    }

    fn time(&self, json: &Json) -> Time {
        let number = |path: &Option<String>| path.as_ref().and_then(|path| at(json, path));
        let scaled = |path: &Option<String>, ns: f64| {
            let value = number(path)?.as_f64()? * ns;
            #[expect(clippy::cast_possible_truncation, reason = "nanoseconds since 1970 fit")]
            Some(value.round() as i64)
        };
        let ns = number(&self.mapping.time_ns).and_then(Json::as_i64);
        let ns = ns.or_else(|| scaled(&self.mapping.time_ms, 1e6));
        Time { logical: None, physical_ns: ns.or_else(|| scaled(&self.mapping.time_s, 1e9)) }
    }

    fn state(&self, json: &Json) -> Result<Option<Value>, DiagnosticKind> {
        match &self.mapping.state {
            Some(Json::String(path)) => at(json, path).map(value).transpose(),
            Some(Json::Object(variables)) => {
                let mut state = BTreeMap::new();
                for (name, path) in variables {
                    if let Some(found) = path.as_str().and_then(|path| at(json, path)) {
                        state.insert(name.clone(), value(found)?);
                    }
                }
                Ok((!state.is_empty()).then_some(Value::Record(state)))
            }
            _ => Ok(None),
        }
    }

    fn finish(mut self, mut judge: Judge) -> Result<TraceFile, ReadError> {
        let kept = (self.parts.events.len() + self.clocked.len()) as u64;
        let remedy = "check the mapping: `where` selects the lines that are events, and its paths \
                      must be there";
        judge.weigh(kept, judge.broken_lines(), "lines", remedy)?;
        if self.mapping.clock.is_some() {
            self.by_position(&mut judge)?;
            if self.mapping.send.is_none() && self.mapping.receive.is_none() {
                return self.with_messages_of_clocks(judge);
            }
            self.in_order(&mut judge)?;
        }
        for (event, key) in std::mem::take(&mut self.waiting) {
            match self.flying.get_mut(&key).and_then(VecDeque::pop_front) {
                Some(message) => self.parts.events[event].kind = EventKind::Deliver { message },
                // The clocks say what the node knew by then.
                None if self.mapping.clock.is_some() => {}
                None => {
                    let node = &self.parts.nodes[key.0.index()].name;
                    let text = format!("a receive from `{node}` without a send with an equal id");
                    judge.hear(self.parts.lines.get(event).copied(), expected(text))?;
                }
            }
        }
        if self.parts.events.is_empty() {
            let text = format!(
                "no line matches the mapping ({} read, {} left out by its `where`); check its \
                 `where` and `node`",
                self.read + self.left_out,
                self.left_out
            );
            judge.hear(None, expected(text))?;
            return Ok(recording(Vec::new(), judge));
        }
        self.parts.complete = true;
        let execution = finish(self.parts, &mut judge)?;
        Ok(recording(vec![execution], judge))
    }
}

impl Importer<'_> {
    /// Gives clocks by position the names of the nodes, in their natural order.
    fn by_position(&mut self, judge: &mut Judge) -> Result<(), ReadError> {
        let mut names: Vec<String> = Vec::new();
        for line in &self.clocked {
            names.extend(at(&line.json, &self.mapping.node).map(word));
        }
        names.sort_by_key(|name| natural(name));
        names.dedup();
        for line in &mut self.clocked {
            let by_position = line.clock.keys().all(|key| key.starts_with(POSITION));
            if line.clock.is_empty() || !by_position {
                continue;
            }
            if line.clock.len() != names.len() {
                let text = format!(
                    "the clock has {} counts, but the log has {} nodes: {}; write the clock as an \
                     object of counts by node",
                    line.clock.len(),
                    names.len(),
                    names.join(", ")
                );
                judge.hear(Some(line.number), expected(text))?;
            }
            let counts = std::mem::take(&mut line.clock);
            line.clock = names.iter().cloned().zip(counts.into_values()).collect();
        }
        Ok(())
    }

    /// The messages from the clocks.
    fn with_messages_of_clocks(mut self, mut judge: Judge) -> Result<TraceFile, ReadError> {
        let mut log = ClockLog::default();
        for line in std::mem::take(&mut self.clocked) {
            let Some(node) = at(&line.json, &self.mapping.node).map(word) else { continue };
            let state = match self.state(&line.json) {
                Ok(state) => state,
                Err(kind) => {
                    judge.hear(Some(line.number), kind)?;
                    continue;
                }
            };
            let name = self.mapping.name.as_ref().and_then(|path| at(&line.json, path)).map(word);
            let said = Said {
                line: line.number,
                time: self.time(&line.json),
                text: name.unwrap_or_default(),
                state,
            };
            let counts = line.clock.iter().map(|(name, count)| (name.as_str(), *count));
            log.add(&node, counts, said, &mut judge)?;
        }
        if log.is_empty() {
            let text = "no line matches the mapping; check its `where`, `node` and `clock`";
            judge.hear(None, expected(text))?;
            return Ok(recording(Vec::new(), judge));
        }
        let parts = log.rebuild("", &mut judge)?;
        let execution = finish(parts, &mut judge)?;
        Ok(recording(vec![execution], judge))
    }

    /// Reads the lines in an order that respects happens-before: an event that knows of another has
    /// a greater sum of counts.
    fn in_order(&mut self, judge: &mut Judge) -> Result<(), ReadError> {
        let mut lines = std::mem::take(&mut self.clocked);
        lines.sort_by_key(|line| line.clock.values().sum::<u64>());
        for Clocked { number, json, .. } in lines {
            match self.event(&json) {
                Ok(event) => {
                    self.parts.events.push(event);
                    self.parts.lines.push(number);
                }
                Err(kind) => judge.hear(Some(number), kind)?,
            }
        }
        Ok(())
    }
}

/// How the keys of a clock by position begin; its digits keep the order.
const POSITION: &str = "\u{0}";

/// The counts of a clock, by node or by position.
fn counts(clock: &Json) -> Result<BTreeMap<String, u64>, DiagnosticKind> {
    let wrong = || {
        expected(format!(
            "the clock `{clock}` is neither an object of counts by node nor a list of counts"
        ))
    };
    let count = |json: &Json| json.as_u64().ok_or_else(wrong);
    match clock {
        Json::Object(fields) => {
            fields.iter().map(|(name, json)| Ok((name.clone(), count(json)?))).collect()
        }
        Json::Array(items) => {
            let entry = |(at, json)| Ok((format!("{POSITION}{at:06}"), count(json)?));
            items.iter().enumerate().map(entry).collect()
        }
        _ => Err(wrong()),
    }
}

fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(json, |json, field| match json {
        Json::Array(items) => items.get(field.parse::<usize>().ok()?),
        _ => json.get(field),
    })
}

fn word(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

fn value(json: &Json) -> Result<Value, DiagnosticKind> {
    from_json(json.clone()).map_err(DiagnosticKind::Value)
}

fn content(json: &Json, paths: &[String]) -> Result<String, DiagnosticKind> {
    let part = |path: &String| {
        at(json, path).map(Json::to_string).ok_or_else(|| {
            expected(format!("no field `{path}`, which the mapping says identifies the message"))
        })
    };
    Ok(paths.iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn matches(json: &Json, filter: &BTreeMap<String, Json>) -> bool {
    filter.iter().all(|(path, wanted)| at(json, path).is_some_and(|found| fits(found, wanted)))
}

fn fits(found: &Json, wanted: &Json) -> bool {
    match wanted {
        Json::Array(any) => any.iter().any(|wanted| fits(found, wanted)),
        Json::String(pattern) => match pattern.strip_suffix('*') {
            Some(start) => word(found).starts_with(start),
            None => word(found) == *pattern,
        },
        other => found == other,
    }
}
