//! Properties over recorded executions.
//!
//! For a property that must hold *at every cut*, the recorded order is only one of many. A `forall`
//! over k nodes is judged on all tuples of compatible local states, which are exactly the tuples
//! that some consistent cut contains. Other claims are judged on the cuts one by one, up to a
//! bound. Claims about the past and about time are judged along the recorded order, because they
//! refer to one order.

use std::sync::Arc;

use everhold_trace::{
    EventId, EventKind, Execution, Flights, LocalStates, NodeId, Order, Slice, Value,
};

use crate::ast::{Modality, Scope};
use crate::checker::{Changed, Checker, End, Rule, Tally};
use crate::eval::is_local;
use crate::fast::{Evaluator, Row};
use crate::state::{Member, Snapshot, State};
use crate::verdict::{Reason, Verdict};
use crate::witness::{Witness, explain};

mod tuples;
mod untested;
mod walk;
mod weights;
mod windows;

pub use untested::{Untested, untested};

/// The bounds on the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of cuts or tuples to judge; their number can be exponential in that of
    /// the nodes.
    pub cases_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { cases_max: 20_000_000 }
    }
}

/// The method by which a property was judged on an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All tuples of compatible local states: all cuts, without enumerating them.
    Tuples,
    /// Sliding windows over the compatible states of each pair of nodes: all cuts, for claims that
    /// compare one value of each.
    Windows,
    /// The cuts one by one.
    Cuts,
    /// The weights of the events: all cuts, for claims about sums.
    Weights,
    /// The states in the recorded order only: other orders are possible and were not judged.
    RecordedOrder,
    /// The deliveries.
    Deliveries,
    /// The causal chains.
    Chains,
}

/// The result of judging a property on an execution.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an outcome may be a violation"]
pub struct ExecutionOutcome {
    /// The verdict; it is also unknown if a bound was reached before a violation.
    pub verdict: Verdict,
    /// The method.
    pub method: Method,
    /// The number of cuts, tuples, deliveries or chains, by verdict.
    pub tally: Tally,
    /// The bound that was reached, if one was.
    pub bound: Option<u64>,
    /// The first violation: of all that were found, the one whose last event was recorded first.
    pub violation: Option<CutViolation>,
}

/// A global state of an execution that violates a property.
#[derive(Clone, Debug, PartialEq)]
pub struct CutViolation {
    /// For each node, the number of its events in the cut. Along chains and on deliveries this is
    /// the least cut with the states in question or, if no cut contains them all, that of the later
    /// state.
    pub cut: Vec<u32>,
    /// The last event of the cut in the recorded order.
    pub event: Option<EventId>,
    /// Why the property is violated.
    pub reason: Reason,
    /// The bindings and values that falsify the property.
    pub witness: Witness,
}

/// With more tuples than this, those of two nodes are judged by windows where that is possible.
const TUPLES_MAX: u64 = 300_000;

/// Checks a property on a recorded execution.
pub fn check_execution(rule: &Rule, execution: &Execution, limits: Limits) -> ExecutionOutcome {
    check_ordered(rule, execution, &Order::of(execution), limits)
}

/// Does the same as [`check_execution`], with an order that was computed before and can serve many
/// properties.
pub fn check_ordered(
    rule: &Rule,
    execution: &Execution,
    order: &Order,
    limits: Limits,
) -> ExecutionOutcome {
    let trace = Trace::new(rule, execution, order);
    let property = rule.property();
    let timed = !matches!(property.modality, Modality::Always | Modality::Sometimes);
    match property.scope {
        Scope::Delivery => walk::deliveries(rule, &trace),
        Scope::Chains => walk::chains(rule, &trace),
        Scope::EveryCut | Scope::Quiet | Scope::AllQuiet => {
            if timed || rule.program().depth() > 0 {
                return walk::recorded(rule, &trace);
            }
            // Few tuples are judged one by one; of many pairs, windows leave most out.
            let few = Limits { cases_max: limits.cases_max.min(TUPLES_MAX) };
            if let Some(outcome) = tuples::check(rule, &trace, few) {
                if outcome.bound.is_none() {
                    return outcome;
                }
                let windows = windows::check(rule, &trace);
                let all = || tuples::check(rule, &trace, limits);
                return windows.or_else(all).unwrap_or(outcome);
            }
            if let Some(outcome) = weights::check(rule, &trace, limits) {
                return outcome;
            }
            // A violation in the recorded order is found soonest.
            let recorded = walk::recorded(rule, &trace);
            let reached =
                property.modality == Modality::Sometimes && recorded.verdict == Verdict::Holds;
            if recorded.violation.is_some() || reached {
                return recorded;
            }
            walk::cuts(rule, &trace, limits)
        }
    }
}

/// Checks a property on an execution in the recorded order alone, as a watch judges it while it
/// happens; the scopes `on delivery` and `along chains`, which are about messages, as always.
pub fn check_recorded(rule: &Rule, execution: &Execution, order: &Order) -> ExecutionOutcome {
    let trace = Trace::new(rule, execution, order);
    match rule.property().scope {
        Scope::Delivery => walk::deliveries(rule, &trace),
        Scope::Chains => walk::chains(rule, &trace),
        Scope::EveryCut | Scope::Quiet | Scope::AllQuiet => walk::recorded(rule, &trace),
    }
}

/// An execution with the data that are needed to judge it.
struct Trace<'a> {
    execution: &'a Execution,
    order: &'a Order,
    states: LocalStates<'a>,
    members: Vec<Member>,
    /// For each node and state, whether it is up.
    up: Vec<Vec<bool>>,
    /// The messages, if the property counts them.
    flights: Option<Flights>,
    /// Whether the property asks for their payloads.
    reads_messages: bool,
}

impl<'a> Trace<'a> {
    fn new(rule: &Rule, execution: &'a Execution, order: &'a Order) -> Trace<'a> {
        let member = |id: NodeId| {
            let info = execution.node(id);
            Member::new(id, &info.name, &info.kind)
        };
        let up = |node: NodeId| {
            let mut up = vec![true];
            for event in execution.events_of(node) {
                let before = *up.last().expect("the row starts with the initial state");
                up.push(match execution.event(*event).kind {
                    EventKind::Crash => false,
                    EventKind::Start | EventKind::Restart => true,
                    _ => before,
                });
            }
            up
        };
        Trace {
            execution,
            order,
            states: execution.local_states(),
            members: execution.node_ids().map(member).collect(),
            up: execution.node_ids().map(up).collect(),
            flights: rule.counts_messages().then(|| Flights::of(execution, order)),
            reads_messages: rule.reads_messages(),
        }
    }

    fn state(&self, node: NodeId, count: u32) -> Option<&Value> {
        self.states.at(node, count as usize)
    }

    /// The payload and the kind of a message, by its place.
    fn message(&self, place: u32) -> Option<(Value, String)> {
        let send = self.execution.send_of(&self.execution.messages()[place as usize])?;
        Some((send.payload.clone().unwrap_or(Value::Null), send.label.clone()))
    }

    fn member(&self, node: NodeId, count: u32) -> Member {
        let up = self.up[node.index()][count as usize];
        Member { up, ..self.members[node.index()].clone() }
    }

    /// A snapshot of some nodes, each in one of its states.
    fn some(&self, states: &[(NodeId, u32)]) -> Snapshot {
        let mut states = states.to_vec();
        states.sort_unstable();
        let members = states.iter().map(|(node, count)| self.member(*node, *count)).collect();
        let mut snapshot = Snapshot::new(members);
        for (node, count) in states {
            if let Some(state) = self.state(node, count) {
                snapshot.set(node, state.clone());
            }
        }
        snapshot
    }

    /// The global state of a cut, messages in flight included.
    fn snapshot(&self, cut: &[u32]) -> Snapshot {
        let states: Vec<(NodeId, u32)> = self.order.node_ids().zip(cut.iter().copied()).collect();
        let mut snapshot = self.some(&states);
        for (from, to) in self.order.in_flight(cut) {
            snapshot.set_in_flight(from, to, 1);
        }
        snapshot.set_messages(self.flights.as_ref().map(|flights| flights.at(cut)));
        if self.reads_messages {
            let flights = self.flights.as_ref();
            snapshot.set_payloads(flights.map(|flights| flights.payloads_at(cut)));
        }
        snapshot
    }

    /// The last event of a cut in the recorded order.
    fn last_event(&self, cut: &[u32]) -> Option<EventId> {
        let last = self.order.node_ids().zip(cut).filter(|(_, count)| **count > 0);
        last.map(|(node, count)| self.execution.events_of(node)[*count as usize - 1]).max()
    }

    fn violation(&self, rule: &Rule, cut: Vec<u32>) -> CutViolation {
        let snapshot = self.snapshot(&cut);
        let history: [&dyn State; 1] = [&snapshot];
        let witness = explain(rule.property(), rule.library(), &history, &[]).unwrap_or_default();
        let event = self.last_event(&cut);
        CutViolation { cut, event, reason: Reason::False, witness }
    }

    /// The rows of a node by state; states with equal values share one.
    fn rows(&self, rule: &Rule, node: NodeId) -> Vec<Option<Arc<Row>>> {
        let mut rows: Vec<Option<Arc<Row>>> = Vec::new();
        for count in 0..=self.order.events_of(node) as usize {
            let version = self.states.version(node, count);
            let same = count > 0 && version == self.states.version(node, count - 1);
            let row = match self.states.at(node, count) {
                _ if same => rows[count - 1].clone(),
                Some(state) => Some(Arc::new(rule.program().row(state))),
                None => None,
            };
            rows.push(row);
        }
        rows
    }
}

/// The set of all cuts that a scope allows.
fn family<'a>(rule: &Rule, order: &'a Order) -> Slice<'a> {
    match rule.property().scope {
        Scope::Quiet | Scope::AllQuiet => Slice::quiet(order),
        Scope::EveryCut | Scope::Delivery | Scope::Chains => Slice::consistent(order),
    }
}

fn outcome(
    modality: Modality,
    method: Method,
    tally: Tally,
    bound: Option<u64>,
    violation: Option<CutViolation>,
) -> ExecutionOutcome {
    let sometimes = modality == Modality::Sometimes;
    let verdict = match (&violation, bound) {
        (Some(_), _) => Verdict::Violated,
        (None, _) if sometimes && tally.holds > 0 => Verdict::Holds,
        (None, None) if !sometimes && tally.holds > 0 => Verdict::Holds,
        _ => Verdict::Unknown,
    };
    ExecutionOutcome { verdict, method, tally, bound, violation }
}
