//! States one by one: along the recorded order, over cuts, deliveries and chains.

use everhold_trace::{Event, NodeId};

use super::{
    Changed, Checker, CutViolation, End, Evaluator, ExecutionOutcome, Limits, Method, Modality,
    Rule, Snapshot, State, Tally, Trace, Verdict, Witness, explain, family, is_local, outcome,
};
use crate::ast::Scope;
use crate::checker::delivery_bindings;
use crate::verdict::Reason;

/// Judges the states in the recorded order.
pub(super) fn recorded(rule: &Rule, trace: &Trace<'_>) -> ExecutionOutcome {
    let mut checker = Checker::new(rule);
    let mut replay = Replay::new(trace);
    checker.step(&replay.state, Changed::All, 0);
    let mut cut = None;
    for event in trace.execution.events() {
        let now_ns = replay.step(event);
        checker.step(&replay.state, Changed::Node(event.node), now_ns);
        if checker.violation().is_some() && cut.is_none() {
            cut = Some(replay.counts.clone());
        }
    }
    // The end of a recording does not show what would have happened later.
    let result = checker.finish(End::Cut);
    let violation = result.violation.map(|found| {
        let cut = cut.unwrap_or(replay.counts);
        let event = trace.last_event(&cut);
        CutViolation { cut, event, reason: found.reason, witness: found.witness }
    });
    let modality = rule.property().modality;
    ExecutionOutcome {
        verdict: result.verdict,
        ..outcome(modality, Method::RecordedOrder, result.tally, None, violation)
    }
}

/// The global state along the recorded order.
struct Replay<'a> {
    trace: &'a Trace<'a>,
    state: Snapshot,
    counts: Vec<u32>,
    in_flight: std::collections::BTreeMap<(NodeId, NodeId), u32>,
    /// Receivers by sender and event count, and senders by receiver and event count.
    sends: std::collections::BTreeMap<(NodeId, u32), Vec<NodeId>>,
    receives: std::collections::BTreeMap<(NodeId, u32), Vec<NodeId>>,
    /// The changes of the number of messages in flight, if the property asks for it.
    flights: std::collections::BTreeMap<everhold_trace::EventId, Vec<(&'a str, i64)>>,
    begin_ns: Option<i64>,
    now_ns: u64,
}

impl<'a> Replay<'a> {
    fn new(trace: &'a Trace<'a>) -> Replay<'a> {
        let counts = vec![0; trace.members.len()];
        let mut replay = Replay {
            trace,
            state: trace.snapshot(&counts),
            counts,
            in_flight: Default::default(),
            sends: Default::default(),
            receives: Default::default(),
            flights: trace
                .flights
                .as_ref()
                .map(everhold_trace::Flights::changes)
                .unwrap_or_default(),
            begin_ns: None,
            now_ns: 0,
        };
        for delivery in trace.order.deliveries().iter().filter(|delivery| delivery.first) {
            replay.sends.entry((delivery.from, delivery.sent)).or_default().push(delivery.to);
            replay
                .receives
                .entry((delivery.to, delivery.received))
                .or_default()
                .push(delivery.from);
        }
        for message in trace.order.undelivered() {
            let receivers = trace.order.node_ids().filter(|node| message.flies_to(*node));
            replay.sends.entry((message.from, message.sent)).or_default().extend(receivers);
        }
        replay
    }

    /// Applies one event and returns its time. The clocks of different nodes disagree, so the time
    /// of a sequence is the latest time seen.
    fn step(&mut self, event: &Event) -> u64 {
        let node = event.node;
        self.counts[node.index()] += 1;
        let count = self.counts[node.index()];
        match self.trace.state(node, count) {
            Some(state) if self.state.state(node) != Some(state) => {
                self.state.set(node, state.clone());
            }
            Some(_) => {}
            None => self.state.clear(node),
        }
        self.state.set_up(node, self.trace.up[node.index()][count as usize]);
        for from in self.receives.remove(&(node, count)).unwrap_or_default() {
            self.fly(from, node, -1);
        }
        for to in self.sends.remove(&(node, count)).unwrap_or_default() {
            self.fly(node, to, 1);
        }
        let id = self.trace.execution.events_of(node)[count as usize - 1];
        if let Some(changes) = self.flights.remove(&id) {
            self.count(&changes);
            if self.trace.reads_messages {
                let flights = self.trace.flights.as_ref();
                let payloads = flights.map(|flights| flights.payloads_at(&self.counts));
                self.state.set_payloads(payloads);
            }
        }
        self.now_ns = self.now_ns.max(self.time(event));
        self.now_ns
    }

    fn fly(&mut self, from: NodeId, to: NodeId, by: i32) {
        let flying = self.in_flight.entry((from, to)).or_default();
        *flying = flying.saturating_add_signed(by);
        self.state.set_in_flight(from, to, *flying);
    }

    fn count(&mut self, changes: &[(&str, i64)]) {
        let mut messages = self.state.messages().cloned().unwrap_or_default();
        for (kind, change) in changes {
            let number = messages.entry((*kind).to_owned()).or_default();
            *number = number.saturating_add_signed(*change);
        }
        self.state.set_messages(Some(messages));
    }

    fn time(&mut self, event: &Event) -> u64 {
        match (event.time.physical_ns, event.time.logical) {
            (Some(ns), _) => {
                let begin = *self.begin_ns.get_or_insert(ns);
                u64::try_from(ns.saturating_sub(begin)).unwrap_or(0)
            }
            (None, logical) => logical.unwrap_or(0),
        }
    }
}

/// Judges the cuts of the scope one by one, in lexical order.
pub(super) fn cuts(rule: &Rule, trace: &Trace<'_>, limits: Limits) -> ExecutionOutcome {
    let property = rule.property();
    // Which tuples are quiet depends on the cut, so every cut is visited and the plain evaluator
    // decides.
    let by_tuples = property.scope == Scope::Quiet && is_local(&property.body);
    let plain = by_tuples || rule.counts_messages();
    let slice = if by_tuples {
        everhold_trace::Slice::consistent(trace.order)
    } else {
        family(rule, trace.order)
    };
    let mut judge = CutJudge::new(rule, trace, plain);
    let mut tally = Tally::default();
    let mut first: Option<(Option<everhold_trace::EventId>, Vec<u32>)> = None;
    let mut cuts = slice.cuts();
    let mut left = limits.cases_max;
    let mut bound = None;
    while let Some(cut) = cuts.next_cut() {
        if left == 0 {
            bound = Some(limits.cases_max);
            break;
        }
        left -= 1;
        let verdict = judge.judge(cut);
        tally.count(verdict);
        match (property.modality, verdict) {
            (Modality::Sometimes, Some(Verdict::Holds)) => break,
            (Modality::Always, Some(Verdict::Violated)) => {
                let event = trace.last_event(cut);
                if first.as_ref().is_none_or(|(best, _)| event < *best) {
                    first = Some((event, cut.to_vec()));
                }
            }
            _ => {}
        }
    }
    let violation = first.map(|(_, cut)| trace.violation(rule, cut));
    outcome(property.modality, Method::Cuts, tally, bound, violation)
}

/// Judges one cut after another; each differs little from the one before.
struct CutJudge<'a> {
    rule: &'a Rule,
    trace: &'a Trace<'a>,
    rows: Vec<Vec<Option<std::sync::Arc<crate::fast::Row>>>>,
    evaluator: Evaluator,
    members: Vec<super::Member>,
    last: Vec<Option<u32>>,
    plain: bool,
}

impl<'a> CutJudge<'a> {
    fn new(rule: &'a Rule, trace: &'a Trace<'a>, plain: bool) -> CutJudge<'a> {
        CutJudge {
            rule,
            trace,
            rows: trace.order.node_ids().map(|node| trace.rows(rule, node)).collect(),
            evaluator: Evaluator::new(rule.program(), &trace.members),
            members: trace.members.clone(),
            last: vec![None; trace.members.len()],
            plain,
        }
    }

    fn judge(&mut self, cut: &[u32]) -> Option<Verdict> {
        if self.plain {
            let snapshot = self.trace.snapshot(cut);
            let history: [&dyn State; 1] = [&snapshot];
            return crate::eval::evaluate(self.rule.property(), self.rule.library(), &history, &[]);
        }
        let mut told = true;
        for (place, state) in cut.iter().enumerate() {
            let up = self.trace.up[place][*state as usize];
            told &= self.members[place].up == up;
            self.members[place].up = up;
        }
        if !told {
            self.evaluator.set_members(&self.members);
        }
        for (place, state) in cut.iter().enumerate() {
            if self.last[place] != Some(*state) {
                self.last[place] = Some(*state);
                let row = self.rows[place][*state as usize].clone();
                self.evaluator.set_row(self.members[place].id, row);
            }
        }
        Some(self.evaluator.verdict())
    }
}

/// Judges the deliveries, over the sender at the send and the receiver after the delivery.
pub(super) fn deliveries(rule: &Rule, trace: &Trace<'_>) -> ExecutionOutcome {
    let mut checker = Checker::new(rule);
    let mut first: Option<CutViolation> = None;
    for delivery in trace.order.deliveries() {
        let (from, to) = (delivery.from, delivery.to);
        let sender = trace.member(from, delivery.sent);
        let receiver = trace.member(to, delivery.received);
        let message = trace.message(delivery.message).filter(|_| rule.reads_delivery());
        let message = message.as_ref().map(|(payload, kind)| (payload, kind.as_str()));
        let verdict = checker.deliver_message(
            (&sender, trace.state(from, delivery.sent)),
            (&receiver, trace.state(to, delivery.received)),
            message,
            0,
        );
        if verdict != Verdict::Violated {
            continue;
        }
        // The sender may have moved on, so that no cut contains both states; the receiver's past
        // contains the send.
        let cut = trace.order.clock(to, delivery.received).to_vec();
        let event = trace.last_event(&cut);
        if first.as_ref().is_none_or(|best| event < best.event) {
            let states = trace.some(&[(from, delivery.sent), (to, delivery.received)]);
            let bindings = delivery_bindings(from, to, message);
            let witness = explain(rule.property(), rule.library(), &[&states], &bindings);
            let witness = witness.unwrap_or_default();
            first = Some(CutViolation { cut, event, reason: Reason::False, witness });
        }
    }
    let modality = rule.property().modality;
    outcome(modality, Method::Deliveries, checker.tally(), None, first)
}

/// Judges the chains, with each node as it was when it passed the message on.
pub(super) fn chains(rule: &Rule, trace: &Trace<'_>) -> ExecutionOutcome {
    let mut tally = Tally::default();
    let mut first: Option<CutViolation> = None;
    for chain in trace.order.chains(trace.members.len()) {
        let states = trace.some(&chain);
        let history: [&dyn State; 1] = [&states];
        let verdict = crate::eval::evaluate(rule.property(), rule.library(), &history, &[]);
        tally.count(verdict);
        if verdict != Some(Verdict::Violated) {
            continue;
        }
        let (node, count) = *chain.last().expect("a chain has its last receiver");
        let cut = trace.order.clock(node, count).to_vec();
        let event = trace.last_event(&cut);
        if first.as_ref().is_none_or(|best| event < best.event) {
            let witness: Option<Witness> = explain(rule.property(), rule.library(), &history, &[]);
            let witness = witness.unwrap_or_default();
            first = Some(CutViolation { cut, event, reason: Reason::False, witness });
        }
    }
    outcome(rule.property().modality, Method::Chains, tally, None, first)
}
