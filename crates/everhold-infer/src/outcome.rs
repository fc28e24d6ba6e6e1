//! Reasons and limits that a result comes with, as types. Their text is made here and nowhere else.

use std::fmt;

use everhold_trace::Value;

/// A limit that was reached, so that less was looked at than there was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Bound {
    /// The elements of a container did not all fit into memory.
    Elements {
        /// The container; `None` stands for all containers of a node.
        of: Option<String>,
        /// The elements that were looked at.
        looked_at: u64,
        /// The elements that there were.
        all: u64,
    },
    /// The pairs of local states did not all fit into memory.
    PairsOfStates {
        /// The pairs that were looked at.
        looked_at: u64,
        /// The pairs that there were, each counted as often as it occurred.
        all: u64,
    },
    /// The pairs of elements did not fit into memory, so that none of them was looked at.
    PairsOfElements {
        /// The pairs that would have fitted.
        max: u64,
    },
    /// A run had more cuts than are judged for one claim.
    Cuts {
        /// The cuts of a run that were judged.
        judged: u64,
        /// The subject of the claims.
        claims: CutClaims,
    },
}

/// The claims that are judged cut by cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CutClaims {
    /// Sums over all nodes.
    Sums,
    /// Majorities that agree with a node.
    Majorities,
}

impl Bound {
    /// Whether more memory would have avoided it.
    #[must_use]
    pub fn is_of_memory(&self) -> bool {
        !matches!(self, Bound::Cuts { .. })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Elements { of, looked_at, all } => {
                let of = of.as_deref().unwrap_or("containers");
                write!(f, "looked at {looked_at} of {all} elements of {of}")
            }
            Bound::PairsOfStates { looked_at, all } => {
                write!(f, "looked at {looked_at} of {all} pairs of states")
            }
            Bound::PairsOfElements { max } => {
                write!(f, "looked at no pairs of elements: there are more than {max}")
            }
            Bound::Cuts { judged, claims } => {
                let claims = match claims {
                    CutClaims::Sums => "sums",
                    CutClaims::Majorities => "majorities",
                };
                write!(f, "judged {claims} on {judged} cuts of a run that has more")
            }
        }
    }
}

/// Totals that were not judged, so that nothing is said of them, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unjudged {
    /// What would have been added up: numbers of nodes and of messages.
    pub of: Vec<String>,
    /// Why it was not judged.
    pub why: WhyUnjudged,
}

/// Why a total is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WhyUnjudged {
    /// Some values have fractions, and rounding makes their sum depend on the order of adding.
    Fractions,
    /// The sum does not fit into 64 bits.
    Overflow,
    /// A node goes down and takes its numbers with it.
    NodeDown,
    /// Some of these messages were lost, sent to all nodes, or delivered twice.
    UnclearFlights,
    /// Not all of these messages carry the number.
    NotAlwaysThere,
    /// There are more numbers than are added up; this is the most that are.
    TooMany(usize),
}

impl fmt::Display for WhyUnjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyUnjudged::Fractions => {
                "not all values are whole numbers, and sums of others depend on rounding"
            }
            WhyUnjudged::Overflow => "the sum does not fit into 64 bits",
            WhyUnjudged::NodeDown => "a node goes down and takes its numbers with it",
            WhyUnjudged::UnclearFlights => {
                "some messages were lost, sent to all or delivered twice, so it is not clear what \
                 is in flight"
            }
            WhyUnjudged::NotAlwaysThere => "not every message of that kind has it",
            WhyUnjudged::TooMany(max) => return write!(f, "only {max} numbers are added up"),
        })
    }
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 5;
        f.write_str("judged no totals of ")?;
        for (place, of) in self.of.iter().take(SHOWN_MAX).enumerate() {
            write!(f, "{}{of}", if place > 0 { ", " } else { "" })?;
        }
        if self.of.len() > SHOWN_MAX {
            write!(f, " and {} more", self.of.len() - SHOWN_MAX)?;
        }
        write!(f, ": {}", self.why)
    }
}

/// A variable that is left out, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The variable as a user names it.
    pub variable: String,
    /// Why it is left out.
    pub why: WhyLeftOut,
}

/// Why a variable is left out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WhyLeftOut {
    /// It never changes.
    Constant(Value),
    /// It never changes; its value was not kept.
    Unchanging,
    /// Its values are of types that cannot be compared.
    MixedTypes,
    /// It is sometimes NaN.
    NotANumber,
    /// It is the id or the name of its own node.
    OwnNode,
    /// There are more variables than are looked at; the number is the most that are.
    TooMany(usize),
}

impl fmt::Display for WhyLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyLeftOut::Constant(value) => write!(f, "it is always {value}"),
            WhyLeftOut::Unchanging => f.write_str("it is always the same"),
            WhyLeftOut::MixedTypes => f.write_str("its values are of different types"),
            WhyLeftOut::NotANumber => f.write_str("it is sometimes not a number (NaN)"),
            WhyLeftOut::OwnNode => f.write_str("it is the node itself"),
            WhyLeftOut::TooMany(max) => write!(f, "only {max} variables are looked at"),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.variable, self.why)
    }
}

/// Something that a search for almost-invariants left out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Omission {
    /// A variable.
    Variable(LeftOut),
    /// Runs: the time was over before they were looked at.
    Runs {
        /// The runs that were looked at.
        looked_at: usize,
        /// The runs that were given.
        all: usize,
    },
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Omission::Variable(left_out) => left_out.fmt(f),
            Omission::Runs { looked_at, all } => {
                write!(f, "time ran out after {looked_at} of {all} runs")
            }
        }
    }
}

/// Why a property that held is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It follows from these properties together.
    Follows(Vec<Premise>),
    /// There are more lines than are shown.
    Beyond {
        /// The most lines that are shown.
        lines_max: usize,
    },
    /// There is not enough evidence for it.
    Unproven {
        /// The distinct cases in which it was seen.
        distinct: u64,
    },
    /// There is not enough evidence for it, because values may be equal only as copies of each other.
    MayBeCopy {
        /// The variable that may be a copy, and the one that it copies.
        copies: Vec<(String, String)>,
        /// The distinct cases that speak against it.
        distinct: u64,
    },
    /// It was rejected.
    Rejected,
    /// It says that a number only grows of which no line says anything else.
    Clock,
}

/// A property from which another one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Premise {
    /// Its name.
    pub name: String,
    /// The number of its line, or why it is not shown itself.
    pub shown: Result<usize, NotShown>,
}

/// Why a premise is not shown itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotShown {
    /// There are more lines than are shown.
    Beyond {
        /// The most lines that are shown.
        lines_max: usize,
    },
    /// There is not enough evidence for it.
    Unproven,
    /// It was rejected.
    Rejected,
    /// It is about a number that only grows, and no line says anything else of it.
    Clock,
    /// It follows from other lines.
    Follows,
}

/// The kinds of reasons, in the order in which they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReasonKind {
    /// They follow from properties for which there is enough evidence.
    Follows,
    /// They say no more than a property for which there is not enough evidence.
    FollowsFromUnproven,
    /// There is not enough evidence for them.
    Unproven,
    /// There is not enough evidence for them, because values may be copies of each other.
    MayBeCopy,
    /// There are more lines than are shown.
    Beyond,
    /// They were rejected.
    Rejected,
    /// They say that a number only grows of which no line says anything else.
    Clock,
}

impl Reason {
    /// The kind of the reason.
    #[must_use]
    pub fn kind(&self) -> ReasonKind {
        match self {
            Reason::Follows(premises) if premises.iter().any(Premise::is_unproven) => {
                ReasonKind::FollowsFromUnproven
            }
            Reason::Follows(_) => ReasonKind::Follows,
            Reason::Beyond { .. } => ReasonKind::Beyond,
            Reason::Unproven { .. } => ReasonKind::Unproven,
            Reason::MayBeCopy { .. } => ReasonKind::MayBeCopy,
            Reason::Rejected => ReasonKind::Rejected,
            Reason::Clock => ReasonKind::Clock,
        }
    }
}

impl Premise {
    fn is_unproven(&self) -> bool {
        self.shown == Err(NotShown::Unproven)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Follows(premises) => {
                let unproven = premises.iter().any(Premise::is_unproven);
                f.write_str(if unproven { "says no more than " } else { "follows from " })?;
                // With several premises, why one of them is not shown would be hard to attach.
                if let [only] = &premises[..] {
                    return only.fmt(f);
                }
                for (place, Premise { name, shown, .. }) in premises.iter().enumerate() {
                    f.write_str(if place > 0 { " and " } else { "" })?;
                    match shown {
                        Ok(line) => write!(f, "line {line}, \"{name}\"")?,
                        Err(_) => write!(f, "\"{name}\"")?,
                    }
                }
                Ok(())
            }
            Reason::Beyond { lines_max } => write!(f, "not among the first {lines_max} lines"),
            Reason::Unproven { distinct } => {
                let cases = if *distinct == 1 { "case" } else { "cases" };
                write!(f, "not enough evidence: {distinct} distinct {cases}")
            }
            Reason::MayBeCopy { copies, distinct } => {
                f.write_str("not enough evidence: ")?;
                for (place, (copy, of)) in copies.iter().enumerate() {
                    let and = if place > 0 { " and " } else { "" };
                    write!(f, "{and}{copy} may be a copy of {of}")?;
                }
                let cases = if *distinct == 1 { "case speaks" } else { "cases speak" };
                write!(f, ", and {distinct} distinct {cases} against it")
            }
            Reason::Rejected => f.write_str("it was rejected"),
            Reason::Clock => f.write_str("a number that only grows, and no line says more of it"),
        }
    }
}

impl fmt::Display for Premise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.shown {
            Ok(line) => write!(f, "line {line}, \"{name}\""),
            Err(NotShown::Beyond { lines_max }) => {
                write!(f, "\"{name}\", which is not among the first {lines_max} lines")
            }
            Err(NotShown::Unproven) => {
                write!(f, "\"{name}\", for which there is not enough evidence")
            }
            Err(NotShown::Clock) => write!(f, "\"{name}\", a number that only grows"),
            Err(NotShown::Rejected) => write!(f, "\"{name}\", which was rejected"),
            Err(NotShown::Follows) => write!(f, "\"{name}\", which follows from other lines"),
        }
    }
}

impl fmt::Display for ReasonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReasonKind::Follows => "follow from other properties",
            ReasonKind::FollowsFromUnproven => {
                "say no more than a property for which there is not enough evidence"
            }
            ReasonKind::Unproven => "not enough evidence",
            ReasonKind::MayBeCopy => "not enough evidence, as one value may be a copy of another",
            ReasonKind::Beyond => "not among the first lines",
            ReasonKind::Rejected => "rejected",
            ReasonKind::Clock => "numbers that only grow, of which no line says more",
        })
    }
}
