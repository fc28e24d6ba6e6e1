//! Constant differences across nodes: `a.x == b.y + 3`, perhaps when the nodes are in some roles.
//!
//! Of two numbers that differ by a constant, one is always greater. So only the strict orders that
//! survived are looked at.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, print_expr};

use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context, said};
use super::evidence::{Evidence, holds, ln_all_inside};
use super::family::Family;
use super::lines::{Draft, Setting};
use super::redundant::mirrored;
use super::rows::Pairs;
use super::terms::Side;
use crate::relation::tree::{binary, constant};
use crate::relation::{Class, Relation};

/// Distinct values counted for one node.
const POINTS_MAX: usize = 2_000;

/// The claim that, under a condition, a term of the left side exceeds a term of the right side by a
/// constant, which may be negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The place of the condition.
    condition: usize,
    /// The same, written out and sorted.
    comparisons: Vec<Comparison>,
    terms: (usize, usize),
    by: i64,
}

/// The differences that are the same in all rows, and how many were tried. Rows of `also` may
/// refute and do not support.
pub(super) fn find(
    candidates: &Candidates,
    family: &Family<'_>,
    also: Option<&Pairs>,
) -> (Vec<Difference>, u64) {
    let Family { pairs, both_ways, context, .. } = *family;
    let conditions: Vec<usize> =
        (0..candidates.conditions.len()).filter(|c| of_roles(candidates, *c)).collect();
    let orders = candidates.comparisons.iter().filter(|l| strict(**l, context).is_some()).count();
    let tried = (conditions.len() * orders / 2) as u64;
    let mut open: Vec<Open> =
        conditions.iter().map(|c| Open::of(candidates, *c, both_ways, context)).collect();
    open.retain(|open| !open.live.is_empty());
    let swapped = pairs.iter().filter(|_| both_ways).map(|(l, r)| (r, l));
    let also = also.into_iter().flat_map(Pairs::iter);
    for row in pairs.iter().chain(swapped).chain(also) {
        open.iter_mut().for_each(|open| open.see(row, context));
        open.retain(|open| !open.live.is_empty());
        if open.is_empty() {
            break;
        }
    }
    let mut found: Vec<Difference> = Vec::new();
    for new in open.into_iter().flat_map(Open::finish) {
        let known = |old: &Difference| {
            (old.terms, old.by) == (new.terms, new.by)
                && candidates.is_wider(old.condition, new.condition)
        };
        if !found.iter().any(known) {
            found.push(new);
        }
    }
    (found, tried)
}

/// Whether a condition speaks of roles alone, and was met.
fn of_roles(candidates: &Candidates, condition: usize) -> bool {
    let comparisons = &candidates.conditions[condition];
    let role = |place: &usize| !matches!(candidates.comparisons[*place], Comparison::Cross(..));
    candidates.support[condition] > 0 && comparisons.iter().all(role)
}

/// The terms of a strict order of two numbers.
fn strict(comparison: Comparison, context: &Context<'_>) -> Option<(usize, usize)> {
    let Comparison::Cross(Relation::Less | Relation::Greater, l, r) = comparison else {
        return None;
    };
    let plain = !context.left.terms[l].is_role() && !context.right.terms[r].is_role();
    plain.then_some((l, r))
}

/// Whether an earlier term of the same side differs from this one by a constant. A difference is then
/// reported for the earlier term only.
fn follows_another(side: &Side, term: usize, context: &Context<'_>) -> bool {
    let number = |term: usize, row: u32| context.numbers.int(side.columns[term].number(row));
    let apart = |a: usize, b: usize, row: u32| number(a, row)?.checked_sub(number(b, row)?);
    (0..term).any(|other| {
        let comparable = side.terms[other].class == Class::Number && !side.terms[other].is_role();
        let first = || apart(term, other, 0);
        comparable
            && first().is_some()
            && (0..side.rows()).all(|row| apart(term, other, row) == first())
    })
}

/// A condition, and the differences that are not refuted yet.
struct Open {
    condition: usize,
    comparisons: Vec<Comparison>,
    /// The terms and the difference, once a row has shown it.
    live: Vec<((usize, usize), Option<i64>)>,
}

impl Open {
    fn of(
        candidates: &Candidates,
        condition: usize,
        both_ways: bool,
        context: &Context<'_>,
    ) -> Open {
        let mut comparisons: Vec<Comparison> =
            candidates.conditions[condition].iter().map(|c| candidates.comparisons[*c]).collect();
        comparisons.sort_unstable();
        // With both orders of the sides each difference occurs twice, with opposite signs.
        let wanted = |comparison: &Comparison| match comparison {
            Comparison::Cross(Relation::Less, ..) => !both_ways,
            _ => true,
        };
        let live = candidates.live[condition].iter().map(|place| candidates.comparisons[*place]);
        let live = live.filter(wanted).filter_map(|comparison| strict(comparison, context));
        let first = |(l, r): &(usize, usize)| {
            !follows_another(context.left, *l, context)
                && !follows_another(context.right, *r, context)
        };
        let live = live.filter(first).map(|terms| (terms, None)).collect();
        Open { condition, comparisons, live }
    }

    /// Drops the differences that this row refutes.
    fn see(&mut self, (l, r): (u32, u32), context: &Context<'_>) {
        if !self.comparisons.iter().all(|comparison| holds(*comparison, context, l, r)) {
            return;
        }
        self.live.retain_mut(|((a, b), by)| {
            let Some(now) = numbers((*a, *b), (l, r), context).and_then(|(x, y)| x.checked_sub(y))
            else {
                return false;
            };
            *by.get_or_insert(now) == now
        });
    }

    fn finish(self) -> impl Iterator<Item = Difference> {
        let Open { condition, comparisons, live } = self;
        live.into_iter().filter_map(move |(terms, by)| {
            Some(Difference { condition, comparisons: comparisons.clone(), terms, by: by? })
        })
    }
}

/// The two numbers of a row.
fn numbers(
    (a, b): (usize, usize),
    (l, r): (u32, u32),
    context: &Context<'_>,
) -> Option<(i64, i64)> {
    let x = context.numbers.int(context.left.columns[a].number(l))?;
    let y = context.numbers.int(context.right.columns[b].number(r))?;
    Some((x, y))
}

impl Difference {
    /// Whether the same was found in other rows, under this condition or a weaker one.
    pub(super) fn is_among(&self, others: &[Difference]) -> bool {
        others.iter().any(|other| {
            (other.terms, other.by) == (self.terms, self.by)
                && other.comparisons.iter().all(|comparison| self.comparisons.contains(comparison))
        })
    }

    /// Whether an order follows from it.
    pub(super) fn implies(
        &self,
        candidates: &Candidates,
        candidate: Candidate,
        both_ways: bool,
    ) -> bool {
        let follows = |condition: &[Comparison], comparison: Comparison| {
            let Comparison::Cross(relation, l, r) = comparison else { return false };
            let strict = if self.by > 0 { Relation::Greater } else { Relation::Less };
            (l, r) == self.terms
                && (relation == strict || strict.implies().contains(&relation))
                && self.comparisons.iter().all(|own| condition.contains(own))
        };
        let (condition, comparison) = candidates.key(candidate);
        let mirror = || follows(&mirrored(&condition), mirrored(&[comparison])[0]);
        follows(&condition, comparison) || both_ways && mirror()
    }

    /// The difference as a property with its evidence.
    pub(super) fn draft(&self, candidates: &Candidates, family: &Family<'_>) -> Draft {
        let Family { setting, context, .. } = *family;
        let left = setting.rows.left_expr(&context.left.terms[self.terms.0]);
        let right = setting.rows.right_expr(&context.right.terms[self.terms.1]);
        let (more, less) = if self.by > 0 { (left, right) } else { (right, left) };
        let by = self.by.saturating_abs();
        let text = |expr| said(&print_expr(expr));
        let words = format!("{} is {} + {by}", text(&more), text(&less));
        let claim = binary(BinaryOp::Eq, more, binary(BinaryOp::Add, less, constant(&by.into())));
        let property = setting.conditional(&self.comparisons, (claim, words), context);
        let evidence = self.evidence(candidates.support[self.condition], family);
        Draft::new(property, evidence, self.weight(setting))
    }

    fn weight(&self, setting: &Setting) -> f64 {
        let same = if self.terms.0 == self.terms.1 { 1.0 } else { 0.0 };
        setting.form_weight() + setting.scope_weight() + 3.0 + same - self.comparisons.len() as f64
    }

    /// As for equality: all distinct pairs of values of a node lie on one diagonal of the grid of the
    /// `k` values that occurred. The probability of that is hypergeometric, times the `2 k` diagonals
    /// that it could have been.
    fn evidence(&self, samples: u64, family: &Family<'_>) -> Evidence {
        let Family { pairs, both_ways, context, .. } = *family;
        let groups = context.left.groups.iter().max().map_or(0, |last| *last as usize + 1);
        let mut seen: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); groups];
        let swapped = pairs.iter().filter(|_| both_ways).map(|(l, r)| (r, l));
        for (l, r) in pairs.iter().chain(swapped) {
            let own = &mut seen[context.left.groups[l as usize] as usize];
            if own.len() < POINTS_MAX
                && self.comparisons.iter().all(|comparison| holds(*comparison, context, l, r))
                && let Some((x, _)) = numbers(self.terms, (l, r), context)
            {
                own.insert(x);
            }
        }
        let sizes = seen.iter().map(BTreeSet::len);
        let diagonals = (2 * sizes.clone().max().unwrap_or(0)).max(1) as f64;
        let on_it = |k: usize| ln_all_inside(k as f64, (k * k) as f64, k);
        let ln_chance = diagonals.ln() + sizes.clone().map(on_it).sum::<f64>();
        let distinct = sizes.sum::<usize>() as u64;
        Evidence { samples, distinct, ln_chance: ln_chance.min(0.0) }
    }
}
