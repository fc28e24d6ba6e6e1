//! All cuts at once, for claims about sums.
//!
//! A sum over the nodes of an integer that depends on one node, the number of messages in flight,
//! and a sum over their payloads are, on consistent cuts, sums of weights of the events in the cut:
//! an event weighs the change of its node's part, plus the parts of what it sends, minus the parts
//! of what it receives. So no cut needs to be looked at by itself:
//!
//! - `sum == k`: every event weighs nothing. Along the recorded order the sum is then always k.
//! - `count <= 1`: the intervals in which nodes hold are ordered by happens-before ([`order`]).
//! - `sum <= k`: the greatest sum is that of a closure of maximum weight ([`closure`]).
//!
//! Quiet cuts, and cuts in which all parts are known, are closed under union and intersection too
//! ([`family`]); the same is done with their groups of events.

use super::{CutViolation, ExecutionOutcome, Limits, Method, Trace, outcome};
use crate::ast::{BinaryOp, Modality, Scope};
use crate::checker::{Rule, Tally};

mod closure;
mod events;
mod family;
mod linear;
mod order;

use closure::Found;
use events::{Allowed, Events};
use family::Family;
use linear::Linear;

/// The number of steps of a minimum cut for each case that the limits allow.
const STEPS_A_CASE: u64 = 25;

/// The result for one comparison.
enum Judged {
    Holds,
    Violated(Vec<u32>),
    /// The sum is not known on any cut that the scope allows.
    Nowhere,
    GaveUp,
}

/// Judges claims about sums. Returns `None` if the claim has another form.
pub(super) fn check(rule: &Rule, trace: &Trace<'_>, limits: Limits) -> Option<ExecutionOutcome> {
    let property = rule.property();
    let quiet = match property.scope {
        Scope::EveryCut => false,
        Scope::Quiet | Scope::AllQuiet => true,
        Scope::Delivery | Scope::Chains => return None,
    };
    let mut all = Linear::all(&property.body, rule.library())?;
    let sometimes = match property.modality {
        Modality::Always => false,
        Modality::Sometimes => true,
        _ => return None,
    };
    if sometimes {
        let only = all.pop().filter(|_| all.is_empty())?;
        all = vec![only.opposite()?];
    }
    let mut check =
        Check { rule, trace, quiet, limits, cuts: 0, allowed: Allowed::default(), nowhere: false };
    let mut judged = Vec::new();
    for linear in &all {
        judged.push(check.one(linear)?);
    }
    // Each part may have its cuts, and no cut be known for all of them.
    if judged.len() > 1 && !check.allowed.is_free() {
        check.nowhere |= Family::of(trace, &check.allowed).is_none();
    }
    // That some node meets a condition can be known while other nodes are unknown.
    if check.nowhere && all.iter().any(|linear| linear.exists) {
        return None;
    }
    Some(check.combine(judged, sometimes))
}

struct Check<'a> {
    rule: &'a Rule,
    trace: &'a Trace<'a>,
    quiet: bool,
    limits: Limits,
    /// There are at least so many cuts.
    cuts: u64,
    /// The cuts that are allowed for every part so far.
    allowed: Allowed,
    /// Whether there are none.
    nowhere: bool,
}

impl Check<'_> {
    fn one(&mut self, linear: &Linear) -> Option<Judged> {
        let library = self.rule.library();
        let events = Events::of(linear, library, self.trace, self.quiet)?;
        self.allowed.extend(&events.allowed);
        if events.allowed.is_free() {
            self.cuts = self.trace.execution.events().len() as u64 + 1;
            if let Some(judged) = self.in_recorded_order(linear, &events) {
                return Some(judged);
            }
        }
        let Some(mut family) = Family::of(self.trace, &events.allowed) else {
            self.nowhere = true;
            return Some(Judged::Nowhere);
        };
        self.cuts = family.groups as u64 + 1;
        self.in_family(linear, &events, &mut family)
    }

    /// Judges without a graph, if the recorded order and quick proofs decide.
    fn in_recorded_order(&self, linear: &Linear, events: &Events) -> Option<Judged> {
        let mut sum = events.base;
        let mut cut = vec![0; self.trace.members.len()];
        let is_false = |sum| !holds(linear.op, sum);
        if is_false(sum) {
            return Some(Judged::Violated(cut));
        }
        for (event, weight) in self.trace.execution.events().iter().zip(&events.weights) {
            cut[event.node.index()] += 1;
            sum += weight;
            if is_false(sum) {
                return Some(Judged::Violated(cut));
            }
        }
        if linear.op == BinaryOp::Eq {
            return Some(Judged::Holds);
        }
        if linear.only_nodes() && order::applies(linear, events) {
            let violated = order::overlap(self.trace, events);
            return Some(violated.map_or(Judged::Holds, Judged::Violated));
        }
        let (least, most) = self.extremes_of_nodes(events);
        let proved = match linear.op {
            BinaryOp::Ne => least > 0 || most < 0,
            op => holds(op, least) && holds(op, most),
        };
        proved.then_some(Judged::Holds)
    }

    /// Bounds on the sum, as if every node could be in any state beside the others.
    fn extremes_of_nodes(&self, events: &Events) -> (i64, i64) {
        let mut sums = vec![(0_i64, 0_i64, 0_i64); self.trace.members.len()];
        for (event, weight) in self.trace.execution.events().iter().zip(&events.weights) {
            let (now, least, most) = &mut sums[event.node.index()];
            *now += weight;
            *least = (*least).min(*now);
            *most = (*most).max(*now);
        }
        let least: i64 = sums.iter().map(|(_, least, _)| least).sum();
        let most: i64 = sums.iter().map(|(_, _, most)| most).sum();
        (events.base + least, events.base + most)
    }

    fn in_family(&self, linear: &Linear, events: &Events, family: &mut Family) -> Option<Judged> {
        let (base, graph) = family.weighed(events);
        // The claim is violated where the weight, with this sign, is greater than the limit.
        let side = match linear.op {
            BinaryOp::Le => Some((1, 0)),
            BinaryOp::Lt => Some((1, -1)),
            BinaryOp::Ge => Some((-1, 0)),
            BinaryOp::Gt => Some((-1, -1)),
            _ => None,
        };
        let found = side.map(|(sign, limit)| {
            let mut graph = graph.clone();
            graph.weights.iter_mut().for_each(|weight| *weight *= sign);
            let steps = self.limits.cases_max.saturating_mul(STEPS_A_CASE);
            closure::heavier(graph, limit - sign * base, steps)
        });
        if found == Some(Found::None) {
            return Some(Judged::Holds);
        }
        // A violation along the recorded order is the easiest to read.
        let first = family.walk(base, |sum| !holds(linear.op, sum));
        if let Some(taken) = first {
            return Some(Judged::Violated(family.cut(self.trace, &taken)));
        }
        match found {
            Some(Found::Closure(taken)) => Some(Judged::Violated(family.cut(self.trace, &taken))),
            Some(Found::GaveUp | Found::None) => Some(Judged::GaveUp),
            None if linear.op == BinaryOp::Eq => Some(Judged::Holds),
            // Whether a sum can take one value among many is a hard question.
            None => family.is_never_zero(base).then_some(Judged::Holds),
        }
    }

    /// The outcome for all comparisons together.
    fn combine(&self, judged: Vec<Judged>, sometimes: bool) -> ExecutionOutcome {
        let mut tally = Tally::default();
        let mut first: Option<CutViolation> = None;
        let mut bound = None;
        for judged in judged {
            match judged {
                Judged::Holds | Judged::Nowhere => {}
                Judged::GaveUp => bound = Some(self.limits.cases_max),
                Judged::Violated(cut) => {
                    let event = self.trace.last_event(&cut);
                    if first.as_ref().is_none_or(|best| event < best.event) {
                        first = Some(self.trace.violation(self.rule, cut));
                    }
                }
            }
        }
        if sometimes {
            tally.holds = u64::from(first.is_some());
            tally.violated = if self.nowhere || first.is_some() { 0 } else { self.cuts };
            first = None;
        } else if first.is_some() {
            tally.violated = 1;
        } else if self.nowhere {
            tally.unknown = 1;
        } else if bound.is_none() {
            tally.holds = self.cuts;
        }
        let modality = self.rule.property().modality;
        outcome(modality, Method::Weights, tally, bound, first)
    }
}

/// Whether `sum op 0`.
fn holds(op: BinaryOp, sum: i64) -> bool {
    match op {
        BinaryOp::Eq => sum == 0,
        BinaryOp::Ne => sum != 0,
        BinaryOp::Lt => sum < 0,
        BinaryOp::Le => sum <= 0,
        BinaryOp::Gt => sum > 0,
        BinaryOp::Ge => sum >= 0,
        _ => unreachable!("claims about sums are comparisons"),
    }
}
