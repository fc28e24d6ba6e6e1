//! Bounds of a number while its node is in some role: `n.role == "leader" implies n.votes >= 3`.
//!
//! A bound is supported by the occasions on which the number came to lie at it in that role. And the
//! role has to matter: had it nothing to do with the bound, then the number would be beyond it in that
//! role as often as otherwise.

use super::comparison::Comparison;
use super::comparison::Context;
use super::evidence::Evidence;
use super::lines::{Draft, Setting};
use super::propose::role_values;
use super::single::{Changes, expr, words};
use super::terms::What;
use crate::evaluate::{Cell, NumberCode};
use crate::relation::Class;

/// Of the occasions on which the number changed in the role, one in so many led to the bound.
const PILE: u64 = 4;
/// How often a bound has to be met before the claim is examined further.
const MET_MIN: u64 = 5;

/// A number of a node in a role.
struct Own<'a> {
    role: usize,
    value: Cell,
    term: usize,
    setting: &'a Setting,
    context: &'a Context<'a>,
}

/// The observed values of a number: in the role and otherwise.
struct Seen {
    low: u32,
    high: u32,
    rows: u64,
    /// The rows of other roles, sorted codes.
    others: Vec<u32>,
}

/// The bounds of the numbers of a node in each of its roles, and how many were tried.
pub(super) fn claims(
    setting: &Setting,
    changes: &Changes,
    context: &Context<'_>,
) -> (Vec<Draft>, u64) {
    let Changes::Listed(steps) = changes else { return (Vec::new(), 0) };
    let (mut found, mut tried) = (Vec::new(), 0);
    let side = context.left;
    for (role, value) in role_values(side) {
        for (term, of) in side.terms.iter().enumerate() {
            let plain = of.class == Class::Number && !of.is_role() && !of.nullable;
            if !plain || !matches!(of.what, What::Variable(_)) {
                continue;
            }
            tried += 2;
            let own = Own { role, value, term, setting, context };
            if let Some(seen) = own.seen() {
                found.extend(own.bounds(&seen, steps));
            }
        }
    }
    (found, tried)
}

impl Own<'_> {
    fn is_in(&self, row: u32) -> bool {
        self.context.left.cell(self.role, row) == self.value
    }

    fn number(&self, row: u32) -> u32 {
        self.context.left.columns[self.term][row as usize]
    }

    fn seen(&self) -> Option<Seen> {
        let mut seen = Seen { low: u32::MAX, high: 0, rows: 0, others: Vec::new() };
        for row in 0..self.context.left.rows() {
            let number = self.number(row);
            if self.is_in(row) {
                seen.rows += 1;
                (seen.low, seen.high) = (seen.low.min(number), seen.high.max(number));
            } else {
                seen.others.push(number);
            }
        }
        seen.others.sort_unstable();
        (seen.rows > 0 && !seen.others.is_empty()).then_some(seen)
    }

    /// How often the number came to lie at a bound while the node was in the role, and how often it
    /// came to lie anywhere.
    fn met(&self, bound: u32, steps: &[(u32, u32)]) -> (u64, u64) {
        let (mut met, mut all) = (0, 0);
        for (before, after) in steps.iter().filter(|(_, after)| self.is_in(*after)) {
            if self.number(*before) != self.number(*after) || !self.is_in(*before) {
                all += 1;
                met += u64::from(self.number(*after) == bound);
            }
        }
        (met, all)
    }

    fn bounds(&self, seen: &Seen, steps: &[(u32, u32)]) -> Vec<Draft> {
        let mut found = Vec::new();
        let below = |bound: u32| seen.others.partition_point(|other| *other < bound);
        let above = |bound: u32| seen.others.len() - seen.others.partition_point(|o| *o <= bound);
        let sides = match seen.low == seen.high {
            true => vec![("==", seen.low, below(seen.low) + above(seen.low))],
            false => vec![(">=", seen.low, below(seen.low)), ("<=", seen.high, above(seen.high))],
        };
        for (op, bound, beyond) in sides {
            let Some(value) = self.context.numbers.int(NumberCode(bound)) else { continue };
            let (met, all) = self.met(bound, steps);
            if met < MET_MIN || met * PILE < all || beyond == 0 {
                continue;
            }
            let within = (seen.others.len() - beyond) as f64 + 1.0;
            let share = within / (seen.others.len() as f64 + 1.0);
            let ln_chance = (-(met as f64) * 2.0_f64.ln()).max(all as f64 * share.ln());
            found.push(self.draft((op, value), met, ln_chance, seen.rows));
        }
        found
    }

    fn draft(&self, (op, value): (&str, i64), met: u64, ln_chance: f64, samples: u64) -> Draft {
        let rows = &self.setting.rows;
        let name = rows.right_expr(&self.context.left.terms[self.term]);
        let claim = format!("{} {op} {value}", everhold_property::print_expr(&name));
        let condition = [Comparison::Left(true, self.role, self.value)];
        let claim = (expr(&claim), words(&claim));
        let property = self.setting.conditional(&condition, claim, self.context);
        let evidence = Evidence { samples, distinct: met, ln_chance };
        Draft::new(property, evidence, 3.5)
    }
}
