//! Sums over all nodes that stay the same.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, Expr, Property, Scope};

use super::all_nodes::AllNodes;
use super::cuts::Cuts;
use super::evidence::Evidence;
use super::lines::Draft;
use super::terms::Side;
use crate::evaluate::Numbers;
use crate::outcome::CutClaims;
use crate::relation::Class;
use crate::relation::tree::{self, binary, constant, sum_over};
use crate::variables::Row;

/// Combinations of addends counted for one sum.
const CASES_MAX: usize = 1_000;

/// Sums of a number over the nodes of a kind that have one value whenever every node shows one, and
/// more than one combination of addends.
pub(super) fn constant_sums(
    name: Option<&str>,
    all_nodes: AllNodes<'_>,
    (side, numbers): (&Side, &Numbers),
    cuts: &mut Cuts<'_>,
) -> (Vec<Draft>, u64) {
    let (mut found, mut tried) = (Vec::new(), 0);
    for (place, term) in side.terms.iter().enumerate() {
        if term.class != Class::Number || term.is_role() {
            continue;
        }
        tried += 1;
        let Some((sum, distinct, samples)) = one_sum(place, all_nodes, side, numbers) else {
            continue;
        };
        let property = property(term.expr(&Row::Value("n".into())), sum, name);
        if cuts.refute(&property, CutClaims::Sums) {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_chance = -((distinct.saturating_sub(1)) as f64) * (term.distinct as f64).ln();
        let evidence = Evidence { samples, distinct, ln_chance };
        found.push(Draft::new(property, evidence, 5.0));
    }
    (found, tried)
}

/// The sum, the distinct combinations of addends, and the number of moments.
fn one_sum(
    term: usize,
    all_nodes: AllNodes<'_>,
    side: &Side,
    numbers: &Numbers,
) -> Option<(i64, u64, u64)> {
    let mut only = None;
    let mut seen = BTreeSet::new();
    let mut samples = 0;
    let same = all_nodes.each(1, |rows| {
        let addends = rows.iter().map(|row| numbers.int(side.columns[term].number(*row)));
        let Some(addends) = addends.collect::<Option<Vec<i64>>>() else { return false };
        let sum = addends.iter().try_fold(0_i64, |sum, x| sum.checked_add(*x));
        samples += 1;
        if seen.len() < CASES_MAX {
            seen.insert(addends);
        }
        rows.len() > 1 && sum.is_some_and(|sum| *only.get_or_insert(sum) == sum)
    });
    (same && seen.len() > 1).then_some((only?, seen.len() as u64, samples))
}

fn property(term: Expr, sum: i64, kind: Option<&str>) -> Property {
    let body = binary(BinaryOp::Eq, sum_over(kind, term), constant(&sum.into()));
    let name = everhold_property::print_expr(&body).replace("==", "is");
    tree::always(name, Scope::EveryCut, body)
}
