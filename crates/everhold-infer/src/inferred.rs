//! Everything that some executions suggest, in one call.

use std::collections::BTreeSet;
use std::fmt;

use everhold_property::{Library, Property, print};
use everhold_trace::Execution;

use crate::{Almost, AlmostReport, Always, Settings, always};

/// Properties that executions suggest. The report of a search has executions, and so has a list.
pub trait Infer {
    /// Infers from the executions that were kept: a search keeps them if it is asked for traces.
    ///
    /// For other settings, or with functions of a library, give the executions to
    /// [`always`](crate::always()) and [`Almost`] themselves.
    fn infer(&self) -> Inferred;
}

impl<T: AsRef<[Execution]> + ?Sized> Infer for T {
    fn infer(&self) -> Inferred {
        let runs: Vec<&Execution> = self.as_ref().iter().collect();
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
    /// How many executions were looked at.
    pub runs: usize,
    /// The properties that always held.
    pub always: Always,
    /// The properties that held in all but a few cases, with the cases.
    pub almost: AlmostReport,
}

impl Inferred {
    /// The properties that always held, to be attacked; each has its own name.
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

/// As a file of properties, with what speaks for each in comments.
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
