//! What need not be said, because it follows from something else that held.

use std::collections::BTreeSet;

use super::family::{Candidate, Candidates};
use super::lines::Setting;
use super::literal::{Context, Literal, Relation};

/// The survivors that stand on their own, and the others with the reason.
pub(super) fn split(
    candidates: &Candidates,
    setting: &Setting,
    both_ways: bool,
    wider: &[Candidates],
    alone: Option<(&Candidates, &Candidates)>,
    context: &Context<'_>,
) -> (Vec<Candidate>, Vec<(Candidate, String)>) {
    let (strongest, implied) = candidates.strongest();
    let mut hidden = Vec::new();
    for (candidate, by) in implied {
        let by = setting.property(candidates, by, context).name;
        hidden.push((candidate, format!("follows from \"{by}\"")));
    }
    let mut mirrors: BTreeSet<(Vec<Literal>, Literal)> = BTreeSet::new();
    let mut kept = Vec::new();
    for candidate in strongest {
        let key = candidates.key(candidate);
        let mirror = (mirrored(&key.0), mirrored(&[key.1])[0]);
        if both_ways && !mirrors.insert(key.clone().min(mirror)) {
            continue;
        }
        if wider.iter().any(|wider| wider.covers(&key)) {
            hidden.push((candidate, "holds in a wider scope already".into()));
        } else if of_sizes(candidates, &key, context) {
            hidden.push((candidate, "follows from what is said of the containers".into()));
        } else if let Some(through) = transitive(candidates, candidate, alone) {
            hidden.push((candidate, through));
        } else {
            kept.push(candidate);
        }
    }
    (kept, hidden)
}

/// Whether a relation of two sizes follows from one of the containers themselves.
fn of_sizes(
    candidates: &Candidates,
    (condition, literal): &(Vec<Literal>, Literal),
    context: &Context<'_>,
) -> bool {
    let Literal::Cross(relation, l, r) = *literal else { return false };
    let stronger: &[Relation] = match relation {
        Relation::Equal => &[Relation::Equal],
        Relation::AtMost => &[Relation::Prefix, Relation::Subsequence],
        Relation::AtLeast => &[Relation::Extends, Relation::Supersequence],
        _ => return false,
    };
    let (Some(l), Some(r)) = (context.left.measured(l), context.right.measured(r)) else {
        return false;
    };
    let covers = |of: &Relation| candidates.covers(&(condition.clone(), Literal::Cross(*of, l, r)));
    stronger.iter().any(covers)
}

/// The same claims with the sides exchanged.
pub(super) fn mirrored(literals: &[Literal]) -> Vec<Literal> {
    let mirror = |literal: &Literal| match *literal {
        Literal::Cross(relation, l, r) => Literal::Cross(relation.mirrored(), r, l),
        Literal::Left(equal, term, code) => Literal::Right(equal, term, code),
        Literal::Right(equal, term, code) => Literal::Left(equal, term, code),
    };
    let mut found: Vec<Literal> = literals.iter().map(mirror).collect();
    found.sort_unstable();
    found
}

/// Whether an order follows from two others, one of them within a node.
fn transitive(
    candidates: &Candidates,
    own: Candidate,
    alone: Option<(&Candidates, &Candidates)>,
) -> Option<String> {
    let Literal::Cross(relation, l, r) = candidates.literals[own.literal] else { return None };
    let up = match relation {
        Relation::AtMost => true,
        Relation::AtLeast => false,
        _ => return None,
    };
    let condition = &candidates.conditions[own.condition];
    let orders = |a: usize, b: usize| candidates.ordered(condition, a, b, up);
    let Some((left, right)) = alone else {
        let between = |z: usize| {
            z != l
                && z != r
                && candidates.ordered_within(l, z, up)
                && candidates.ordered_within(z, r, up)
        };
        let found = (0..candidates.terms()).any(between);
        return found.then(|| "follows from two other orders".into());
    };
    // A condition `p == q` carries an order over to the other side.
    let equal = |place: &usize| match candidates.literals[*place] {
        Literal::Cross(Relation::Equal, p, q) => Some((p, q)),
        _ => None,
    };
    let carried = |(p, q): (usize, usize)| {
        (p, q) != (l, r)
            && (p == l || left.ordered_within(l, p, up))
            && (q == r || right.ordered_within(q, r, up))
    };
    if condition.iter().filter_map(equal).any(carried) {
        return Some("follows from its condition and an order within a node".into());
    }
    let through = |z: usize| {
        z != l && left.ordered_within(l, z, up) && orders(z, r)
            || z != r && orders(l, z) && right.ordered_within(z, r, up)
    };
    let found = (0..candidates.terms()).any(through);
    found.then(|| "follows from another line and an order within a node".into())
}
