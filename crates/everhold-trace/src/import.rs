//! Logs of other tools as executions.
//!
//! - [`shiviz`]: ShiViz and TSViz files, with their parser expressions, and GoVector logs.
//! - [`ndjson`]: any log of JSON lines, by a small mapping of fields.
//! - [`csv`]: snapshots in a table.
//! - [`messages`]: lines of `from, to, message`.
//! - [`dinv`]: Dinv's points with their gob-encoded clocks.
//!
//! Logs that have vector clocks but no message ids get their messages from the clocks: an event
//! that knows more of another host than the host's own previous event did has heard of it, and
//! the edges that no other edge implies are the messages.

pub(crate) mod clocks;
pub mod csv;
pub mod dinv;
pub mod messages;
pub mod ndjson;
pub mod shiviz;
mod tla;

use std::io::BufRead;

use crate::format::error::{DiagnosticKind, ReadError};
use crate::format::input::{Judge, plain};
use crate::format::{ReadOptions, TraceFile};
use crate::trace::{Assembly, Execution, assemble};

/// Reads all text; what is not UTF-8 is refused, or replaced when lenient.
fn read_text(input: impl BufRead, judge: &mut Judge) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    plain(input)?.read_to_end(&mut bytes)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(unmarked(&text)),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = valid.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            judge.hear(Some(line as u64), DiagnosticKind::InvalidUtf8 { column })?;
            Ok(unmarked(&String::from_utf8_lossy(error.as_bytes())))
        }
    }
}

/// The text without a byte order mark, with line ends of one kind.
fn unmarked(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// The text without blanks at the ends of its lines.
fn trimmed(text: &str) -> String {
    let mut trimmed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        trimmed.push_str(line.trim_end_matches(['\n', '\r', ' ', '\t']));
        if line.ends_with('\n') {
            trimmed.push('\n');
        }
    }
    trimmed
}

/// The first line without a byte order mark; every other line as it is.
fn without_bom(line: &[u8], first: bool) -> &[u8] {
    let mark = "\u{feff}".as_bytes();
    if first { line.strip_prefix(mark).unwrap_or(line) } else { line }
}

/// A key that sorts names as people do: `n2` before `n10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(word);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

fn finish(parts: Assembly, judge: &mut Judge) -> Result<Execution, ReadError> {
    let (execution, problems) = assemble(parts);
    judge.hear_all(problems.into_iter().map(Into::into).collect())?;
    Ok(execution)
}

fn recording(executions: Vec<Execution>, judge: Judge) -> TraceFile {
    TraceFile { executions, diagnostics: judge.kept }
}

fn judge(options: &ReadOptions) -> Judge {
    Judge::new(options)
}

fn expected(text: impl Into<String>) -> DiagnosticKind {
    DiagnosticKind::Import { expected: text.into() }
}
