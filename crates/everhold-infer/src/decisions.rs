//! Decisions of people on inferred properties, in a file for version control.
//!
//! The file has one decision a line and is sorted, so that decisions of two people can be merged. The
//! name of a property does not matter, only its claim.

use std::collections::BTreeMap;
use std::fmt;

use everhold_property::{Property, parse, print};

/// A decision on a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Decision {
    /// It is to hold.
    Accept,
    /// It is of no interest; it is not shown again.
    Reject,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decision::Accept => "accept",
            Decision::Reject => "reject",
        })
    }
}

/// Decisions by property.
///
/// ```
/// use everhold_infer::{Decision, Decisions};
///
/// let text = "reject always \"x\": forall n in nodes: n.x == 1\n";
/// let decisions: Decisions = text.parse().unwrap();
/// let same = &everhold_property::parse("always \"y\": forall n in nodes: n.x == 1").properties[0];
/// assert_eq!(decisions.of(same), Some(Decision::Reject));
///
/// let error = "keep it".parse::<Decisions>().unwrap_err();
/// assert_eq!(error.to_string(), "line 1: a decision starts with `accept` or `reject`, not `keep`");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// The decisions by the claim of the property.
    decided: BTreeMap<String, (Decision, Property)>,
}

/// An error in a file of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionError {
    /// The line, counted from 1.
    pub line: usize,
    /// The mistake in the line.
    pub kind: DecisionErrorKind,
}

/// A mistake in a line of a file of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionErrorKind {
    /// It starts with this word, which is no decision.
    NoDecision(String),
    /// It has this many properties instead of one.
    NotOneProperty(usize),
    /// Its property cannot be read.
    Property {
        /// The decision.
        decision: Decision,
        /// The first error in the property.
        message: String,
    },
    /// It contradicts an earlier line, whose number this is.
    Contradiction(usize),
}

impl fmt::Display for DecisionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecisionErrorKind::NoDecision(word) => {
                write!(f, "a decision starts with `accept` or `reject`, not `{word}`")
            }
            DecisionErrorKind::NotOneProperty(count) => {
                write!(f, "a decision is about one property, not {count}")
            }
            DecisionErrorKind::Property { decision, message } => {
                write!(f, "{message}; a decision reads like `{decision} always \"name\": ...`")
            }
            DecisionErrorKind::Contradiction(before) => {
                write!(f, "line {before} decides the opposite; keep one of the two lines")
            }
        }
    }
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl std::error::Error for DecisionError {}

/// The text of a property without its name.
pub(crate) fn claim(property: &Property) -> String {
    let nameless = Property { name: String::new(), ..property.clone() };
    print(&nameless).split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Decisions {
    /// A decision on a property.
    #[must_use]
    pub fn of(&self, property: &Property) -> Option<Decision> {
        self.decided.get(&claim(property)).map(|(decision, _)| *decision)
    }

    /// Decides; an earlier decision on the same property gives way.
    pub fn decide(&mut self, property: &Property, decision: Decision) {
        self.decided.insert(claim(property), (decision, property.clone()));
    }

    /// The properties of one decision, in order.
    pub fn all(&self, wanted: Decision) -> impl Iterator<Item = &Property> {
        let matching = self.decided.values().filter(move |(decision, _)| *decision == wanted);
        matching.map(|(_, property)| property)
    }
}

impl std::str::FromStr for Decisions {
    type Err = DecisionError;

    fn from_str(text: &str) -> Result<Decisions, DecisionError> {
        let mut decisions = Decisions::default();
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for (place, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |kind: DecisionErrorKind| DecisionError { line: place + 1, kind };
            let (decision, property) = read(line).map_err(at)?;
            let claim = claim(&property);
            if let Some(before) = lines.insert(claim.clone(), place + 1)
                && decisions.decided[&claim].0 != decision
            {
                return Err(at(DecisionErrorKind::Contradiction(before)));
            }
            decisions.decided.insert(claim, (decision, property));
        }
        Ok(decisions)
    }
}

fn read(line: &str) -> Result<(Decision, Property), DecisionErrorKind> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let decision = match word {
        "accept" => Decision::Accept,
        "reject" => Decision::Reject,
        _ => return Err(DecisionErrorKind::NoDecision(word.to_owned())),
    };
    match parse(rest).into_result() {
        Ok(properties) => match <[Property; 1]>::try_from(properties) {
            Ok([property]) => Ok((decision, property)),
            Err(other) => Err(DecisionErrorKind::NotOneProperty(other.len())),
        },
        Err(diagnostics) => {
            let message = diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
            Err(DecisionErrorKind::Property { decision, message })
        }
    }
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Decisions on inferred properties; rejected ones are not shown again.")?;
        for (decision, property) in self.decided.values() {
            let text = print(property).split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(f, "{decision} {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same_and_is_sorted() {
        let text = "reject always \"b\": forall n in nodes: n.b\n\n# why\n\
                    accept always \"a\" when quiet: forall n in nodes: n.a\n";
        let decisions: Decisions = text.parse().expect("it is right");
        let written = decisions.to_string();
        assert_eq!(written.parse::<Decisions>().expect("written by us"), decisions);
        let lines: Vec<&str> = written.lines().skip(1).collect();
        assert!(lines[0].starts_with("accept") && lines[1].starts_with("reject"), "{written}");
    }

    #[test]
    fn broken_files_say_where() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Decisions>().expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check("\nmaybe always", "line 2: a decision starts with");
        check("accept", "line 1: a decision is about one property, not 0");
        check("accept always \"a\": (", "line 1: ");
        let twice = "accept always \"a\": true\nreject always \"b\": true";
        check(twice, "line 2: line 1 decides the opposite");
    }
}
