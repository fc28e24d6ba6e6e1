//! Reasons why a run without findings says less than it seems to: goals that no execution reached,
//! kinds of nodes that no execution had, properties that no state decided.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use everhold_property::nearest;

use crate::report::Goal;
use crate::report::text::count;
use crate::system::Declared;

/// Something that a test is about but that its executions never showed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untested {
    /// A `sometimes` goal that was never reached.
    Goal(String),
    /// A kind of node that never existed.
    Kind {
        /// The kind.
        kind: String,
        /// The source of the name: a property, the faults, or a rule of links.
        named_by: String,
        /// A kind that exists and has a similar name.
        near: Option<String>,
    },
    /// A property that was unknown, or out of its scope, in every state.
    Property(String),
    /// Progress that was still owed at the end of an execution and could not be judged, where that
    /// is true of most executions.
    Progress(String),
    /// Progress that stays owed in a circle of states of an exhaustive search, which a fair execution
    /// may leave by luck only.
    Circle(String),
    /// A checker that reached its bound, where most executions could not be judged, or that ended an
    /// exhaustive search.
    Checker {
        /// The monitor.
        monitor: String,
        /// The bound in words.
        bound: String,
    },
}

/// The omissions that the setup allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) goals: BTreeSet<String>,
    pub(crate) kinds: BTreeSet<String>,
    pub(crate) properties: BTreeSet<String>,
}

/// The subjects of the system's properties and faults, and those that existed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) allowed: Allowed,
    /// Each kind of node that is named, with the source of the name.
    pub(crate) named: Vec<(String, String)>,
    /// Kinds of which an execution had a node.
    pub(crate) kinds: BTreeSet<String>,
    /// Properties in the language, and whether some state decided them.
    pub(crate) judged: Vec<(String, bool)>,
    /// The names of all properties and monitors, with their sorts.
    pub(crate) properties: Vec<String>,
    /// Where they are declared, by their names.
    pub(crate) declared: BTreeMap<String, Declared>,
    /// The property that was owed in the first execution that could not be judged.
    pub(crate) unjudged: Option<String>,
    /// The monitor in which a checker gave up first.
    pub(crate) checker: Option<String>,
}

impl Expected {
    pub(crate) fn see(&mut self, kinds: &[String], judged: &[bool]) {
        self.kinds.extend(kinds.iter().cloned());
        self.judged.iter_mut().zip(judged).for_each(|((_, all), one)| *all |= one);
    }

    /// Adds the observations of another part of the same search.
    pub(crate) fn merge(&mut self, other: &Expected) {
        self.kinds.extend(other.kinds.iter().cloned());
        for (name, judged) in &mut self.judged {
            *judged |= other.judged.iter().any(|(known, judged)| known == name && *judged);
        }
    }

    /// Everything that did not occur and should have.
    pub(crate) fn untested(&self, goals: &[Goal]) -> Vec<Untested> {
        let missed = goals.iter().filter(|goal| goal.reached == 0);
        let missed = missed.filter(|goal| !self.allowed.goals.contains(&goal.name));
        let missed = missed.map(|goal| Untested::Goal(goal.name.clone()));
        let absent = self
            .named
            .iter()
            .filter(|(kind, _)| !self.kinds.contains(kind) && !self.allowed.kinds.contains(kind));
        let absent = absent.map(|(kind, named_by)| {
            let near = nearest(kind, self.kinds.iter().map(String::as_str)).map(str::to_owned);
            Untested::Kind { kind: kind.clone(), named_by: named_by.clone(), near }
        });
        let undecided = self
            .judged
            .iter()
            .filter(|(name, judged)| !judged && !self.allowed.properties.contains(name));
        let undecided = undecided.map(|(name, _)| Untested::Property(name.clone()));
        missed.chain(absent).chain(undecided).collect()
    }
}

impl Expected {
    /// The properties that were not decided, where most executions ended undecided.
    pub(crate) fn undecided(&self, bound: Option<&str>) -> Vec<Untested> {
        let counts = |name: &&String| !self.allowed.properties.contains(*name);
        let progress = self.unjudged.iter().filter(counts).cloned().map(Untested::Progress);
        let bound = bound.unwrap_or_default();
        let checker = self.checker.iter().filter(counts).cloned();
        let checker = checker.map(|monitor| Untested::Checker { monitor, bound: bound.to_owned() });
        progress.chain(checker).collect()
    }
}

impl Expected {
    /// The property that was not decided because of a circle of states.
    pub(crate) fn circle(&self, property: &str) -> Option<Untested> {
        let counts = !self.allowed.properties.contains(property);
        counts.then(|| Untested::Circle(property.to_owned()))
    }
}

impl fmt::Display for Untested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untested::Goal(name) => write!(
                f,
                "the goal \"{name}\" was never reached: run more or longer executions, correct it, or \
                 allow it with `system.may_be_missed({name:?})`"
            ),
            Untested::Kind { kind, named_by, near } => {
                write!(f, "{named_by} names nodes of kind \"{kind}\", but there was none: ")?;
                match near {
                    Some(near) => write!(f, "did you mean \"{near}\"? Otherwise")?,
                    None => write!(f, "correct the name, or")?,
                }
                write!(f, " allow it with `system.may_be_absent({kind:?})`")
            }
            Untested::Progress(name) => write!(
                f,
                "\"{name}\" was still owed when an execution was cut off, and most executions could not be \
                 judged: raise `Bounds::temperature_max` (`steps_max` in an exhaustive search), set timers \
                 of similar lengths if the longest timer takes too long compared with the others, or \
                 allow it with `system.may_be_untested({name:?})`"
            ),
            Untested::Circle(name) => write!(
                f,
                "\"{name}\" stays owed in a circle of states that a fair execution can go round for ever, \
                 but only by luck: judge it by the default search, whose fair tail is random, or allow it \
                 with `system.may_be_untested({name:?})`"
            ),
            Untested::Checker { monitor, bound } => write!(
                f,
                "most executions could not be judged to their ends: {bound}; or allow it with \
                 `system.may_be_untested({monitor:?})`"
            ),
            Untested::Property(name) => write!(
                f,
                "the property \"{name}\" was unknown or out of its scope in every state, so it was \
                 never put to the test: look at the names and types in it, or allow it with \
                 `system.may_be_untested({name:?})`"
            ),
        }
    }
}

/// All of it in words, with the number of executions that were run.
pub(crate) fn words(untested: &[Untested], executions: u64, bounded: u64) -> String {
    let cut_off = match bounded {
        0 => String::new(),
        bounded => format!(", {bounded} of them cut off by the bound on steps"),
    };
    let mut out = format!(
        "no violation was found, but not everything was tested in {}{cut_off}:",
        count(executions, "execution")
    );
    for one in untested {
        out.push_str(&format!("\n  {one}"));
    }
    out
}
