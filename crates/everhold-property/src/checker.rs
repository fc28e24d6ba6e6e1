//! Properties over sequences of states: during a search, along a trace, in production.
//!
//! - [`Rule`]: a property ready to be checked; made once.
//! - [`Checker`]: one pass over one sequence; cheap to reset and to clone.
//! - [`Outcome`]: the result of the pass.

use std::sync::Arc;

use everhold_trace::{NodeId, Value};

use crate::ast::{Bound, Expr, ExprKind, Modality, Property, Scope};
use crate::check::{MESSAGE, MESSAGE_KIND};
use crate::eval::{all_quiet, counts_messages, evaluate, is_local, reads_messages};
use crate::fast::{Evaluator, Program};
use crate::library::Library;
use crate::state::{Member, Snapshot, State};
use crate::verdict::{Reason, Verdict};
use crate::witness::{Witness, explain, mentioned};

mod leads;
mod progress;

use leads::Leads;
pub use progress::{Point, Progress};

/// A property with its library, compiled. Copies share it.
#[derive(Clone, Debug)]
pub struct Rule(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    property: Property,
    library: Library,
    program: Program,
    /// The two sides of a `leads to` without variables, compiled.
    sides: Option<(Program, Program)>,
    quiet: Quiet,
    counts_messages: bool,
    reads_messages: bool,
    reads_delivery: bool,
}

/// How the scope of the property depends on messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quiet {
    /// Every state counts.
    No,
    /// No message may be in flight between the nodes of a tuple.
    Tuples,
    /// The property counts messages, or its tuples are known only at run time; the plain evaluator
    /// decides.
    Plain,
    /// No message may be in flight.
    All,
}

impl Rule {
    /// Compiles a property.
    #[must_use]
    pub fn new(property: &Property, library: &Library) -> Rule {
        let program = Program::new(property, library);
        let leads = matches!(property.modality, Modality::LeadsTo { .. });
        let counts_messages = counts_messages(&property.body, library);
        let reads_messages = reads_messages(&property.body, library);
        let reads_delivery = property.scope == Scope::Delivery
            && property.body.any(&mut |expr| {
                matches!(&expr.kind, ExprKind::Name(name) if [MESSAGE, MESSAGE_KIND].contains(&name.as_str()))
            });
        let quiet = match property.scope {
            _ if counts_messages => Quiet::Plain,
            Scope::EveryCut | Scope::Delivery | Scope::Chains => Quiet::No,
            Scope::Quiet if !leads && is_local(&property.body) => {
                if program.is_local() {
                    Quiet::Tuples
                } else {
                    Quiet::Plain
                }
            }
            Scope::Quiet | Scope::AllQuiet => Quiet::All,
        };
        let sides = match &property.body.kind {
            ExprKind::LeadsTo(from, goal) if !counts_messages => {
                Some((Program::of(from, library, &[]), Program::of(goal, library, &[])))
            }
            _ => None,
        };
        let (property, library) = (property.clone(), library.clone());
        Rule(Arc::new(Inner {
            property,
            library,
            program,
            sides,
            quiet,
            counts_messages,
            reads_messages,
            reads_delivery,
        }))
    }

    /// The property.
    #[must_use]
    pub fn property(&self) -> &Property {
        &self.0.property
    }

    /// The constants and functions that the property may use.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.0.library
    }

    /// The property's body, compiled.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// Whether the property asks for the messages in flight: for their number or their payloads.
    #[must_use]
    pub fn counts_messages(&self) -> bool {
        self.0.counts_messages
    }

    /// Whether the property asks for the payloads of messages in flight.
    #[must_use]
    pub fn reads_messages(&self) -> bool {
        self.0.reads_messages
    }

    /// Whether the property asks, on delivery, for the message: for its payload or its kind.
    #[must_use]
    pub fn reads_delivery(&self) -> bool {
        self.0.reads_delivery
    }

    /// The number of earlier states that are needed to judge one.
    fn depth(&self) -> usize {
        self.0.program.depth()
    }
}

/// The variables of a delivery.
pub(crate) fn delivery_bindings(
    from: NodeId,
    to: NodeId,
    message: Option<(&Value, &str)>,
) -> Vec<(String, Value)> {
    let mut found =
        vec![("sender".to_owned(), Value::Node(from)), ("receiver".to_owned(), Value::Node(to))];
    if let Some((payload, kind)) = message {
        found.push((MESSAGE.to_owned(), payload.clone()));
        found.push((MESSAGE_KIND.to_owned(), kind.into()));
    }
    found
}

/// The difference between a state and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// At most this node: its state, whether it is up, and the messages to and from it.
    Node(NodeId),
    /// Anything, the set of nodes included.
    All,
}

/// How a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The system has ended: no further event is possible.
    Complete,
    /// The sequence was cut off: by a bound, or because the recording stops.
    Cut,
}

/// The first violation of a property: its place, its time and its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The index of the state in the sequence, from 0.
    pub step: u64,
    /// The time of the state, in nanoseconds.
    pub now_ns: u64,
    /// Why the property is violated.
    pub reason: Reason,
    /// For how many nanoseconds a deadline had passed by then; 0 where none has.
    pub overdue_ns: u64,
    /// The bindings and values that falsify the property.
    pub witness: Witness,
}

/// The number of states by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// States in which the body was true.
    pub holds: u64,
    /// States in which the body was false.
    pub violated: u64,
    /// States in which something that decides the body was not known.
    pub unknown: u64,
    /// States that were not judged because the scope excludes them.
    pub skipped: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Holds) => self.holds += 1,
            Some(Verdict::Violated) => self.violated += 1,
            Some(Verdict::Unknown) => self.unknown += 1,
            None => self.skipped += 1,
        }
    }
}

/// The result of a pass over a sequence.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an outcome may be a violation"]
pub struct Outcome {
    /// `always`: violated in some state, or true in at least one and false in none. `sometimes`:
    /// holds if reached, otherwise unknown. `eventually`, `finally` and `leads to`: violated if too
    /// late, or if a complete sequence ended without it; unknown if it was cut off before.
    pub verdict: Verdict,
    /// The number of states by verdict.
    pub tally: Tally,
    /// The first violation.
    pub violation: Option<Violation>,
}

/// One pass of a property over one sequence of states.
///
/// ```
/// use everhold_property::*;
/// let text = r#"always "x grows": forall n in nodes: n.x >= previous(n.x)"#;
/// let rule = Rule::new(&parse(text).properties[0], &Library::new());
/// let mut checker = Checker::new(&rule);
/// let mut state = Snapshot::default();
/// let n = state.add("n0", "server");
/// for x in [1, 2, 1] {
///     state.set(n, Value::record([("x", x)]));
///     checker.step(&state, Changed::Node(n), 0);
/// }
/// let violation = checker.finish(End::Cut).violation.unwrap();
/// assert_eq!(violation.step, 2);
/// assert_eq!(violation.witness.to_string(), "n = n0\nn.x = 1\nprevious(n.x) = 2\n");
/// ```
#[derive(Clone, Debug)]
pub struct Checker {
    rule: Rule,
    /// The evaluator of the body, or those of both sides of a `leads to`; empty before the first
    /// state.
    evaluators: Vec<Evaluator>,
    leads: Leads,
    /// The most recent states, for properties that look back.
    past: Vec<Snapshot>,
    steps: u64,
    tally: Tally,
    /// The point since which the body of an `eventually` or a `finally` has been false.
    hot: Option<Since>,
    /// Whether the body has been true in some state.
    reached: bool,
    /// Whether the body of an `eventually` or a `finally` was known when last judged.
    known: bool,
    violation: Option<Violation>,
}

/// A point of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since {
    step: u64,
    now_ns: u64,
}

impl Since {
    fn is_late(self, now: Since, within: Option<Bound>) -> bool {
        match within {
            None => false,
            Some(Bound::Nanos(nanos)) => now.now_ns.saturating_sub(self.now_ns) > nanos,
            Some(Bound::Steps(steps)) => now.step.saturating_sub(self.step) > steps,
        }
    }

    /// For how many nanoseconds a deadline has passed.
    fn overdue_ns(self, now: Since, within: Option<Bound>) -> u64 {
        match within {
            Some(Bound::Nanos(nanos)) => {
                now.now_ns.saturating_sub(self.now_ns).saturating_sub(nanos)
            }
            Some(Bound::Steps(_)) | None => 0,
        }
    }
}

impl Checker {
    /// A checker before its first state.
    #[must_use]
    pub fn new(rule: &Rule) -> Checker {
        Checker {
            rule: rule.clone(),
            evaluators: Vec::new(),
            leads: Leads::default(),
            past: Vec::new(),
            steps: 0,
            tally: Tally::default(),
            hot: None,
            reached: false,
            known: false,
            violation: None,
        }
    }

    /// Returns to the situation before the first state.
    pub fn reset(&mut self) {
        self.leads.reset();
        self.past.clear();
        self.steps = 0;
        self.tally = Tally::default();
        self.hot = None;
        self.reached = false;
        self.known = false;
        self.violation = None;
    }

    /// The rule that is checked.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The first violation so far.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Whether the body has been true in some state: the goal of a `sometimes`.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.reached
    }

    /// Whether an obligation is pending: the body of an `eventually` has been false and not yet
    /// true, the body of a `finally` is false, or a left side of a `leads to` waits for its right
    /// side.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.hot.is_some() || !self.leads.is_empty()
    }

    /// The number of states so far, by verdict.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes the next state. The first one is taken as a whole, whatever `changed` says.
    ///
    /// Returns the verdict in this state: violated if the property is violated now, and unknown
    /// also where the scope excludes the state. Properties `on delivery` and `along chains` are not
    /// about states; use [`Checker::deliver`] and [`check_execution`](crate::check_execution) for
    /// them.
    pub fn step(&mut self, state: &dyn State, changed: Changed, now_ns: u64) -> Verdict {
        let scope = self.rule.property().scope;
        if matches!(scope, Scope::Delivery | Scope::Chains) {
            return Verdict::Unknown;
        }
        self.judge_step(state, changed, now_ns)
    }

    /// Does the same as [`Checker::step`] whatever the scope, for a caller that has chosen the
    /// states itself.
    pub(crate) fn judge_step(
        &mut self,
        state: &dyn State,
        changed: Changed,
        now_ns: u64,
    ) -> Verdict {
        let now = Since { step: self.steps, now_ns };
        let changed = if self.steps == 0 { Changed::All } else { changed };
        self.steps += 1;
        let result = match self.rule.property().modality {
            Modality::LeadsTo { within } => self.step_leads(state, changed, now, within),
            Modality::Always => self.always(state, changed, now),
            Modality::Sometimes => {
                let body = self.judge(state, changed);
                body.map(|body| if body == Verdict::Holds { body } else { Verdict::Unknown })
            }
            Modality::Eventually { within } | Modality::Finally { within } => {
                self.becomes_true(state, changed, now, within)
            }
        };
        self.remember(state, changed);
        result.unwrap_or(Verdict::Unknown)
    }

    fn always(&mut self, state: &dyn State, changed: Changed, now: Since) -> Option<Verdict> {
        let verdict = self.judge(state, changed);
        if verdict == Some(Verdict::Violated) && self.violation.is_none() {
            let witness = self.explain(state, &[]);
            self.violate(now, Reason::False, witness, 0);
        }
        verdict
    }

    /// Judges a state under `eventually`, which is fulfilled once the body has been true, or under
    /// `finally`, whose obligation returns whenever the body is false.
    fn becomes_true(
        &mut self,
        state: &dyn State,
        changed: Changed,
        now: Since,
        within: Option<Bound>,
    ) -> Option<Verdict> {
        // The earlier state lasts until the new one, so lateness is judged before the new state.
        let late = self.hot.filter(|since| since.is_late(now, within));
        let body = self.judge(state, changed);
        if let Some(since) = late
            && self.violation.is_none()
        {
            let witness = self.explain(state, &[]);
            let overdue_ns = since.overdue_ns(now, within);
            self.violate(now, Reason::FalseForTooLong { since: since.step }, witness, overdue_ns);
        }
        let once = matches!(self.rule.property().modality, Modality::Eventually { .. });
        match body {
            Some(Verdict::Holds) => self.hot = None,
            Some(Verdict::Violated) if once && self.reached => {}
            Some(Verdict::Violated) => self.hot = Some(self.hot.unwrap_or(now)),
            // The body may have been true in the meantime, so lateness can no longer be proved.
            Some(Verdict::Unknown) if within.is_some() => self.hot = None,
            Some(Verdict::Unknown) | None => {}
        }
        self.known = body.map_or(self.known, |body| body != Verdict::Unknown);
        body.map(|_| if late.is_some() { Verdict::Violated } else { self.standing() })
    }

    /// The verdict on a property with a deadline when no deadline is missed.
    fn standing(&self) -> Verdict {
        let known = match self.rule.property().modality {
            Modality::LeadsTo { .. } => self.leads.is_known(),
            Modality::Eventually { .. } => self.known || self.reached,
            Modality::Finally { .. } => self.known,
            Modality::Always | Modality::Sometimes => false,
        };
        if known && !self.is_open() { Verdict::Holds } else { Verdict::Unknown }
    }

    /// Lets time pass without a change of state, so that obligations whose deadline has passed
    /// become late. Returns the verdict on a property with a deadline: violated if an obligation is
    /// late, and otherwise whether the property holds now. The verdict on other properties is
    /// unknown.
    pub fn tick(&mut self, state: &dyn State, now_ns: u64) -> Verdict {
        let overdue_ns = self.overdue_ns(now_ns);
        if let Some(overdue_ns) = overdue_ns
            && self.violation.is_none()
        {
            let now = Since { step: self.steps.saturating_sub(1), now_ns };
            let witness = self.explain(state, &[]);
            self.violate(now, Reason::DeadlinePassed, witness, overdue_ns);
        }
        if overdue_ns.is_some() { Verdict::Violated } else { self.standing() }
    }

    /// For how many nanoseconds a deadline has passed at this time, if something is late.
    #[must_use]
    pub fn overdue_ns(&self, now_ns: u64) -> Option<u64> {
        let now = Since { step: self.steps.saturating_sub(1), now_ns };
        let within = self.rule.property().modality.within();
        let since = match self.rule.property().modality {
            Modality::Eventually { .. } | Modality::Finally { .. } => {
                self.hot.filter(|since| since.is_late(now, within))
            }
            Modality::LeadsTo { .. } => self.leads.first_late(now, within).map(|(_, since)| since),
            Modality::Always | Modality::Sometimes => None,
        };
        since.map(|since| since.overdue_ns(now, within))
    }

    /// Judges a property `on delivery`, over the sender's state at the send and the receiver's
    /// state after the delivery.
    pub fn deliver(
        &mut self,
        sender: (&Member, Option<&Value>),
        receiver: (&Member, Option<&Value>),
        now_ns: u64,
    ) -> Verdict {
        self.deliver_message(sender, receiver, None, now_ns)
    }

    /// Does the same as [`Checker::deliver`], given the payload of the message and its kind, which a
    /// property may ask for by `message` and `message_kind`. Without them such a property is unknown.
    pub fn deliver_message(
        &mut self,
        sender: (&Member, Option<&Value>),
        receiver: (&Member, Option<&Value>),
        message: Option<(&Value, &str)>,
        now_ns: u64,
    ) -> Verdict {
        let now = Since { step: self.steps, now_ns };
        self.steps += 1;
        let (from, to) = (sender.0.id, receiver.0.id);
        if from == to {
            // A message from a node to itself has two states of one node, which a snapshot cannot
            // hold.
            self.tally.count(None);
            return Verdict::Unknown;
        }
        let state = pair(sender, receiver);
        let message = message.filter(|_| self.rule.0.reads_delivery);
        let bindings = delivery_bindings(from, to, message);
        let verdict = if self.rule.0.reads_delivery {
            let (property, library) = (self.rule.property(), self.rule.library());
            evaluate(property, library, &[&state], &bindings).unwrap_or(Verdict::Unknown)
        } else {
            let mut evaluator = Evaluator::new(&self.rule.0.program, state.members());
            evaluator.set_fixed(&[from, to]);
            load(&mut evaluator, &state);
            evaluator.verdict()
        };
        self.tally.count(Some(verdict));
        if verdict == Verdict::Violated && self.violation.is_none() {
            let witness = self.explain(&state, &bindings);
            self.violate(now, Reason::False, witness, 0);
        }
        verdict
    }

    /// Ends the sequence.
    pub fn finish(&mut self, end: End) -> Outcome {
        let open = self.is_open();
        if open && end == End::Complete && self.violation.is_none() {
            let now = Since { step: self.steps.saturating_sub(1), now_ns: 0 };
            self.violate(now, Reason::NeverHappened, Witness::default(), 0);
        }
        let verdict = match &self.violation {
            Some(_) => Verdict::Violated,
            None if open => Verdict::Unknown,
            None if self.tally.holds == 0 => Verdict::Unknown,
            None => Verdict::Holds,
        };
        Outcome { verdict, tally: self.tally, violation: self.violation.clone() }
    }

    fn violate(&mut self, now: Since, reason: Reason, witness: Witness, overdue_ns: u64) {
        let Since { step, now_ns } = now;
        self.violation = Some(Violation { step, now_ns, reason, overdue_ns, witness });
    }

    /// The verdict on the body in this state; `None` where the scope excludes it.
    fn judge(&mut self, state: &dyn State, changed: Changed) -> Option<Verdict> {
        let inner = Arc::clone(&self.rule.0);
        let verdict = match inner.quiet {
            Quiet::Plain => self.with_history(state, |history| {
                evaluate(&inner.property, &inner.library, history, &[])
            }),
            Quiet::No => {
                self.feed(0, &inner.program, state, changed);
                Some(self.evaluators[0].verdict())
            }
            Quiet::Tuples => {
                self.feed(0, &inner.program, state, changed);
                let in_flight = |from, to| state.in_flight(from, to);
                let node = match changed {
                    Changed::Node(node) => Some(node),
                    Changed::All => None,
                };
                self.evaluators[0].set_busy(node, &in_flight);
                Some(self.evaluators[0].verdict())
            }
            Quiet::All => {
                self.feed(0, &inner.program, state, changed);
                all_quiet(state).then(|| self.evaluators[0].verdict())
            }
        };
        self.tally.count(verdict);
        self.reached |= verdict == Some(Verdict::Holds);
        verdict
    }

    /// Passes a change of state to an evaluator.
    fn feed(&mut self, which: usize, program: &Program, state: &dyn State, changed: Changed) {
        if self.evaluators.len() <= which {
            self.evaluators.push(Evaluator::new(program, state.members()));
        }
        let evaluator = &mut self.evaluators[which];
        if self.steps == 1 {
            evaluator.reset(state.members());
            load(evaluator, state);
            return;
        }
        evaluator.step();
        match changed {
            Changed::All => {
                evaluator.set_members(state.members());
                load(evaluator, state);
            }
            Changed::Node(node) => {
                if !evaluator.knows(node, state.members()) {
                    evaluator.set_members(state.members());
                }
                load_one(evaluator, state, node);
            }
        }
    }

    fn step_leads(
        &mut self,
        state: &dyn State,
        changed: Changed,
        now: Since,
        within: Option<Bound>,
    ) -> Option<Verdict> {
        let late = self.leads.first_late(now, within);
        let late = late.map(|(bindings, since)| (bindings.clone(), since));
        if let Some((bindings, since)) = &late
            && self.violation.is_none()
        {
            let witness = self.explain(state, bindings);
            self.violate(now, Reason::NotLedTo, witness, since.overdue_ns(now, within));
        }
        let inner = Arc::clone(&self.rule.0);
        if let Some((from, goal)) = &inner.sides {
            self.feed(0, from, state, changed);
            self.feed(1, goal, state, changed);
        }
        if inner.quiet == Quiet::All && !all_quiet(state) {
            self.tally.count(None);
            return None;
        }
        if inner.sides.is_some() {
            let from = self.evaluators[0].verdict();
            let goal = self.evaluators[1].verdict();
            self.leads.observe(from, goal, now, within.is_some());
        } else {
            let mut leads = std::mem::take(&mut self.leads);
            let (body, library) = (&inner.property.body, &inner.library);
            let bounded = within.is_some();
            self.with_history(state, |history| leads.step(body, library, history, now, bounded));
            self.leads = leads;
        }
        let open = if self.leads.is_empty() { Verdict::Holds } else { Verdict::Unknown };
        let verdict = |settled| if late.is_some() { Verdict::Violated } else { settled };
        // The sequence counts as judged even if some nodes have never reported; the verdict on the
        // present state takes them into account.
        self.tally.count(Some(verdict(open)));
        Some(verdict(self.standing()))
    }

    fn explain(&self, state: &dyn State, bindings: &[(String, Value)]) -> Witness {
        let Inner { property, library, .. } = &*self.rule.0;
        self.with_history(state, |history| {
            match explain(property, library, history, bindings) {
                Some(witness) => witness,
                // No single state falsifies a `leads to`; the values of its sides are shown
                // instead.
                None if !bindings.is_empty() => {
                    mentioned(innermost(&property.body), library, history, bindings)
                }
                None => Witness::default(),
            }
        })
    }

    fn with_history<T>(&self, state: &dyn State, read: impl FnOnce(&[&dyn State]) -> T) -> T {
        let mut history: Vec<&dyn State> =
            self.past.iter().map(|past| past as &dyn State).collect();
        history.push(state);
        read(&history)
    }

    /// Keeps this state for properties that look back.
    fn remember(&mut self, state: &dyn State, changed: Changed) {
        let depth = self.rule.depth();
        if depth == 0 {
            return;
        }
        let next = match (self.past.last(), changed) {
            (Some(last), Changed::Node(node)) if last.members() == state.members() => {
                let mut next = last.clone();
                copy_one(&mut next, state, node);
                next.set_messages(state.messages().cloned());
                next.set_payloads(state.payloads().cloned());
                next
            }
            _ => copy(state),
        };
        if self.past.len() == depth {
            self.past.remove(0);
        }
        self.past.push(next);
    }
}

fn innermost(body: &Expr) -> &Expr {
    match &body.kind {
        ExprKind::Quantified { body, .. } => innermost(body),
        _ => body,
    }
}

fn pair(sender: (&Member, Option<&Value>), receiver: (&Member, Option<&Value>)) -> Snapshot {
    let mut both = [sender, receiver];
    both.sort_by_key(|(member, _)| member.id);
    let mut state = Snapshot::new(both.iter().map(|(member, _)| (*member).clone()).collect());
    for (member, value) in both {
        if let Some(value) = value {
            state.set(member.id, value.clone());
        }
    }
    state
}

fn load(evaluator: &mut Evaluator, state: &dyn State) {
    for member in state.members() {
        load_one(evaluator, state, member.id);
    }
}

fn load_one(evaluator: &mut Evaluator, state: &dyn State, node: NodeId) {
    match state.state(node) {
        Some(value) => evaluator.set(node, value),
        None => evaluator.set_row(node, None),
    }
}

fn copy(state: &dyn State) -> Snapshot {
    let mut copy = Snapshot::new(state.members().to_vec());
    copy.set_messages(state.messages().cloned());
    copy.set_payloads(state.payloads().cloned());
    for member in state.members() {
        copy_one(&mut copy, state, member.id);
    }
    copy
}

fn copy_one(copy: &mut Snapshot, state: &dyn State, node: NodeId) {
    match state.state(node) {
        Some(value) => copy.set(node, value.clone()),
        None => copy.clear(node),
    }
}
