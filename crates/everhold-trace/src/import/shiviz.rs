//! ShiViz, TSViz and GoVector logs: events found by a regular expression, ordered by vector clocks.
//!
//! ```
//! use everhold_trace::format::ReadOptions;
//! use everhold_trace::import::shiviz::{Format, read};
//!
//! let log = "a {\"a\":1}\nsend\nb {\"a\":1, \"b\":1}\nreceive\n";
//! let recording = read(log.as_bytes(), &Format::go_vector(), &ReadOptions::strict())?;
//! assert_eq!(recording.executions[0].messages().len(), 1);
//! # Ok::<(), everhold_trace::format::ReadError>(())
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::BufRead;

use regex::{Captures, Regex, RegexBuilder};

use super::clocks::{ClockLog, Said};
use super::{expected, finish, judge, natural, read_text, recording, tla, trimmed};
use crate::event::Time;
use crate::format::error::{Diagnostic, DiagnosticKind, ReadError};
use crate::format::input::Judge;
use crate::format::{ReadOptions, TraceFile};
use crate::trace::Execution;
use crate::{Value, value};

/// How to find events in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The parser expression, with the named groups `host`, `clock` and `event`, and optionally
    /// `timestamp` in nanoseconds. Any other named group is a variable of the host's state; of a
    /// TLA+ function over the hosts that is the host's own entry, unless the name of the group
    /// begins with `all_`; a group that takes no part in a match leaves its variable as it was. A
    /// clock is a JSON object of counts, or a list of counts by position, `(1,0,0)`, in the order of
    /// the hosts' names. Empty: the first line of the file is the expression, if it looks like
    /// one; otherwise GoVector's or ShiViz's default, whichever matches.
    pub parser: String,
    /// The expression between two executions, with an optional group `trace` that names the one
    /// after it. Empty: one execution, or what the second line of the file says.
    pub delimiter: String,
}

impl Format {
    /// Finds events by this expression.
    #[must_use]
    pub fn new(parser: &str, delimiter: &str) -> Format {
        Format { parser: parser.to_owned(), delimiter: delimiter.to_owned() }
    }

    /// GoVector's logs, with or without timestamps.
    #[must_use]
    pub fn go_vector() -> Format {
        Format::new(GO_VECTOR, "")
    }

    /// The expressions in the first two lines of the file, or the default ones.
    #[must_use]
    pub fn detect() -> Format {
        Format::default()
    }
}

const GO_VECTOR: &str = r"^(?:(?<timestamp>\d+) )?(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)$";
const SHIVIZ: &str = r"^(?<event>.*)\n(?<host>\S*) (?<clock>\{.*\})$";

/// Reads a log.
///
/// Text between events is skipped, as ShiViz does; a log without any event is refused, and so is
/// one of which less than half could be read. If anything else is wrong, the first lines that no
/// event covers are named, since a parser that misses events makes holes in the clocks.
pub fn read(
    input: impl BufRead,
    format: &Format,
    options: &ReadOptions,
) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let text = trimmed(&read_text(input, &mut judge)?);
    read_str(&text, format, judge)
}

/// Reads the logs of several hosts, one after the other, as one execution.
pub fn read_logs<R: BufRead>(
    inputs: impl IntoIterator<Item = R>,
    format: &Format,
    options: &ReadOptions,
) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let mut text = String::new();
    for input in inputs {
        text.push_str(&trimmed(&read_text(input, &mut judge)?));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    read_str(&text, format, judge)
}

fn read_str(text: &str, format: &Format, mut judge: Judge) -> Result<TraceFile, ReadError> {
    let (format, skip) = settle(text, format);
    let parser = Parser::new(&format.parser)?;
    let delimiter = match format.delimiter.as_str() {
        "" => None,
        delimiter => Some(compile(delimiter)?),
    };
    let mut executions = Vec::new();
    let mut unread = Unread::default();
    for run in runs(&text[skip..], delimiter.as_ref()) {
        let first_line = 1 + newlines(&text[..skip + run.start]);
        let text = &text[skip + run.start..skip + run.end];
        match parser.run(text, &run.name, first_line, &mut judge, &mut unread) {
            Ok(execution) => executions.extend(execution),
            Err(ReadError::Refused(mut wrong)) => {
                wrong.extend(unread.diagnostics());
                return Err(ReadError::Refused(wrong));
            }
            Err(other) => return Err(other),
        }
    }
    let kept = executions.iter().map(|execution| execution.events().len() as u64).sum();
    if executions.is_empty() {
        let text = format!(
            "no event matches the parser `{}`; give the expression that this log needs, with \
             groups host, clock and event",
            format.parser
        );
        judge.hear(Some(1), expected(text))?;
        judge.hear_all(unread.diagnostics())?;
    } else if unread.is_most(kept) {
        let text = format!(
            "only {kept} of the {} lines that have a clock could be read as events, too few to \
             judge; correct the parser `{}`",
            kept + unread.clocks,
            format.parser
        );
        let mut wrong = vec![Diagnostic { line: None, kind: expected(text) }];
        wrong.extend(unread.diagnostics());
        return Err(ReadError::Refused(wrong));
    } else if unread.clocks > 0 || !judge.kept.is_empty() {
        let text = format!("{kept} of {} events were kept", kept + unread.clocks);
        judge.kept.push(Diagnostic { line: None, kind: expected(text) });
        judge.kept.extend(unread.diagnostics());
    }
    Ok(recording(executions, judge))
}

/// The format to use, and the length of the lines that gave it.
fn settle(text: &str, format: &Format) -> (Format, usize) {
    if !format.parser.is_empty() {
        return (format.clone(), 0);
    }
    let mut lines = text.split_inclusive('\n');
    let (first, second) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let has = |group: &str| first.contains(group);
    if has("(?<event>") && has("(?<host>") && has("(?<clock>") {
        let line = |text: &str| text.trim_end_matches('\n').to_owned();
        let format = Format { parser: line(first), delimiter: line(second) };
        return (format, first.len() + second.len());
    }
    let go_vector = compile(GO_VECTOR).is_ok_and(|regex| {
        regex.find(text).is_some_and(|found| newlines(&text[..found.start()]) == 0)
    });
    let parser = if go_vector { GO_VECTOR } else { SHIVIZ };
    (Format { parser: parser.to_owned(), delimiter: format.delimiter.clone() }, 0)
}

/// The lines that no event covers.
#[derive(Default)]
struct Unread {
    /// The number of those that have a clock.
    clocks: u64,
    /// The first ones with a clock, with their numbers.
    first: Vec<(u64, String)>,
}

/// So many lines are shown.
const UNREAD_MAX: usize = 3;

impl Unread {
    /// Notes the lines of a gap between two events.
    fn gap(&mut self, text: &str, first_line: u64) {
        for (at, line) in text.lines().enumerate() {
            if !has_clock(line) {
                continue;
            }
            self.clocks += 1;
            if self.first.len() < UNREAD_MAX {
                self.first.push((first_line + at as u64, line.chars().take(80).collect()));
            }
        }
    }

    /// Whether less than half was read.
    fn is_most(&self, kept: u64) -> bool {
        self.clocks > kept
    }

    fn diagnostics(&self) -> Vec<Diagnostic> {
        let one = |(line, text): &(u64, String)| {
            let why = if text.trim_start() == text {
                "it has a clock, but the parser does not match it"
            } else {
                "it begins with a blank, and the parser does not match it"
            };
            let kind = expected(format!("no event: {why}: `{text}`"));
            Diagnostic { line: Some(*line), kind }
        };
        self.first.iter().map(one).collect()
    }
}

/// Whether a line has what looks like a vector clock: `{"a": 1}` with a count.
fn has_clock(line: &str) -> bool {
    let Some((_, rest)) = line.split_once("{\"") else { return false };
    let Some((name, rest)) = rest.split_once('"') else { return false };
    let count = rest.trim_start().strip_prefix(':').map(str::trim_start);
    !name.is_empty()
        && line.trim_end().contains('}')
        && count.is_some_and(|count| count.starts_with(|c: char| c.is_ascii_digit()))
}

struct Run {
    name: String,
    start: usize,
    end: usize,
}

fn runs(text: &str, delimiter: Option<&Regex>) -> Vec<Run> {
    let mut runs = vec![Run { name: String::new(), start: 0, end: text.len() }];
    for found in delimiter.into_iter().flat_map(|delimiter| delimiter.captures_iter(text)) {
        let whole = found.get(0).expect("group 0 is the match");
        let name = found.name("trace").map_or("", |name| name.as_str()).to_owned();
        let last = runs.last_mut().expect("there is one from the start");
        last.end = whole.start();
        runs.push(Run { name, start: whole.end(), end: text.len() });
    }
    runs
}

fn newlines(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

struct Parser {
    regex: Regex,
    /// The groups that become variables.
    variables: Vec<String>,
}

impl Parser {
    fn new(pattern: &str) -> Result<Parser, ReadError> {
        let regex = compile(pattern)?;
        let names: Vec<&str> = regex.capture_names().flatten().collect();
        for group in ["host", "clock", "event"] {
            if !names.contains(&group) {
                let text = format!("the parser lacks the group (?<{group}>..): {pattern}");
                return Err(refused(expected(text)));
            }
        }
        let known = ["host", "clock", "event", "timestamp"];
        let variables = names.iter().filter(|name| !known.contains(name));
        let variables = variables.map(|name| (*name).to_owned()).collect();
        Ok(Parser { regex, variables })
    }

    /// One execution; `None` when the text has no event.
    fn run(
        &self,
        text: &str,
        name: &str,
        first_line: u64,
        judge: &mut Judge,
        unread: &mut Unread,
    ) -> Result<Option<Execution>, ReadError> {
        let mut log = ClockLog::default();
        let mut states = BTreeMap::new();
        let hosts = self.hosts(text);
        // Lines are counted from one match to the next: ShiViz counts from the start each time,
        // which makes it quadratic.
        let (mut line, mut counted, mut end) = (first_line, 0, 0);
        let mut events = Vec::new();
        for found in self.regex.captures_iter(text) {
            let whole = found.get(0).expect("group 0 is the match");
            if whole.start() > end {
                unread.gap(&text[end..whole.start()], line + newlines(&text[counted..end]));
            }
            line += newlines(&text[counted..whole.start()]);
            (counted, end) = (whole.start(), whole.end());
            events.push((found, line));
        }
        unread.gap(&text[end..], line + newlines(&text[counted..end]));
        for (found, line) in &events {
            self.event(found, *line, &hosts, &mut states, &mut log, judge)?;
        }
        if log.is_empty() {
            return Ok(None);
        }
        let parts = log.rebuild(name, judge)?;
        finish(parts, judge).map(Some)
    }

    fn event(
        &self,
        found: &Captures<'_>,
        line: u64,
        hosts: &[String],
        states: &mut BTreeMap<String, BTreeMap<String, Value>>,
        log: &mut ClockLog,
        judge: &mut Judge,
    ) -> Result<(), ReadError> {
        let group = |name: &str| found.name(name).map_or("", |group| group.as_str());
        let host = group("host");
        let clock_text = unescaped(group("clock"));
        let clock: BTreeMap<Cow<'_, str>, u64> = match serde_json::from_str(&clock_text) {
            _ if by_position(&clock_text).is_some() => {
                let counts = by_position(&clock_text).unwrap_or_default();
                if counts.len() != hosts.len() {
                    let text = format!(
                        "the clock `{clock_text}` has {} counts, but the log has {} hosts: {}",
                        counts.len(),
                        hosts.len(),
                        hosts.join(", ")
                    );
                    return judge.hear(Some(line), expected(text));
                }
                let names = hosts.iter().map(|host| Cow::Borrowed(host.as_str()));
                names.zip(counts).collect()
            }
            Ok(clock) => clock,
            Err(error) => {
                let text = format!(
                    "the clock of `{host}` is no JSON object of counts: {error}; expected \
                     {{\"{host}\": 1, ..}}"
                );
                return judge.hear(Some(line), expected(text));
            }
        };
        let time = match group("timestamp") {
            "" => Time::default(),
            stamp => match stamp.parse() {
                Ok(ns) => Time::physical_ns(ns),
                Err(_) => {
                    let text = format!("the timestamp `{stamp}` is no whole number of nanoseconds");
                    judge.hear(Some(line), expected(text))?;
                    Time::default()
                }
            },
        };
        let state = self.state(host, found, states);
        let said = Said { line, time, text: group("event").to_owned(), state };
        log.add(host, clock.iter().map(|(host, count)| (host.as_ref(), *count)), said, judge)
    }

    /// The host's variables: those of the groups that matched, and the others as they were.
    fn state(
        &self,
        host: &str,
        found: &Captures<'_>,
        states: &mut BTreeMap<String, BTreeMap<String, Value>>,
    ) -> Option<Value> {
        if self.variables.is_empty() {
            return None;
        }
        let state = states.entry(host.to_owned()).or_default();
        let before = state.len();
        let mut told = false;
        for name in &self.variables {
            let Some(group) = found.name(name) else { continue };
            let host = if name.starts_with(WHOLE) { None } else { Some(host) };
            state.insert(name.clone(), variable_value(host, group.as_str()));
            told = true;
        }
        (told || before > 0).then(|| Value::Record(state.clone()))
    }

    /// The hosts in their natural order, if the log has clocks by position.
    fn hosts(&self, text: &str) -> Vec<String> {
        let clock = self.regex.captures(text).and_then(|found| found.name("clock"));
        if clock.and_then(|clock| by_position(clock.as_str())).is_none() {
            return Vec::new();
        }
        let host = |found: Captures<'_>| found.name("host").map(|host| host.as_str().to_owned());
        let mut hosts: Vec<String> = self.regex.captures_iter(text).filter_map(host).collect();
        hosts.sort_by_key(|host| natural(host));
        hosts.dedup();
        hosts
    }
}

/// How the names of groups begin that keep a TLA+ function whole: TLC prints global states.
const WHOLE: &str = "all_";

/// JSON or a TLA+ value where it is one, otherwise text. Of a TLA+ function over the hosts, a host
/// sees its own entry.
fn variable_value(host: Option<&str>, text: &str) -> Value {
    let json = serde_json::from_str(text).ok().and_then(|json| value::json::from_json(json).ok());
    if let Some(value) = json {
        return value;
    }
    match tla::parse(text) {
        Some(value) => match host.and_then(|host| value.get(host)) {
            Some(own) => own.clone(),
            None => value,
        },
        None => Value::Text(text.to_owned()),
    }
}

/// The counts of a clock by position: `(1,0,0)`, `[1, 0, 0]`, `<<1, 0, 0>>` or `1,0,0`.
fn by_position(clock: &str) -> Option<Vec<u64>> {
    let inner = clock.trim().trim_matches(['(', ')', '[', ']', '<', '>']);
    inner.split(',').map(|count| count.trim().parse().ok()).collect()
}

/// TLA+ prints a clock as text within text.
fn unescaped(clock: &str) -> Cow<'_, str> {
    if clock.contains("\\\"") { clock.replace("\\\"", "\"").into() } else { clock.into() }
}

fn compile(pattern: &str) -> Result<Regex, ReadError> {
    let regex = RegexBuilder::new(&from_javascript(pattern)).multi_line(true).build();
    regex.map_err(|error| {
        refused(expected(format!(
            "the expression `{pattern}` cannot be used: {error}; lookaround and back-references \
             are not supported"
        )))
    })
}

fn refused(kind: DiagnosticKind) -> ReadError {
    ReadError::Refused(vec![Diagnostic { line: None, kind }])
}

/// JavaScript takes a brace that begins no repetition for itself; Rust's syntax wants a backslash.
fn from_javascript(pattern: &str) -> String {
    let mut rust = String::with_capacity(pattern.len() + 8);
    let (mut escaped, mut in_class) = (false, false);
    for (at, c) in pattern.char_indices() {
        let unicode = pattern[..at].ends_with("\\p") || pattern[..at].ends_with("\\P");
        let literal = c == '{' && !unicode && !repetition(&pattern[at + 1..]);
        if !escaped && !in_class && literal {
            rust.push('\\');
        }
        if !escaped {
            in_class = match c {
                '[' => true,
                ']' => false,
                _ => in_class,
            };
        }
        escaped = c == '\\' && !escaped;
        rust.push(c);
    }
    rust
}

fn repetition(after: &str) -> bool {
    let Some(end) = after.find('}') else { return false };
    let body = &after[..end];
    body.starts_with(|c: char| c.is_ascii_digit())
        && body.chars().all(|c| c.is_ascii_digit() || c == ',')
}
