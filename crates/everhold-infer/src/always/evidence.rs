//! Evidence: the probability that a claim held by chance.
//!
//! Evidence is counted over distinct pairs of values, node by node. If a relation were a
//! coincidence, the `n` pairs that occurred would be a random sample of the `N` combinations of the
//! values that occurred. The probability that all of them are among the `K` combinations for which
//! the relation is true is hypergeometric: `C(K, n) / C(N, n)`. A relation
//! that could not have been false (the values of one side are always larger) gets a chance of 1,
//! however often it was seen. Rows in which it is vacuous (null, an empty container) do not count.
//!
//! A claim about a role has few values, so there the distinct cases are counted: which two nodes,
//! and which time it is that the first of them is in the role that the condition names, or which
//! value they share if it names none (`a.term == b.term`). If the role had nothing to do with the
//! condition, each case would be an independent draw from what such nodes are otherwise seen to
//! be. A further condition adds no cases, so that what says less is never better supported.
//!
//! Two numbers that only grow are tied to each other by time, and take no part in all combinations
//! of their values. Their order needs evidence of its own (`race`).
//!
//! And the condition itself must have a bearing on the claim (`bearing`).

use std::collections::BTreeSet;

use everhold_trace::Value;

use super::bearing;
use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context};
use super::doubt::{self, Through};
use super::family::Form;
use super::race::Race;
use super::rows::Pairs;
use crate::dictionary::hash_of;
use crate::evaluate::{Cell, Column, Truth};
use crate::relation::{Class, Relation};

/// The most rows that are looked at for evidence; more would add little to it.
const ROWS_MAX: usize = 100_000;
/// Distinct pairs of values counted for one line.
const DISTINCT_MAX: usize = 20_000;
/// The most combinations that are judged one by one to find for how many a relation is true.
const COMBINATIONS_MAX: usize = 250_000;

/// A claim whose probability of chance is above this is not examined further.
const LN_CHANCE_MAX: f64 = -3.0;

/// The evidence for a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// Rows in which its condition is true.
    pub(super) samples: u64,
    /// Distinct pairs of values, over all nodes.
    pub(super) distinct: u64,
    /// The natural logarithm of the chance of coincidence.
    pub(super) ln_chance: f64,
}

/// The two columns whose codes a relation is about.
type Columns<'a> = (&'a Column, &'a Column);

/// The pairs of codes of each node.
type Seen = Vec<Vec<(u32, u32)>>;

/// The evidence for these candidates, in their order.
pub(super) fn gather(
    form: &Form,
    candidates: &Candidates,
    kept: &[Candidate],
    pairs: &Pairs,
    both_ways: bool,
    context: &Context<'_>,
) -> Vec<Evidence> {
    let rows = pairs.len();
    let groups = context.left.groups.iter().max().map_or(0, |last| *last as usize + 1);
    let mut seen: Vec<Seen> = vec![vec![Vec::new(); groups]; kept.len()];
    let mut full = vec![0_usize; kept.len()];
    let ways: &[bool] = if both_ways { &[false, true] } else { &[false] };
    let step = (rows * ways.len()).div_ceil(ROWS_MAX).max(1);
    let conditions = by_condition(candidates, kept);
    let shared = Shared::of(form, candidates, kept);
    let through = kept.iter().map(|candidate| Through::of(candidates, candidate, context));
    let through: Vec<Option<Through>> = through.collect();
    for row in (0..rows).step_by(step) {
        for &swapped in ways {
            let (l, r) = pairs.get(row);
            let (l, r) = if swapped { (r, l) } else { (l, r) };
            let holds = |comparison: &Comparison| holds(*comparison, context, l, r);
            for (_, own) in conditions.iter().filter(|(all, _)| all.iter().all(holds)) {
                for &place in own {
                    let comparison = candidates.comparisons[kept[place].comparison];
                    if full[place] <= DISTINCT_MAX * 2
                        && through[place].is_none_or(|through| !through.is_fresh(context, (l, r)))
                        && let Some(pair) =
                            values(comparison, context, l, r, shared.of_row(place, context, (l, r)))
                    {
                        seen[place][context.left.groups[l as usize] as usize].push(pair);
                        full[place] += 1;
                    }
                }
            }
        }
    }
    let evidence = |(candidate, seen)| weigh(form, candidates, candidate, seen, context);
    let mut found: Vec<Evidence> = kept.iter().zip(seen).map(evidence).collect();
    for (own, candidate) in found.iter_mut().zip(kept) {
        let least = doubt::usual(form, candidates, candidate, (pairs, own.distinct), context);
        own.ln_chance = own.ln_chance.max(least);
    }
    // Neither the claim nor its condition may be a coincidence, so the larger probability counts.
    let worth = (0..kept.len()).filter(|place| found[*place].ln_chance < LN_CHANCE_MAX).collect();
    let bearing = bearing::ln_chances(form, candidates, kept, worth, (pairs, both_ways), context);
    for (place, ln_chance) in bearing {
        let own = &mut found[place].ln_chance;
        *own = own.max(ln_chance);
    }
    found
}

/// The evidence for one candidate, from the pairs of values that were seen.
fn weigh(
    form: &Form,
    candidates: &Candidates,
    candidate: &Candidate,
    seen: Seen,
    context: &Context<'_>,
) -> Evidence {
    let comparison = candidates.comparisons[candidate.comparison];
    let samples = candidates.support[candidate.condition];
    let (distinct, ln_chance) = match comparison {
        Comparison::Cross(relation, a, b) => {
            let columns = (&context.left.columns[a], &context.right.columns[b]);
            // The next value could be any value that the node ever showed.
            let alike = *form == Form::Steps && a == b;
            let free = candidates.conditions[candidate.condition].is_empty();
            let race = Race { relation, terms: (a, b), form, context };
            // A condition chooses moments, in which a number that may fall does not merely trail.
            let races = race.is_one() && (free || race.both_grow());
            let race = races.then(|| race.ln_chance(&seen));
            let (least, most) = doubt::limits(form, (relation, a, b), free, &seen, context);
            let (count, ln_chance) = chance((relation, columns, alike), seen, context);
            (count, race.map_or(ln_chance, |race| race.max(ln_chance)).max(least).min(most))
        }
        Comparison::Left(equal, term, cell) | Comparison::Right(equal, term, cell) => {
            let condition = candidates.conditions[candidate.condition].iter();
            let condition: Vec<Comparison> =
                condition.map(|c| candidates.comparisons[*c]).collect();
            let (inside, all) = otherwise(&condition, (equal, term, cell), context);
            let rows: u64 = distinct(seen).map(|own| own.len() as u64).sum();
            // A node may be in the same state again and again.
            let distinct = match (form, &condition[..]) {
                (Form::One, [Comparison::Left(true, role, value)]) => {
                    rows.max(context.left.entries(*role, *value))
                }
                _ => rows,
            };
            // One case more than was seen (Laplace's rule), so that a value that never varies is no
            // evidence.
            (distinct, distinct as f64 * ((inside + 1.0) / (all + 1.0)).ln())
        }
    };
    Evidence { samples, distinct, ln_chance }
}

/// The conditions that are used, each with the places of those that stand below it.
fn by_condition(candidates: &Candidates, kept: &[Candidate]) -> Vec<(Vec<Comparison>, Vec<usize>)> {
    let mut found = vec![Vec::new(); candidates.conditions.len()];
    for (place, candidate) in kept.iter().enumerate() {
        found[candidate.condition].push(place);
    }
    let comparisons = |condition: usize| {
        candidates.conditions[condition]
            .iter()
            .map(|place| candidates.comparisons[*place])
            .collect()
    };
    let used = found.into_iter().enumerate().filter(|(_, own)| !own.is_empty());
    used.map(|(condition, own)| (comparisons(condition), own)).collect()
}

/// Whether a comparison of a condition is true of a row.
pub(super) fn holds(comparison: Comparison, context: &Context<'_>, l: u32, r: u32) -> bool {
    match comparison {
        Comparison::Left(equal, term, cell) => (context.left.cell(term, l) == cell) == equal,
        Comparison::Right(equal, term, cell) => (context.right.cell(term, r) == cell) == equal,
        Comparison::Cross(_, a, b) => {
            context.left.columns[a][l as usize] == context.right.columns[b][r as usize]
        }
    }
}

/// The values that a comparison relates, where it is not vacuous; of a role, which case it is.
fn values(
    comparison: Comparison,
    context: &Context<'_>,
    l: u32,
    r: u32,
    shared: u32,
) -> Option<(u32, u32)> {
    match comparison {
        Comparison::Cross(relation, a, b) => {
            let (left, right) = (context.left.cell(a, l), context.right.cell(b, r));
            let classes = (context.left.terms[a].class, context.right.terms[b].class);
            let vacuous = is_vacuous(relation, classes, (left, right), context);
            (!vacuous).then_some((left.raw(), right.raw()))
        }
        // A node whose role is missing is in no role.
        Comparison::Right(_, term, cell)
            if !cell.is_null() && context.right.cell(term, r).is_null() =>
        {
            None
        }
        Comparison::Left(..) | Comparison::Right(..) => {
            Some((context.right.groups[r as usize], shared))
        }
    }
}

/// Which case a row is for a claim about a role, under one number: which time the left side is in
/// the role of the condition, or what the two sides share by it; and, if the claim leaves several
/// values, which of them it is.
#[derive(Debug, Default)]
struct Shared {
    cases: Vec<Case>,
}

#[derive(Debug, Default)]
struct Case {
    /// The role of the left side.
    role: Option<usize>,
    /// Without one, what is shared.
    shared: Vec<usize>,
    /// The term of the claim.
    own: Option<usize>,
}

impl Shared {
    fn of(form: &Form, candidates: &Candidates, kept: &[Candidate]) -> Shared {
        let case = |candidate: &Candidate| {
            let claim = candidates.comparisons[candidate.comparison];
            let own = match claim {
                Comparison::Cross(..) => return Case::default(),
                Comparison::Left(..) | Comparison::Right(true, ..) => None,
                Comparison::Right(false, term, _) => Some(term),
            };
            let of_null = matches!(claim, Comparison::Right(_, _, cell) if cell.is_null());
            let condition = candidates.conditions[candidate.condition].iter();
            let condition: Vec<Comparison> =
                condition.map(|c| candidates.comparisons[*c]).collect();
            let role = condition.iter().find_map(|comparison| match comparison {
                Comparison::Left(_, term, _)
                    if matches!(form, Form::Two | Form::One) && !of_null =>
                {
                    Some(*term)
                }
                _ => None,
            });
            let shared = equal_terms(condition.into_iter().filter(|_| role.is_none()));
            Case { role, shared: shared.map(|(left, _)| left).collect(), own }
        };
        Shared { cases: kept.iter().map(case).collect() }
    }

    fn of_row(&self, place: usize, context: &Context<'_>, (l, r): (u32, u32)) -> u32 {
        let Case { role, shared, own } = &self.cases[place];
        let right = own.map(|term| context.right.columns[term][r as usize]);
        let time = role.map(|term| context.left.episode(term, l));
        let lefts = shared.iter().map(|term| context.left.columns[*term][l as usize]).chain(time);
        // Two cases that get the same number count as one, which is too little and never too much.
        lefts.chain(right).fold(0, |number, code| match number {
            0 => code,
            number => hash_of(&(number, code)) as u32,
        })
    }
}

/// The terms that a condition says are equal.
fn equal_terms(
    condition: impl Iterator<Item = Comparison>,
) -> impl Iterator<Item = (usize, usize)> {
    condition.filter_map(|comparison| match comparison {
        Comparison::Cross(Relation::Equal, left, right) => Some((left, right)),
        _ => None,
    })
}

/// How often a claim about the right side is true whatever the left side is: the distinct cases in
/// which it is true, and all distinct cases.
fn otherwise(
    condition: &[Comparison],
    (equal, term, cell): (bool, usize, Cell),
    context: &Context<'_>,
) -> (f64, f64) {
    let right = context.right;
    let shared: Vec<usize> = equal_terms(condition.iter().copied()).map(|(_, r)| r).collect();
    let given = |row: u32| {
        condition.iter().all(|comparison| match comparison {
            Comparison::Right(equal, term, cell) => (right.cell(*term, row) == *cell) == *equal,
            _ => true,
        })
    };
    let step = right.groups.len().div_ceil(ROWS_MAX).max(1);
    let mut cases = BTreeSet::new();
    let chosen = (0..right.rows()).step_by(step).filter(|row| given(*row));
    if cell.is_null() {
        // Null is one value among many, however often it occurs, so states are counted here.
        let values: Vec<Cell> = chosen.map(|row| right.cell(term, row)).collect();
        let inside = values.iter().filter(|value| (**value == cell) == equal).count();
        return (inside as f64, values.len() as f64);
    }
    let (mut rows, mut rows_inside) = (0.0, 0.0);
    for row in chosen {
        let value = right.cell(term, row);
        let key: Vec<Cell> = shared.iter().map(|term| right.cell(*term, row)).collect();
        cases.insert((right.groups[row as usize], key, value));
        rows += 1.0;
        rows_inside += f64::from(u8::from((value == cell) == equal));
    }
    let inside = cases.iter().filter(|(_, _, value)| (*value == cell) == equal).count();
    let (inside, all) = (inside as f64, cases.len() as f64);
    // A value that a node has for nearly all of the time is met nearly every time.
    if rows_inside * all > inside * rows { (rows_inside, rows) } else { (inside, all) }
}

/// Whether a relation of two values is no evidence: one of them is missing or empty.
fn is_vacuous(
    relation: Relation,
    classes: (Class, Class),
    (l, r): (Cell, Cell),
    context: &Context<'_>,
) -> bool {
    if l.is_null() || r.is_null() {
        return relation != Relation::Equal || (l.is_null() && r.is_null());
    }
    let empty = |class: Class, cell: Cell| {
        !class.is_single()
            && match &*context.value(cell) {
                Value::List(items) => items.is_empty(),
                Value::Set(items) => items.is_empty(),
                Value::Map(entries) => entries.is_empty(),
                _ => false,
            }
    };
    empty(classes.0, l) || empty(classes.1, r)
}

/// The distinct pairs of each node.
fn distinct(seen: Seen) -> impl Iterator<Item = Vec<(u32, u32)>> {
    seen.into_iter().filter(|pairs| !pairs.is_empty()).map(|mut pairs| {
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    })
}

/// Distinct pairs, and the logarithm of the chance that all of them are where they are.
fn chance(
    (relation, columns, alike): (Relation, Columns<'_>, bool),
    seen: Seen,
    context: &Context<'_>,
) -> (u64, f64) {
    let (mut count, mut ln_chance) = (0, 0.0);
    for pairs in distinct(seen) {
        count += pairs.len() as u64;
        ln_chance += ln_chance_of((relation, columns, alike), &pairs, context);
    }
    (count, ln_chance)
}

fn ln_chance_of(
    (relation, columns, alike): (Relation, Columns<'_>, bool),
    pairs: &[(u32, u32)],
    context: &Context<'_>,
) -> f64 {
    let side = |side: fn(&(u32, u32)) -> u32| {
        let mut codes: Vec<u32> = pairs.iter().map(side).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    };
    let (mut xs, mut ys) = (side(|pair| pair.0), side(|pair| pair.1));
    if alike {
        xs.append(&mut ys);
        xs.sort_unstable();
        xs.dedup();
        ys.clone_from(&xs);
    }
    let all = xs.len() as f64 * ys.len() as f64;
    let inside = |relation: Relation| count_inside(relation, columns, &xs, &ys, context);
    ln_all_inside(inside(relation), all, pairs.len())
}

/// How many combinations of these values a relation allows.
fn count_inside(
    relation: Relation,
    columns: Columns<'_>,
    xs: &[u32],
    ys: &[u32],
    context: &Context<'_>,
) -> f64 {
    let all = xs.len() as f64 * ys.len() as f64;
    let below = |strict: bool| -> f64 {
        let at = |x: &u32| ys.partition_point(|y| if strict { y <= x } else { y < x });
        xs.iter().map(|x| (ys.len() - at(x)) as f64).sum()
    };
    match relation {
        Relation::Equal => xs.iter().filter(|x| ys.binary_search(x).is_ok()).count() as f64,
        Relation::Differ => all - xs.iter().filter(|x| ys.binary_search(x).is_ok()).count() as f64,
        Relation::Less => below(true),
        Relation::AtMost => below(false),
        Relation::Greater => all - below(false),
        Relation::AtLeast => all - below(true),
        _ => {
            // Large containers are many: a sample of the combinations tells their share.
            let step = (xs.len() * ys.len()).div_ceil(COMBINATIONS_MAX).max(1);
            let combinations = (0..xs.len() * ys.len()).step_by(step);
            let (mut judged, mut inside) = (0.0, 0.0);
            for at in combinations {
                judged += 1.0;
                let (x, y) = (xs[at / ys.len()], ys[at % ys.len()]);
                let truth = context.relate(relation, columns.0.cell(x), columns.1.cell(y));
                inside += f64::from(truth == Truth::True);
            }
            all * inside / judged
        }
    }
}

/// The natural logarithm of `C(inside, drawn) / C(all, drawn)`: the probability that `drawn` of `all`
/// combinations, drawn without replacement, are all among `inside` of them.
pub(super) fn ln_all_inside(inside: f64, all: f64, drawn: usize) -> f64 {
    let mut ln = 0.0;
    for taken in 0..drawn {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let taken = taken as f64;
        let (left_inside, left) = ((inside - taken).max(1.0), (all - taken).max(1.0));
        ln += (left_inside / left).min(1.0).ln();
    }
    ln
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_is_hypergeometric() {
        // All 3 equal pairs of 9 combinations: 1 of C(9, 3).
        assert!((ln_all_inside(3.0, 9.0, 3) - (1.0_f64 / 84.0).ln()).abs() < 1e-9);
        // A claim that could not have been false has no evidence.
        assert!(ln_all_inside(9.0, 9.0, 5).abs() < 1e-9);
    }
}
