//! Notices: the output of a checker.

use std::fmt;

use everhold_trace::value::StableHash;
use everhold_trace::wire::Stamp;
use everhold_trace::{Execution, NodeId, Value};

use crate::rule::NotWatched;

/// The identity of a violation: the same rule, key and time of onset give the same one, in every
/// process, in every version and on every re-reading of the log. It is the
/// [`StableHash`] of the name (as bytes), of 1 and the key, or of 0,
/// and of the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViolationId(pub u64);

impl ViolationId {
    /// Of a rule that began to be violated at this stamp, for this key if it is keyed.
    #[must_use]
    pub fn new(rule: &str, key: Option<&Value>, at: Stamp) -> ViolationId {
        let mut hash = StableHash::default();
        hash.bytes(rule.as_bytes());
        match key {
            Some(key) => {
                hash.word(1);
                hash.value(key);
            }
            None => hash.word(0),
        }
        hash.word(at.0);
        ViolationId(hash.finish())
    }
}

impl fmt::Display for ViolationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Whether a violation is certain although clocks are not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Clocks and messages leave no other order of events.
    Definite,
    /// The stamps suggest it, but the clocks are not exact enough to be sure.
    Possible {
        /// By how many microseconds the order of two events may be wrong.
        error: u64,
    },
}

/// A rule that is violated.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Its identity.
    pub id: ViolationId,
    /// The rule's name.
    pub rule: String,
    /// The rule's text.
    pub text: String,
    /// For which key, if the rule is keyed.
    pub key: Option<Value>,
    /// The stamp of the first snapshot that violates it.
    pub at: Stamp,
    /// The reason, in a few words.
    pub reason: String,
    /// The bindings and values that falsify it, a line each.
    pub witness: Vec<(String, String)>,
    /// The changes that led to it.
    pub trace: Execution,
    /// Whether it is certain.
    pub certainty: Certainty,
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A rule begins to be violated.
    Fired(Box<Violation>),
    /// A rule may have been violated for a moment; it is over, and the clocks are not exact enough to
    /// tell. Not an alarm, unless [`Alarm::Possible`](crate::Alarm) was asked for.
    Possible(Box<Violation>),
    /// A wall clock disagrees with most others, or does no more. Stamps are corrected all the same.
    Clock {
        /// The node whose clock it is; `None` is the clock of the watch itself.
        node: Option<NodeId>,
        /// Its name.
        name: String,
        /// Its lead over the others, in microseconds.
        ahead: i64,
        /// Whether it disagrees.
        strays: bool,
        /// When.
        at: Stamp,
    },
    /// It holds again.
    Resolved {
        /// The violation that is over.
        id: ViolationId,
        /// The rule's name.
        rule: String,
        /// For which key.
        key: Option<Value>,
        /// When it began.
        since: Stamp,
        /// The stamp of the first snapshot in which it holds.
        at: Stamp,
    },
    /// Snapshots from here on lack this node, so what depends on it is unknown.
    Incomplete {
        /// Which node.
        node: NodeId,
        /// Its name.
        name: String,
        /// Why, in words.
        reason: String,
        /// From when.
        at: Stamp,
    },
    /// A node came or went.
    Membership {
        /// Which node.
        node: NodeId,
        /// Its name.
        name: String,
        /// The change in a word: `up`, `down`, `gone`.
        what: &'static str,
        /// When.
        at: Stamp,
    },
    /// Rules that were found in the log are in force, or are not.
    Rules {
        /// The names of all that are.
        names: Vec<String>,
        /// Those that no watch can judge, and why; the others are judged without them.
        not_watched: Vec<NotWatched>,
        /// Why others are not.
        refused: Vec<String>,
    },
    /// A rule is no longer judged.
    Disabled {
        /// Its name.
        rule: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids are file names and stand in files that other versions read.
    #[test]
    fn ids_do_not_change() {
        let at = Stamp::from_micros(1_700_000_000_000_000);
        let text: Value = "lock 7".into();
        let ids =
            [None, Some(&Value::Int(7)), Some(&text)].map(|key| ViolationId::new("r", key, at));
        assert_eq!(
            ids.map(|id| id.to_string()),
            ["071e1304d54dec8e", "ce1d4f078ab3f250", "65ee8fdc3466bfc3"]
        );
    }
}
