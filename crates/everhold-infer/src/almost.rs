//! Almost mode: what held in all but a few cases, as in Avenger, with the cases.
//!
//! - `domain`, `literal`, `generate`: which properties there are.
//! - `predicate`, `worlds`: predicates of the user, and the whole states that they read.
//! - `moments`: the snapshots that are judged.
//! - `timeline`, `shares`, `items`, `rows`: bindings over the recorded order, each distinct one
//!   once, weighted; their elements; rows of both.
//! - `decide`, `evaluate`: where literals fail.
//! - `count`, `failing`: where all literals of a disjunction do, how often, when.
//! - `rank`: which of them are worth a look.
//! - `report`, `explain`: what a person is shown.

mod count;
mod decide;
mod domain;
mod evaluate;
mod explain;
mod failing;
mod generate;
mod items;
mod literal;
mod moments;
mod names;
pub(crate) mod parallel;
mod predicate;
mod rank;
mod report;
mod rows;
mod search;
mod shares;
mod timeline;
#[cfg(test)]
mod twin;
mod worlds;

use std::collections::BTreeMap;

use everhold_property::{Library, Property, Scope};
use everhold_trace::{EventId, Execution};

pub use explain::{Exception, Explanation, Shared};
pub use predicate::Predicate;

use crate::states::States;

/// What to look for, and how much of it.
#[derive(Clone, Debug)]
pub struct Almost {
    /// Where properties are judged: [`Scope::EveryCut`] in every snapshot of the recorded order,
    /// [`Scope::AllQuiet`] in those where no message is in flight. Other scopes are not about
    /// snapshots, and nothing is looked for in them.
    pub scopes: Vec<Scope>,
    /// Predicates over the whole state, to be tried with all variables of the right types.
    pub predicates: Vec<Predicate>,
    /// The most nodes that a property speaks of: bound by `forall`, or referred to by one that is.
    pub nodes_max: usize,
    /// The most literals of a property, 1 to 4.
    pub literals_max: usize,
    /// The most properties of one class: those with the same variables.
    pub properties_max: usize,
    /// Properties that held less often are dropped.
    pub rate_min: f64,
    /// Properties that were judged less often are dropped.
    pub evaluations_min: u64,
    /// How many to report.
    pub report_max: usize,
    /// What a property scores in a snapshot.
    pub accounting: Accounting,
    /// Stop when the report has stayed the same while this many more snapshots were looked at.
    pub stable: Option<u64>,
    /// The variables to look at, by name, each with what is below it; none stands for all. What a
    /// container holds is below it: `stored.key`, `stored.value.term`, `log.value`, `log.len`.
    pub variables: Vec<String>,
    /// Variables by name and their sub types: those of different sub types are not compared.
    pub subtypes: BTreeMap<String, String>,
    /// About how many bytes the rows of one class may take.
    pub memory_max: usize,
    /// How many threads to use; 0 stands for all cores.
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

/// What a property scores in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// The share of its bindings of which it is true.
    #[default]
    Spatial,
    /// 1 if it is true of all its bindings, and 0 otherwise.
    Plain,
}

/// A property that held in all but a few cases.
#[derive(Clone, Debug)]
pub struct AlmostInvariant {
    /// The property.
    pub property: Property,
    /// How often it held: the mean score of the snapshots in which it was judged.
    pub rate: f64,
    /// Where the rate lies with a confidence of 95 %, counting distinct bindings and no repeats.
    pub interval: (f64, f64),
    /// How many bindings were judged, over all snapshots.
    pub evaluations: u64,
    /// How many of them failed.
    pub exceptions: u64,
    /// How many distinct bindings were judged, and how many of them failed.
    pub support: (u64, u64),
    /// How many distinct bindings would have failed if its parts had nothing to do with each
    /// other.
    pub by_chance: f64,
    /// When it failed.
    pub episodes: Vec<Episode>,
    /// The nodes that the exceptions are about, by name, with the number of exceptions.
    pub nodes: Vec<(String, u64)>,
    /// Properties that fail in exactly the same snapshots.
    pub equivalent: Vec<Property>,
    /// Properties that fail in nearly the same snapshots, or in some of them.
    pub related: usize,
    /// What the rank is made of.
    pub score: Score,
}

/// What the rank is made of; each part is in bits, as a logarithm of a likelihood.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// How rare exceptions are.
    pub rarity: f64,
    /// How many fewer exceptions there are than chance would give.
    pub surprise: f64,
    /// How much the exceptions lie together: in few runs, few episodes, at few nodes.
    pub focus: f64,
    /// How much the events before the exceptions have in common.
    pub trigger: f64,
    /// How much there is to read, which counts against it.
    pub reading: f64,
    /// How many properties its class has: among many, some look good by chance, which counts
    /// against it.
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

/// What was found, and in what.
#[derive(Clone, Debug, Default)]
pub struct AlmostReport {
    /// The almost-invariants, those most worth a look first.
    pub found: Vec<AlmostInvariant>,
    /// Properties that always held and whose parts have most to do with each other, with the
    /// number of distinct bindings that they were judged on.
    pub always: Vec<(Property, u64)>,
    /// How many properties were generated, as many as were asked for of each class.
    pub generated: u64,
    /// How many of them were evaluated. The others have a literal that always holds, that never
    /// does, or that is the same as another wherever it was looked at: these tell of them, too.
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
    /// What was left out, and why.
    pub left_out: Vec<String>,
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

    /// Looks at all runs, or at ever more of them until it is enough.
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
                report.left_out.push(format!(
                    "the time was over: {} of {} runs were looked at",
                    report.runs.0,
                    executions.len()
                ));
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

/// How many runs to look at: all, or ever twice as many.
fn prefixes(runs: usize, growing: bool) -> Vec<usize> {
    let mut counts = vec![runs];
    while growing && counts[counts.len() - 1] > 1 {
        counts.push(counts[counts.len() - 1] / 2);
    }
    counts.reverse();
    counts
}
