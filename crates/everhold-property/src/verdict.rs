//! The three truth values, and the reasons why a value is unknown.

use std::fmt;

use everhold_trace::NodeId;

/// The truth value of a claim, as far as it is known.
///
/// The connectives are Kleene's: an unknown claim may turn out either way, so `false and unknown`
/// is false and `true and unknown` is unknown.
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
    /// The claim is false.
    Violated,
    /// Something that decides the claim is unknown.
    Unknown,
    /// The claim is true.
    Holds,
}

impl Verdict {
    /// The conjunction of both.
    #[must_use]
    pub fn and(self, other: Verdict) -> Verdict {
        self.min(other)
    }

    /// The disjunction of both.
    #[must_use]
    pub fn or(self, other: Verdict) -> Verdict {
        self.max(other)
    }

    /// The negation.
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
            Reason::DeadlinePassed => f.write_str("the deadline passed"),
            Reason::NeverHappened => f.write_str("the execution ended while it was still due"),
            Reason::NotLedTo => f.write_str("the right side did not follow in time"),
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

/// The reasons why a value is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// The node has not shown its state.
    NotReported(NodeId),
    /// An operator was given values that it does not apply to.
    Mismatch {
        /// The operator or function.
        op: &'static str,
        /// The kind of the value, or of the left operand.
        left: &'static str,
        /// The kind of the right operand, if there are two.
        right: Option<&'static str>,
    },
    /// Division by zero.
    DivisionByZero,
    /// The result is too large.
    Overflow,
    /// A function supplied by the user failed with this message.
    Function(String),
    /// The messages in flight are not counted.
    NotCounted,
    /// The payloads of messages in flight are not known.
    NotRead,
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
            Unknown::Overflow => f.write_str("the number is too large"),
            Unknown::Function(message) => f.write_str(message),
            Unknown::NotCounted => f.write_str("messages in flight are not counted here"),
            Unknown::NotRead => {
                f.write_str("the payloads of messages in flight are not known here")
            }
            Unknown::NoSuchName(name) => write!(f, "unknown name `{name}`"),
        }
    }
}
