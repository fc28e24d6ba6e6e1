//! Whether a condition has any bearing on the claim that is made under it.
//!
//! A claim that is nearly always true is also true whenever two nodes happen to show the same number,
//! or while a flag happens to be set. So each part of a condition is left out in turn, and the claim
//! is judged where that part is false. If the part had no bearing on the claim, the cases in which
//! the claim fails would be a random sample of all cases, and some of them would satisfy the part.
//! With `N` cases, `K` of them outside the condition, and `n` failing ones, the probability that all
//! failing cases are outside is hypergeometric: `C(K, n) / C(N, n)`.

use std::collections::BTreeMap;

use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context};
use super::evidence::{holds, ln_all_inside};
use super::family::Form;
use super::rows::Pairs;
use crate::evaluate::{Cell, Truth};

/// The most rows that are looked at: enough to estimate a share.
const ROWS_MAX: usize = 5_000;

/// For these places of candidates the natural logarithm of the largest chance that a part of the
/// condition has no bearing on the claim; nothing of those without a condition.
pub(super) fn ln_chances(
    form: &Form,
    candidates: &Candidates,
    kept: &[Candidate],
    places: Vec<usize>,
    (pairs, both_ways): (&Pairs, bool),
    context: &Context<'_>,
) -> Vec<(usize, f64)> {
    let mut found = Vec::new();
    let rows = sample(pairs, both_ways);
    let mut by_condition: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in places {
        by_condition.entry(kept[place].condition).or_default().push(place);
    }
    for (condition, places) in by_condition {
        let comparisons =
            candidates.conditions[condition].iter().map(|c| candidates.comparisons[*c]);
        let comparisons: Vec<Comparison> = comparisons.collect();
        for part in 0..comparisons.len() {
            let without = Without::of(form, &comparisons, part, &rows, context);
            for &place in &places {
                let claim = candidates.comparisons[kept[place].comparison];
                found.extend(without.ln_chance(claim).map(|ln_chance| (place, ln_chance)));
            }
        }
    }
    found
}

/// A sample of the rows, in their order.
fn sample(pairs: &Pairs, both_ways: bool) -> Vec<(u32, u32)> {
    let ways = if both_ways { 2 } else { 1 };
    let step = (pairs.len() * ways).div_ceil(ROWS_MAX).max(1);
    let mut rows = Vec::new();
    for place in (0..pairs.len()).step_by(step) {
        let (l, r) = pairs.get(place);
        rows.push((l, r));
        if both_ways {
            rows.push((r, l));
        }
    }
    rows
}

/// The rows in which a condition without one of its parts is true.
struct Without<'a> {
    part: Comparison,
    /// Each with whether that part is true, too.
    rows: Vec<((u32, u32), bool)>,
    context: &'a Context<'a>,
    /// Whether the sides are different nodes.
    apart: bool,
    /// The role of the left side that the rest asks for.
    role: Option<usize>,
}

impl<'a> Without<'a> {
    fn of(
        form: &Form,
        condition: &[Comparison],
        part: usize,
        rows: &[(u32, u32)],
        context: &'a Context<'a>,
    ) -> Without<'a> {
        let true_of =
            |comparison: Comparison, row: (u32, u32)| holds(comparison, context, row.0, row.1);
        let rest = |row: &&(u32, u32)| {
            let mut others = condition.iter().enumerate().filter(|(place, _)| *place != part);
            others.all(|(_, comparison)| true_of(*comparison, **row))
        };
        let role = condition.iter().find_map(|comparison| match comparison {
            Comparison::Left(_, term, _) => Some(*term),
            _ => None,
        });
        let part = condition[part];
        let rows = rows.iter().filter(rest).map(|row| (*row, true_of(part, *row))).collect();
        let apart = matches!(form, Form::Two | Form::Delivery | Form::TwoElements);
        Without { part, rows, context, apart, role }
    }

    /// The chance that all cases in which a claim fails are outside, if it is of a form that can be
    /// weighed so.
    fn ln_chance(&self, claim: Comparison) -> Option<f64> {
        match (claim, self.part) {
            (Comparison::Cross(..), Comparison::Cross(..)) if self.apart => {
                Some(self.by_episodes(claim, &self.failing(claim)))
            }
            (Comparison::Cross(..), _) => Some(self.by_values(claim, &self.failing(claim))),
            // A role has few values, and what the other side is otherwise is looked at elsewhere.
            (_, Comparison::Cross(..)) => Some(self.by_episodes(claim, &self.failing(claim))),
            _ => None,
        }
    }

    /// For each row whether the claim is false.
    fn failing(&self, claim: Comparison) -> Vec<bool> {
        let Comparison::Cross(relation, a, b) = claim else {
            let fails = |((l, r), _): &((u32, u32), bool)| !holds(claim, self.context, *l, *r);
            return self.rows.iter().map(fails).collect();
        };
        let Context { left, right, .. } = *self.context;
        let classes = (left.terms[a].class, right.terms[b].class);
        let values = |((l, r), _): &((u32, u32), bool)| (left.cell(a, *l), right.cell(b, *r));
        let fails = |x: Cell, y: Cell| self.context.relate(relation, x, y) == Truth::False;
        if classes.0.is_single() && classes.1.is_single() {
            return self.rows.iter().map(values).map(|(x, y)| fails(x, y)).collect();
        }
        // Containers take long to compare, and repeat.
        let mut known = BTreeMap::new();
        let mut fails = |(x, y)| *known.entry((x, y)).or_insert_with(|| fails(x, y));
        self.rows.iter().map(values).map(&mut fails).collect()
    }

    /// Cases are distinct pairs of values of two nodes, each as it was met first: for how long they
    /// stayed does not count.
    fn by_values(&self, claim: Comparison, fails: &[bool]) -> f64 {
        let Comparison::Cross(_, a, b) = claim else { return 0.0 };
        let Context { left, right, .. } = *self.context;
        let case = |(place, ((l, r), _)): (usize, &((u32, u32), bool))| {
            let values = (left.columns[a][*l as usize], right.columns[b][*r as usize]);
            ([left.groups[*l as usize], right.groups[*r as usize], values.0, values.1], place)
        };
        let mut cases: Vec<([u32; 4], usize)> = self.rows.iter().enumerate().map(case).collect();
        cases.sort_unstable();
        cases.dedup_by_key(|(case, _)| *case);
        let outside = cases.iter().filter(|(_, place)| !self.rows[*place].1).count();
        let failing = cases.iter().filter(|(_, place)| fails[*place]).count();
        ln_all_inside(outside as f64, cases.len() as f64, failing)
    }

    /// Cases are pairs of episodes of the two values that the part says are equal. There are no
    /// more of them than episodes of what is claimed.
    fn by_episodes(&self, claim: Comparison, fails: &[bool]) -> f64 {
        let Context { left, right, .. } = *self.context;
        let Comparison::Cross(_, a, b) = self.part else { return 0.0 };
        let (mut cases, mut failing) = (Vec::with_capacity(self.rows.len()), Vec::new());
        let mut claimed = Vec::new();
        for (((l, r), inside), fails) in self.rows.iter().zip(fails) {
            let (l, r) = (*l, *r);
            let case = (*inside, left.episode(a, l), right.episode(b, r));
            cases.push(case);
            if *fails {
                failing.push(case);
                let (x, y) = match claim {
                    Comparison::Cross(_, x, y) => (Some(x), Some(y)),
                    Comparison::Left(_, x, _) => (Some(x), None),
                    Comparison::Right(_, y, _) => (self.role, Some(y)),
                };
                let own = (left.groups[l as usize], right.groups[r as usize]);
                let x = x.map(|term| left.episode(term, l));
                let y = y.map(|term| right.episode(term, r));
                claimed.push((own, x, y));
            }
        }
        let cases = distinct(cases);
        let outside = cases.iter().filter(|(inside, ..)| !inside).count();
        let drawn = distinct(failing).len().min(distinct(claimed).len());
        ln_all_inside(outside as f64, cases.len() as f64, drawn)
    }
}

fn distinct<T: Ord>(mut cases: Vec<T>) -> Vec<T> {
    cases.sort_unstable();
    cases.dedup();
    cases
}
