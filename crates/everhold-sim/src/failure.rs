//! Failures of executions, and their causes.

use std::fmt;

/// A failure of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The cause; two executions fail alike if their causes are equal.
    pub cause: Cause,
    /// The values that show the failure.
    pub message: String,
}

/// The cause of a failure, without the values of the particular execution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// An `always` property is false.
    Always(String),
    /// A named assertion in a node does not hold.
    Assertion(String),
    /// A node panicked at this place in the source.
    Panic(String),
    /// A monitor's assertion does not hold.
    Monitor(String),
    /// A monitor or `eventually` stays hot for ever.
    Liveness(String),
    /// A `finally` is false when the execution ends, or becomes false again and again.
    Finally(String),
    /// Nothing can happen any more, but a node of this kind waits.
    Deadlock(String),
    /// A handler of this kind of node did not return.
    Stuck(String),
    /// The evaluation of a property did not return.
    StuckProperty(String),
    /// A node of this kind sent messages, set timers or added nodes without end.
    Flood(String),
    /// The execution is not a function of its schedule.
    Nondeterminism,
}

impl Cause {
    /// Whether the failure is that something did not happen: it shows only at the end.
    pub(crate) fn is_progress(&self) -> bool {
        matches!(self, Cause::Liveness(_) | Cause::Finally(_))
    }

    /// The property's own name, for grouping and for the regressions file.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Cause::Always(name)
            | Cause::Assertion(name)
            | Cause::Panic(name)
            | Cause::Monitor(name)
            | Cause::Liveness(name)
            | Cause::Finally(name)
            | Cause::Deadlock(name)
            | Cause::Stuck(name)
            | Cause::StuckProperty(name)
            | Cause::Flood(name) => name,
            Cause::Nondeterminism => "a run is a function of its schedule",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Always(name) => write!(f, "always \"{name}\""),
            Cause::Assertion(name) => write!(f, "assertion \"{name}\""),
            Cause::Panic(place) => write!(f, "no panic (at {place})"),
            Cause::Monitor(name) => write!(f, "monitor \"{name}\""),
            Cause::Liveness(name) => write!(f, "eventually \"{name}\""),
            Cause::Finally(name) => write!(f, "finally \"{name}\""),
            Cause::Deadlock(kind) => write!(f, "no deadlock (kind \"{kind}\")"),
            Cause::Stuck(kind) => write!(f, "handlers return (kind \"{kind}\")"),
            Cause::StuckProperty(name) => write!(f, "properties return (\"{name}\")"),
            Cause::Flood(kind) => write!(f, "handlers do a bounded amount (kind \"{kind}\")"),
            Cause::Nondeterminism => f.write_str("a run is a function of its schedule"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated", self.cause)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}
