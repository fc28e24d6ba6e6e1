//! Logs of other tools as executions.
//!
//! - [`shiviz`]: ShiViz and TSViz files, with their parser expressions, and GoVector logs.
//! - [`ndjson`]: any log of JSON lines, by a small mapping of fields.
//! - [`csv`]: snapshots in a table.
//! - [`dinv`]: Dinv's points with their gob-encoded clocks.
//!
//! Logs that have vector clocks but no message ids get their messages from the clocks: an event
//! that knows more of another host than the host's own previous event did has heard of it, and
//! the edges that no other edge implies are the messages.

pub(crate) mod clocks;
pub mod csv;
pub mod dinv;
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
        Ok(text) => Ok(text.replace("\r\n", "\n")),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = valid.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            judge.hear(Some(line as u64), DiagnosticKind::InvalidUtf8 { column })?;
            Ok(String::from_utf8_lossy(error.as_bytes()).replace("\r\n", "\n"))
        }
    }
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
