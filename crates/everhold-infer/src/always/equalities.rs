//! Whether an equality in a condition has anything to do with what is claimed under it.
//!
//! Two nodes that happen to show the same number are cases of "the same number implies ...". If the
//! number had nothing to do with the claim, each case (which two nodes, which number) would be an
//! independent draw from the rows in which the numbers differ.

use std::collections::BTreeSet;

use super::evidence::{by_condition, holds};
use super::family::{Candidate, Candidates};
use super::literal::{Context, Literal};
use super::rows::Pairs;

/// Rows looked at; more would only add to what is already certain.
const ROWS_MAX: usize = 100_000;
/// Rows in which claims are judged: containers take long, and a share is known from a few.
const JUDGED_MAX: usize = 4_000;

/// For each candidate that relates two values under an equality, the natural logarithm of the
/// chance that it is true in all cases of the equality.
pub(super) fn ln_chances(
    candidates: &Candidates,
    kept: &[Candidate],
    pairs: &Pairs,
    both_ways: bool,
    context: &Context<'_>,
) -> Vec<Option<f64>> {
    let mut found = vec![None; kept.len()];
    for (condition, places) in by_condition(candidates, kept) {
        let (equal, rest): (Vec<Literal>, Vec<Literal>) =
            condition.into_iter().partition(|literal| matches!(literal, Literal::Cross(..)));
        if equal.is_empty() {
            continue;
        }
        let claims = places.iter().map(|place| candidates.literals[kept[*place].literal]);
        let mut cases = Cases { equal, rest, claims: claims.collect(), ..Cases::default() };
        cases.otherwise = vec![(0, 0); places.len()];
        let step = pairs.len().div_ceil(ROWS_MAX).max(1);
        let judged = (pairs.len() / step).div_ceil(JUDGED_MAX).max(1);
        for (number, row) in (0..pairs.len()).step_by(step).enumerate() {
            let (l, r) = pairs.get(row);
            let judge = number % judged == 0;
            cases.see((l, r), judge, context);
            if both_ways {
                cases.see((r, l), judge, context);
            }
        }
        for (place, (inside, all)) in places.into_iter().zip(&cases.otherwise) {
            if matches!(candidates.literals[kept[place].literal], Literal::Cross(..)) {
                // One more than was seen, so that what is never otherwise is no evidence.
                let rate = (*inside as f64 + 1.0) / (*all as f64 + 1.0);
                found[place] = Some(cases.met.len() as f64 * rate.ln());
            }
        }
    }
    found
}

/// The rows of one condition.
#[derive(Default)]
struct Cases {
    equal: Vec<Literal>,
    rest: Vec<Literal>,
    claims: Vec<Literal>,
    /// Which two nodes, and what they share.
    met: BTreeSet<(u32, u32, Vec<u32>)>,
    /// For each claim, in how many rows it is true where the equality is not, and of how many.
    otherwise: Vec<(u64, u64)>,
}

impl Cases {
    fn see(&mut self, (l, r): (u32, u32), judge: bool, context: &Context<'_>) {
        let holds = |literal: &Literal| holds(*literal, context, l, r);
        if !self.rest.iter().all(holds) {
            return;
        }
        if self.equal.iter().all(holds) {
            let groups = (context.left.groups[l as usize], context.right.groups[r as usize]);
            let shared = |literal: &Literal| match literal {
                Literal::Cross(_, term, _) => context.left.columns[*term][l as usize],
                Literal::Left(..) | Literal::Right(..) => 0,
            };
            self.met.insert((groups.0, groups.1, self.equal.iter().map(shared).collect()));
            return;
        }
        if !judge {
            return;
        }
        for (claim, (inside, all)) in self.claims.iter().zip(&mut self.otherwise) {
            let Literal::Cross(relation, a, b) = *claim else { continue };
            let classes = (context.left.terms[a].class, context.right.terms[b].class);
            let values =
                (context.left.columns[a][l as usize], context.right.columns[b][r as usize]);
            if let Some(truth) = context.relate(relation, classes, values.0, values.1) {
                *inside += u64::from(truth);
                *all += 1;
            }
        }
    }
}
