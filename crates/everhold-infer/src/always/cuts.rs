//! What the evaluator says of a claim on the cuts beyond the recorded order.

use everhold_property::{Library, Limits, Property, Rule, Verdict, check_ordered};
use everhold_trace::{Execution, Order};

/// Cuts judged for one claim, over all runs.
const CUTS_MAX: u64 = 20_000;
/// Cuts judged in one run at least.
const CUTS_MIN: u64 = 100;

/// The runs, and what was left out when claims were judged on their cuts.
pub(super) struct Cuts<'a> {
    pub(super) executions: &'a [&'a Execution],
    pub(super) orders: &'a [Order],
    /// Bounds that were reached, in words.
    pub(super) bounds: Vec<String>,
}

impl Cuts<'_> {
    /// Whether some cut shows otherwise; `what` says in the plural what kind of claim it is.
    pub(super) fn refute(&mut self, property: &Property, what: &str) -> bool {
        let rule = Rule::new(property, &Library::new());
        let cases_max = (CUTS_MAX / self.executions.len().max(1) as u64).max(CUTS_MIN);
        let mut bounded = false;
        for (execution, order) in self.executions.iter().zip(self.orders) {
            let outcome = check_ordered(&rule, execution, order, Limits { cases_max });
            if outcome.verdict == Verdict::Violated {
                return true;
            }
            bounded |= outcome.bound.is_some();
        }
        if bounded {
            let words =
                format!("looked at {cases_max} of more than {cases_max} cuts of a run for {what}");
            self.bounds.push(words);
        }
        false
    }
}
