//! The weights of the events of an execution, and which cuts count.

use std::sync::Arc;

use everhold_trace::trace::{Fate, Message};
use everhold_trace::{EventId, NodeId, Value};

use super::linear::{Linear, PAYLOADS, Part};
use crate::eval::evaluate_expr;
use crate::execution::Trace;
use crate::fast::{Measure, Row};
use crate::library::Library;
use crate::state::{Member, Snapshot};
use crate::verdict::Unknown;

/// A sum as weights of events, and the cuts in which it is known and that the scope allows.
#[derive(Debug)]
pub(super) struct Events {
    /// The sum before the first event, the constant of the claim included.
    pub(super) base: i64,
    /// The change that each event makes.
    pub(super) weights: Vec<i64>,
    /// The parts of the nodes before their first events.
    pub(super) initial: Vec<i64>,
    pub(super) allowed: Allowed,
}

/// Conditions on cuts beyond consistency. Together with it they are all of the form *with this
/// event also that one*, so the cuts that meet them are closed under union and intersection.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed {
    /// A cut with the first event must have the second, which may be a later one.
    pub(super) edges: Vec<(EventId, EventId)>,
    /// Every cut must have these events.
    pub(super) forced: Vec<EventId>,
    /// No cut may have these events.
    pub(super) forbidden: Vec<EventId>,
    /// No cut is allowed.
    pub(super) none: bool,
}

impl Allowed {
    pub(super) fn is_free(&self) -> bool {
        self.edges.is_empty() && self.forced.is_empty() && self.forbidden.is_empty() && !self.none
    }

    pub(super) fn extend(&mut self, other: &Allowed) {
        self.edges.extend_from_slice(&other.edges);
        self.forced.extend_from_slice(&other.forced);
        self.forbidden.extend_from_slice(&other.forbidden);
        self.none |= other.none;
    }

    /// Admits only cuts in which no message is in flight.
    fn quiet(&mut self, trace: &Trace<'_>) {
        let alone = trace.execution.nodes().len() == 1;
        for message in trace.execution.messages() {
            let Some(sent) = message.sent.filter(|_| message.fate() != Fate::Lost) else {
                continue;
            };
            let to = trace.execution.send_of(message).and_then(|send| send.to);
            if message.delivered.is_empty() && !(alone && to.is_none()) {
                self.forbidden.push(sent);
            }
            self.edges.extend(trace.execution.first_deliveries(message).map(|to| (sent, to)));
        }
    }
}

/// The contribution of one state or one message.
#[derive(Clone, Copy)]
enum Share {
    Is(i64),
    Unknown,
}

impl Events {
    /// Weighs the events. Returns `None` if the sum is not a sum of weights: if a value is not an
    /// integer, or a node's part depends on another node.
    pub(super) fn of(
        linear: &Linear,
        library: &Library,
        trace: &Trace<'_>,
        quiet: bool,
    ) -> Option<Events> {
        let mut events = Events {
            base: linear.constant,
            weights: vec![0; trace.execution.events().len()],
            initial: vec![0; trace.members.len()],
            allowed: Allowed::default(),
        };
        events.nodes(linear, trace)?;
        if quiet {
            // Nothing is in flight, so messages contribute nothing.
            events.allowed.quiet(trace);
        } else {
            for (factor, part) in &linear.terms {
                events.messages(*factor, part, library, trace)?;
            }
        }
        let total: u128 =
            events.weights.iter().map(|weight| u128::from(weight.unsigned_abs())).sum();
        let total = total + u128::from(events.base.unsigned_abs());
        (total < u128::from(u64::MAX / 8)).then_some(events)
    }

    fn nodes(&mut self, linear: &Linear, trace: &Trace<'_>) -> Option<()> {
        let parts: Vec<_> = linear
            .terms
            .iter()
            .filter_map(|(factor, part)| match part {
                Part::Nodes(program) => Some((*factor, program)),
                Part::Count(_) | Part::Payloads(..) => None,
            })
            .collect();
        if parts.is_empty() {
            return Some(());
        }
        for node in trace.execution.node_ids() {
            let member = &trace.members[node.index()];
            let measures = parts.iter().map(|(factor, program)| {
                let row = |state: &Value| program.row(state);
                (*factor, row, Measure::new(program, member))
            });
            let mut own = Own { measures: measures.collect(), seen: None };
            self.node(node, &mut |up, version, state| own.share(up, version, state), trace)?;
        }
        Some(())
    }

    /// Weighs the events of a node by the part that it has in each of its states.
    fn node(
        &mut self,
        node: NodeId,
        share: &mut dyn FnMut(bool, Option<u32>, Option<&Value>) -> Option<Share>,
        trace: &Trace<'_>,
    ) -> Option<()> {
        let mut known: Option<i64> = None;
        let mut gap: Option<EventId> = None;
        let events = trace.execution.events_of(node);
        for count in 0..=events.len() {
            let up = trace.up[node.index()][count];
            let version = trace.states.version(node, count);
            let now = share(up, version, trace.states.at(node, count))?;
            let event = count.checked_sub(1).map(|last| events[last]);
            match (now, known, event) {
                (Share::Is(value), None, None) => {
                    self.base = self.base.checked_add(value)?;
                    self.initial[node.index()] = value;
                }
                // The part is unknown before this event, which must therefore be there.
                (Share::Is(value), None, Some(event)) => {
                    self.base = self.base.checked_add(value)?;
                    self.allowed.forced.push(event);
                }
                (Share::Is(value), Some(before), Some(event)) => {
                    let weight = &mut self.weights[event.index()];
                    *weight = weight.checked_add(value.checked_sub(before)?)?;
                    if let Some(enter) = gap.take() {
                        self.allowed.edges.push((enter, event));
                    }
                }
                (Share::Unknown, Some(_), Some(event)) => gap = gap.or(Some(event)),
                (Share::Unknown, None, _) | (_, Some(_), None) => {}
            }
            if let Share::Is(value) = now {
                known = Some(value);
            }
        }
        self.allowed.forbidden.extend(gap);
        self.allowed.none |= known.is_none();
        Some(())
    }

    fn messages(
        &mut self,
        factor: i64,
        part: &Part,
        library: &Library,
        trace: &Trace<'_>,
    ) -> Option<()> {
        let kind = match part {
            Part::Nodes(_) => return Some(()),
            Part::Count(kind) | Part::Payloads(kind, _) => kind,
        };
        for message in trace.execution.messages() {
            let Some(sent) = message.sent.filter(|_| message.fate() != Fate::Lost) else {
                continue;
            };
            let Some(send) = trace.execution.send_of(message) else { continue };
            if kind.as_ref().is_some_and(|kind| *kind != send.label) {
                continue;
            }
            let share = match part {
                Part::Payloads(_, expr) => of_message(expr, send.payload.as_ref(), library)?,
                Part::Nodes(_) | Part::Count(_) => Share::Is(1),
            };
            self.message(sent, message, factor, share, trace)?;
        }
        Some(())
    }

    fn message(
        &mut self,
        sent: EventId,
        message: &Message,
        factor: i64,
        share: Share,
        trace: &Trace<'_>,
    ) -> Option<()> {
        let received: Vec<EventId> = trace.execution.first_deliveries(message).collect();
        match share {
            Share::Is(0) => {}
            Share::Is(amount) => {
                let amount = amount.checked_mul(factor)?;
                let add = |weight: &mut i64, amount| {
                    *weight = weight.checked_add(amount)?;
                    Some(())
                };
                add(&mut self.weights[sent.index()], amount)?;
                match received[..] {
                    [] => {}
                    [one] => add(&mut self.weights[one.index()], amount.checked_neg()?)?,
                    // It is in flight until the last of several receives, which one depends on the
                    // cut.
                    _ => return None,
                }
            }
            // Its part is unknown as long as it is in flight.
            Share::Unknown if received.is_empty() => self.allowed.forbidden.push(sent),
            Share::Unknown => self.allowed.edges.extend(received.iter().map(|to| (sent, *to))),
        }
        Some(())
    }
}

/// The parts of one node; equal states in a row are weighed once.
struct Own<R> {
    measures: Vec<(i64, R, Measure)>,
    seen: Option<(bool, Option<u32>, Option<i64>)>,
}

impl<R: Fn(&Value) -> Row> Own<R> {
    /// The part in a state; `None` if it is no integer or depends on other nodes.
    fn share(&mut self, up: bool, version: Option<u32>, state: Option<&Value>) -> Option<Share> {
        if let Some((was_up, was, value)) = self.seen
            && (was_up, was) == (up, version)
        {
            return Some(value.map_or(Share::Unknown, Share::Is));
        }
        let mut sum = Some(0_i64);
        for (factor, row, measure) in &mut self.measures {
            let row = state.map(|state| Arc::new(row(state)));
            if row.as_ref().is_some_and(|row| row.leads_on()) {
                return None;
            }
            sum = match (measure.value(up, row), sum) {
                (Some(Value::Int(value)), Some(sum)) => {
                    Some(sum.checked_add(value.checked_mul(*factor)?)?)
                }
                (Some(Value::Int(_)) | None, _) => None,
                (Some(_), _) => return None,
            };
        }
        self.seen = Some((up, version, sum));
        Some(sum.map_or(Share::Unknown, Share::Is))
    }
}

/// The part of a message.
fn of_message(
    expr: &crate::ast::Expr,
    payload: Option<&Value>,
    library: &Library,
) -> Option<Share> {
    let payloads = Value::List(vec![payload.cloned().unwrap_or_default()]);
    let bindings = [(PAYLOADS.to_owned(), payloads)];
    let nobody = Snapshot::new(Vec::<Member>::new());
    match evaluate_expr(expr, library, &[&nobody], &bindings) {
        Ok(Value::Int(amount)) => Some(Share::Is(amount)),
        Ok(_) | Err(Unknown::NotReported(_)) => None,
        Err(_) => Some(Share::Unknown),
    }
}
