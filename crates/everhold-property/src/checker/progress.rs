//! The memory of a checker, as data, so that a watch can resume in another process.

use super::{Checker, Rule, Since};
use crate::checker::leads::Leads;
use crate::state::{Snapshot, State};
use crate::{Changed, Value, Violation};

/// A point of a sequence: the number of states before it, and its time.
pub type Point = (u64, u64);

/// The data that a [`Checker`] must remember in addition to the present state.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The number of states so far.
    pub steps: u64,
    /// The point since which the body of an `eventually` or a `finally` has been false.
    pub hot: Option<Point>,
    /// Whether the body has been true.
    pub reached: bool,
    /// Each binding with a pending obligation of a `leads to`, and the point at which it began.
    pub owed: Vec<(Vec<(String, Value)>, Point)>,
    /// The states before the present one that the property looks back on, the oldest first.
    pub past: Vec<Snapshot>,
}

impl Checker {
    /// The data for [`Checker::resume`]. Tallies start at zero there.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let point = |since: Since| (since.step, since.now_ns);
        // The last of the kept states is the present one.
        let past = self.past.split_last().map(|(_, past)| past.to_vec()).unwrap_or_default();
        let owed = self.leads.iter().map(|(bindings, since)| (bindings.clone(), point(since)));
        let Checker { steps, hot, reached, .. } = *self;
        Progress { steps, hot: hot.map(point), reached, owed: owed.collect(), past }
    }

    /// A checker that resumes from `progress`, with `present` as the last state that was judged.
    #[must_use]
    pub fn resume(rule: &Rule, progress: Progress, present: &dyn State) -> Checker {
        let mut checker = Checker::new(rule);
        if progress.steps == 0 {
            return checker;
        }
        for past in &progress.past {
            checker.judge_step(past, Changed::All, 0);
        }
        checker.judge_step(present, Changed::All, 0);
        let since = |(step, now_ns): Point| Since { step, now_ns };
        checker.steps = progress.steps;
        checker.hot = progress.hot.map(since);
        checker.reached = progress.reached;
        let owed = progress.owed.into_iter().map(|(bindings, at)| (bindings, since(at)));
        checker.leads = Leads::of(owed).with_known(checker.leads.is_known());
        checker.tally = super::Tally::default();
        checker.violation = None;
        checker
    }

    /// Removes and returns the first violation, so that the next one is kept.
    pub fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }
}
