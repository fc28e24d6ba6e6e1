//! Linear relations of two and three variables: `y == a * x + c`, `z == a * x + b * y + c`.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, Expr};

use super::comparison::Context;
use super::evidence::Evidence;
use super::lines::{Draft, Setting};
use super::rows::Pairs;
use crate::relation::Class;
use crate::relation::tree::{binary, constant};

/// Relations with a coefficient beyond this are taken for accidents.
const COEFFICIENT_MAX: i64 = 12;
/// How many variables are combined.
const TERMS_MAX: usize = 40;
/// Distinct points counted.
const POINTS_MAX: usize = 2_000;

/// A sum of multiples of terms, by place, and a constant, equal to a term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Equation {
    result: usize,
    parts: Vec<(i64, usize)>,
    constant: i64,
}

/// The linear relations within a row of one side, of whole numbers only.
pub(super) fn within(setting: &Setting, pairs: &Pairs, context: &Context<'_>) -> (Vec<Draft>, u64) {
    let terms: Vec<usize> = (0..context.left.terms.len())
        .filter(|&t| {
            context.left.terms[t].class == Class::Number && !context.left.terms[t].is_role()
        })
        .take(TERMS_MAX)
        .collect();
    let (mut found, mut tried) = (Vec::new(), 0);
    let mut related = BTreeSet::new();
    for (place, &x) in terms.iter().enumerate() {
        for &y in &terms[place + 1..] {
            tried += 1;
            if let Some(equation) = fit(&[x], y, pairs, context) {
                related.insert((x, y));
                // Plain equality is found by the family of one node.
                if equation.parts != [(1, x)] || equation.constant != 0 {
                    found.extend(draft(&equation, setting, pairs, context));
                }
            }
        }
    }
    for (i, &x) in terms.iter().enumerate() {
        for (j, &y) in terms.iter().enumerate().skip(i + 1) {
            for &z in &terms[j + 1..] {
                tried += 1;
                if [(x, y), (x, z), (y, z)].iter().any(|pair| related.contains(pair)) {
                    continue;
                }
                let orders = [([x, y], z), ([x, z], y), ([y, z], x)];
                let equation = orders.iter().find_map(|(xs, z)| fit(xs, *z, pairs, context));
                found.extend(equation.and_then(|e| draft(&e, setting, pairs, context)));
            }
        }
    }
    (found, tried)
}

/// The values of up to three terms in a row; `None` if one is no whole number.
fn point(terms: &[usize], row: u32, context: &Context<'_>) -> Option<[i64; 3]> {
    let mut found = [0; 3];
    for (value, term) in found.iter_mut().zip(terms) {
        *value = context.numbers.int(context.left.columns[*term].number(row))?;
    }
    Some(found)
}

/// The relation that the first rows suggest, if all rows obey it.
fn fit(xs: &[usize], z: usize, pairs: &Pairs, context: &Context<'_>) -> Option<Equation> {
    let all: Vec<usize> = xs.iter().copied().chain([z]).collect();
    // As many points as unknowns, such that they determine the relation. Where something is
    // missing there is nothing to add up.
    let mut basis: Vec<Vec<i64>> = Vec::new();
    for (row, _) in pairs.iter() {
        let values = point(&all, row, context)?;
        if independent(&basis, &values[..xs.len()])? {
            basis.push(values[..all.len()].to_vec());
        }
        if basis.len() > xs.len() {
            break;
        }
    }
    if basis.len() <= xs.len() {
        return None;
    }
    let equation = solve(&basis, xs, z)?;
    let obey = |row: u32| {
        point(&all, row, context).is_some_and(|values| obeys(&equation, &values[..all.len()]))
    };
    let whole = equation.parts.iter().all(|(a, _)| *a != 0);
    (whole && pairs.iter().all(|(row, _)| obey(row))).then_some(equation)
}

fn obeys(equation: &Equation, values: &[i64]) -> bool {
    let (result, xs) = values.split_last().expect("the result is there");
    let mut sum = Some(equation.constant);
    for ((a, _), x) in equation.parts.iter().zip(xs) {
        sum = sum.and_then(|sum| a.checked_mul(*x).and_then(|ax| sum.checked_add(ax)));
    }
    sum == Some(*result)
}

/// Whether a point is not on the line (or the point) through the others; `None` if the numbers are too
/// large to tell.
fn independent(basis: &[Vec<i64>], xs: &[i64]) -> Option<bool> {
    let difference = |from: &[i64], k: usize| i128::from(xs[k]) - i128::from(from[k]);
    Some(match basis {
        [] => true,
        [first] => (0..xs.len()).any(|k| difference(first, k) != 0),
        [first, second, ..] => {
            let across = |k: usize| i128::from(second[k]) - i128::from(first[k]);
            let [left, right] =
                [(0, 1), (1, 0)].map(|(a, b)| difference(first, a).checked_mul(across(b)));
            left? != right?
        }
    })
}

fn solve(basis: &[Vec<i64>], xs: &[usize], z: usize) -> Option<Equation> {
    let d = |row: usize, k: usize| i128::from(basis[row][k]) - i128::from(basis[0][k]);
    let whole = |over: i128, under: i128| {
        over.checked_rem(under).filter(|rest| *rest == 0).and_then(|_| over.checked_div(under))
    };
    let coefficients: Vec<i128> = match xs.len() {
        1 => vec![whole(d(1, 1), d(1, 0))?],
        _ => {
            let determinant = |a: usize, b: usize| {
                d(1, a).checked_mul(d(2, b))?.checked_sub(d(1, b).checked_mul(d(2, a))?)
            };
            let under = determinant(0, 1)?;
            vec![whole(determinant(2, 1)?, under)?, whole(determinant(0, 2)?, under)?]
        }
    };
    let mut constant = i128::from(basis[0][xs.len()]);
    let mut parts = Vec::new();
    for ((coefficient, term), x) in coefficients.iter().zip(xs).zip(&basis[0]) {
        constant = constant.checked_sub(coefficient.checked_mul(i128::from(*x))?)?;
        let coefficient =
            i64::try_from(*coefficient).ok().filter(|a| a.abs() <= COEFFICIENT_MAX)?;
        parts.push((coefficient, *term));
    }
    Some(Equation { result: z, parts, constant: i64::try_from(constant).ok()? })
}

fn draft(
    equation: &Equation,
    setting: &Setting,
    pairs: &Pairs,
    context: &Context<'_>,
) -> Option<Draft> {
    let mut all: Vec<usize> = equation.parts.iter().map(|(_, term)| *term).collect();
    all.push(equation.result);
    let step = (pairs.len() / (POINTS_MAX * 4)).max(1);
    let points: BTreeSet<[i64; 3]> = pairs
        .iter()
        .step_by(step)
        .filter_map(|(row, _)| point(&all, row, context))
        .take(POINTS_MAX)
        .collect();
    let range: BTreeSet<i64> = points.iter().map(|point| point[all.len() - 1]).collect();
    // Each point beyond those that fix the relation could have been anywhere in the range.
    let free = points.len().checked_sub(all.len()).filter(|free| *free > 0)?;
    let ln_chance = -(free as f64) * (range.len().max(1) as f64).ln();
    let expr = |term: usize| setting.rows.right_expr(&context.left.terms[term]);
    // As a person writes it: `600 - n.out`, `n.credited - n.debited + 100`.
    let mut parts = equation.parts.clone();
    parts.sort_by_key(|(coefficient, _)| *coefficient < 0);
    let leads = equation.constant > 0 && parts.first().is_some_and(|(first, _)| *first < 0);
    let mut sum: Option<Expr> = leads.then(|| constant(&equation.constant.into()));
    for (coefficient, term) in &parts {
        let (negative, size) = (*coefficient < 0, coefficient.abs());
        let part = match size {
            1 => expr(*term),
            size => binary(BinaryOp::Mul, constant(&size.into()), expr(*term)),
        };
        sum = Some(match (sum, negative) {
            (None, false) => part,
            (None, true) => binary(BinaryOp::Sub, constant(&0.into()), part),
            (Some(sum), false) => binary(BinaryOp::Add, sum, part),
            (Some(sum), true) => binary(BinaryOp::Sub, sum, part),
        });
    }
    let mut sum = sum.expect("there are parts");
    if equation.constant != 0 && !leads {
        let op = if equation.constant < 0 { BinaryOp::Sub } else { BinaryOp::Add };
        sum = binary(op, sum, constant(&equation.constant.checked_abs()?.into()));
    }
    let body = binary(BinaryOp::Eq, expr(equation.result), sum);
    let name = everhold_property::print_expr(&body).replace("==", "is");
    let evidence =
        Evidence { samples: pairs.len() as u64, distinct: points.len() as u64, ln_chance };
    Some(Draft::new(setting.named(name, body), evidence, 4.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_found_exactly() {
        let points =
            [[1, 2], [2, 7], [5, -3]].map(|[x, y]: [i64; 2]| vec![x, y, 3 * x - 2 * y + 7]);
        let equation = solve(&points, &[0, 1], 2).expect("they are whole");
        assert_eq!(equation, Equation { result: 2, parts: vec![(3, 0), (-2, 1)], constant: 7 });
        assert!(obeys(&equation, &[10, 10, 17]) && !obeys(&equation, &[10, 10, 18]));
        assert_eq!(
            [[3, 12], [3, 13]].map(|x| independent(&points[..2], &x)),
            [Some(false), Some(true)]
        );
    }

    #[test]
    fn numbers_that_are_too_large_are_no_relation() {
        let (low, high) = (i64::MIN, i64::MAX);
        assert_eq!(independent(&[vec![low, high], vec![high, low]], &[high, high]), None);
        let points = [vec![low, high, 1], vec![high, low, 2], vec![high, high, 3]];
        assert_eq!(solve(&points, &[0, 1], 2), None);
    }
}
