//! Redundancy: the survivors of a family that follow from others.

use std::collections::BTreeMap;

use everhold_property::Type;

use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context};
use super::ledger::Claim;
use super::terms::What;
use crate::relation::{Class, Relation};

/// The survivors of a family.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// Those that nothing stronger implies, with sets of other claims that they follow from.
    pub(super) kept: Vec<(Candidate, Vec<Vec<Claim>>)>,
    /// Those that follow from one other.
    pub(super) implied: Vec<(Candidate, Claim)>,
    /// Those that say the same as another one with the sides exchanged.
    pub(super) mirrors: Vec<(Candidate, Candidate)>,
}

/// Tells the survivors that stand on their own from the others.
pub(super) fn split(
    candidates: &Candidates,
    both_ways: bool,
    wider: &[Candidates],
    alone: Option<(&Candidates, &Candidates)>,
    context: &Context<'_>,
) -> Split {
    let (strongest, implied) = candidates.strongest();
    let implied = implied.into_iter().map(|(own, by)| (own, candidates.claim(by)));
    let mut split = Split { implied: implied.collect(), ..Split::default() };
    let mut known: BTreeMap<(Vec<Comparison>, Comparison), Candidate> = BTreeMap::new();
    for candidate in strongest {
        let key = candidates.key(candidate);
        let mirror = (mirrored(&key.0), mirrored(&[key.1])[0]);
        if both_ways && let Some(same) = known.insert(key.clone().min(mirror), candidate) {
            split.mirrors.push((candidate, same));
            continue;
        }
        let wide = wider.iter().find_map(|wider| wider.covers(&key));
        if let Some(by) = wide.or_else(|| of_sizes(candidates, &key, context)) {
            split.implied.push((candidate, by));
        } else {
            let mut through = transitive(candidates, candidate, alone);
            through.extend(grown(candidates, candidate, context).map(|claim| vec![claim]));
            through.extend(substituted(candidates, candidate, alone));
            through.extend(twins(candidates, candidate, alone));
            split.kept.push((candidate, through));
        }
    }
    split
}

/// For a relation of two sizes, one of the containers themselves that it follows from.
fn of_sizes(
    candidates: &Candidates,
    (condition, comparison): &(Vec<Comparison>, Comparison),
    context: &Context<'_>,
) -> Option<Claim> {
    let Comparison::Cross(relation, l, r) = *comparison else { return None };
    let stronger: &[Relation] = match relation {
        Relation::Equal => &[Relation::Equal],
        Relation::AtMost => &[Relation::Prefix, Relation::Subsequence, Relation::Subset],
        Relation::AtLeast => &[Relation::Extends, Relation::Supersequence, Relation::Superset],
        _ => return None,
    };
    let (l, r) = (context.left.measured(l)?, context.right.measured(r)?);
    // A list may have an element several times.
    let kept = if context.left.terms[l].class == Class::List { 2 } else { 3 };
    let stronger = &stronger[..stronger.len().min(kept)];
    let covers =
        |of: &Relation| candidates.covers(&(condition.clone(), Comparison::Cross(*of, l, r)));
    stronger.iter().find_map(covers)
}

/// For a claim about a term that equals another one at its own node, the same claim about the other
/// one and the equality: a size and the counter beside it say everything twice.
fn twins(
    candidates: &Candidates,
    own: Candidate,
    alone: Option<(&Candidates, &Candidates)>,
) -> Vec<Vec<Claim>> {
    let (Comparison::Cross(relation, l, r), Some((left, right))) =
        (candidates.comparisons[own.comparison], alone)
    else {
        return Vec::new();
    };
    let (condition, _) = candidates.key(own);
    let mut found = Vec::new();
    let mut add = |same: Option<Claim>, twin: Comparison| {
        let other = same.and_then(|_| candidates.covers(&(condition.clone(), twin)));
        found.extend(same.zip(other).map(|(same, other)| vec![same, other]));
    };
    for x in (0..candidates.terms()).filter(|x| *x != l) {
        add(left.related(Relation::Equal, l, x), Comparison::Cross(relation, x, r));
    }
    for y in (0..candidates.terms()).filter(|y| *y != r) {
        let same = right.related(Relation::Equal, r, y);
        add(same, Comparison::Cross(relation, l, y));
        if l == r {
            add(same, Comparison::Cross(relation, y, y));
        }
    }
    found
}

/// For an equality of containers that have the same size, that one of them is part of the other.
fn grown(candidates: &Candidates, own: Candidate, context: &Context<'_>) -> Option<Claim> {
    let Comparison::Cross(Relation::Equal, l, r) = candidates.comparisons[own.comparison] else {
        return None;
    };
    let (condition, _) = candidates.key(own);
    let sizes = |comparison: &Comparison| match *comparison {
        Comparison::Cross(_, x, y) => {
            context.left.measured(x) == Some(l) && context.right.measured(y) == Some(r)
        }
        _ => false,
    };
    let of_same_size = condition.iter().any(sizes);
    let parts: &[Relation] = match &context.left.terms[l].what {
        What::Variable(of) if matches!(of.ty, Type::List(_)) => {
            &[Relation::Subsequence, Relation::Supersequence]
        }
        What::Variable(of) if matches!(of.ty, Type::Set(_)) => {
            &[Relation::Subset, Relation::Superset]
        }
        // A map may have other values under the same keys.
        _ => &[],
    };
    let covers =
        |of: &Relation| candidates.covers(&(condition.clone(), Comparison::Cross(*of, l, r)));
    parts.iter().filter(|_| of_same_size).find_map(covers)
}

/// For a claim about a value that both sides share by the condition, the claims about that value
/// within one node or of both sides from which it follows.
fn substituted(
    candidates: &Candidates,
    own: Candidate,
    alone: Option<(&Candidates, &Candidates)>,
) -> Vec<Vec<Claim>> {
    let (condition, claim) = candidates.key(own);
    let mut found = Vec::new();
    for part in &condition {
        // Two values are equal because each equals another one at its own node.
        if let (
            Comparison::Cross(Relation::Equal, p, q),
            Comparison::Cross(Relation::Equal, l, r),
            Some((left, right)),
        ) = (*part, claim, alone)
            && p != l
            && q != r
            && let Some(first) = left.related(Relation::Equal, l, p)
            && let Some(second) = right.related(Relation::Equal, r, q)
        {
            found.push(if first == second { vec![first] } else { vec![first, second] });
        }
        let claim = match (*part, claim, alone) {
            (
                Comparison::Cross(Relation::Equal, p, q),
                Comparison::Cross(relation, l, r),
                Some(alone),
            ) => {
                let right = (l == p && q != r).then(|| alone.1.related(relation, q, r));
                let left = (r == q && p != l).then(|| alone.0.related(relation, l, p));
                right.flatten().or(left.flatten())
            }
            // That `b.role` is what `a.role` is, where they are equal.
            (Comparison::Left(true, a, value), Comparison::Right(true, b, other), _)
                if (a, value) == (b, other) =>
            {
                candidates.covers(&(condition.clone(), Comparison::Cross(Relation::Equal, a, b)))
            }
            _ => None,
        };
        found.extend(claim.map(|claim| vec![claim]));
    }
    found
}

/// The same claims with the sides exchanged.
pub(super) fn mirrored(comparisons: &[Comparison]) -> Vec<Comparison> {
    let mirror = |comparison: &Comparison| match *comparison {
        Comparison::Cross(relation, l, r) => Comparison::Cross(relation.mirrored(), r, l),
        Comparison::Left(equal, term, code) => Comparison::Right(equal, term, code),
        Comparison::Right(equal, term, code) => Comparison::Left(equal, term, code),
    };
    let mut found: Vec<Comparison> = comparisons.iter().map(mirror).collect();
    found.sort_unstable();
    found
}

/// For an order, the pairs of orders from which it follows by transitivity, one of them within a
/// node.
fn transitive(
    candidates: &Candidates,
    own: Candidate,
    alone: Option<(&Candidates, &Candidates)>,
) -> Vec<Vec<Claim>> {
    let Comparison::Cross(relation, l, r) = candidates.comparisons[own.comparison] else {
        return Vec::new();
    };
    let up = match relation {
        Relation::AtMost => true,
        Relation::AtLeast => false,
        _ => return Vec::new(),
    };
    let condition = &candidates.conditions[own.condition];
    let Some((left, right)) = alone else {
        let between = |z: usize| {
            let (low, high) =
                (candidates.ordered_within(l, z, up)?, candidates.ordered_within(z, r, up)?);
            Some(vec![low, high])
        };
        let others = (0..candidates.terms()).filter(|z| *z != l && *z != r);
        return others.filter_map(between).collect();
    };
    // A condition `p == q` carries an order over to the other side.
    let carried = |place: &usize| {
        let Comparison::Cross(Relation::Equal, p, q) = candidates.comparisons[*place] else {
            return None;
        };
        let low = if p == l { Vec::new() } else { vec![left.ordered_within(l, p, up)?] };
        let high = if q == r { Vec::new() } else { vec![right.ordered_within(q, r, up)?] };
        Some([low, high].concat()).filter(|set| !set.is_empty())
    };
    let orders = |a: usize, b: usize| candidates.ordered(condition, a, b, up);
    let first = |z: usize| Some(vec![left.ordered_within(l, z, up)?, orders(z, r)?]);
    let last = |z: usize| Some(vec![orders(l, z)?, right.ordered_within(z, r, up)?]);
    let terms = 0..candidates.terms();
    let mut found: Vec<Vec<Claim>> = condition.iter().filter_map(carried).collect();
    found.extend(terms.clone().filter(|z| *z != l).filter_map(first));
    found.extend(terms.filter(|z| *z != r).filter_map(last));
    found
}
