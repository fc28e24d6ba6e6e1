//! Properties in the language, checked while an execution runs.
//!
//! A node's state is turned into a value only when its fingerprint changed, and a checker looks
//! again only at what depends on that node, and only if it reads a field that changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhold_node::fingerprint::{self, mix};
use everhold_node::{Message, NodeId};
use everhold_property::{
    Changed, Checker, Diagnostic, Library, Member, Modality, Property, Rule, Schema, Scope, State,
    check_all, parse, render_all, sampling_text,
};
use everhold_trace::Value;

use crate::failure::{Cause, Failure};
use crate::scene::Scene;

/// Reads properties; if there are errors, reports all of them.
///
/// # Errors
///
/// All errors of the text, each with its place.
pub fn read(text: &str, origin: &str) -> Result<Vec<Property>, String> {
    let errors = |found: Vec<Diagnostic>| render_all(&found, origin, text);
    let properties = parse(text).into_result().map_err(errors)?;
    let refused = properties.iter().flat_map(|own| [is_sampled(own), asks_for_message(own)]);
    let refused: Vec<Diagnostic> = refused.flatten().collect();
    if refused.is_empty() { Ok(properties) } else { Err(errors(refused)) }
}

/// The error for a property about the message of a delivery, whose payload a search does not turn
/// into a value.
fn asks_for_message(property: &Property) -> Option<Diagnostic> {
    let message = format!("\"{}\" asks for the message of a delivery", property.name);
    let help = "recordings have it: judge them with `everhold check`; in an exploration compare the \
                states of `sender` and `receiver`";
    let asks = Rule::new(property, &Library::new()).reads_delivery();
    asks.then(|| Diagnostic::new(property.span, message).with_help(help))
}

/// The error for a sampled property: the search would judge it in full, against its own words.
fn is_sampled(property: &Property) -> Option<Diagnostic> {
    let part = sampling_text(property.sampling);
    let message = format!("`{part}` in \"{}\" is for a watch", property.name);
    let help = "an exploration judges every state; leave it out here";
    (!part.is_empty()).then(|| Diagnostic::new(property.span, message).with_help(help))
}

/// The system's properties and the states that they see.
#[derive(Clone, Debug)]
pub struct Properties {
    checkers: Vec<Checker>,
    seen: Seen,
    /// Hash of each node's state when it was last turned into a value.
    hashes: Vec<Option<u64>>,
    /// The sender's state when it sent, for messages under way.
    at_send: BTreeMap<(NodeId, u32), Arc<Value>>,
    sent: Vec<u32>,
    asks_for_channels: bool,
    asks_for_deliveries: bool,
    /// For each property, whether a state of an earlier execution decided it.
    judged: Vec<bool>,
}

/// The difference between a node and the last observation of it.
enum Difference {
    /// These fields of its state differ; none if the list is empty.
    Fields(Vec<String>),
    /// Anything may differ.
    Any,
}

/// A global state as the language sees it.
#[derive(Clone, Debug, Default)]
struct Seen {
    members: Vec<Member>,
    states: Vec<Option<Arc<Value>>>,
    channels: Vec<(NodeId, NodeId)>,
    messages: BTreeMap<String, u64>,
}

impl State for Seen {
    fn members(&self) -> &[Member] {
        &self.members
    }
    fn state(&self, node: NodeId) -> Option<&Value> {
        self.states.get(node.index())?.as_deref()
    }
    fn in_flight(&self, from: NodeId, to: NodeId) -> bool {
        self.channels.contains(&(from, to))
    }
    fn messages(&self) -> Option<&BTreeMap<String, u64>> {
        Some(&self.messages)
    }
}

impl Properties {
    /// The properties of a system, unless it has none.
    #[must_use]
    pub fn new(properties: &[Property], library: &Library) -> Option<Properties> {
        if properties.is_empty() {
            return None;
        }
        let checkers = properties.iter().map(|p| Checker::new(&Rule::new(p, library)));
        Some(Properties::of(checkers.collect()))
    }

    /// The properties that these checkers check.
    #[must_use]
    pub fn of(checkers: Vec<Checker>) -> Properties {
        let scope =
            |wanted: &[Scope]| checkers.iter().any(|c| wanted.contains(&c.rule().property().scope));
        Properties {
            asks_for_channels: scope(&[Scope::Quiet, Scope::AllQuiet])
                || checkers.iter().any(|checker| checker.rule().counts_messages()),
            asks_for_deliveries: scope(&[Scope::Delivery]),
            judged: checkers.iter().map(is_judged_elsewhere).collect(),
            checkers,
            seen: Seen::default(),
            hashes: Vec::new(),
            at_send: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    /// The names of the goals among them, in order.
    pub(crate) fn goals(&self) -> impl Iterator<Item = &str> {
        let goals = self.checkers.iter().filter(|c| is_goal(c));
        goals.map(|checker| checker.rule().property().name.as_str())
    }

    /// The names of all properties, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.checkers.iter().map(|checker| checker.rule().property().name.clone())
    }

    /// The names of all properties with their modalities, in order; `sometimes` goals are listed
    /// elsewhere.
    pub(crate) fn claims(&self) -> impl Iterator<Item = String> {
        self.checkers.iter().filter_map(|checker| {
            let property = checker.rule().property();
            let modality = match property.modality {
                Modality::Sometimes => return None,
                Modality::Always | Modality::LeadsTo { .. } => "always",
                Modality::Eventually { .. } => "eventually",
                Modality::Finally { .. } => "finally",
            };
            Some(format!("{modality} \"{}\"", property.name))
        })
    }

    /// Whether a state has decided each property.
    pub(crate) fn judged(&self) -> Vec<bool> {
        let decided = |checker: &Checker| {
            let tally = checker.tally();
            tally.holds + tally.violated > 0
        };
        self.judged.iter().zip(&self.checkers).map(|(before, c)| *before || decided(c)).collect()
    }

    /// Takes over which properties were decided by earlier checkers, in the same order.
    pub(crate) fn remember(&mut self, judged: &[bool]) {
        self.judged.iter_mut().zip(judged).for_each(|(now, before)| *now |= *before);
    }

    /// The kinds of nodes that properties range over, each with the property's name in words.
    pub(crate) fn named_kinds(&self) -> Vec<(String, String)> {
        let mut named = Vec::new();
        for property in self.checkers.iter().map(|checker| checker.rule().property()) {
            for kind in property.kinds() {
                named.push((kind, format!("the property \"{}\"", property.name)));
            }
        }
        named
    }

    /// Whether each goal was reached.
    pub fn reached(&self) -> impl Iterator<Item = bool> {
        self.checkers.iter().filter(|c| is_goal(c)).map(Checker::reached)
    }

    /// Problems with the properties, judged by the states in which nodes start.
    pub(crate) fn problems(&self, library: &Library) -> Vec<String> {
        let mut schema = Schema::default();
        for (member, state) in self.seen.members.iter().zip(&self.seen.states) {
            if let Some(state) = state {
                schema.observe(&member.kind, state);
            }
        }
        let properties: Vec<Property> =
            self.checkers.iter().map(|c| c.rule().property().clone()).collect();
        let found = check_all(&properties, library, &schema);
        let chains = properties.iter().filter(|p| p.scope == Scope::Chains);
        let chains = chains.map(|p| {
            format!("\"{}\" is about chains: check it on traces with `everhold check`", p.name)
        });
        found.into_iter().map(|d| d.message).chain(chains).collect()
    }

    /// Begins a new execution with every node's first state.
    pub fn start<M: Message>(&mut self, scene: Scene<'_, M>, world: &Names<'_>) -> Option<Failure> {
        self.judged = self.judged();
        self.checkers.iter_mut().for_each(Checker::reset);
        self.seen.members.clear();
        self.seen.states.clear();
        self.hashes.clear();
        self.at_send.clear();
        self.sent.clear();
        self.meet_new_nodes(scene, world);
        for index in 0..scene.nodes() {
            self.observe(scene, crate::env::node_id(index));
        }
        self.judge(scene, Changed::All, &Difference::Any, 0)
    }

    /// Judges the state after a step at `node`.
    pub fn step<M: Message>(
        &mut self,
        scene: Scene<'_, M>,
        world: &Names<'_>,
        node: NodeId,
    ) -> Option<Failure> {
        let added = scene.nodes() != self.seen.members.len();
        if added {
            self.meet_new_nodes(scene, world);
            for at in 0..scene.nodes() {
                self.observe(scene, crate::env::node_id(at));
            }
        }
        // A message changes a channel at a node other than that of the step.
        let all = added || self.asks_for_channels;
        let changed = if all { Changed::All } else { Changed::Node(node) };
        let seen = self.observe(scene, node);
        let difference = if all { Difference::Any } else { seen };
        let now = scene.now(node);
        let failure = self.judge(scene, changed, &difference, now);
        failure.or_else(|| self.judge_delivery(scene, node, now))
    }

    fn meet_new_nodes<M: Message>(&mut self, scene: Scene<'_, M>, world: &Names<'_>) {
        for index in self.seen.members.len()..scene.nodes() {
            let (name, kind) = world.of(index);
            self.seen.members.push(Member::new(crate::env::node_id(index), name, kind));
            self.seen.states.push(None);
            self.hashes.push(None);
            self.sent.push(0);
        }
    }

    /// Observes a node; returns the difference from the last observation.
    fn observe<M: Message>(&mut self, scene: Scene<'_, M>, node: NodeId) -> Difference {
        let at = node.index();
        let up = scene.is_up(node);
        let turned = std::mem::replace(&mut self.seen.members[at].up, up) != up;
        let mut difference = Difference::Fields(Vec::new());
        let process = scene.process(at).expect("a node that is looked at exists");
        let hash = process.fingerprint();
        if hash.is_none() || hash != self.hashes[at] || self.seen.states[at].is_none() {
            let value = process.observe();
            difference = compare(self.seen.states[at].as_deref(), &value);
            self.seen.states[at] = (value != Value::Null).then(|| Arc::new(value));
            self.hashes[at] = hash;
        }
        if self.asks_for_deliveries {
            self.remember_sends(scene, node);
        }
        if turned { Difference::Any } else { difference }
    }

    /// Remembers the sender's state for the messages that were sent in this step: it is the state
    /// that the node has now.
    fn remember_sends<M: Message>(&mut self, scene: Scene<'_, M>, node: NodeId) {
        let (at, sent) = (node.index(), scene.sent(node));
        if let Some(state) = &self.seen.states[at] {
            for sequence in self.sent[at]..sent {
                self.at_send.insert((node, sequence), Arc::clone(state));
            }
        }
        self.sent[at] = sent;
    }

    /// Judges the state, with the properties that the difference concerns.
    fn judge<M: Message>(
        &mut self,
        scene: Scene<'_, M>,
        changed: Changed,
        difference: &Difference,
        now_ns: u64,
    ) -> Option<Failure> {
        if self.asks_for_channels {
            self.seen.channels.clear();
            self.seen.messages.clear();
            for (from, to, msg) in (0..scene.places()).filter_map(|place| scene.flight(place)) {
                self.seen.channels.push((from, to));
                *self.seen.messages.entry(fingerprint::kind(msg).to_owned()).or_default() += 1;
            }
        }
        for checker in &mut self.checkers {
            if concerns(difference, checker) {
                checker.step(&self.seen, changed, now_ns);
            }
        }
        self.violated()
    }

    fn judge_delivery<M: Message>(
        &mut self,
        scene: Scene<'_, M>,
        node: NodeId,
        now: u64,
    ) -> Option<Failure> {
        let (from, sequence) = scene.delivered().filter(|_| self.asks_for_deliveries)?;
        let sequence = sequence & !crate::env::DUPLICATE;
        let sent_in = self.at_send.get(&(from, sequence)).cloned();
        let members = &self.seen.members;
        let (sender, receiver) = (members[from.index()].clone(), members[node.index()].clone());
        let received_in = self.seen.states[node.index()].clone();
        for checker in &mut self.checkers {
            if checker.rule().property().scope == Scope::Delivery {
                let (sent_in, received_in) = (sent_in.as_deref(), received_in.as_deref());
                checker.deliver((&sender, sent_in), (&receiver, received_in), now);
            }
        }
        self.violated()
    }

    fn violated(&self) -> Option<Failure> {
        self.checkers.iter().find_map(|checker| {
            let violation = checker.violation()?;
            let witness = violation.witness.to_string();
            let values: Vec<&str> = witness.lines().collect();
            let property = checker.rule().property();
            let cause = match property.modality {
                Modality::Always | Modality::Sometimes => Cause::Always(property.name.clone()),
                Modality::Eventually { .. } | Modality::LeadsTo { .. } => {
                    Cause::Liveness(property.name.clone())
                }
                Modality::Finally { .. } => Cause::Finally(property.name.clone()),
            };
            Some(Failure { cause, message: values.join(", ") })
        })
    }

    /// Lets time pass after the last state; returns the first property whose deadline has passed.
    pub fn close(&mut self, now_ns: u64) -> Option<Failure> {
        for checker in &mut self.checkers {
            checker.tick(&self.seen, now_ns);
        }
        self.violated()
    }

    /// The first property that still owes progress.
    #[must_use]
    pub fn hot(&self) -> Option<Cause> {
        let open = self.checkers.iter().find(|checker| checker.is_open())?;
        let name = open.rule().property().name.clone();
        Some(if is_finally(open) { Cause::Finally(name) } else { Cause::Liveness(name) })
    }

    /// The properties that can owe progress, each with whether it must be true at the end.
    pub(crate) fn debtors(&self) -> impl Iterator<Item = (String, bool)> {
        let debtors = self.checkers.iter().filter(|checker| owes(checker));
        debtors.map(|checker| (checker.rule().property().name.clone(), is_finally(checker)))
    }

    /// Whether each of the [debtors](Self::debtors) owes progress now.
    pub(crate) fn owed(&self) -> impl Iterator<Item = bool> {
        self.checkers.iter().filter(|checker| owes(checker)).map(Checker::is_open)
    }

    /// Whether a property must be true at the end.
    pub(crate) fn has_finally(&self) -> bool {
        self.checkers.iter().any(is_finally)
    }

    /// A hash of what the properties remember in addition to the present state, if one remembers
    /// anything.
    pub(crate) fn memory(&self) -> Option<u64> {
        let mut remembering = self.checkers.iter().filter(|checker| remembers(checker)).peekable();
        remembering.peek()?;
        Some(remembering.fold(0, |hash, checker| mix(hash, memory_of(checker))))
    }

    pub(crate) fn has_liveness(&self) -> bool {
        self.checkers.iter().any(owes)
    }
}

fn is_goal(checker: &Checker) -> bool {
    checker.rule().property().modality == Modality::Sometimes
}

/// Whether a property is judged elsewhere: chains are judged on traces, and of a goal the report
/// states whether it was reached.
fn is_judged_elsewhere(checker: &Checker) -> bool {
    is_goal(checker) || checker.rule().property().scope == Scope::Chains
}

fn is_finally(checker: &Checker) -> bool {
    matches!(checker.rule().property().modality, Modality::Finally { .. })
}

fn compare(old: Option<&Value>, new: &Value) -> Difference {
    match (old, new) {
        (Some(Value::Record(old)), Value::Record(new)) if old.len() == new.len() => {
            let both = || old.iter().zip(new);
            if both().any(|(old, new)| old.0 != new.0) {
                return Difference::Any;
            }
            let changed = both().filter(|(old, new)| old.1 != new.1);
            Difference::Fields(changed.map(|(_, (name, _))| name.clone()).collect())
        }
        _ => Difference::Any,
    }
}

/// Whether a property must be judged again. One that looks back or owes progress always must,
/// because the number and the times of the states matter. A goal that is reached never must.
fn concerns(difference: &Difference, checker: &Checker) -> bool {
    let program = checker.rule().program();
    match difference {
        _ if is_goal(checker) && checker.reached() => false,
        _ if owes(checker) || program.depth() > 0 => true,
        Difference::Any => true,
        Difference::Fields(fields) => fields.iter().any(|field| program.reads(field)),
    }
}

fn owes(checker: &Checker) -> bool {
    matches!(
        checker.rule().property().modality,
        Modality::Eventually { .. } | Modality::Finally { .. } | Modality::LeadsTo { .. }
    )
}

fn remembers(checker: &Checker) -> bool {
    owes(checker) || checker.rule().program().depth() > 0
}

fn memory_of(checker: &Checker) -> u64 {
    let progress = checker.progress();
    let reached = checker.reached() && !is_finally(checker);
    let bounded = checker.rule().property().modality.within().is_some();
    // The time since which something is owed matters only if it has a deadline.
    let time = |point| if bounded { point } else { (0, 0) };
    let owed: Vec<_> = progress.owed.iter().map(|(b, at)| (format!("{b:?}"), time(*at))).collect();
    let past: Vec<String> = progress.past.iter().map(|state| format!("{state:?}")).collect();
    fingerprint::hash(&(progress.hot.map(time), reached, owed, past))
}

/// Names and kinds of nodes by index.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a [crate::record::NodeRecord]);

impl Names<'_> {
    /// The name and the kind of a node.
    #[must_use]
    pub fn of(&self, index: usize) -> (&str, &str) {
        self.0.get(index).map_or(("?", ""), |info| (info.name.as_str(), info.kind.as_str()))
    }
}
