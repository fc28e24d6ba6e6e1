//! Lines of `from, to, message`: each is a message that is received before the next line.
//!
//! The first line may name the columns `from`, `to`, `message` and `time` (in seconds), in any order;
//! without it, the columns are `from`, `to`, `message`.
//!
//! ```
//! use everhold_trace::format::ReadOptions;
//! use everhold_trace::import::messages::read;
//!
//! let log = "from,to,message\nclient,server,Request\nserver,client,Reply\n";
//! let recording = read(log.as_bytes(), &ReadOptions::strict())?;
//! assert_eq!(recording.executions[0].messages().len(), 2);
//! # Ok::<(), everhold_trace::format::ReadError>(())
//! ```

use std::collections::BTreeMap;
use std::io::BufRead;

use super::{expected, finish, judge, read_text, recording};
use crate::NodeId;
use crate::event::{Event, EventKind, MessageId, Send, Time};
use crate::format::error::{DiagnosticKind, ReadError};
use crate::format::{ReadOptions, TraceFile};
use crate::trace::{Assembly, NodeInfo};

/// Reads a log of messages.
pub fn read(input: impl BufRead, options: &ReadOptions) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let text = read_text(input, &mut judge)?;
    let mut reader = Reader::default();
    let mut columns = None;
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        if columns.is_none() {
            let named = Columns::named(&cells);
            let is_header = named.is_some();
            columns = Some(named.unwrap_or_default());
            if is_header {
                continue;
            }
        }
        let columns = columns.as_ref().expect("the first line has set them");
        if let Err(kind) = reader.line(columns, &cells, at as u64 + 1) {
            judge.hear(Some(at as u64 + 1), kind)?;
        }
    }
    let kept = reader.parts.events.len() as u64 / 2;
    let remedy = "expected `from, to, message`, or a first line that names the columns";
    judge.weigh(kept, judge.broken_lines(), "lines", remedy)?;
    if reader.parts.events.is_empty() {
        let text = "no message is in it; expected lines of `from, to, message`";
        judge.hear(None, expected(text))?;
        return Ok(recording(Vec::new(), judge));
    }
    reader.parts.complete = true;
    let execution = finish(reader.parts, &mut judge)?;
    Ok(recording(vec![execution], judge))
}

/// The places of the columns.
struct Columns {
    from: usize,
    to: usize,
    message: usize,
    time: Option<usize>,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns { from: 0, to: 1, message: 2, time: None }
    }
}

impl Columns {
    fn named(cells: &[&str]) -> Option<Columns> {
        let place = |names: &[&str]| {
            cells.iter().position(|cell| names.contains(&cell.to_lowercase().as_str()))
        };
        Some(Columns {
            from: place(&["from", "sender", "src"])?,
            to: place(&["to", "receiver", "dst"])?,
            message: place(&["message", "msg", "label"])?,
            time: place(&["time"]),
        })
    }
}

#[derive(Default)]
struct Reader {
    parts: Assembly,
    ids: BTreeMap<String, NodeId>,
    next_seq: Vec<u64>,
}

impl Reader {
    fn line(&mut self, columns: &Columns, cells: &[&str], line: u64) -> Result<(), DiagnosticKind> {
        let cell = |place: usize| cells.get(place).copied().filter(|cell| !cell.is_empty());
        let (Some(from), Some(to)) = (cell(columns.from), cell(columns.to)) else {
            return Err(expected("expected `from, to, message`: a sender, a receiver and a text"));
        };
        let label = cell(columns.message).unwrap_or_default();
        let time = match columns.time.and_then(cell) {
            None => Time::default(),
            Some(text) => {
                let seconds: f64 = text
                    .parse()
                    .map_err(|_| expected(format!("the time `{text}` is no number of seconds")))?;
                #[expect(clippy::cast_possible_truncation, reason = "nanoseconds since 1970 fit")]
                Time::physical_ns((seconds * 1e9).round() as i64)
            }
        };
        let (from, to) = (self.node(from), self.node(to));
        let seq = self.next_seq[from.index()];
        self.next_seq[from.index()] += 1;
        let mut sends = Event::new(from, EventKind::Local { name: format!("send {label}") });
        sends.time = time;
        sends.sends.push(Send { to: Some(to), seq, label: label.to_owned(), payload: None });
        let message = MessageId { sender: from, seq };
        let mut receives = Event::new(to, EventKind::Deliver { message });
        receives.time = time;
        self.parts.events.extend([sends, receives]);
        self.parts.lines.extend([line, line]);
        Ok(())
    }

    fn node(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = NodeId(u32::try_from(self.ids.len()).expect("node ids are 32 bits"));
        self.ids.insert(name.to_owned(), id);
        self.parts.nodes.push(NodeInfo {
            name: name.to_owned(),
            kind: String::new(),
            incarnations: 1,
        });
        self.next_seq.push(0);
        id
    }
}
