//! What people decided of inferred properties: a file for version control.
//!
//! One decision a line, sorted, so that two people's decisions merge. What a property is called
//! does not matter, only what it claims.

use std::collections::BTreeMap;
use std::fmt;

use everhold_property::{Property, parse, print};

/// What was decided of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// By what the property claims.
    decided: BTreeMap<String, (Decision, Property)>,
}

/// What is wrong with a file of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for DecisionError {}

/// What a property claims, without its name.
pub(crate) fn claim(property: &Property) -> String {
    let nameless = Property { name: String::new(), ..property.clone() };
    print(&nameless).split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Decisions {
    /// What was decided of a property.
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
            let at = |message: String| DecisionError { line: place + 1, message };
            let (decision, property) = read(line).map_err(at)?;
            let claim = claim(&property);
            if let Some(before) = lines.insert(claim.clone(), place + 1)
                && decisions.decided[&claim].0 != decision
            {
                let message = format!("line {before} decides the other way; keep one of the two");
                return Err(DecisionError { line: place + 1, message });
            }
            decisions.decided.insert(claim, (decision, property));
        }
        Ok(decisions)
    }
}

fn read(line: &str) -> Result<(Decision, Property), String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let decision = match word {
        "accept" => Decision::Accept,
        "reject" => Decision::Reject,
        _ => return Err(format!("a decision starts with `accept` or `reject`, not `{word}`")),
    };
    match parse(rest).into_result() {
        Ok(properties) => match <[Property; 1]>::try_from(properties) {
            Ok([property]) => Ok((decision, property)),
            Err(other) => Err(format!("one property a line is decided, not {}", other.len())),
        },
        Err(diagnostics) => {
            let first = diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
            Err(format!("{first}; a decision reads like `{word} always \"name\": ...`"))
        }
    }
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Decisions on inferred properties; what is rejected is not shown again.")?;
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
        check("accept", "line 1: one property a line is decided, not 0");
        check("accept always \"a\": (", "line 1: ");
        let twice = "accept always \"a\": true\nreject always \"b\": true";
        check(twice, "line 2: line 1 decides the other way");
    }
}
