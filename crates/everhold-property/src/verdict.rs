//! Three truth values, and why something is not known.

use std::fmt;

use everhold_trace::NodeId;

/// What is known of a claim.
///
/// The connectives are Kleene's: what is unknown may turn out either way, so `false and unknown` is
/// false and `true and unknown` is unknown.
///
/// ```
/// use everhold_property::Verdict::{Holds, Unknown, Violated};
/// assert_eq!(Violated.and(Unknown), Violated);
/// assert_eq!(Holds.and(Unknown), Unknown);
/// assert_eq!(Holds.or(Unknown), Holds);
/// assert_eq!(Unknown.negate(), Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is false.
    Violated,
    /// Something that decides it is not known.
    Unknown,
    /// It is true.
    Holds,
}

impl Verdict {
    /// Both.
    #[must_use]
    pub fn and(self, other: Verdict) -> Verdict {
        self.min(other)
    }

    /// At least one.
    #[must_use]
    pub fn or(self, other: Verdict) -> Verdict {
        self.max(other)
    }

    /// The opposite.
    #[must_use]
    pub fn negate(self) -> Verdict {
        match self {
            Verdict::Violated => Verdict::Holds,
            Verdict::Unknown => Verdict::Unknown,
            Verdict::Holds => Verdict::Violated,
        }
    }
}

/// Why a property is violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Its body is false in a state.
    False,
    /// Its body was false for longer than its deadline allows.
    FalseForTooLong {
        /// The state from which on it was false: the number of states before it.
        since: u64,
    },
    /// Its deadline passed while nothing changed.
    DeadlinePassed,
    /// The execution ended, and what the property asks for never happened.
    NeverHappened,
    /// The right side of a `leads to` was late.
    NotLedTo,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::False => f.write_str("it is false"),
            Reason::FalseForTooLong { since } => {
                write!(f, "false from state {since} on, for too long")
            }
            Reason::DeadlinePassed => f.write_str("the time is over"),
            Reason::NeverHappened => f.write_str("the execution ended without it"),
            Reason::NotLedTo => f.write_str("it was not led to in time"),
        }
    }
}

impl From<bool> for Verdict {
    fn from(truth: bool) -> Verdict {
        if truth { Verdict::Holds } else { Verdict::Violated }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Violated => "violated",
            Verdict::Unknown => "unknown",
            Verdict::Holds => "holds",
        })
    }
}

/// Why a value is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// The node has not shown its state.
    NotReported(NodeId),
    /// An operator was given values that it does not apply to.
    Mismatch {
        /// The operator or function.
        op: &'static str,
        /// What it was given.
        left: &'static str,
        /// What else it was given, if it takes two.
        right: Option<&'static str>,
    },
    /// Division by zero.
    DivisionByZero,
    /// The result does not fit.
    Overflow,
    /// A function supplied by the user gave up, with this message.
    Function(String),
    /// Nobody counts the messages in flight.
    NotCounted,
    /// A name that has no value; type checking reports these.
    NoSuchName(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::NotReported(node) => write!(f, "{node} has not reported"),
            Unknown::Mismatch { op, left, right: Some(right) } => {
                write!(f, "`{op}` does not apply to {left} and {right}")
            }
            Unknown::Mismatch { op, left, right: None } => {
                write!(f, "`{op}` does not apply to {left}")
            }
            Unknown::DivisionByZero => f.write_str("division by zero"),
            Unknown::Overflow => f.write_str("the number does not fit"),
            Unknown::Function(message) => f.write_str(message),
            Unknown::NotCounted => f.write_str("messages in flight are not counted here"),
            Unknown::NoSuchName(name) => write!(f, "nothing is called `{name}`"),
        }
    }
}
