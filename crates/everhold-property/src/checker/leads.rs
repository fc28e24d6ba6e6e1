//! `p leads to q`: what is still owed.

use std::collections::BTreeMap;

use everhold_trace::Value;

use super::Since;
use crate::ast::{Bound, Expr, ExprKind};
use crate::eval::{Bindings, Plain, verdict};
use crate::library::Library;
use crate::state::State;
use crate::verdict::Verdict;

/// For each binding for which `p` held and `q` has not held since: from when.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads {
    owed: BTreeMap<Vec<Value>, (Bindings, Since)>,
}

impl Leads {
    pub(super) fn of(owed: impl Iterator<Item = (Bindings, Since)>) -> Leads {
        let key = |bindings: &Bindings| bindings.iter().map(|(_, value)| value.clone()).collect();
        Leads { owed: owed.map(|(bindings, since)| (key(&bindings), (bindings, since))).collect() }
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

    /// The binding that has been owed for longest, if that is too long.
    pub(super) fn first_late(&self, now: Since, within: Option<Bound>) -> Option<&Bindings> {
        let late = self.owed.values().filter(|(_, since)| since.is_late(now, within));
        late.min_by_key(|(_, since)| since.step).map(|(bindings, _)| bindings)
    }

    /// Takes note of both sides for one binding.
    pub(super) fn observe(&mut self, bindings: Bindings, from: Verdict, goal: Verdict, now: Since) {
        let key: Vec<Value> = bindings.iter().map(|(_, value)| value.clone()).collect();
        if goal == Verdict::Holds {
            self.owed.remove(&key);
        } else if from == Verdict::Holds {
            self.owed.entry(key).or_insert((bindings, now));
        }
    }

    /// Takes note of a state, for all bindings.
    pub(super) fn step(
        &mut self,
        body: &Expr,
        library: &Library,
        history: &[&dyn State],
        now: Since,
    ) {
        let (_, goal) = sides(body);
        // A binding stays owed even when it is no longer in the domain of its quantifier.
        self.owed.retain(|_, (bindings, _)| {
            Plain::new(library, history, bindings.clone()).judge(goal) != Ok(true)
        });
        let mut plain = Plain::new(library, history, Vec::new());
        self.walk(&mut plain, body, now);
    }

    fn walk(&mut self, plain: &mut Plain<'_>, body: &Expr, now: Since) {
        match &body.kind {
            ExprKind::Quantified { over, body, .. } => plain.for_each(over, &mut |plain, known| {
                let guard = over.guard.as_ref().is_none_or(|guard| plain.judge(guard) == Ok(true));
                if known.is_ok() && guard {
                    self.walk(plain, body, now);
                }
                true
            }),
            ExprKind::LeadsTo(from, goal) if plain.judge(from) == Ok(true) => {
                let goal = verdict(plain.judge(goal));
                self.observe(plain.bindings.clone(), Verdict::Holds, goal, now);
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
