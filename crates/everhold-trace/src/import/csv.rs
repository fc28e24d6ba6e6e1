//! Tables of states: one row a state, one column a variable.
//!
//! The column `node` is required; `run`, `snapshot`, `kind`, `name`, `received` (`sender#seq ..`),
//! `sent` (`receiver#seq ..`, with `!` behind a message that was lost), `time`, `wall_ns` and `text` are understood; every other column is
//! a variable, its cells JSON where they are, otherwise text, and absent where empty. Rows of one
//! node are in its order. With a column `snapshot`, the rows of one snapshot are one execution:
//! the only complete global state it has is the snapshot.
//!
//! ```
//! use everhold_trace::format::ReadOptions;
//! let table = "node,term\na,1\nb,1\na,2\n";
//! let recording = everhold_trace::import::csv::read(table.as_bytes(), &ReadOptions::strict())?;
//! assert_eq!(recording.executions[0].events().len(), 3);
//! # Ok::<(), everhold_trace::format::ReadError>(())
//! ```

use std::collections::BTreeMap;
use std::io::BufRead;

use super::{expected, finish, judge, read_text, recording};
use crate::event::{Event, EventKind, Mark, MarkKind, MessageId, Observation, Send, Time};
use crate::format::error::{DiagnosticKind, ReadError};
use crate::format::input::Judge;
use crate::format::{ReadOptions, TraceFile};
use crate::trace::{Assembly, NodeInfo};
use crate::value::json::from_json;
use crate::{NodeId, Value};

const KNOWN: [&str; 10] =
    ["run", "snapshot", "node", "kind", "name", "received", "sent", "time", "wall_ns", "text"];

/// Reads a table.
pub fn read(input: impl BufRead, options: &ReadOptions) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let text = read_text(input, &mut judge)?;
    let mut rows = Rows { rest: &text, line: 1 };
    let header = rows.next().map(|(_, cells)| cells).unwrap_or_default();
    if !header.iter().any(|column| column == "node") {
        let text = "the first row must name the columns, one of them `node`";
        judge.hear(Some(1), expected(text))?;
        return Ok(recording(Vec::new(), judge));
    }
    let mut runs: Vec<(String, Run)> = Vec::new();
    for (line, cells) in rows {
        let cell = |name: &str| {
            let place = header.iter().position(|column| column == name);
            place.and_then(|place| cells.get(place)).map_or("", String::as_str)
        };
        let key = format!("{}{}", cell("run"), cell("snapshot"));
        if cells.len() != header.len() {
            let text = format!("{} cells, expected {}", cells.len(), header.len());
            judge.hear(Some(line), expected(text))?;
            continue;
        }
        let place = runs.iter().rposition(|(name, _)| *name == key).unwrap_or_else(|| {
            runs.push((key, Run::default()));
            runs.len() - 1
        });
        let row = Row { line, header: &header, cells: &cells };
        if let Err(kind) = runs[place].1.add(&row) {
            judge.hear(Some(line), kind)?;
        }
    }
    assemble_runs(runs, judge)
}

fn assemble_runs(runs: Vec<(String, Run)>, mut judge: Judge) -> Result<TraceFile, ReadError> {
    let kept = runs.iter().map(|(_, run)| run.parts.events.len() as u64).sum();
    let remedy = "every row needs as many cells as the first one, which names the columns";
    judge.weigh(kept, judge.broken_lines(), "rows", remedy)?;
    let mut executions = Vec::new();
    for (name, run) in runs {
        let parts = Assembly { name, complete: true, ..run.parts };
        executions.push(finish(parts, &mut judge)?);
    }
    Ok(recording(executions, judge))
}

struct Row<'a> {
    line: u64,
    header: &'a [String],
    cells: &'a [String],
}

impl Row<'_> {
    fn cell(&self, name: &str) -> &str {
        let place = self.header.iter().position(|column| column == name);
        place.and_then(|place| self.cells.get(place)).map_or("", String::as_str)
    }

    fn state(&self) -> Option<Value> {
        let variables = self.header.iter().zip(self.cells);
        let variables =
            variables.filter(|(name, cell)| !KNOWN.contains(&name.as_str()) && !cell.is_empty());
        let state: BTreeMap<_, _> =
            variables.map(|(name, cell)| (name.clone(), cell_value(cell))).collect();
        (!state.is_empty()).then_some(Value::Record(state))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, DiagnosticKind> {
        match self.cell(name) {
            "" => Ok(None),
            cell => cell
                .parse()
                .map(Some)
                .map_err(|_| expected(format!("`{cell}` in column `{name}` is no whole number"))),
        }
    }
}

#[derive(Default)]
struct Run {
    parts: Assembly,
    ids: BTreeMap<String, NodeId>,
}

impl Run {
    fn add(&mut self, row: &Row<'_>) -> Result<(), DiagnosticKind> {
        let node = self.node(row.cell("node"));
        let received = self.messages(row.cell("received"))?.into_iter();
        let mut received: Vec<_> =
            received.map(|(sender, seq, _)| MessageId { sender, seq }).collect();
        let sent = self.messages(row.cell("sent"))?;
        let lost = sent.iter().filter(|(_, _, lost)| *lost);
        let lost: Vec<_> = lost.map(|(_, seq, _)| MessageId { sender: node, seq: *seq }).collect();
        let sends = sent.into_iter().map(|(to, seq, _)| Send {
            to: (to != EVERYONE).then_some(to),
            seq,
            label: String::new(),
            payload: None,
        });
        let name = row.cell("name").to_owned();
        let kind = match row.cell("kind") {
            "start" => EventKind::Start,
            "crash" => EventKind::Crash,
            "restart" => EventKind::Restart,
            "timer" => EventKind::Timer { name },
            "input" => EventKind::Input { name },
            _ if !received.is_empty() => EventKind::Deliver { message: received.remove(0) },
            _ => EventKind::Local { name },
        };
        let time = Time { logical: row.number("time")?, physical_ns: row.number("wall_ns")? };
        let text = Some(row.cell("text").to_owned()).filter(|text| !text.is_empty());
        let event = Event {
            joins: received,
            sends: sends.collect(),
            time,
            text,
            observation: row.state().map(Observation::State),
            ..Event::new(node, kind)
        };
        self.parts.events.push(event);
        self.parts.lines.push(row.line);
        let after = u32::try_from(self.parts.events.len()).expect("event ids are 32 bits");
        let marks = lost.into_iter().map(|id| Mark { after, kind: MarkKind::Lost(id) });
        self.parts.marks.extend(marks);
        Ok(())
    }

    fn node(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = NodeId(u32::try_from(self.ids.len()).expect("node ids are 32 bits"));
        self.ids.insert(name.to_owned(), id);
        let info = NodeInfo { name: name.to_owned(), kind: String::new(), incarnations: 1 };
        self.parts.nodes.push(info);
        id
    }

    /// `name#seq name#seq!`; the name `*` stands for everyone, and `!` for a message that was lost.
    fn messages(&mut self, cell: &str) -> Result<Vec<(NodeId, u64, bool)>, DiagnosticKind> {
        let one = |text: &str| {
            let (name, seq) = text.rsplit_once('#')?;
            let node = if name == "*" { EVERYONE } else { self.node(name) };
            let whole = seq.strip_suffix('!');
            Some((node, whole.unwrap_or(seq).parse().ok()?, whole.is_some()))
        };
        let all: Option<Vec<_>> = cell.split(' ').filter(|s| !s.is_empty()).map(one).collect();
        all.ok_or_else(|| expected(format!("`{cell}` is no list of node#number")))
    }
}

const EVERYONE: NodeId = NodeId(u32::MAX);

fn cell_value(cell: &str) -> Value {
    let json = serde_json::from_str(cell).ok();
    let value = json.and_then(|json| from_json(json).ok());
    value.unwrap_or_else(|| Value::Text(cell.to_owned()))
}

/// Rows of cells with their line; quoted cells may hold commas, quotes and line ends.
struct Rows<'a> {
    rest: &'a str,
    line: u64,
}

impl Iterator for Rows<'_> {
    type Item = (u64, Vec<String>);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(rest) = self.rest.strip_prefix('\n') {
            self.rest = rest;
            self.line += 1;
        }
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let mut cells = Vec::new();
        loop {
            let (cell, end) = self.cell();
            cells.push(cell);
            if end != Some(',') {
                return Some((line, cells));
            }
        }
    }
}

impl Rows<'_> {
    /// The next cell, and the comma or line end after it.
    fn cell(&mut self) -> (String, Option<char>) {
        let mut cell = String::new();
        let mut quoted = false;
        let mut chars = self.rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            self.line += u64::from(c == '\n');
            match c {
                '"' if quoted && chars.next_if(|(_, next)| *next == '"').is_some() => {
                    cell.push('"');
                }
                '"' => quoted = !quoted,
                ',' | '\n' if !quoted => {
                    self.rest = &self.rest[at + 1..];
                    return (cell, Some(c));
                }
                _ => cell.push(c),
            }
        }
        self.rest = "";
        (cell, None)
    }
}
