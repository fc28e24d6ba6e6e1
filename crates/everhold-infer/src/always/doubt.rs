//! Doubts about claims that the scatter of values alone would support.
//!
//! - A variable may be nearly a copy of another one: equal to it except for a few rows. What follows
//!   from the two being equal is then supported only by the rows in which they differ.
//! - An order of two numbers that are mostly equal is supported only by the cases in which they
//!   differ: each of them could have differed the other way.
//! - A number that only grows is not met again in a set that only grows: the one is faster than the
//!   other for ever, and that is one case and not many.
//! - Two sets that only grow share nothing or something by each of their elements, so those are
//!   counted, and not the times at which the sets were looked at.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::Value;

use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context};
use super::family::Form;
use super::rows::Pairs;
use super::terms::Side;
use super::unjudged::term_name;
use crate::evaluate::Cell;
use crate::relation::{Class, Relation};

/// The rows that are looked at to find copies.
const ROWS_MAX: usize = 20_000;
/// A copy is equal in all but one row in this many.
const STALE: usize = 8;
/// A copy that a program keeps may be stale now and then. That a copy is stale in this share of its
/// updates has to be improbable before the two variables are taken for equal.
const STALE_RATE: f64 = 0.01;
/// The elements of a set that are looked at.
const ELEMENTS_MAX: usize = 20_000;

/// The pairs of terms of a side of which one is a copy of the other or nearly so: equal in most rows.
/// With the share of the rows in which they differ.
pub(super) fn copies(side: &Side) -> BTreeMap<(usize, usize), f64> {
    let step = side.groups.len().div_ceil(ROWS_MAX).max(1);
    let mut found = BTreeMap::new();
    for (a, term) in side.terms.iter().enumerate() {
        for (b, other) in side.terms.iter().enumerate().skip(a + 1) {
            let alike = term.class == other.class && !term.is_role() && !other.is_role();
            let share = alike.then(|| stale(&side.columns[a], &side.columns[b], step)).flatten();
            found.extend(share.into_iter().flat_map(|share| [((a, b), share), ((b, a), share)]));
        }
    }
    found
}

/// If two columns are equal in most rows, the share of the rows in which they differ.
fn stale(a: &[u32], b: &[u32], step: usize) -> Option<f64> {
    let rows = a.len().div_ceil(step);
    let (mut differ, may) = (0, rows / STALE);
    for (x, y) in a.iter().zip(b).step_by(step) {
        differ += usize::from(x != y);
        if differ > may {
            return None;
        }
    }
    let same = differ == 0 && (step == 1 || a == b);
    Some(if same { 0.0 } else { differ.max(1) as f64 / rows.max(1) as f64 })
}

/// Variables of the same names at several kinds of nodes are taken for the same: a copy that is stale
/// now and then at one kind may have been up to date by chance at another.
pub(super) fn share(sides: &[Side]) {
    let known: Vec<BTreeMap<(usize, usize), f64>> = sides.iter().map(copies).collect();
    for (kind, side) in sides.iter().enumerate() {
        let mut own = known[kind].clone();
        for (other, copies) in sides.iter().zip(&known).filter(|_| sides.len() > 1) {
            let place =
                |term: usize| side.terms.iter().position(|own| own.what == other.terms[term].what);
            for ((a, b), share) in copies {
                if let (Some(a), Some(b)) = (place(*a), place(*b)) {
                    let known = own.entry((a, b)).or_insert(0.0);
                    *known = known.max(*share);
                }
            }
        }
        side.copies.get_or_init(|| own);
    }
}

/// The copies through which a claim about equal values holds by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Through {
    left: Option<(usize, usize)>,
    right: Option<(usize, usize)>,
}

impl Through {
    /// For a claim `x ~ y` under a condition `p == q`, that `x` is nearly `p` and `y` nearly `q`.
    pub(super) fn of(
        candidates: &Candidates,
        candidate: &Candidate,
        context: &Context<'_>,
    ) -> Option<Through> {
        let Comparison::Cross(relation, l, r) = candidates.comparisons[candidate.comparison] else {
            return None;
        };
        let equal = matches!(relation, Relation::Equal | Relation::AtMost | Relation::AtLeast);
        let parts = candidates.conditions[candidate.condition].iter().filter(|_| equal);
        parts.map(|part| candidates.comparisons[*part]).find_map(|part| {
            let Comparison::Cross(Relation::Equal, p, q) = part else { return None };
            let nearly = |side: &Side, own: usize, other: usize| match own == other {
                true => Some(None),
                false => side.nearly(own, other).then_some(Some((own, other))),
            };
            let (left, right) = (nearly(context.left, l, p)?, nearly(context.right, r, q)?);
            (left.is_some() || right.is_some()).then_some(Through { left, right })
        })
    }

    /// Whether the copies are up to date in a row.
    pub(super) fn is_fresh(self, context: &Context<'_>, (l, r): (u32, u32)) -> bool {
        let fresh = |side: &Side, pair: Option<(usize, usize)>, row: u32| {
            pair.is_none_or(|(a, b)| side.columns[a][row as usize] == side.columns[b][row as usize])
        };
        fresh(context.left, self.left, l) && fresh(context.right, self.right, r)
    }
}

/// The variables that may be copies of others, which alone would make a claim of equal values true.
pub(super) fn possible_copies(
    form: &Form,
    candidates: &Candidates,
    candidate: &Candidate,
    context: &Context<'_>,
) -> Vec<(String, String)> {
    let names = |side: &Side, (own, other): (usize, usize)| {
        (term_name(side, own, None), term_name(side, other, None))
    };
    if let Some(Through { left, right }) = Through::of(candidates, candidate, context) {
        let left = left.map(|pair| names(context.left, pair));
        let mut found: Vec<_> =
            left.into_iter().chain(right.map(|pair| names(context.right, pair))).collect();
        found.dedup();
        return found;
    }
    match candidates.comparisons[candidate.comparison] {
        Comparison::Cross(Relation::Equal, a, b)
            if *form == Form::One && context.left.nearly(b, a) =>
        {
            vec![names(context.left, (b, a))]
        }
        _ => Vec::new(),
    }
}

/// The pairs of codes of each node.
type Seen = [Vec<(u32, u32)>];

/// The logarithm of the chance that remains at least, whatever the scatter of the values says; and
/// of the one that is enough by itself.
pub(super) fn limits(
    form: &Form,
    (relation, a, b): (Relation, usize, usize),
    free: bool,
    seen: &Seen,
    context: &Context<'_>,
) -> (f64, f64) {
    let (left, right) = (context.left, context.right);
    let grow = left.only_grows(a) && right.only_grows(b);
    let elsewhere = (*form == Form::One).then(|| left.stale(a, b)).flatten();
    let elsewhere = elsewhere.filter(|share| *share > 0.0);
    match relation {
        // Each row could have been one of those in which the copy is stale.
        Relation::Equal if elsewhere.is_some() => {
            let rows = left.groups.len() as f64;
            (rows * (1.0 - elsewhere.unwrap_or_default()).ln(), 0.0)
        }
        Relation::Equal
            if *form == Form::One && free && is_plain(left, a) && is_plain(right, b) =>
        {
            (changes(left, a) as f64 * (1.0 - STALE_RATE).ln(), 0.0)
        }
        Relation::AtMost | Relation::AtLeast if *form != Form::Steps => (differing(seen), 0.0),
        Relation::NotIn | Relation::Lacks if grow && *form != Form::Steps => (0.0, 0.0),
        Relation::Disjoint if grow => {
            // Of two nodes with the same variable, both orders are seen.
            let twice = if *form == Form::Two && a == b { 2.0 } else { 1.0 };
            (f64::NEG_INFINITY, apart(seen, (a, b), context) / twice)
        }
        _ => (f64::NEG_INFINITY, 0.0),
    }
}

/// The logarithm of the chance that two numbers that only grow were equal in all cases of a role,
/// if they were equal there as often as they are otherwise: what grows at several nodes is mostly
/// the same.
pub(super) fn usual(
    form: &Form,
    candidates: &Candidates,
    candidate: &Candidate,
    (pairs, cases): (&Pairs, u64),
    context: &Context<'_>,
) -> f64 {
    let condition = &candidates.conditions[candidate.condition];
    let roles = |part: &usize| !matches!(candidates.comparisons[*part], Comparison::Cross(..));
    let apart = matches!(form, Form::Two | Form::Delivery);
    match candidates.comparisons[candidate.comparison] {
        Comparison::Cross(Relation::Equal, a, b)
            if apart
                && !condition.is_empty()
                && condition.iter().all(roles)
                && context.left.only_grows(a)
                && context.right.only_grows(b) =>
        {
            let step = pairs.len().div_ceil(ROWS_MAX).max(1);
            let rows = (0..pairs.len()).step_by(step).map(|place| pairs.get(place));
            let (mut all, mut equal) = (1.0, 1.0);
            for (l, r) in rows {
                all += 1.0;
                let same = context.left.cell(a, l) == context.right.cell(b, r);
                equal += f64::from(u8::from(same));
            }
            cases as f64 * (equal / all).ln()
        }
        _ => f64::NEG_INFINITY,
    }
}

/// Whether a term is a variable of its own, and no size of another one.
fn is_plain(side: &Side, term: usize) -> bool {
    !side.terms[term].is_size() && side.terms[term].class.is_single()
}

/// How often a term changed, as far as the rows tell: they are numbered as they were first met.
fn changes(side: &Side, term: usize) -> usize {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    let rows = side.groups.iter().zip(side.columns[term].iter());
    rows.filter(|(group, code)| last.insert(**group, **code) != Some(**code)).count()
}

/// Each distinct case in which two numbers differ could have differed the other way.
fn differing(seen: &Seen) -> f64 {
    let mut cases = 0;
    for own in seen {
        let mut strict: Vec<(u32, u32)> = own.iter().copied().filter(|(x, y)| x != y).collect();
        strict.sort_unstable();
        strict.dedup();
        cases += strict.len();
    }
    -(cases as f64) * 2.0_f64.ln()
}

/// If each element were in two sets independently of each other, with the shares of the elements
/// that they have, then none would be in both with this chance. Only elements count that lie where
/// the sets overlap.
fn apart(seen: &Seen, (a, b): (usize, usize), context: &Context<'_>) -> f64 {
    let largest = |side: &Side, term: usize, codes: BTreeSet<u32>| {
        let cells = codes.into_iter().map(|code| side.columns[term].cell(code));
        let most = cells.max_by_key(|cell| size(*cell, context));
        most.map(|cell| items(cell, context)).unwrap_or_default()
    };
    let ln_chance = |own: &Vec<(u32, u32)>| {
        let left = largest(context.left, a, own.iter().map(|(x, _)| *x).collect());
        let right = largest(context.right, b, own.iter().map(|(_, y)| *y).collect());
        ln_apart(&left, &right)
    };
    seen.iter().map(ln_chance).sum()
}

fn ln_apart(left: &BTreeSet<Value>, right: &BTreeSet<Value>) -> f64 {
    let (Some(low), Some(high)) = (
        left.first().max(right.first()).filter(|_| !left.is_empty() && !right.is_empty()),
        left.last().min(right.last()),
    ) else {
        return 0.0;
    };
    if low > high {
        return 0.0;
    }
    let within = |set: &BTreeSet<Value>| set.range(low..=high).count() as f64;
    let (own, other) = (within(left), within(right));
    let all = match (low, high) {
        (Value::Int(low), Value::Int(high)) => (high.abs_diff(*low) as f64) + 1.0,
        _ => own + other,
    };
    all.max(own + other) * (1.0 - own * other / all.max(own + other).powi(2)).ln()
}

/// How many elements a container has.
fn size(cell: Cell, context: &Context<'_>) -> usize {
    match &*context.value(cell) {
        Value::List(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Map(entries) => entries.len(),
        _ => 0,
    }
}

/// The elements of a container.
fn items(cell: Cell, context: &Context<'_>) -> BTreeSet<Value> {
    match &*context.value(cell) {
        Value::List(items) => items.iter().take(ELEMENTS_MAX).cloned().collect(),
        Value::Set(items) => items.iter().take(ELEMENTS_MAX).cloned().collect(),
        Value::Map(entries) => entries.keys().take(ELEMENTS_MAX).cloned().collect(),
        _ => BTreeSet::new(),
    }
}

/// Whether nothing leaves a container from one value to the next.
pub(super) fn keeps(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::List(before), Value::List(after)) => {
            after.starts_with(before) || {
                let after: BTreeSet<&Value> = after.iter().collect();
                before.iter().all(|item| after.contains(item))
            }
        }
        (Value::Set(before), Value::Set(after)) => {
            before.len() <= after.len() && before.is_subset(after)
        }
        (Value::Map(before), Value::Map(after)) => {
            before.len() <= after.len() && before.keys().all(|key| after.contains_key(key))
        }
        (Value::Null, _) => true,
        _ => false,
    }
}

/// Whether a term ticks by itself: it changes at many of the steps of the nodes, and together with
/// no other one more often than by chance, by the chi-squared statistic. A term that seldom
/// changes, such as an epoch, is no clock.
pub(super) fn is_clock(steps: &Pairs, term: usize, context: &Context<'_>) -> bool {
    const STATISTIC: f64 = 30.0;
    const OFTEN: f64 = 0.25;
    let side = context.left;
    let step = steps.len().div_ceil(ROWS_MAX).max(1);
    let rows: Vec<(u32, u32)> =
        (0..steps.len()).step_by(step).map(|place| steps.get(place)).collect();
    let changes = |column: &[u32]| -> Vec<bool> {
        rows.iter().map(|(l, r)| column[*l as usize] != column[*r as usize]).collect()
    };
    let own = changes(&side.columns[term]);
    let count = |marks: &[bool]| marks.iter().filter(|mark| **mark).count() as f64;
    let (all, of_own) = (rows.len() as f64, count(&own));
    of_own > OFTEN * all
        && !side.columns.iter().enumerate().filter(|(other, _)| *other != term).any(
            |(_, column)| {
                let other = changes(column);
                let both = own.iter().zip(&other).filter(|(a, b)| **a && **b).count() as f64;
                let of_other = count(&other);
                let usual = of_own * of_other / all;
                let spread = usual * (1.0 - of_own / all) * (1.0 - of_other / all);
                both > usual && (both - usual).powi(2) > STATISTIC * spread
            },
        )
}

/// Whether a class is one of containers.
pub(super) fn is_container(class: Class) -> bool {
    matches!(class, Class::List | Class::Set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_nearly_equal() {
        let a: Vec<u32> = (0..100).collect();
        let mut b = a.clone();
        assert_eq!(stale(&a, &b, 1), Some(0.0));
        b[50] = 7;
        assert_eq!(stale(&a, &b, 1), Some(0.01));
        b[..20].fill(3);
        assert_eq!(stale(&a, &b, 1), None);
    }

    #[test]
    fn elements_of_two_sets() {
        let set = |items: &mut dyn Iterator<Item = i64>| items.map(Value::Int).collect();
        let (odd, even) = (set(&mut (1..200).step_by(2)), set(&mut (0..200).step_by(2)));
        assert!(ln_apart(&odd, &even) < -40.0);
        // Of other ranges, or few of many numbers.
        assert!(ln_apart(&odd, &set(&mut (300..400))).abs() < 1e-9);
        assert!(
            ln_apart(&set(&mut (1..1_000).step_by(99)), &set(&mut (3..998).step_by(97))) > -1.0
        );
    }

    #[test]
    fn growth_of_containers() {
        let list = |items: &[i64]| Value::list(items.iter().copied());
        assert!(keeps(&list(&[1, 2]), &list(&[1, 2, 3])) && !keeps(&list(&[1, 2]), &list(&[2, 3])));
        let set = |items: &[i64]| Value::set(items.iter().copied());
        assert!(keeps(&set(&[1]), &set(&[0, 1])) && !keeps(&set(&[1]), &set(&[0])));
    }
}
