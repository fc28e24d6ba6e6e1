//! The order of two numbers that only grow.
//!
//! Two counters that have nothing to do with each other keep their order for ever if one of them is
//! faster. That order is no evidence. What speaks for a claim `x <= y` about such numbers is one of
//! these, of which the best counts:
//!
//! - **Meetings**: the numbers are often at the border of the claim, and it is never crossed. If
//!   they were unrelated, each time the next to move would be the wrong one with a probability of
//!   one half.
//! - **Turns**: within one node, `y` grew between any two times that `x` grew. If they were
//!   unrelated, with shares `p` and `q` of the steps in which `x` and `y` grow, this would fail
//!   between two such times with a probability of `p (1 - q) / (1 - (1 - p) (1 - q))`.
//! - **Company**: within one node, `y` grew in every step in which `x` did, each time with the
//!   probability `q`.

use super::comparison::Context;
use super::family::Form;
use crate::evaluate::NumberCode;
use crate::relation::Relation;

/// The order of two terms, without any condition.
pub(super) struct Race<'a> {
    pub(super) relation: Relation,
    pub(super) terms: (usize, usize),
    pub(super) form: &'a Form,
    pub(super) context: &'a Context<'a>,
}

/// How often two numbers grew at the nodes, and how.
#[derive(Debug, Default, PartialEq)]
struct Growth {
    steps: u64,
    /// The steps in which the smaller number grew, and in which the greater one did.
    lower: u64,
    upper: u64,
    /// Whether the greater one grew between any two times that the smaller one did.
    in_turns: bool,
    /// Whether it grew in each step in which the smaller one did.
    together: bool,
}

impl Race<'_> {
    /// Whether it is an order of two numbers of which one only grows.
    pub(super) fn is_one(&self) -> bool {
        use Relation as R;
        let (l, r) = self.terms;
        matches!(self.relation, R::Less | R::AtMost | R::Greater | R::AtLeast)
            && *self.form != Form::Steps
            && (self.context.left.only_grows(l) || self.context.right.only_grows(r))
    }

    /// Whether both numbers only grow.
    pub(super) fn both_grow(&self) -> bool {
        let (l, r) = self.terms;
        self.context.left.only_grows(l) && self.context.right.only_grows(r)
    }

    /// The natural logarithm of the chance that the order is a coincidence, given the distinct pairs
    /// of values of each node.
    pub(super) fn ln_chance(&self, seen: &[Vec<(u32, u32)>]) -> f64 {
        let meetings = seen.iter().map(|own| self.meetings(own)).sum::<u64>();
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let meetings = -(meetings as f64) * 2.0_f64.ln();
        let within = *self.form == Form::One && self.both_grow();
        let growth = if within { self.growth().ln_chance() } else { 0.0 };
        // The better of three.
        (meetings.min(growth) + 3.0_f64.ln()).min(0.0)
    }

    /// The pairs of one node at the border of the claim, without the first, where all numbers begin.
    fn meetings(&self, pairs: &[(u32, u32)]) -> u64 {
        let int = |code: u32| self.context.numbers.int(NumberCode(code));
        let border = i64::from(matches!(self.relation, Relation::Less | Relation::Greater));
        let at_border = |(l, r): &&(u32, u32)| match (int(*l), int(*r)) {
            (Some(l), Some(r)) => l.abs_diff(r) == border.unsigned_abs(),
            _ => false,
        };
        let mut met: Vec<(u32, u32)> = pairs.iter().filter(at_border).copied().collect();
        met.sort_unstable();
        met.dedup();
        met.len().saturating_sub(1) as u64
    }

    /// How the two numbers of one node grew.
    fn growth(&self) -> Growth {
        let (l, r) = self.terms;
        let falls = matches!(self.relation, Relation::Greater | Relation::AtLeast);
        let (lower, upper) = if falls { (r, l) } else { (l, r) };
        let side = self.context.left;
        let (lower, upper) = (&side.columns[lower], &side.columns[upper]);
        let nodes = side.groups.iter().max().map_or(0, |last| *last as usize + 1);
        let mut growth = Growth { in_turns: true, together: true, ..Growth::default() };
        // The values of each node before, and whether the greater one grew since the smaller one did.
        let mut before: Vec<Option<((u32, u32), bool)>> = vec![None; nodes];
        for (row, node) in side.groups.iter().enumerate() {
            let now = (lower[row], upper[row]);
            let own = &mut before[*node as usize];
            let Some((last, moved)) = own.replace((now, true)) else { continue };
            if now.0 < last.0 || now.1 < last.1 {
                // Another run.
                continue;
            }
            let (grew, also) = (now.0 > last.0, now.1 > last.1);
            growth.steps += 1;
            growth.lower += u64::from(grew);
            growth.upper += u64::from(also);
            growth.in_turns &= !grew || moved || also;
            growth.together &= !grew || also;
            *own = Some((now, if grew { false } else { moved || also }));
        }
        growth
    }
}

impl Growth {
    fn ln_chance(&self) -> f64 {
        if self.lower == 0 || self.upper == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let [steps, lower, upper] = [self.steps, self.lower, self.upper].map(|count| count as f64);
        let (p, q) = (lower / steps, upper / steps);
        let fails = p * (1.0 - q) / (1.0 - (1.0 - p) * (1.0 - q));
        let turns = if self.in_turns { (lower - 1.0) * (1.0 - fails).ln() } else { 0.0 };
        let company = if self.together { lower * q.ln() } else { 0.0 };
        turns.min(company)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(growth: &Growth, sure: bool) {
        assert_eq!(growth.ln_chance() < -20.0, sure, "{growth:?}: {}", growth.ln_chance());
    }

    #[test]
    fn growth_is_evidence_only_if_it_could_have_been_otherwise() {
        let growth = |steps, lower, upper, in_turns, together| Growth {
            steps,
            lower,
            upper,
            in_turns,
            together,
        };
        // One of two numbers takes turns with the other.
        check(&growth(200, 100, 100, true, false), true);
        // It does not, or hardly ever grows.
        check(&growth(200, 100, 100, false, false), false);
        check(&growth(200, 5, 100, true, false), false);
        // A clock is in everybody's company.
        check(&growth(200, 100, 200, true, true), false);
        check(&growth(200, 100, 120, true, true), true);
        check(&Growth::default(), false);
    }
}
