//! The pending obligations of `p leads to q`.

use std::collections::BTreeMap;

use everhold_trace::Value;

use super::Since;
use crate::ast::{Bound, Expr, ExprKind};
use crate::eval::{Bindings, Plain, verdict};
use crate::library::Library;
use crate::state::State;
use crate::verdict::Verdict;

/// The obligations: each binding for which `p` held and `q` has not held since, with the point at
/// which it began.
///
/// In a state where `q` is unknown it may have held, so lateness can no longer be proved. With a
/// bound on the time, such an obligation is dropped, and begins anew if `p` holds when both sides
/// are known again. Without a bound it stays, since only the end of an execution decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads {
    owed: BTreeMap<Vec<Value>, (Bindings, Since)>,
    /// Whether both sides were known in the last state, as far as they matter for the verdict.
    known: bool,
}

impl Leads {
    pub(super) fn of(owed: impl Iterator<Item = (Bindings, Since)>) -> Leads {
        let key = |bindings: &Bindings| bindings.iter().map(|(_, value)| value.clone()).collect();
        let owed = owed.map(|(bindings, since)| (key(&bindings), (bindings, since))).collect();
        Leads { owed, known: true }
    }

    /// Whether everything that matters was known in the last state.
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    pub(super) fn with_known(self, known: bool) -> Leads {
        Leads { known, ..self }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Bindings, Since)> {
        self.owed.values().map(|(bindings, since)| (bindings, *since))
    }

    pub(super) fn reset(&mut self) {
        self.owed.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// The binding with the oldest obligation, if that is late.
    pub(super) fn first_late(
        &self,
        now: Since,
        within: Option<Bound>,
    ) -> Option<(&Bindings, Since)> {
        let late = self.owed.values().filter(|(_, since)| since.is_late(now, within));
        late.min_by_key(|(_, since)| since.step).map(|(bindings, since)| (bindings, *since))
    }

    /// Records a state, given the verdicts on both sides, for a property without variables.
    pub(super) fn observe(&mut self, from: Verdict, goal: Verdict, now: Since, bounded: bool) {
        self.known = true;
        if goal == Verdict::Holds || (bounded && goal == Verdict::Unknown) {
            self.owed.clear();
        }
        self.note(Vec::new(), from, goal, now, bounded);
    }

    fn note(
        &mut self,
        bindings: Bindings,
        from: Verdict,
        goal: Verdict,
        now: Since,
        bounded: bool,
    ) {
        match (from, goal) {
            (Verdict::Violated, _) | (_, Verdict::Holds) => {}
            (Verdict::Holds, Verdict::Violated) => self.owe(bindings, now),
            (Verdict::Holds, Verdict::Unknown) if !bounded => self.owe(bindings, now),
            (Verdict::Holds | Verdict::Unknown, _) => self.known = false,
        }
    }

    fn owe(&mut self, bindings: Bindings, now: Since) {
        let key: Vec<Value> = bindings.iter().map(|(_, value)| value.clone()).collect();
        self.owed.entry(key).or_insert((bindings, now));
    }

    /// Records a state, for all bindings.
    pub(super) fn step(
        &mut self,
        body: &Expr,
        library: &Library,
        history: &[&dyn State],
        now: Since,
        bounded: bool,
    ) {
        let (_, goal) = sides(body);
        let mut known = true;
        // An obligation stays when its binding leaves the domain of the quantifier.
        self.owed.retain(|_, (bindings, _)| {
            match Plain::new(library, history, bindings.clone()).judge(goal) {
                Ok(met) => !met,
                Err(_) => {
                    known &= !bounded;
                    !bounded
                }
            }
        });
        self.known = known;
        let mut plain = Plain::new(library, history, Vec::new());
        self.walk(&mut plain, body, now, bounded);
    }

    fn walk(&mut self, plain: &mut Plain<'_>, body: &Expr, now: Since, bounded: bool) {
        match &body.kind {
            ExprKind::Quantified { over, body, .. } => plain.for_each(over, &mut |plain, known| {
                let guard = known.and_then(|()| {
                    over.guard.as_ref().map_or(Ok(true), |guard| plain.judge(guard))
                });
                match guard {
                    Ok(true) => self.walk(plain, body, now, bounded),
                    Ok(false) => {}
                    Err(_) => self.known = false,
                }
                true
            }),
            ExprKind::LeadsTo(from, goal) => {
                let from = verdict(plain.judge(from));
                if from != Verdict::Violated {
                    let goal = verdict(plain.judge(goal));
                    self.note(plain.bindings.clone(), from, goal, now, bounded);
                }
            }
            _ => {}
        }
    }
}

fn sides(body: &Expr) -> (&Expr, &Expr) {
    match &body.kind {
        ExprKind::Quantified { body, .. } => sides(body),
        ExprKind::LeadsTo(from, goal) => (from, goal),
        _ => (body, body),
    }
}
