//! Majorities: whenever a node is in some role, or always, a majority of the nodes agrees with it.
//!
//! `forall n in nodes: n.role == "Leader" implies count(m in nodes: m.term >= n.term) >= 2`.

use std::collections::BTreeSet;

use everhold_property::{Scope, print_expr};

use super::all_nodes::AllNodes;
use super::comparison::Context;
use super::cuts::Cuts;
use super::evidence::Evidence;
use super::lines::Draft;
use super::propose::role_values;
use super::single::{expr, words};
use super::terms::{Side, Term};
use crate::evaluate::Cell;
use crate::outcome::CutClaims;
use crate::relation::{Class, tree};
use crate::variables::Row;

/// The most nodes for which majorities are tried: each moment compares all pairs of nodes.
const NODES_MAX: usize = 32;
/// The moments of a table that select the claims to judge on all of them.
const MOMENTS_MAX: usize = 2_000;
/// How many claims are judged on other cuts than the recorded ones.
const JUDGED_MAX: usize = 12;
/// A claim whose probability of chance is above this is not judged on cuts.
const LN_CHANCE_MAX: f64 = -5.0;

/// The agreement of node `m` with node `n`: a term of `m` equals a term of `n`, or is at least as
/// great.
#[derive(Clone, Copy, Debug)]
struct Link {
    equal: bool,
    m: usize,
    n: usize,
}

/// A claim that was not refuted so far, and its evidence.
struct Claim {
    /// A role of `n` and its value; `None` if the claim is about all nodes.
    role: Option<(usize, Cell)>,
    link: Link,
    /// The distinct nodes and values for which the claim was true.
    cases: BTreeSet<(u32, u32)>,
    /// The pairs of different nodes that agreed, and all such pairs, whatever the role of `n`.
    otherwise: (u64, u64),
    /// The fewest that agreed.
    fewest: usize,
}

/// The moments to look at, and how to speak of their nodes.
pub(super) struct Place<'a> {
    /// The kind of the nodes, if there are several.
    pub(super) name: Option<&'a str>,
    pub(super) all_nodes: AllNodes<'a>,
    pub(super) context: &'a Context<'a>,
}

/// The majorities that held in all recorded states and on other cuts.
pub(super) fn majorities(place: &Place<'_>, cuts: &mut Cuts<'_>) -> (Vec<Draft>, u64) {
    let nodes = place.all_nodes.nodes().filter(|nodes| (3..=NODES_MAX).contains(nodes));
    let Some(nodes) = nodes else { return (Vec::new(), 0) };
    let (majority, side) = (nodes / 2 + 1, place.context.left);
    let mut claims = candidates(side);
    let tried = claims.len() as u64;
    let step = place.all_nodes.step(MOMENTS_MAX);
    place.all_nodes.each(step, |rows| {
        claims.retain_mut(|claim| claim.see(rows, side, majority));
        !claims.is_empty()
    });
    // If all nodes agree, the family of two nodes says so.
    claims.retain(|claim| claim.fewest < nodes && !claim.cases.is_empty());
    let drafts = claims.iter().map(|claim| (claim, claim.draft(nodes, majority, place)));
    let mut drafts: Vec<(&Claim, Draft)> = drafts.collect();
    drafts.retain(|(_, draft)| draft.evidence.ln_chance < LN_CHANCE_MAX);
    drafts.sort_by(|(_, a), (_, b)| a.evidence.ln_chance.total_cmp(&b.evidence.ln_chance));
    drafts.truncate(JUDGED_MAX);
    let holds = |claim: &Claim| {
        step == 1 || place.all_nodes.each(1, |rows| claim.holds(rows, side, majority))
    };
    drafts.retain(|(claim, draft)| {
        holds(claim) && !cuts.refute(&draft.property, CutClaims::Majorities)
    });
    (drafts.into_iter().map(|(_, draft)| draft).collect(), tried)
}

fn candidates(side: &Side) -> Vec<Claim> {
    let plain = |term: &Term| !term.is_role() && term.class.is_single();
    let mut links = Vec::new();
    for (m, left) in side.terms.iter().enumerate().filter(|(_, term)| plain(term)) {
        for (n, right) in side.terms.iter().enumerate().filter(|(_, term)| plain(term)) {
            if left.class == right.class {
                links.push(Link { equal: true, m, n });
                if left.class == Class::Number {
                    links.push(Link { equal: false, m, n });
                }
            }
        }
    }
    let roles: Vec<Option<(usize, Cell)>> =
        std::iter::once(None).chain(role_values(side).map(Some)).collect();
    let claim = |role: Option<(usize, Cell)>| {
        links.iter().map(move |link| Claim {
            role,
            link: *link,
            cases: BTreeSet::new(),
            otherwise: (0, 0),
            fewest: usize::MAX,
        })
    };
    roles.into_iter().flat_map(claim).collect()
}

impl Link {
    fn holds(self, side: &Side, m: u32, n: u32) -> bool {
        let (m, n) = (side.columns[self.m][m as usize], side.columns[self.n][n as usize]);
        m != 0 && n != 0 && if self.equal { m == n } else { m >= n }
    }
}

impl Claim {
    /// Whether the claim is true of these states, one for each node.
    fn holds(&self, shown: &[u32], side: &Side, majority: usize) -> bool {
        let is_in = |n: u32| self.role.is_none_or(|(term, cell)| side.cell(term, n) == cell);
        let agree = |n: u32| shown.iter().filter(|m| self.link.holds(side, **m, n)).count();
        shown.iter().all(|n| !is_in(*n) || agree(*n) >= majority)
    }

    /// Like [`Claim::holds`], and counts the evidence. A role that a majority is in says nothing about
    /// majorities, so it refutes the claim, too.
    fn see(&mut self, shown: &[u32], side: &Side, majority: usize) -> bool {
        if let Some((term, cell)) = self.role
            && shown.iter().filter(|n| side.cell(term, **n) == cell).count() >= majority
        {
            return false;
        }
        for &n in shown {
            let code = side.columns[self.link.n][n as usize];
            let is_in = |(term, cell): (usize, Cell)| side.cell(term, n) == cell;
            let agree = shown.iter().filter(|m| self.link.holds(side, **m, n)).count();
            if self.role.is_none_or(is_in) {
                if agree < majority {
                    return false;
                }
                self.fewest = self.fewest.min(agree);
                // A number that only grows has many values while the node is in the role once.
                let case = match self.role {
                    Some((role, _)) if side.only_grows(self.link.n) => side.episode(role, n),
                    _ => code,
                };
                if code != 0 {
                    self.cases.insert((side.groups[n as usize], case));
                }
            }
            // The rate of agreement is estimated from all states, whatever the role.
            self.otherwise.0 += agree.saturating_sub(1) as u64;
            self.otherwise.1 += shown.len() as u64 - 1;
        }
        true
    }

    fn draft(&self, nodes: usize, majority: usize, place: &Place<'_>) -> Draft {
        let side = place.context.left;
        let term = |term: usize, row: &str| {
            print_expr(&side.terms[term].expr(&Row::Value(row.to_owned())))
        };
        let kind = place.name.map_or(String::new(), |name| format!("{name:?} "));
        let (m, n) = (term(self.link.m, "m"), term(self.link.n, "n"));
        let op = if self.link.equal { "==" } else { ">=" };
        let count = format!("count(m in {kind}nodes: {m} {op} {n}) >= {majority}");
        let claim = match self.role {
            Some((role, cell)) => {
                let value = place.context.value(cell).to_string();
                format!("{} == {value} implies {count}", term(role, "n"))
            }
            None => count,
        };
        let body = expr(&format!("forall n in {kind}nodes: {claim}"));
        let property = tree::always(words(&claim), Scope::EveryCut, body);
        let (agree, pairs) = self.otherwise;
        let rate = (agree as f64 + 1.0) / (pairs as f64 + 1.0);
        let distinct = self.cases.len() as u64;
        let ln_chance = distinct as f64 * at_least(majority - 1, nodes - 1, rate).ln();
        let evidence = Evidence { samples: pairs / (nodes as u64 - 1), distinct, ln_chance };
        Draft::new(property, evidence, if self.role.is_some() { 5.0 } else { 4.0 })
    }
}

/// The probability of at least `wanted` successes in `all` trials with this rate: the upper tail of
/// the binomial distribution.
fn at_least(wanted: usize, all: usize, rate: f64) -> f64 {
    let mut term = (1.0 - rate).powi(i32::try_from(all).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for k in 0..wanted {
        below += term;
        term *= (all - k) as f64 / (k + 1) as f64 * rate / (1.0 - rate);
    }
    (1.0 - below).clamp(f64::MIN_POSITIVE, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_binomial() {
        assert!((at_least(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_least(2, 4, 0.1) - 0.0523).abs() < 1e-6);
        assert!((at_least(0, 4, 0.1) - 1.0).abs() < 1e-12);
    }
}
