//! Sums over all nodes that stay the same.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, Expr, Property, Scope};

use super::all_nodes::AllNodes;
use super::cuts::Cuts;
use super::evidence::Evidence;
use super::lines::Draft;
use super::terms::Side;
use super::unjudged::{NotJudged, addend, is_whole};
use crate::evaluate::Numbers;
use crate::outcome::{CutClaims, WhyUnjudged};
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
    unjudged: &mut NotJudged,
) -> (Vec<Draft>, u64) {
    let (mut found, mut tried) = (Vec::new(), 0);
    for (place, term) in side.terms.iter().enumerate() {
        if term.class != Class::Number || term.is_role() {
            continue;
        }
        if !is_whole(side, place, numbers) {
            unjudged.term(side, place, name, WhyUnjudged::Fractions);
            continue;
        }
        tried += 1;
        let (sum, distinct, samples) = match one_sum(place, all_nodes, side, numbers) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(why) => {
                unjudged.term(side, place, name, why);
                continue;
            }
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

/// The sum, the distinct combinations of addends, and the number of moments; nothing, if the sum is
/// not always the same.
fn one_sum(
    term: usize,
    all_nodes: AllNodes<'_>,
    side: &Side,
    numbers: &Numbers,
) -> Result<Option<(i64, u64, u64)>, WhyUnjudged> {
    let mut only = None;
    let mut seen = BTreeSet::new();
    let mut samples = 0;
    let mut wrong = None;
    let same = all_nodes.each(1, |rows| {
        let addends = rows.iter().map(|row| addend(side, term, *row, numbers));
        let Some(addends) = addends.collect::<Option<Vec<i64>>>() else {
            wrong = Some(WhyUnjudged::Fractions);
            return false;
        };
        let Some(sum) = addends.iter().try_fold(0_i64, |sum, x| sum.checked_add(*x)) else {
            wrong = Some(WhyUnjudged::Overflow);
            return false;
        };
        samples += 1;
        if seen.len() < CASES_MAX {
            seen.insert(addends);
        }
        rows.len() > 1 && *only.get_or_insert(sum) == sum
    });
    match (wrong, only) {
        (Some(why), _) => Err(why),
        (None, Some(sum)) if same && seen.len() > 1 => Ok(Some((sum, seen.len() as u64, samples))),
        (None, _) => Ok(None),
    }
}

fn property(term: Expr, sum: i64, kind: Option<&str>) -> Property {
    let body = binary(BinaryOp::Eq, sum_over(kind, term), constant(&sum.into()));
    let name = everhold_property::print_expr(&body).replace("==", "is");
    tree::always(name, Scope::EveryCut, body)
}
