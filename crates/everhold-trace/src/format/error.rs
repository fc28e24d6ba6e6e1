//! Errors of trace files, each with its place and a remedy.

use std::fmt;
use std::io;

use crate::trace::{Problem, ProblemKind};
use crate::value::JsonError;

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where, from 1; `None` for the file as a whole.
    pub line: Option<u64>,
    /// What.
    pub kind: DiagnosticKind,
}

/// The sorts of errors in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The file is something else.
    NotATrace {
        /// The format that the beginning of the file resembles.
        looks_like: &'static str,
    },
    /// The file is of a later version of the format.
    UnknownVersion {
        /// The version it names.
        found: u64,
    },
    /// The file is compressed, and this build cannot read that.
    Compressed,
    /// The line, or the compressed file, ends in the middle.
    Truncated,
    /// A byte that is not UTF-8.
    InvalidUtf8 {
        /// Its column, from 1.
        column: usize,
    },
    /// A line longer than the reader may hold.
    LineTooLong {
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Not JSON, or JSON of another shape.
    Json {
        /// The column, from 1.
        column: usize,
        /// The JSON parser's own message.
        message: String,
    },
    /// A value with an unknown or malformed `$` tag.
    Value(JsonError),
    /// A field that must be there is not.
    MissingField {
        /// The kind of line.
        of: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A word that must be one of a few is not.
    UnknownWord {
        /// The field.
        field: &'static str,
        /// The text that was found.
        found: String,
        /// The texts that are allowed.
        expected: &'static str,
    },
    /// A node that was not declared, in a run that declares its nodes.
    UnknownNode {
        /// The name or number.
        name: String,
    },
    /// A node that was declared before.
    DuplicateNode {
        /// The name.
        name: String,
    },
    /// A line that must be inside a run is not.
    OutsideRun,
    /// The end of a run counts other events than the run has.
    WrongCount {
        /// The number in the end line.
        stated: u64,
        /// The number of events read.
        read: u64,
    },
    /// Something that an importer could not use.
    Import {
        /// The expected content, and how to go on.
        expected: String,
    },
    /// Events that cannot have happened as written.
    Events {
        /// The node.
        node: String,
        /// The problem with the events.
        problem: ProblemKind,
    },
}

impl From<Problem> for Diagnostic {
    fn from(problem: Problem) -> Self {
        let kind = DiagnosticKind::Events { node: problem.node, problem: problem.kind };
        Diagnostic { line: problem.line, kind }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for DiagnosticKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DiagnosticKind as D;
        match self {
            D::NotATrace { looks_like } => write!(
                f,
                "not an Everhold trace: it looks like {looks_like}; expected a first line \
                 {{\"everhold\":\"trace\",\"version\":1}}"
            ),
            D::UnknownVersion { found } => write!(
                f,
                "version {found} of the format; this build reads version 1, so use a newer one"
            ),
            D::Compressed => f.write_str(
                "the file is zstd-compressed; build with the `zstd` feature or run `zstd -d` first",
            ),
            D::Truncated => f.write_str(
                "the line ends in the middle, as when a recorder dies; read leniently to keep \
                 the whole lines",
            ),
            D::InvalidUtf8 { column } => {
                write!(f, "column {column} is not UTF-8; write bytes as {{\"$bytes\": base64}}")
            }
            D::LineTooLong { bytes_max } => write!(
                f,
                "longer than {bytes_max} bytes; raise the limit, or record changes in place of \
                 whole states"
            ),
            D::Json { column, message } => write!(f, "column {column}: {message}"),
            D::Value(error) => error.fmt(f),
            D::MissingField { of, field } => write!(f, "{of} lacks its field `{field}`"),
            D::UnknownWord { field, found, expected } => {
                write!(f, "`{field}` is {found:?}; expected {expected}")
            }
            D::UnknownNode { name } => write!(
                f,
                "node `{name}` was not declared; add a `node` line for it, or declare none at all"
            ),
            D::DuplicateNode { name } => {
                write!(f, "node `{name}` is declared twice; names must be unique in a run")
            }
            D::OutsideRun => f.write_str("expected a `run` line before this one"),
            D::WrongCount { stated, read } => write!(
                f,
                "the end of the run counts {stated} events, but {read} were read; lines are missing"
            ),
            D::Import { expected } => f.write_str(expected),
            D::Events { node, problem } => write!(f, "node `{node}`: {problem}"),
        }
    }
}

/// Why a file could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system says no.
    Io(io::Error),
    /// The content is wrong: everything that was found, never empty.
    Refused(Vec<Diagnostic>),
}

impl ReadError {
    /// The problem with the content; empty for an error of the operating system.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ReadError::Io(_) => &[],
            ReadError::Refused(diagnostics) => diagnostics,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "cannot read: {error}"),
            ReadError::Refused(diagnostics) => match diagnostics.as_slice() {
                [] => f.write_str("refused"),
                [only] => only.fmt(f),
                [first, rest @ ..] => write!(f, "{first} (and {} more)", rest.len()),
            },
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io(error) => Some(error),
            ReadError::Refused(_) => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}
