//! Exit codes, in one place; `docs/exit-codes.md` says the same.

use std::fmt;
use std::process::ExitCode;

use everhold::Verdict;
use everhold::perf::{PerfVerdict, VersionsVerdict};
use everhold_property::{Diagnostic, render_all};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// All is well.
    Holds = 0,
    /// A property is violated.
    Violated = 1,
    /// A bound was reached first, or something was not there to be judged.
    Unknown = 2,
    /// An execution did not replay.
    Diverged = 3,
    /// The arguments or the input cannot be used.
    Usage = 64,
    /// Everhold itself is wrong.
    Internal = 70,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

impl From<Verdict> for Code {
    fn from(verdict: Verdict) -> Code {
        match verdict {
            Verdict::Holds => Code::Holds,
            Verdict::Violated => Code::Violated,
            Verdict::Unknown => Code::Unknown,
            Verdict::Diverged => Code::Diverged,
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

/// Input that cannot be used; everything else that fails is a bug of ours.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl BadInput {
    /// What is wrong with properties, with the places in their source.
    pub(crate) fn of_properties(wrong: &[Diagnostic], file: &str, source: &str) -> BadInput {
        let text = render_all(wrong, file, source);
        // Whoever prints it says that it is an error.
        BadInput(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
    }

    /// All of them as one.
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

/// Prints what clap has to say: help is no failure, wrong use is 64 and not clap's 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Code::Usage.into() } else { Code::Holds.into() }
}
