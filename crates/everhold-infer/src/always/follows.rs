//! Which candidates of a family follow from which others.

use super::candidates::{Candidate, Candidates};
use super::comparison::Comparison;
use super::ledger::Claim;
use crate::relation::Relation;

impl Candidates {
    /// The survivors that do not follow from one with fewer conditions or a stronger relation,
    /// as (condition, comparison); and those that do, with what they follow from.
    pub(super) fn strongest(&self) -> (Vec<Candidate>, Vec<(Candidate, Candidate)>) {
        let (mut kept, mut implied) = (Vec::new(), Vec::new());
        for condition in 0..self.conditions.len() {
            if self.support[condition] == 0 {
                continue;
            }
            for &comparison in &self.live[condition] {
                let own = Candidate { condition, comparison };
                match self.stronger(own) {
                    Some(other) => implied.push((own, other)),
                    None => kept.push(own),
                }
            }
        }
        (kept, implied)
    }

    /// A survivor from which this one follows: under fewer conditions, or under others that were
    /// true in just the same rows and so say the same, as far as is known.
    fn stronger(&self, own: Candidate) -> Option<Candidate> {
        let comparison = self.comparisons[own.comparison];
        let conditions = (0..=own.condition).filter(|&other| self.is_wider(other, own.condition));
        for condition in conditions {
            let found = self.live[condition].iter().find(|&&other| {
                let same = other == own.comparison && condition != own.condition;
                same || entails(self.comparisons[other], comparison)
            });
            if let Some(&comparison) = found {
                return Some(Candidate { condition, comparison });
            }
        }
        None
    }

    /// Whether a condition is true wherever another one is, as far as is known.
    pub(super) fn is_wider(&self, wide: usize, narrow: usize) -> bool {
        let rows = |condition: usize| (self.support[condition], self.rows_hash[condition]);
        let own = &self.conditions[narrow];
        self.support[wide] > 0
            && (rows(wide) == rows(narrow)
                || self.conditions[wide].iter().all(|comparison| own.contains(comparison)))
    }

    /// A candidate by what it says.
    pub(super) fn key(&self, candidate: Candidate) -> (Vec<Comparison>, Comparison) {
        let mut condition: Vec<Comparison> = self.conditions[candidate.condition]
            .iter()
            .map(|place| self.comparisons[*place])
            .collect();
        condition.sort_unstable();
        (condition, self.comparisons[candidate.comparison])
    }

    /// The candidate among those of all families.
    pub(super) fn claim(&self, candidate: Candidate) -> Claim {
        Claim { family: self.family, candidate }
    }

    /// A survivor that is the given claim or a stronger one.
    pub(super) fn covers(
        &self,
        (condition, comparison): &(Vec<Comparison>, Comparison),
    ) -> Option<Claim> {
        let is_wider = |other: &usize| {
            self.support[*other] > 0
                && self.conditions[*other].iter().all(|c| condition.contains(&self.comparisons[*c]))
        };
        (0..self.conditions.len()).filter(is_wider).find_map(|other| {
            let found = self.live[other].iter().find(|place| {
                let strong = self.comparisons[**place];
                strong == *comparison || entails(strong, *comparison)
            })?;
            Some(self.claim(Candidate { condition: other, comparison: *found }))
        })
    }

    /// That, under a condition, a term of the left side is at most (or at least) one of the right.
    pub(super) fn ordered(
        &self,
        condition: &[usize],
        l: usize,
        r: usize,
        up: bool,
    ) -> Option<Claim> {
        let wanted = if up { Relation::AtMost } else { Relation::AtLeast };
        let condition: Vec<Comparison> =
            condition.iter().map(|place| self.comparisons[*place]).collect();
        self.covers(&(condition, Comparison::Cross(wanted, l, r)))
    }

    /// The same within a node, where each pair of terms is written in one order.
    pub(super) fn ordered_within(&self, a: usize, b: usize, up: bool) -> Option<Claim> {
        if a < b { self.ordered(&[], a, b, up) } else { self.ordered(&[], b, a, !up) }
    }

    /// That two terms of a node are in a relation, whatever the condition.
    pub(super) fn related(&self, relation: Relation, a: usize, b: usize) -> Option<Claim> {
        let comparison = if a < b {
            Comparison::Cross(relation, a, b)
        } else {
            Comparison::Cross(relation.mirrored(), b, a)
        };
        self.covers(&(Vec::new(), comparison))
    }

    /// One more than the largest number of a term.
    pub(super) fn terms(&self) -> usize {
        let largest = self.comparisons.iter().map(|comparison| match comparison {
            Comparison::Cross(_, l, r) => *l.max(r),
            Comparison::Left(_, term, _) | Comparison::Right(_, term, _) => *term,
        });
        largest.max().map_or(0, |largest| largest + 1)
    }
}

fn entails(strong: Comparison, weak: Comparison) -> bool {
    match (strong, weak) {
        (Comparison::Cross(a, l, r), Comparison::Cross(b, x, y)) => {
            (l, r) == (x, y) && a.implies().contains(&b)
        }
        (Comparison::Right(true, a, v), Comparison::Right(false, b, w)) => a == b && v != w,
        _ => false,
    }
}
