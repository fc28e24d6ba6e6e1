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
use super::{expected, finish, judge, read_text, recording, tla};
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
    /// begins with `all_`. Empty: the first line of the file is the expression, if it looks like
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
/// Text between events is skipped, as ShiViz does; a log without any event is refused.
pub fn read(
    input: impl BufRead,
    format: &Format,
    options: &ReadOptions,
) -> Result<TraceFile, ReadError> {
    let mut judge = judge(options);
    let text = read_text(input, &mut judge)?;
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
        text.push_str(&read_text(input, &mut judge)?);
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
    for run in runs(&text[skip..], delimiter.as_ref()) {
        let first_line = 1 + newlines(&text[..skip + run.start]);
        let text = &text[skip + run.start..skip + run.end];
        executions.extend(parser.run(text, &run.name, first_line, &mut judge)?);
    }
    if executions.is_empty() {
        let text = format!(
            "no event matches the parser `{}`; give the expression that this log needs, with \
             groups host, clock and event",
            format.parser
        );
        judge.hear(Some(1), expected(text))?;
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
    ) -> Result<Option<Execution>, ReadError> {
        let mut log = ClockLog::default();
        // Lines are counted from one match to the next: ShiViz counts from the start each time,
        // which makes it quadratic.
        let (mut line, mut counted) = (first_line, 0);
        for found in self.regex.captures_iter(text) {
            let start = found.get(0).expect("group 0 is the match").start();
            line += newlines(&text[counted..start]);
            counted = start;
            self.event(&found, line, &mut log, judge)?;
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
        log: &mut ClockLog,
        judge: &mut Judge,
    ) -> Result<(), ReadError> {
        let group = |name: &str| found.name(name).map_or("", |group| group.as_str());
        let host = group("host");
        let clock_text = unescaped(group("clock"));
        let clock: BTreeMap<Cow<'_, str>, u64> = match serde_json::from_str(&clock_text) {
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
        let state = self.state(host, found);
        let said = Said { line, time, text: group("event").to_owned(), state };
        log.add(host, clock.iter().map(|(host, count)| (host.as_ref(), *count)), said, judge)
    }

    fn state(&self, host: &str, found: &Captures<'_>) -> Option<Value> {
        if self.variables.is_empty() {
            return None;
        }
        let variable = |name: &String| {
            let text = found.name(name).map_or("", |group| group.as_str());
            let host = if name.starts_with(WHOLE) { None } else { Some(host) };
            (name.clone(), variable_value(host, text))
        };
        Some(Value::Record(self.variables.iter().map(variable).collect()))
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
