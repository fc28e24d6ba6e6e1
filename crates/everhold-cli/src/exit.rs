//! The exit codes, which `docs/exit-codes.md` documents.

use std::fmt;
use std::process::ExitCode;

use everhold::SimVerdict;
use everhold::perf::{PerfVerdict, VersionsVerdict};
use everhold_property::{Diagnostic, render_all};

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Success: no property is violated.
    Holds = 0,
    /// A property is violated.
    Violated = 1,
    /// A bound was reached first, or nothing was judged.
    Unknown = 2,
    /// An execution did not replay.
    Diverged = 3,
    /// All properties hold, but one was never put to the test.
    Untested = 4,
    /// The arguments or the input cannot be used.
    Usage = 64,
    /// An internal error: a bug in Everhold.
    Internal = 70,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

impl From<SimVerdict> for Code {
    fn from(verdict: SimVerdict) -> Code {
        match verdict {
            SimVerdict::Holds => Code::Holds,
            SimVerdict::Violated => Code::Violated,
            SimVerdict::Unknown => Code::Unknown,
            SimVerdict::Diverged => Code::Diverged,
        }
    }
}

impl From<PerfVerdict> for Code {
    fn from(verdict: PerfVerdict) -> Code {
        match verdict {
            PerfVerdict::NoneSlow => Code::Holds,
            PerfVerdict::Slow => Code::Violated,
            PerfVerdict::Unknown => Code::Unknown,
        }
    }
}

impl From<VersionsVerdict> for Code {
    fn from(verdict: VersionsVerdict) -> Code {
        match verdict {
            VersionsVerdict::NotSlower => Code::Holds,
            VersionsVerdict::Slower => Code::Violated,
            VersionsVerdict::Unknown => Code::Unknown,
        }
    }
}

/// An error of the input. Every other error is a bug in Everhold.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl BadInput {
    /// Errors in properties, with their places in the source.
    pub(crate) fn of_properties(wrong: &[Diagnostic], file: &str, source: &str) -> BadInput {
        let text = render_all(wrong, file, source);
        // The code that prints the error adds this prefix.
        BadInput(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
    }

    /// Combines several errors into one.
    pub(crate) fn all(errors: impl IntoIterator<Item = BadInput>) -> BadInput {
        let texts: Vec<String> = errors.into_iter().map(|error| error.0).collect();
        BadInput(texts.join("\nerror: "))
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

pub(crate) fn code_of(error: &anyhow::Error) -> Code {
    let about_input = error.downcast_ref::<BadInput>().is_some()
        || error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some());
    if about_input { Code::Usage } else { Code::Internal }
}

/// Prints clap's message. A request for help is a success, and wrong usage ends with 64, not with
/// clap's 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Code::Usage.into() } else { Code::Holds.into() }
}
