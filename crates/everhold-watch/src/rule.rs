//! Rules of the property language, judged as the snapshot changes.
//!
//! - [`RuleSet`]: rules from a text, checked against what the nodes show.
//! - `keyed`: properties that speak of one key at a time.
//! - `grouped`: those that speak of the tuples that have the key as a part.
//! - `tuples`: the fast path for keyed properties over tuples of nodes.
//! - `by_present`: the other keyed ones about the present alone.
//! - `by_key`: those that look back or wait.
//! - `rows`: what the two fast forms keep of states.
//! - `judge`: judging in these, and at some moments only.
//! - `sampling`: which keys and moments are judged.
//! - `view`: the states under a key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use everhold_property::{
    Binder, Changed, Checker, Diagnostic, Domain, ExprKind, Library, Literal, Modality, Property,
    Reason, Rule, Scope, Verdict, Witness, check, explain, parse, print, print_all, render_all,
    sampling_text,
};
use everhold_trace::wire::Stamp;
use everhold_trace::{NodeId, Value};

use crate::notice::ViolationId;
use crate::world::{SlotId, Touched, World};

mod by_key;
mod by_present;
mod grouped;
mod judge;
mod keyed;
mod rows;
mod sampling;
mod save;
mod tuples;
mod view;

use by_key::ByKey;
use by_present::ByPresent;
pub use grouped::Grouping;
pub use keyed::KEY;
pub(crate) use keyed::Keyed;
use keyed::keyed;
use sampling::Moments;
pub(crate) use save::load;
use tuples::ByTuples;
use view::{KeyView, whole_under};

/// Rules that fit together: their text, and each of them compiled.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    text: String,
    rules: Vec<Compiled>,
    not_watched: Vec<NotWatched>,
}

/// A rule that is right, but that no watch can judge; the others go on without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWatched {
    /// Its name.
    pub name: String,
    /// Why, and what to do instead.
    pub reason: String,
}

/// Why a rule is not compiled.
enum Obstacle {
    /// It is a mistake.
    Wrong(String),
    /// It is right, but nothing for a watch.
    NotWatched(&'static str),
}

impl From<String> for Obstacle {
    fn from(message: String) -> Obstacle {
        Obstacle::Wrong(message)
    }
}

#[derive(Clone, Debug)]
struct Compiled {
    property: Property,
    /// Of the property as it is judged: rewritten, if it is keyed.
    rule: Rule,
    keyed: Option<Keyed>,
}

/// The tuples that a rule needs to see together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of one key.
    OneKey,
    /// Those of one key, and those that have it as a part.
    Group,
    /// All.
    AllKeys,
}

impl Compiled {
    fn reach(&self) -> Reach {
        match &self.keyed {
            None => Reach::AllKeys,
            Some(keyed) if keyed.groupings.is_empty() => Reach::OneKey,
            Some(_) => Reach::Group,
        }
    }
}

impl RuleSet {
    /// Reads rules. If one is wrong, all are refused, with a message that shows the places. Those
    /// that are right but cannot be watched are set aside.
    ///
    /// # Errors
    ///
    /// The message.
    pub fn parse(text: &str, file: &str) -> Result<RuleSet, BadRules> {
        let parsed = parse(text);
        if !parsed.diagnostics.is_empty() {
            return Err(BadRules::Wrong(render_all(&parsed.diagnostics, file, text)));
        }
        let (mut wrong, mut rules, mut not_watched) = (Vec::new(), Vec::new(), Vec::new());
        for property in parsed.properties {
            match compile(&property) {
                Ok(compiled) => rules.push(compiled),
                Err(Obstacle::Wrong(message)) => {
                    wrong.push(Diagnostic::new(property.span, message));
                }
                Err(Obstacle::NotWatched(reason)) => {
                    let reason = reason.to_owned();
                    not_watched.push(NotWatched { name: property.name, reason });
                }
            }
        }
        if wrong.is_empty() {
            Ok(RuleSet { text: text.to_owned(), rules, not_watched })
        } else {
            Err(BadRules::Wrong(render_all(&wrong, file, text)))
        }
    }

    /// The text they were read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Those that are set aside, and why.
    #[must_use]
    pub fn not_watched(&self) -> &[NotWatched] {
        &self.not_watched
    }

    /// The names of those that are judged.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.property.name.as_str())
    }

    /// The names and texts of those that are judged.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.rules.iter().map(|rule| (rule.property.name.as_str(), print(&rule.property)))
    }

    /// Those among the rules that are asked for by name and reach. The text stays that of all.
    pub(crate) fn only(&self, wanted: impl Fn(&str, Reach) -> bool) -> RuleSet {
        let is_wanted = |rule: &&Compiled| wanted(&rule.property.name, rule.reach());
        RuleSet {
            text: self.text.clone(),
            rules: self.rules.iter().filter(is_wanted).cloned().collect(),
            not_watched: self.not_watched.clone(),
        }
    }

    /// Whether the rules fit what the nodes have shown so far; nothing fits everything.
    pub(crate) fn fits(&self, world: &World, file: &str) -> Result<(), BadRules> {
        let (whole, under_key) = world.schema();
        if whole.is_empty() {
            return Ok(());
        }
        let mut wrong = Vec::new();
        for rule in &self.rules {
            let Some(keyed) = &rule.keyed else {
                wrong.extend(check(rule.rule.property(), rule.rule.library(), whole));
                continue;
            };
            let mut schema = under_key.clone();
            keyed.groupings.iter().for_each(|one| world.show_group(one, &mut schema));
            wrong.extend(check(rule.rule.property(), rule.rule.library(), &schema));
            let misread = keyed.misread(world);
            wrong.extend(misread.map(|message| Diagnostic::new(rule.property.span, message)));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(BadRules::Wrong(render_all(&wrong, file, &self.text))),
        }
    }

    /// The groups of tuples that are looked into.
    pub(crate) fn groupings(&self) -> BTreeSet<Grouping> {
        let keyed = self.rules.iter().filter_map(|rule| rule.keyed.as_ref());
        keyed.flat_map(|keyed| keyed.groupings.clone()).collect()
    }

    /// The relations that rules about groups look into under the key.
    pub(crate) fn beside_groups(&self) -> BTreeSet<String> {
        let keyed = self.rules.iter().filter_map(|rule| rule.keyed.as_ref());
        let grouped = keyed.filter(|keyed| !keyed.groupings.is_empty());
        grouped.flat_map(Keyed::under_key).map(str::to_owned).collect()
    }

    /// The variables and relations that are read as a whole.
    pub(crate) fn whole_fields(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for rule in self.rules.iter().filter(|rule| rule.keyed.is_none()) {
            names.extend(fields_of(&rule.property));
        }
        names
    }
}

/// The fields of states that a property reads.
fn fields_of(property: &Property) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    property.body.any(&mut |expr| {
        if let ExprKind::Field(_, name) = &expr.kind {
            names.insert(name.name.clone());
        }
        false
    });
    names
}

/// The variables and relations that a rule reads, with the names of its groups.
fn reads_of(compiled: &Compiled) -> BTreeSet<String> {
    let mut names = fields_of(&compiled.property);
    names.extend(compiled.keyed.iter().flat_map(|keyed| keyed.relations.iter().cloned()));
    names
}

/// The longest range of numbers that a rule may spell out; a message below names it.
const RANGE_MAX: i64 = 1_000_000;

fn compile(property: &Property) -> Result<Compiled, Obstacle> {
    if matches!(property.scope, Scope::Delivery | Scope::Chains) {
        return Err(Obstacle::NotWatched(
            "a watch judges states at one time; `on delivery` and `along chains` are judged on \
             recordings, with `everhold check`",
        ));
    }
    let unbounded = Modality::Eventually { within: None };
    if [unbounded, Modality::Finally { within: None }].contains(&property.modality) {
        return Err(Obstacle::NotWatched(
            "a running system has no end at which it could be too late; give it a bound \
             (`within 5s`), or judge it with `everhold check` and in tests",
        ));
    }
    let endless = property.body.any(&mut |expr| match &expr.kind {
        ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } => {
            over.binders.iter().any(|binder| is_endless(&binder.domain))
        }
        _ => false,
    });
    if endless {
        return Err(Obstacle::NotWatched("a range of more than 1,000,000 numbers takes too long"));
    }
    let keyed = keyed(property).transpose()?;
    if keyed.is_some() && property.scope != Scope::EveryCut {
        let message = "a property about a key is judged in every state; leave out the scope";
        return Err(message.to_owned().into());
    }
    let judged = keyed.as_ref().map_or(property, |keyed| &keyed.property);
    let rule = Rule::new(judged, &Library::new());
    if rule.counts_messages() {
        return Err(Obstacle::NotWatched(
            "a watch does not count messages in flight; `in_flight()` is judged on recordings, \
             with `everhold check`",
        ));
    }
    Ok(Compiled { property: property.clone(), rule, keyed })
}

fn is_endless(domain: &Domain) -> bool {
    let Domain::Range { from, to, .. } = domain else { return false };
    let number = |kind: &ExprKind| match kind {
        ExprKind::Literal(Literal::Int(number)) => Some(*number),
        _ => None,
    };
    let length = number(&to.kind).zip(number(&from.kind)).map(|(to, from)| to.saturating_sub(from));
    length.is_some_and(|length| length > RANGE_MAX)
}

/// A verdict that may begin or end a violation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) slot: Option<SlotId>,
    pub(crate) verdict: Verdict,
}

/// A violation that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Firing {
    pub(crate) id: ViolationId,
    pub(crate) since: Stamp,
    /// The node that fell silent, and its last stamp, if that is why the rule holds: nobody knows
    /// whether the violation is over until the node is known again, or has been away for long.
    pub(crate) waits: Option<(NodeId, Stamp)>,
}

/// How a rule has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Snapshots, or keys of snapshots, that were judged.
    pub evaluations: u64,
    /// Of these, how many could not be decided.
    pub unknown: u64,
    /// Violations that began.
    pub violations: u64,
    /// Violations that were possible, but not certain before they were over.
    pub possible: u64,
    /// Time spent, extrapolated from samples.
    pub nanos: u64,
    /// The longest evaluation that was timed.
    pub nanos_max: u64,
}

/// How a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStatus {
    /// How it has done so far.
    pub counts: RuleCounts,
    /// The number of its violations that are not over.
    pub firing: usize,
    /// Whether it was too expensive and is no longer judged.
    pub disabled: bool,
    /// The last verdict, of any key; unknown if nothing was judged since the checker started.
    pub last: Verdict,
    /// Why nobody can say at present whether it holds; `None` if it is known to hold or is violated.
    pub unknown: Option<String>,
    /// Whether that is so because nobody is left of whom it speaks, and it was seen to hold before.
    pub is_over: bool,
    /// Which part of the keys and moments is judged, in the words of the language; `None` if all is.
    pub sampled: Option<String>,
    /// Its text.
    pub text: String,
}

/// Why nobody can say whether a rule holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    reason: String,
    /// Whether nobody is there of whom the rule speaks.
    nobody: bool,
}

impl Unknown {
    pub(crate) fn because(reason: String) -> Unknown {
        Unknown { reason, nobody: false }
    }

    pub(crate) fn nobody(reason: String) -> Unknown {
        Unknown { reason, nobody: true }
    }
}

/// A rule at work in one partition.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) property: Property,
    pub(crate) counts: RuleCounts,
    pub(crate) disabled: bool,
    pub(crate) firing: BTreeMap<Option<Value>, Firing>,
    /// The variables and relations that it reads.
    pub(crate) reads: BTreeSet<String>,
    /// The kinds of nodes that it names, and whether it speaks of no others.
    kinds: (Vec<String>, bool),
    last: Verdict,
    /// Of a rule about keys, those of which nobody can say whether it holds.
    undecided: BTreeSet<SlotId>,
    keyed: Option<Keyed>,
    /// Of a rule that is judged at some moments only.
    moments: Option<Moments>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Whole(Box<Checker>),
    Tuples(Box<ByTuples>),
    Present(Box<ByPresent>),
    ByKey(Box<ByKey>),
}

impl Form {
    /// The cheapest form that a keyed rule has; `fast: false` is the twin that every rule has.
    fn keyed(rule: &Rule, keyed: &Keyed, fast: bool) -> Form {
        let tuples = ByTuples::new(rule, keyed).filter(|_| fast);
        let present = ByPresent::new(rule, keyed).filter(|_| fast);
        match (tuples, present) {
            (Some(tuples), _) => Form::Tuples(Box::new(tuples)),
            (None, Some(present)) => Form::Present(Box::new(present)),
            (None, None) => Form::ByKey(Box::new(ByKey::new(rule, keyed))),
        }
    }
}

/// One in so many cheap evaluations is timed.
const TIMED_ONE_IN: u64 = 64;

impl Watched {
    fn new(compiled: &Compiled, fast: bool) -> Watched {
        let form = match &compiled.keyed {
            None => Form::Whole(Box::new(Checker::new(&compiled.rule))),
            Some(keyed) => Form::keyed(&compiled.rule, keyed, fast),
        };
        Watched {
            name: compiled.property.name.clone(),
            property: compiled.property.clone(),
            counts: RuleCounts::default(),
            disabled: false,
            firing: BTreeMap::new(),
            reads: reads_of(compiled),
            kinds: (compiled.property.kinds(), !names_all_nodes(&compiled.property)),
            last: Verdict::Unknown,
            undecided: BTreeSet::new(),
            keyed: compiled.keyed.clone(),
            moments: Moments::of(compiled.property.sampling),
            form,
        }
    }

    /// Judges what a change touched. `fast: false` in [`Options`](crate::checker::Options) is the
    /// twin that judges every key anew.
    pub(crate) fn touch(
        &mut self,
        world: &World,
        touched: Touched,
        at: Stamp,
        judged: &mut Vec<Judged>,
    ) {
        if self.moments.is_some() {
            return self.put_off(touched, world, at);
        }
        self.timed(world, judged, |rule, judged| rule.judge(world, touched, at, judged));
    }

    /// Judges, counts and now and then measures.
    fn timed(
        &mut self,
        world: &World,
        judged: &mut Vec<Judged>,
        judge: impl FnOnce(&mut Watched, &mut Vec<Judged>),
    ) {
        let cheap = matches!(self.form, Form::Tuples(_) | Form::Present(_));
        let one_in = if cheap { TIMED_ONE_IN } else { 1 };
        let timed = self.counts.evaluations.is_multiple_of(one_in);
        let (start, before) = (timed.then(Instant::now), judged.len());
        judge(self, judged);
        // Slots are in the order of their making; what is told is in the order of keys.
        judged[before..].sort_by(|a, b| {
            let key = |judged: &Judged| judged.slot.map(|slot| &world.slot(slot).key);
            key(a).cmp(&key(b))
        });
        let new = &judged[before..];
        self.counts.evaluations += new.len() as u64;
        let unknown = new.iter().filter(|judged| judged.verdict == Verdict::Unknown).count();
        self.counts.unknown += unknown as u64;
        self.last = new.last().map_or(self.last, |judged| judged.verdict);
        for Judged { slot, verdict } in new {
            note_undecided(&mut self.undecided, *slot, *verdict);
        }
        if let Some(start) = start
            && !new.is_empty()
        {
            self.spent(start.elapsed(), one_in);
        }
    }

    fn spent(&mut self, took: Duration, one_in: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts.nanos = self.counts.nanos.saturating_add(nanos.saturating_mul(one_in));
        self.counts.nanos_max = self.counts.nanos_max.max(nanos);
    }

    fn judge(&mut self, world: &World, touched: Touched, at: Stamp, judged: &mut Vec<Judged>) {
        match &mut self.form {
            Form::Whole(checker) => {
                let changed = match touched {
                    Touched::Members(_) => Changed::All,
                    Touched::Knowledge(node) | Touched::Node(node) | Touched::Channel(node) => {
                        Changed::Node(node)
                    }
                    Touched::Cell { node, mapped: true, .. } => Changed::Node(node),
                    Touched::Cell { .. } | Touched::Nothing => return,
                };
                if !is_heard(checker, world) {
                    return judged.push(Judged { slot: None, verdict: Verdict::Unknown });
                }
                let verdict = checker.step(world, changed, nanos(at));
                forget_the_past(checker, verdict);
                judged.push(Judged { slot: None, verdict });
            }
            Form::Tuples(_) | Form::Present(_) => self.judge_cheaply(world, touched, at, judged),
            Form::ByKey(by_key) => by_key.touch(world, touched, nanos(at), judged),
        }
    }

    /// Lets time pass in which nothing changes: what is due by now is late.
    pub(crate) fn tick(&mut self, world: &World, at: Stamp, judged: &mut Vec<Judged>) {
        let before = judged.len();
        self.let_pass(world, at, judged);
        for Judged { slot, verdict } in &judged[before..] {
            note_undecided(&mut self.undecided, *slot, *verdict);
        }
    }

    fn let_pass(&mut self, world: &World, at: Stamp, judged: &mut Vec<Judged>) {
        match &mut self.form {
            Form::Whole(checker) => {
                let firing = !self.firing.is_empty();
                if checker.is_open() || firing {
                    let verdict = checker.tick(world, nanos(at));
                    forget_the_past(checker, verdict);
                    if verdict == Verdict::Violated || (firing && verdict == Verdict::Holds) {
                        judged.push(Judged { slot: None, verdict });
                    }
                }
            }
            Form::Tuples(_) | Form::Present(_) => {}
            Form::ByKey(by_key) => by_key.tick(nanos(at), judged),
        }
    }

    /// When what the rule waits for was due, if it was late at this stamp, and whether it is still owed.
    pub(crate) fn lateness(&self, slot: Option<SlotId>, at: Stamp) -> Option<(Stamp, bool)> {
        let checker = match (&self.form, slot) {
            (Form::Whole(checker), _) => checker,
            (Form::ByKey(by_key), Some(slot)) => &by_key.keys.get(&slot)?.checker,
            _ => return None,
        };
        let is_owed = checker.overdue_ns(nanos(at)).is_some();
        let overdue = match checker.violation() {
            Some(violation) => violation.overdue_ns,
            None => checker.overdue_ns(nanos(at))?,
        };
        let overdue = Stamp::from_nanos(overdue).0;
        Some((Stamp(at.0.saturating_sub(overdue)), is_owed))
    }

    /// Whether it waits for something with a bound.
    pub(crate) fn has_deadline(&self) -> bool {
        !matches!(self.property.modality, Modality::Always | Modality::Sometimes)
    }

    /// Why the rule is violated, for people.
    pub(crate) fn explain(&mut self, world: &World, slot: Option<SlotId>) -> (String, Witness) {
        let kept = match (&mut self.form, slot) {
            (Form::Whole(checker), _) => checker.take_violation(),
            (Form::ByKey(by_key), Some(slot)) => by_key.take_violation(slot),
            _ => None,
        };
        let (Some(slot), Some(keyed)) = (slot, &self.keyed) else {
            let fresh = || explain(&self.property, &Library::new(), &[world], &[]);
            return match kept {
                Some(violation) => (violation.reason.to_string(), violation.witness),
                None => (Reason::False.to_string(), fresh().unwrap_or_default()),
            };
        };
        if let Some(violation) = kept.filter(|_| self.looks_back()) {
            return (violation.reason.to_string(), violation.witness);
        }
        let key = &world.slot(slot).key;
        let mut view = KeyView::of(keyed, world, slot);
        for state in view.states.values_mut() {
            *state = whole_under(keyed, key, state);
        }
        let library = Library::new().with_constant(KEY, key.clone());
        let witness = explain(&self.property, &library, &[&view], &[]);
        (Reason::False.to_string(), witness.unwrap_or_default())
    }

    /// Whether one state does not say why the rule is violated.
    fn looks_back(&self) -> bool {
        self.property.modality != Modality::Always
            || self.property.body.any(&mut |expr| matches!(expr.kind, ExprKind::History { .. }))
    }

    /// Whether something is remembered of a key that must not be forgotten.
    pub(crate) fn needs(&self, slot: SlotId, key: &Value) -> bool {
        let waits = self.moments.as_ref().is_some_and(|moments| moments.waits(slot));
        let open = waits || matches!(&self.form, Form::ByKey(by_key) if by_key.is_busy(slot));
        open || (!self.firing.is_empty() && self.firing.contains_key(&Some(key.clone())))
    }

    pub(crate) fn forget(&mut self, slot: SlotId) {
        self.undecided.remove(&slot);
        match &mut self.form {
            Form::ByKey(by_key) => by_key.forget(slot),
            Form::Present(present) => present.forget(slot),
            Form::Whole(_) | Form::Tuples(_) => {}
        }
    }

    pub(crate) fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_ref()
    }

    /// The kinds of nodes that it names.
    pub(crate) fn kinds(&self) -> &[String] {
        &self.kinds.0
    }

    /// Whether it says something of nodes of this kind.
    pub(crate) fn speaks_of(&self, kind: &str) -> bool {
        let (kinds, are_all) = &self.kinds;
        !are_all || kinds.iter().any(|named| named == kind)
    }

    /// Why it is undecided, as far as the rule itself can say.
    pub(crate) fn why_undecided(&self, world: &World) -> Option<String> {
        if self.counts.evaluations == 0 {
            return Some("nothing was judged yet".to_owned());
        }
        if self.keyed.is_some() {
            return self.which_undecided(world);
        }
        let reason = match &self.form {
            _ if self.last != Verdict::Unknown => return None,
            Form::Whole(checker) if !is_heard(checker, world) => "no node reports messages",
            Form::Whole(checker) if checker.is_open() => WAITS,
            _ => NOT_SHOWN,
        };
        Some(reason.to_owned())
    }

    /// The keys of which it is undecided, in words.
    fn which_undecided(&self, world: &World) -> Option<String> {
        let first = *self.undecided.first()?;
        let waits = matches!(&self.form, Form::ByKey(by_key) if by_key.open.contains(&first));
        let reason = if waits { WAITS } else { NOT_SHOWN };
        let key = &world.slot(first).key;
        Some(match self.undecided.len() - 1 {
            0 => format!("of key {key}: {reason}"),
            others => format!("of key {key} and {others} more: {reason}"),
        })
    }

    pub(crate) fn status(&self, unknown: Option<Unknown>) -> RuleStatus {
        let unknown = unknown.filter(|_| self.firing.is_empty());
        let held = self.counts.evaluations > self.counts.unknown;
        RuleStatus {
            is_over: held && unknown.as_ref().is_some_and(|unknown| unknown.nobody),
            unknown: unknown.map(|unknown| unknown.reason),
            counts: self.counts,
            firing: self.firing.len(),
            disabled: self.disabled,
            last: self.last,
            sampled: Some(sampling_text(self.property.sampling)).filter(|text| !text.is_empty()),
            text: self.text(),
        }
    }

    pub(crate) fn text(&self) -> String {
        print(&self.property)
    }
}

/// Why a rule, or a key of it, is undecided.
const WAITS: &str = "what it waits for has not happened yet";
const NOT_SHOWN: &str = "something that it reads was not shown";

/// Whether a property speaks of nodes of any kind.
fn names_all_nodes(property: &Property) -> bool {
    let is_any = |binder: &Binder| matches!(binder.domain, Domain::Nodes { kind: None, .. });
    property.kinds().is_empty()
        || property.body.any(&mut |expr| match &expr.kind {
            ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } => {
                over.binders.iter().any(is_any)
            }
            _ => false,
        })
}

fn note_undecided(undecided: &mut BTreeSet<SlotId>, slot: Option<SlotId>, verdict: Verdict) {
    let Some(slot) = slot else { return };
    if verdict == Verdict::Unknown {
        undecided.insert(slot);
    } else if !undecided.is_empty() {
        undecided.remove(&slot);
    }
}

/// Whether a rule about quiet moments can be judged: somebody must report messages.
fn is_heard(checker: &Checker, world: &World) -> bool {
    checker.rule().property().scope == Scope::EveryCut || world.messages_seen
}

/// Drops the violation that a checker keeps once the rule is no longer violated. A watch that reads
/// its log again explains only violations that were not reported before, so without this the next
/// explanation would be that of a violation which ended in the meantime.
fn forget_the_past(checker: &mut Checker, verdict: Verdict) {
    if verdict != Verdict::Violated {
        checker.take_violation();
    }
}

fn nanos(at: Stamp) -> u64 {
    at.nanos().cast_unsigned()
}

/// Makes rules work; those that were at work under the same text go on.
pub(crate) fn adopt(set: &RuleSet, old: Vec<Watched>, fast: bool) -> Vec<Watched> {
    let mut old: BTreeMap<String, Watched> =
        old.into_iter().map(|rule| (rule.name.clone(), rule)).collect();
    let adopt = |compiled: &Compiled| match old.remove(&compiled.property.name) {
        Some(rule) if rule.property == compiled.property => rule,
        _ => Watched::new(compiled, fast),
    };
    set.rules.iter().map(adopt).collect()
}

/// The reason why rules are not put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRules {
    /// The text does not read, or does not fit what the nodes show. The message shows the places,
    /// each with a remedy.
    Wrong(String),
    /// A rule that is to be removed is not in force.
    NoRule(String),
    /// A change of the rules that is not in the form of a change.
    NotAChange(String),
    /// The log did not take the rules.
    NotWritten(String),
    /// The rules are in the log, but the checkers have not put them in force in time.
    Late,
}

impl fmt::Display for BadRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRules::Wrong(message)
            | BadRules::NotWritten(message)
            | BadRules::NotAChange(message) => f.write_str(message),
            BadRules::NoRule(name) => write!(f, "no rule is called \"{name}\""),
            BadRules::Late => f.write_str(
                "the rules are in the log, but checkers have not come to them yet; see the lag in \
                 the status",
            ),
        }
    }
}

impl std::error::Error for BadRules {}

/// The text of rules after a change: some removed, and those of another text added in place of those
/// with the same names.
///
/// # Errors
///
/// If a rule to be removed is not there, or the other text does not read.
pub fn edited(text: &str, remove: &[String], add: &str) -> Result<String, BadRules> {
    let mut properties = parse(text).properties;
    for name in remove {
        let before = properties.len();
        properties.retain(|property| property.name != *name);
        if properties.len() == before {
            return Err(BadRules::NoRule(name.clone()));
        }
    }
    if add.is_empty() {
        return Ok(print_all(&properties));
    }
    let more = parse(add);
    if !more.diagnostics.is_empty() {
        return Err(BadRules::Wrong(render_all(&more.diagnostics, "rules", add)));
    }
    for new in &more.properties {
        properties.retain(|old| old.name != new.name);
    }
    Ok(format!("{}\n{add}", print_all(&properties)))
}
