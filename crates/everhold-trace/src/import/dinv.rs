//! Dinv's points: `NAMEEncoded.txt`, JSON objects with variables and a gob-encoded vector clock.
//!
//! Points carry the clock of the host's latest communication, so several points may share a
//! count. The points of a host are therefore states after the event of that count: they are laid
//! over the events of its GoVector log, which gives the messages.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value as Json;

use super::shiviz::{self, Format};
use super::{expected, judge, read_text};
use crate::event::{EventKind, Observation};
use crate::format::error::ReadError;
use crate::format::input::Judge;
use crate::format::{ReadOptions, TraceFile};
use crate::trace::{Assembly, Execution};
use crate::value::json;
use crate::{Event, NodeId, Value};

/// One point as Dinv writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Point {
    #[serde(default)]
    dump: Vec<Variable>,
    #[serde(default)]
    id: String,
    vector_clock: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Variable {
    var_name: String,
    value: Json,
}

/// Reads the GoVector logs of all hosts, and lays the points of each over its events.
///
/// `points` names the host that wrote them.
pub fn read<L: BufRead, P: BufRead>(
    logs: impl IntoIterator<Item = L>,
    points: impl IntoIterator<Item = (String, P)>,
    options: &ReadOptions,
) -> Result<TraceFile, ReadError> {
    let mut recording = shiviz::read_logs(logs, &Format::go_vector(), options)?;
    let mut judge = judge(options);
    let Some(execution) = recording.executions.pop() else { return Ok(recording) };
    let mut by_state: BTreeMap<(NodeId, usize), Vec<Point>> = BTreeMap::new();
    let mut all = 0;
    for (host, input) in points {
        let text = read_text(input, &mut judge)?;
        // A point that cannot be read is known by its clock.
        all += text.matches("\"VectorClock\"").count();
        let Some(node) = execution.node_named(&host) else {
            let text = format!("points of `{host}`, which no log mentions; add its GoVector log");
            judge.hear(None, expected(text))?;
            continue;
        };
        for (line, point) in parse(&text, &mut judge)? {
            match own_count(&host, &point.vector_clock) {
                Ok(count) if count <= execution.events_of(node).len() => {
                    by_state.entry((node, count)).or_default().push(point);
                }
                Ok(count) => {
                    let text = format!("a point at event {count}, which `{host}` does not have");
                    judge.hear(Some(line), expected(text))?;
                }
                Err(text) => judge.hear(Some(line), expected(text))?,
            }
        }
    }
    let kept = by_state.values().map(Vec::len).sum::<usize>();
    let remedy = "give the points and the GoVector logs of one run, as Dinv wrote them";
    judge.weigh(kept as u64, all.saturating_sub(kept) as u64, "points", remedy)?;
    let execution = with_points(&execution, by_state, &mut judge)?;
    recording.executions.push(execution);
    recording.diagnostics.extend(judge.kept);
    Ok(recording)
}

fn parse(text: &str, judge: &mut Judge) -> Result<Vec<(u64, Point)>, ReadError> {
    let mut points = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Point>();
    loop {
        let line = 1 + text[..stream.byte_offset()].bytes().filter(|b| *b == b'\n').count() as u64;
        match stream.next() {
            None => return Ok(points),
            Some(Ok(point)) => points.push((line, point)),
            Some(Err(error)) => {
                // After a broken object there is no telling where the next begins.
                let kind = expected(format!("no Dinv point: {error}; the rest is left out"));
                judge.hear(Some(error.line() as u64), kind)?;
                return Ok(points);
            }
        }
    }
}

fn own_count(host: &str, clock: &str) -> Result<usize, String> {
    let bytes = json::unbase64(clock).ok_or("the clock is no base64 text")?;
    let clock = gob_clock(&bytes).ok_or("the clock is no gob of a map[string]uint64")?;
    let own = clock.get(host).copied().unwrap_or(0);
    usize::try_from(own).map_err(|_| format!("the clock has {own} for `{host}`"))
}

/// Points become local events after the event of their count.
fn with_points(
    execution: &Execution,
    mut by_state: BTreeMap<(NodeId, usize), Vec<Point>>,
    judge: &mut Judge,
) -> Result<Execution, ReadError> {
    let mut events = Vec::new();
    for node in execution.node_ids() {
        events.extend(by_state.remove(&(node, 0)).into_iter().flatten().map(|p| event(node, p)));
    }
    for (place, original) in execution.events().iter().enumerate() {
        let id = crate::EventId(u32::try_from(place).expect("event ids are 32 bits"));
        events.push(original.clone());
        let state = (original.node, execution.index_in_node(id) + 1);
        let points = by_state.remove(&state).into_iter().flatten();
        events.extend(points.map(|point| event(original.node, point)));
    }
    let parts = Assembly {
        name: execution.name().to_owned(),
        nodes: execution.nodes().to_vec(),
        events,
        complete: true,
        ..Assembly::default()
    };
    super::finish(parts, judge)
}

fn event(node: NodeId, point: Point) -> Event {
    let variable = |v: Variable| {
        let value = json::from_json(v.value.clone());
        (v.var_name, value.unwrap_or_else(|_| Value::Text(v.value.to_string())))
    };
    let state = Value::Record(point.dump.into_iter().map(variable).collect());
    Event {
        observation: Some(Observation::State(state)),
        ..Event::new(node, EventKind::Local { name: point.id })
    }
}

/// Decodes Go's gob encoding of a `map[string]uint64`.
///
/// ```
/// # use everhold_trace::import::dinv::gob_clock;
/// let gob = [0x0e, 0xff, 0x81, 0x04, 0x01, 0x02, 0xff, 0x82, 0x00, 0x01, 0x0c, 0x01, 0x06, 0x00,
///            0x00, 0x08, 0xff, 0x82, 0x00, 0x01, 0x01, b'a', 0xfe, 0x01];
/// assert_eq!(gob_clock(&gob), None); // cut short
/// ```
#[must_use]
pub fn gob_clock(bytes: &[u8]) -> Option<BTreeMap<String, u64>> {
    let mut gob = Gob(bytes);
    // The first message defines the type; the second is the map.
    let definition = gob.count()?;
    gob.take(definition)?;
    let length = gob.count()?;
    let mut map = Gob(gob.take(length)?);
    map.uint()?;
    if map.take(1)? != [0] {
        return None;
    }
    let entries = map.count()?;
    let mut clock = BTreeMap::new();
    for _ in 0..entries {
        let length = map.count()?;
        let name = String::from_utf8(map.take(length)?.to_vec()).ok()?;
        clock.insert(name, map.uint()?);
    }
    Some(clock)
}

struct Gob<'a>(&'a [u8]);

impl<'a> Gob<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.uint()?).ok()
    }

    /// One byte below 128, or the negated number of big-endian bytes that follow.
    fn uint(&mut self) -> Option<u64> {
        let first = self.take(1)?[0];
        if first < 128 {
            return Some(first.into());
        }
        let count = 256 - usize::from(first);
        if count > 8 {
            return None;
        }
        Some(self.take(count)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}
