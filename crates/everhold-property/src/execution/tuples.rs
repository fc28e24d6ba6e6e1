//! All cuts at once, by tuples of compatible local states.

use std::sync::Arc;

use everhold_trace::{EventId, NodeId, Slice};

use super::{ExecutionOutcome, Limits, Method, Trace, outcome};
use crate::ast::{Expr, ExprKind, Modality, Scope};
use crate::checker::{Rule, Tally};
use crate::fast::{Row, Tuples};
use crate::verdict::Verdict;

/// Judges a property that is one `forall` over nodes. Returns `None` if the property has another
/// form, or if its instances depend on further nodes.
pub(super) fn check(rule: &Rule, trace: &Trace<'_>, limits: Limits) -> Option<ExecutionOutcome> {
    let property = rule.property();
    if property.modality != Modality::Always || rule.counts_messages() {
        return None;
    }
    let tuples = Tuples::new(rule.program(), &trace.members)?;
    // With the scope `when all quiet`, only single states and pairs can be decided by windows.
    if property.scope == Scope::AllQuiet && tuples.arity() > 2 {
        return None;
    }
    let rows: Vec<_> = trace.order.node_ids().map(|node| trace.rows(rule, node)).collect();
    if rows.iter().flatten().flatten().any(|row| row.leads_on()) {
        return None;
    }
    let whole = (property.scope == Scope::AllQuiet).then(|| Slice::quiet(trace.order));
    let mut search = Search {
        rule,
        trace,
        tuples,
        rows,
        asks_up: asks_up(&property.body),
        tally: Tally::default(),
        never_known: false,
        cases_left: limits.cases_max,
        first: None,
    };
    let finished = search.groups(whole.as_ref());
    let violation = search.first.map(|(_, cut)| trace.violation(rule, cut));
    let bound = (!finished).then_some(limits.cases_max);
    let mut found = outcome(property.modality, Method::Tuples, search.tally, bound, violation);
    if found.verdict != Verdict::Violated && finished {
        // Without any instance the property holds; an instance that is unknown in all its states
        // makes it unknown.
        found.verdict = if search.never_known { Verdict::Unknown } else { Verdict::Holds };
    }
    Some(found)
}

fn asks_up(body: &Expr) -> bool {
    body.any(&mut |expr| matches!(&expr.kind, ExprKind::Call(name, _) if name.name == "up"))
}

struct Search<'a> {
    rule: &'a Rule,
    trace: &'a Trace<'a>,
    tuples: Tuples,
    rows: Vec<Vec<Option<Arc<Row>>>>,
    /// Whether the claim asks which nodes are up.
    asks_up: bool,
    tally: Tally,
    /// Whether some instance was unknown in all its states.
    never_known: bool,
    cases_left: u64,
    /// The least cut of the first violation, and its last event.
    first: Option<(Option<EventId>, Vec<u32>)>,
}

impl Search<'_> {
    /// Visits every set of nodes that the variables can stand for; returns false if the bound was
    /// reached.
    fn groups(&mut self, whole: Option<&Slice<'_>>) -> bool {
        let nodes: Vec<NodeId> = self.trace.order.node_ids().collect();
        let mut chosen = Vec::new();
        self.choose(&nodes, &mut chosen, whole)
    }

    fn choose(
        &mut self,
        nodes: &[NodeId],
        chosen: &mut Vec<NodeId>,
        whole: Option<&Slice<'_>>,
    ) -> bool {
        if !chosen.is_empty() && !self.group(chosen, whole) {
            return false;
        }
        if chosen.len() == self.tuples.arity() {
            return true;
        }
        for (i, node) in nodes.iter().enumerate() {
            chosen.push(*node);
            let go_on = self.choose(&nodes[i + 1..], chosen, whole);
            chosen.pop();
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Judges all compatible states of these nodes, for every assignment in which the variables
    /// stand for exactly these nodes.
    fn group(&mut self, nodes: &[NodeId], whole: Option<&Slice<'_>>) -> bool {
        let assignments = self.assignments(nodes);
        if assignments.is_empty() {
            return true;
        }
        let before = self.tally;
        let finished = match whole {
            Some(whole) => self.windows(nodes, whole, &assignments),
            None => self.all_states(nodes, &assignments),
        };
        self.never_known |= self.tally.unknown > before.unknown && self.tally.holds == before.holds;
        finished
    }

    /// Judges all compatible states, quiet among themselves if the scope requires it.
    fn all_states(&mut self, nodes: &[NodeId], assignments: &[Vec<NodeId>]) -> bool {
        let slice = match self.rule.property().scope {
            Scope::Quiet => Slice::quiet_among(self.trace.order, nodes),
            _ => Slice::among(self.trace.order, nodes),
        };
        let mut cuts = slice.cuts();
        let mut last: Vec<Option<u32>> = vec![None; nodes.len()];
        while let Some(cut) = cuts.next_cut() {
            for ((node, state), last) in nodes.iter().zip(cut).zip(&mut last) {
                if *last != Some(*state) {
                    self.set(*node, *state);
                    *last = Some(*state);
                }
            }
            if !self.judge(nodes, cut, assignments, None) {
                return false;
            }
        }
        true
    }

    /// Judges single states and pairs of the cuts that are quiet as a whole.
    fn windows(
        &mut self,
        nodes: &[NodeId],
        whole: &Slice<'_>,
        assignments: &[Vec<NodeId>],
    ) -> bool {
        let p = nodes[0].index();
        let Some(other) = nodes.get(1) else {
            return whole.states(p).iter().all(|state| {
                self.set(nodes[0], *state);
                self.judge(nodes, &[*state], assignments, Some(whole))
            });
        };
        let q = other.index();
        for (state, window) in whole.windows(p, q) {
            self.set(nodes[0], state);
            for at in window {
                let beside = whole.states(q)[at];
                self.set(*other, beside);
                if !self.judge(nodes, &[state, beside], assignments, Some(whole)) {
                    return false;
                }
            }
        }
        true
    }

    fn set(&mut self, node: NodeId, state: u32) {
        let row = self.rows[node.index()][state as usize].clone();
        self.tuples.set(node, row);
        if self.asks_up {
            self.tuples.set_up(node, self.trace.up[node.index()][state as usize]);
        }
    }

    /// The assignments of these nodes to the variables in which each node is used.
    fn assignments(&self, nodes: &[NodeId]) -> Vec<Vec<NodeId>> {
        let mut found: Vec<Vec<NodeId>> = vec![Vec::new()];
        for var in 0..self.tuples.arity() {
            let longer = |assignment: &Vec<NodeId>| {
                let admitted = nodes.iter().filter(|node| self.tuples.admits(var, node.index()));
                let with = |node: &NodeId| {
                    let mut next = assignment.clone();
                    next.push(*node);
                    next
                };
                admitted.map(with).collect::<Vec<_>>()
            };
            found = found.iter().flat_map(longer).collect();
        }
        found.retain(|assignment| nodes.iter().all(|node| assignment.contains(node)));
        found
    }

    /// Judges one tuple of states; returns false if the bound was reached.
    fn judge(
        &mut self,
        nodes: &[NodeId],
        states: &[u32],
        assignments: &[Vec<NodeId>],
        whole: Option<&Slice<'_>>,
    ) -> bool {
        let up = |node: NodeId| {
            let place = nodes.iter().position(|other| *other == node).expect("it is one of them");
            self.trace.up[node.index()][states[place] as usize]
        };
        let mut worst = None;
        for assignment in assignments {
            if self.cases_left == 0 {
                return false;
            }
            self.cases_left -= 1;
            let there = |(var, node): (usize, &NodeId)| self.tuples.wants_down(var) || up(*node);
            if !assignment.iter().enumerate().all(there) {
                continue;
            }
            let verdict = self.tuples.judge(assignment);
            self.tally.count(Some(verdict));
            worst = worst.max(Some(std::cmp::Reverse(verdict)));
        }
        if worst == Some(std::cmp::Reverse(Verdict::Violated)) {
            self.found(nodes, states, whole);
        }
        true
    }

    /// Keeps the violation whose last event was recorded first.
    fn found(&mut self, nodes: &[NodeId], states: &[u32], whole: Option<&Slice<'_>>) {
        let pairs = nodes.iter().copied().zip(states.iter().copied());
        let cut = match whole {
            Some(whole) => {
                whole.cut_with(&pairs.map(|(n, state)| (n.index(), state)).collect::<Vec<_>>())
            }
            None => self.trace.order.cut_with(&pairs.collect::<Vec<_>>()),
        };
        let cut = cut.expect("the states are compatible");
        let event = self.trace.last_event(&cut);
        if self.first.as_ref().is_none_or(|(best, _)| event < *best) {
            self.first = Some((event, cut));
        }
    }
}
