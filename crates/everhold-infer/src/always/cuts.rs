//! Judgement of claims on the cuts that the recorded order does not show, by the evaluator of the
//! property language.

use everhold_property::{Library, Limits, Property, Rule, Verdict, check_ordered};
use everhold_trace::{Execution, Order};

use crate::outcome::{Bound, CutClaims};

/// Cuts judged for one claim, over all runs.
const CUTS_MAX: u64 = 20_000;
/// Cuts judged in one run at least.
const CUTS_MIN: u64 = 100;

/// The runs on whose cuts claims are judged, and the limits that were reached.
pub(super) struct Cuts<'a> {
    pub(super) executions: &'a [&'a Execution],
    pub(super) orders: &'a [Order],
    /// Limits that were reached.
    pub(super) bounds: Vec<Bound>,
}

impl Cuts<'_> {
    /// Whether the property is false on some cut.
    pub(super) fn refute(&mut self, property: &Property, claims: CutClaims) -> bool {
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
            self.bounds.push(Bound::Cuts { judged: cases_max, claims });
        }
        false
    }
}
