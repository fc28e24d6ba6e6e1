//! Almost-invariants: properties that held in all but a few cases, with the cases, as in Avenger.
//!
//! - `domain`, `literal`, `generate`: the properties that are tried.
//! - `predicate`, `global`: predicates of the user, and the global states that they read.
//! - `moments`: the snapshots that are judged.
//! - `timeline`, `shares`, `items`, `rows`: bindings over the recorded order, each distinct one
//!   once, weighted; their elements; rows of both.
//! - `decide`, `evaluate`: the rows in which a literal fails.
//! - `count`, `failing`: the rows in which all literals of a disjunction fail, how often, and when.
//! - `rank`: the order of the report, the properties most worth a look first.
//! - `report`, `explain`: the report and the exceptions for people.

mod count;
mod decide;
mod domain;
mod evaluate;
mod explain;
mod failing;
mod generate;
mod global;
mod items;
mod literal;
mod moments;
mod names;
mod predicate;
mod rank;
mod report;
mod rows;
mod search;
mod shares;
mod timeline;
#[cfg(test)]
mod twin;

use std::collections::BTreeMap;

use everhold_property::{Library, Property, Scope};
use everhold_trace::{EventId, Execution};

pub use explain::{Exception, Explanation, Shared};
pub use predicate::Predicate;

use crate::outcome::Omission;
use crate::states::States;

/// The options of a search for almost-invariants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Almost {
    /// Where properties are judged: [`Scope::EveryCut`] in every snapshot of the recorded order,
    /// [`Scope::AllQuiet`] in those where no message is in flight. Other scopes are not about
    /// snapshots, and nothing is looked for in them.
    pub scopes: Vec<Scope>,
    /// Predicates over the whole state, to be tried with all variables of the right types.
    pub predicates: Vec<Predicate>,
    /// The most nodes of a property: bound by `forall`, or referred to by a node that is.
    pub nodes_max: usize,
    /// The most literals of a property, 1 to 4.
    pub literals_max: usize,
    /// The most properties of one class. A class has the properties with the same variables.
    pub properties_max: usize,
    /// Properties that held less often are dropped.
    pub rate_min: f64,
    /// Properties that were judged less often are dropped.
    pub evaluations_min: u64,
    /// The most almost-invariants to report.
    pub report_max: usize,
    /// The score of a property in a snapshot.
    pub accounting: Accounting,
    /// Stop when the report has stayed the same while this many more snapshots were looked at.
    pub stable: Option<u64>,
    /// The variables to look at, by name, each with the variables below it; none stands for all. The
    /// contents of a container are below it: `stored.key`, `stored.value.term`, `log.value`, `log.len`.
    pub variables: Vec<String>,
    /// Variables by name and their sub types: those of different sub types are not compared.
    pub subtypes: BTreeMap<String, String>,
    /// The bytes that the rows of one class may take, approximately.
    pub memory_max: usize,
    /// The number of threads; 0 stands for one a core.
    pub threads: usize,
}

impl Default for Almost {
    fn default() -> Almost {
        Almost {
            scopes: vec![Scope::EveryCut, Scope::AllQuiet],
            predicates: Vec::new(),
            nodes_max: 2,
            literals_max: 2,
            properties_max: 100_000,
            rate_min: 0.9,
            evaluations_min: 50,
            report_max: 10,
            accounting: Accounting::Spatial,
            stable: None,
            variables: Vec::new(),
            subtypes: BTreeMap::new(),
            memory_max: 1 << 29,
            threads: 0,
        }
    }
}

/// The score of a property in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accounting {
    /// The share of its bindings of which it is true.
    #[default]
    Spatial,
    /// 1 if it is true of all its bindings, and 0 otherwise.
    Plain,
}

/// Setters, one for each field.
impl Almost {
    /// Sets [`Almost::scopes`].
    #[must_use]
    pub fn scopes(self, scopes: impl IntoIterator<Item = Scope>) -> Almost {
        Almost { scopes: scopes.into_iter().collect(), ..self }
    }

    /// Sets [`Almost::predicates`].
    #[must_use]
    pub fn predicates(self, predicates: impl IntoIterator<Item = Predicate>) -> Almost {
        Almost { predicates: predicates.into_iter().collect(), ..self }
    }

    /// Sets [`Almost::nodes_max`].
    #[must_use]
    pub fn nodes_max(self, nodes_max: usize) -> Almost {
        Almost { nodes_max, ..self }
    }

    /// Sets [`Almost::literals_max`].
    #[must_use]
    pub fn literals_max(self, literals_max: usize) -> Almost {
        Almost { literals_max, ..self }
    }

    /// Sets [`Almost::properties_max`].
    #[must_use]
    pub fn properties_max(self, properties_max: usize) -> Almost {
        Almost { properties_max, ..self }
    }

    /// Sets [`Almost::rate_min`].
    #[must_use]
    pub fn rate_min(self, rate_min: f64) -> Almost {
        Almost { rate_min, ..self }
    }

    /// Sets [`Almost::evaluations_min`].
    #[must_use]
    pub fn evaluations_min(self, evaluations_min: u64) -> Almost {
        Almost { evaluations_min, ..self }
    }

    /// Sets [`Almost::report_max`].
    #[must_use]
    pub fn report_max(self, report_max: usize) -> Almost {
        Almost { report_max, ..self }
    }

    /// Sets [`Almost::accounting`].
    #[must_use]
    pub fn accounting(self, accounting: Accounting) -> Almost {
        Almost { accounting, ..self }
    }

    /// Sets [`Almost::stable`].
    #[must_use]
    pub fn stable(self, stable: Option<u64>) -> Almost {
        Almost { stable, ..self }
    }

    /// Sets [`Almost::variables`].
    #[must_use]
    pub fn variables(self, variables: impl IntoIterator<Item = String>) -> Almost {
        Almost { variables: variables.into_iter().collect(), ..self }
    }

    /// Sets [`Almost::subtypes`].
    #[must_use]
    pub fn subtypes(self, subtypes: BTreeMap<String, String>) -> Almost {
        Almost { subtypes, ..self }
    }

    /// Sets [`Almost::memory_max`].
    #[must_use]
    pub fn memory_max(self, memory_max: usize) -> Almost {
        Almost { memory_max, ..self }
    }

    /// Sets [`Almost::threads`].
    #[must_use]
    pub fn threads(self, threads: usize) -> Almost {
        Almost { threads, ..self }
    }
}

/// A property that held in all but a few cases.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AlmostInvariant {
    /// The property.
    pub property: Property,
    /// How often it held: the mean score of the snapshots in which it was judged.
    pub rate: f64,
    /// Wilson's score interval of the rate, with a confidence of 95 %. Its sample size is the number of
    /// distinct bindings: repetitions are no further evidence.
    pub interval: (f64, f64),
    /// How many bindings were judged, over all snapshots.
    pub evaluations: u64,
    /// How many of them failed.
    pub exceptions: u64,
    /// How many distinct bindings were judged, and how many of them failed.
    pub support: (u64, u64),
    /// The distinct bindings that would be expected to fail if its literals were independent.
    pub by_chance: f64,
    /// When it failed.
    pub episodes: Vec<Episode>,
    /// The nodes that the exceptions are about, by name, with the number of exceptions.
    pub nodes: Vec<(String, u64)>,
    /// Properties that fail in exactly the same snapshots.
    pub equivalent: Vec<Property>,
    /// Properties that fail in nearly the same snapshots, or in some of them.
    pub related: usize,
    /// The parts of its rank.
    pub score: Score,
}

/// The parts of a rank. Each is in bits: the binary logarithm of a likelihood.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// Rarity: `-log2(1 - rate)`, at most `log2(100)`.
    pub rarity: f64,
    /// Surprise: `log2` of the expected failures over the observed ones, each plus one.
    pub surprise: f64,
    /// Focus: the exceptions are concentrated in few runs, few episodes and at few nodes.
    pub focus: f64,
    /// Trigger: the same event precedes the exceptions more often than it precedes other snapshots.
    pub trigger: f64,
    /// The length of the property, which counts against it.
    pub reading: f64,
    /// The size of its class, which counts against it: among many properties, some look good by
    /// chance.
    pub choice: f64,
}

impl Score {
    /// The sum; the greatest comes first.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.rarity + self.surprise + self.focus + self.trigger - self.reading - self.choice
    }
}

/// A stretch of one run in which a property fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Episode {
    /// The run, by its place among those given.
    pub run: usize,
    /// The event after which it fails.
    pub from: EventId,
    /// The event after which it holds again; `None` if it fails to the end of the run.
    pub to: Option<EventId>,
}

/// The almost-invariants that were found, and the data they were found in.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AlmostReport {
    /// The almost-invariants, those most worth a look first.
    pub found: Vec<AlmostInvariant>,
    /// Properties that always held and whose literals depend on each other most, with the number of
    /// distinct bindings that they were judged on.
    pub always: Vec<(Property, u64)>,
    /// How many properties were generated, as many as were asked for of each class.
    pub generated: u64,
    /// How many of them were evaluated. The others have a literal that always holds, never holds, or
    /// equals another literal in all rows, so the evaluated ones decide them, too.
    pub properties: u64,
    /// How many of them held nearly always.
    pub almost: u64,
    /// How many of them always held.
    pub held: u64,
    /// How many runs were looked at, and how many were given.
    pub runs: (usize, usize),
    /// How many snapshots were looked at.
    pub snapshots: u64,
    /// In how many of them no message was in flight, if that was asked.
    pub quiet: Option<u64>,
    /// Variables and runs that were left out.
    pub left_out: Vec<Omission>,
}

impl Almost {
    /// Looks for almost-invariants in these runs, with the predicates of `library`.
    #[must_use]
    pub fn infer(&self, executions: &[&Execution], library: &Library) -> AlmostReport {
        self.grow(executions, library, self.stable.is_some(), &|| false)
    }

    /// Like [`Almost::infer`]; ends with what it has when `stop` says so, which makes the result
    /// depend on the clock.
    #[must_use]
    pub fn infer_until(
        &self,
        executions: &[&Execution],
        library: &Library,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> AlmostReport {
        self.grow(executions, library, true, stop)
    }

    /// Looks at all runs, or at ever more of them until the report is stable.
    fn grow(
        &self,
        executions: &[&Execution],
        library: &Library,
        growing: bool,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> AlmostReport {
        let mut report = AlmostReport::default();
        let mut same_since = 0;
        for count in prefixes(executions.len(), growing) {
            let here = &executions[..count];
            let states = States::of_all(here);
            let Some(mut next) = search::search(self, &states, here, library, stop) else {
                let (looked_at, all) = (report.runs.0, executions.len());
                report.left_out.push(Omission::Runs { looked_at, all });
                break;
            };
            next.runs = (count, executions.len());
            let names = |report: &AlmostReport| {
                report.found.iter().map(|found| found.property.name.clone()).collect::<Vec<_>>()
            };
            if names(&next) != names(&report) {
                same_since = next.snapshots;
            }
            let stable = self.stable.is_some_and(|enough| next.snapshots - same_since >= enough);
            report = next;
            if stable || stop() {
                break;
            }
        }
        report
    }
}

/// The numbers of runs to look at, one after the other: all runs, or each time twice as many.
fn prefixes(runs: usize, growing: bool) -> Vec<usize> {
    let mut counts = vec![runs];
    while growing && counts[counts.len() - 1] > 1 {
        counts.push(counts[counts.len() - 1] / 2);
    }
    counts.reverse();
    counts
}
