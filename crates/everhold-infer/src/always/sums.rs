//! Sums over all nodes that stay the same.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, Expr, Modality, Property, Scope, Span};

use super::atoms::{Atoms, NONE};
use super::cuts::Cuts;
use super::evidence::Evidence;
use super::lines::{Draft, binary, sum_over};
use super::literal::constant;
use super::terms::{Class, Numbers, Side};
use crate::states::States;
use crate::variables::{KindId, Row};

/// Sums of a number over the nodes of a kind that have one value in all states of all runs in
/// which every node shows one, and more than one combination of addends.
pub(super) fn constant_sums(
    kind: KindId,
    name: Option<&str>,
    states: &States,
    atoms: &Atoms,
    (side, numbers): (&Side, &Numbers),
    cuts: &mut Cuts<'_>,
) -> (Vec<Draft>, u64) {
    let (mut found, mut tried) = (Vec::new(), 0);
    for (place, term) in side.terms.iter().enumerate() {
        if term.class != Class::Number || term.is_role() {
            continue;
        }
        tried += 1;
        let Some((sum, distinct, samples)) = one_sum(kind, place, states, atoms, side, numbers)
        else {
            continue;
        };
        let property = property(term.expr(&Row::Value("n".into())), sum, name);
        if cuts.refute(&property, "sums") {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_chance = -((distinct.saturating_sub(1)) as f64) * (term.distinct as f64).ln();
        let evidence = Evidence { samples, distinct, ln_chance };
        found.push(Draft { property, evidence, weight: 5.0 });
    }
    (found, tried)
}

/// The sum, how many combinations of addends there were, and how many states.
fn one_sum(
    kind: KindId,
    term: usize,
    states: &States,
    atoms: &Atoms,
    side: &Side,
    numbers: &Numbers,
) -> Option<(i64, u64, u64)> {
    let mut only = None;
    let mut seen = BTreeSet::new();
    let mut samples = 0;
    for (run, nodes) in states.runs.iter().zip(&atoms.runs) {
        let own: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].0 == Some(kind)).collect();
        if own.len() < 2 {
            return None;
        }
        let mut now = vec![NONE; nodes.len()];
        for step in &run.steps {
            let at = step.node.index();
            now[at] = nodes[at].1[step.count as usize];
            if own.iter().any(|node| now[*node] == NONE) {
                continue;
            }
            let addends: Option<Vec<i64>> = own
                .iter()
                .map(|node| numbers.int(side.columns[term][now[*node] as usize]))
                .collect();
            let addends = addends?;
            let sum = addends.iter().try_fold(0_i64, |sum, x| sum.checked_add(*x))?;
            if *only.get_or_insert(sum) != sum {
                return None;
            }
            samples += 1;
            seen.insert(addends);
        }
    }
    (seen.len() > 1).then_some((only?, seen.len() as u64, samples))
}

fn property(term: Expr, sum: i64, kind: Option<&str>) -> Property {
    let body = binary(BinaryOp::Eq, sum_over(kind, term), constant(&sum.into()));
    let name = everhold_property::print_expr(&body).replace("==", "is");
    let (modality, scope) = (Modality::Always, Scope::EveryCut);
    Property { name, modality, scope, body, span: Span::default() }
}
