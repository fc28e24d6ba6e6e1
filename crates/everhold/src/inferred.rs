//! Inference over the executions of a search.

use std::collections::BTreeSet;
use std::fmt;

use everhold_infer::{Almost, AlmostReport, Always, Settings, always};
use everhold_property::{Library, Property, print};
use everhold_sim::Report;
use everhold_trace::Execution;

/// Properties that the executions of a search suggest.
///
/// The whole loop is: explore, infer, attack. A candidate that falls is not a property of the
/// system, or it is one and the execution that breaks it shows a bug that no specification covers.
///
/// ```
/// use everhold::Infer;
/// use everhold::prelude::*;
///
/// /// Adds what it is sent, and keeps the largest.
/// #[derive(Clone, Default, Serialize)]
/// struct Adder { largest: u32, total: u32 }
///
/// impl Node for Adder {
///     type Msg = u32;
///     fn start(&mut self, cx: &mut Cx<u32>) {
///         for number in 1..=5 {
///             cx.send(cx.id(), number);
///         }
///     }
///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, number: u32) {
///         self.largest = self.largest.max(number);
///         self.total += number;
///     }
/// }
///
/// fn adders(system: &mut System<u32>) {
///     system.nodes("adder", 2, |_| Adder::default());
/// }
///
/// // 1. Explore, and keep some executions.
/// let report = Explorer::new().executions(20).traces(20).run(adders);
/// // 2. Infer: it prints as a file of properties, with what speaks for each.
/// // 2. Infer: the result prints as a file of properties, with the support for each.
/// println!("{inferred}");
/// let candidates = inferred.candidates();
/// assert!(candidates.iter().any(|p| p.name == "n's largest is at most n's total"), "{inferred}");
/// // 3. Attack: search for executions that break the candidates.
/// let attack = Explorer::new().executions(2_000).attack(&candidates, adders);
/// println!("{} of {} candidates fell", attack.fell.len(), candidates.len());
/// assert!(attack.stood.iter().any(|p| p.name == "n's largest is at most n's total"), "{attack}");
/// # assert_eq!(attack.fell.len() + attack.stood.len() + attack.unjudged.len(), candidates.len());
/// ```
pub trait Infer {
    /// Infers from the [traces](Report::traces) that the search kept: ask for some with
    /// [`Explorer::traces`](everhold_sim::Explorer::traces).
    ///
    /// For other settings, or with functions of a library, give the traces to
    /// [`always`](everhold_infer::always()) and [`Almost`] themselves.
    fn infer(&self) -> Inferred;
}

impl Infer for Report {
    fn infer(&self) -> Inferred {
        let runs: Vec<&Execution> = self.traces.iter().collect();
        Inferred {
            runs: runs.len(),
            always: always(&runs, &Settings::default()),
            almost: Almost::default().infer(&runs, &Library::new()),
        }
    }
}

/// Properties that the executions of a search suggest.
#[derive(Clone, Debug)]
pub struct Inferred {
    /// The number of executions that were examined.
    pub runs: usize,
    /// Properties that always held.
    pub always: Always,
    /// Properties that held in all but a few cases, with those cases.
    pub almost: AlmostReport,
}

impl Inferred {
    /// The properties that always held, to be [attacked](everhold_sim::Explorer::attack); their
    /// names are distinct.
    #[must_use]
    pub fn candidates(&self) -> Vec<Property> {
        let mut names = BTreeSet::new();
        let lines = self.always.lines.iter().map(|line| line.property.clone());
        lines
            .map(|mut property| {
                let name = property.name.clone();
                for number in 2.. {
                    if names.insert(property.name.clone()) {
                        break;
                    }
                    property.name = format!("{name} ({number})");
                }
                property
            })
            .collect()
    }
}

/// Prints a file of properties, with the support for each in comments.
impl fmt::Display for Inferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs == 0 {
            return writeln!(f, "# No traces were kept: ask for some with `Explorer::traces`.");
        }
        let lines = &self.always.lines;
        writeln!(f, "# {} properties always held in {} executions.", lines.len(), self.runs)?;
        for line in lines {
            let (samples, distinct) = (line.samples, line.distinct);
            writeln!(f, "\n# {samples} cases, {distinct} distinct cases")?;
            writeln!(f, "{}", print(&line.property).trim_end())?;
        }
        write!(f, "\n{}", self.almost)
    }
}
