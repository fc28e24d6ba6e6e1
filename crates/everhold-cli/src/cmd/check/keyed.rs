//! Rules about a key that nobody binds, which a watch judges for every key; and excerpts, which are
//! judged only by what they have.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{
    ExecutionOutcome, Expr, ExprKind, Limits, Method, Modality, Property, Rule, Scope, Shown, Span,
    Tally, Untested, Verdict, check_ordered, check_recorded, untested,
};
use everhold_trace::{Execution, Order, Value, notes};
use everhold_watch::rule::Grouping;

pub(crate) use everhold_watch::rule::KEY;

/// Where a property about a key finds its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed {
    /// The relations that it looks into under the key: `n.locks[key]`.
    relations: BTreeSet<String>,
    /// Those of whose tuples a part is the key.
    groupings: BTreeSet<Grouping>,
}

impl Keyed {
    /// `None` if the property does not speak of a key.
    pub(crate) fn of(property: &Property) -> Option<Keyed> {
        let mut relations = BTreeSet::new();
        property.body.any(&mut |expr| {
            if let ExprKind::Index(base, index) = &expr.kind
                && let (ExprKind::Field(_, relation), ExprKind::Name(name)) =
                    (&base.kind, &index.kind)
                && name == KEY
            {
                relations.insert(relation.name.clone());
            }
            false
        });
        let keyed = Keyed { relations, groupings: Grouping::of(property) };
        let speaks = !keyed.relations.is_empty() || !keyed.groupings.is_empty();
        speaks.then_some(keyed)
    }

    /// The relations of which a state may show keys.
    fn names(&self) -> BTreeSet<&str> {
        let grouped = self.groupings.iter().map(Grouping::relation);
        self.relations.iter().map(String::as_str).chain(grouped).collect()
    }

    /// The keys of these relations in all states of an execution, or the one that it is about.
    pub(crate) fn keys(&self, execution: &Execution) -> BTreeSet<Value> {
        if let Some(key) = execution.notes().get(notes::KEY) {
            return BTreeSet::from([key.clone()]);
        }
        let states = execution.local_states();
        let mut found = BTreeSet::new();
        for node in execution.node_ids() {
            let mut last = None;
            for count in 0..=execution.events_of(node).len() {
                let version = states.version(node, count);
                if let Some(state) = states.at(node, count).filter(|_| version != last) {
                    self.keys_of(state, &mut found);
                }
                last = version;
            }
        }
        found
    }

    fn keys_of(&self, state: &Value, found: &mut BTreeSet<Value>) {
        let map = |relation: &str| match state.get(relation) {
            Some(Value::Map(map)) => Some(map),
            _ => None,
        };
        let keys =
            self.relations.iter().filter_map(|relation| map(relation)).flat_map(BTreeMap::keys);
        let groups = self.groupings.iter().flat_map(|grouping| {
            let tuples = map(grouping.relation()).into_iter().flatten();
            tuples.filter_map(|(key, value)| grouping.group(key, value))
        });
        let new: Vec<&Value> = keys.chain(groups).filter(|key| !found.contains(*key)).collect();
        found.extend(new.into_iter().cloned());
    }
}

/// Where a property names the key in brackets, or compares something with it.
pub(crate) fn places(property: &Property) -> Vec<Span> {
    let is_key = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name == KEY);
    let mut found = Vec::new();
    property.body.any(&mut |expr| {
        match &expr.kind {
            ExprKind::Index(_, index) if is_key(index) => found.push(index.span),
            ExprKind::Binary(_, a, b) if is_key(a) || is_key(b) => {
                found.extend([expr.span, a.span, b.span]);
            }
            _ => {}
        }
        false
    });
    found
}

/// How executions are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) limits: Limits,
    /// Whether the recorded order is the only one.
    pub(super) recorded: bool,
}

/// What is known after judging a rule on an execution.
#[derive(Debug)]
pub(super) struct Verdicts {
    pub(super) outcome: ExecutionOutcome,
    /// Of an unknown verdict why, where that is known.
    pub(super) lack: Option<String>,
    /// Why it holds although nothing put it to the test; with keys, of the first one, if that is so of
    /// all.
    pub(super) untested: Option<Untested>,
}

impl Verdicts {
    fn none(lack: String) -> Verdicts {
        Verdicts { outcome: nothing(), lack: Some(lack), untested: None }
    }
}

impl How {
    /// Judges a rule on an execution.
    pub(super) fn judge(
        self,
        rule: &Rule,
        keyed: Option<&Keyed>,
        execution: &Execution,
        order: &Order,
    ) -> Verdicts {
        if let Some(lack) = lack(rule, keyed.is_some(), execution) {
            return Verdicts::none(lack);
        }
        let Some(keyed) = keyed else {
            let outcome = self.one(rule, execution, order);
            let untested = untested(rule, execution, order, &outcome);
            return Verdicts { outcome, lack: None, untested };
        };
        let keys = keyed.keys(execution);
        if keys.is_empty() {
            let names: Vec<String> = keyed.names().iter().map(|name| format!("`{name}`")).collect();
            return Verdicts::none(format!("no node shows a key of {}", names.join(" or ")));
        }
        self.every_key(rule, keys, execution, order)
    }

    fn one(self, rule: &Rule, execution: &Execution, order: &Order) -> ExecutionOutcome {
        let noted = execution.notes().get(notes::ORDER).and_then(Value::as_text);
        if self.recorded || noted == Some("recorded") {
            check_recorded(rule, execution, order)
        } else {
            check_ordered(rule, execution, order, self.limits)
        }
    }

    /// The claim is made of every key: the worst verdict counts, and the first violation is shown.
    fn every_key(
        self,
        rule: &Rule,
        keys: BTreeSet<Value>,
        execution: &Execution,
        order: &Order,
    ) -> Verdicts {
        let mut all: Option<ExecutionOutcome> = None;
        // The reason for the first key, as long as no key puts the rule to the test.
        let mut idle: Option<Option<Untested>> = None;
        let mut left = self.limits.cases_max;
        let each = (execution.events().len() as u64).max(1);
        for key in keys {
            if left < each {
                let reached = all.get_or_insert_with(nothing);
                reached.bound = Some(self.limits.cases_max);
                reached.verdict = reached.verdict.min(Verdict::Unknown);
                break;
            }
            left -= each;
            let library = rule.library().clone().with_constant(KEY, key.clone());
            let rule = Rule::new(rule.property(), &library);
            let mut one = self.one(&rule, execution, order);
            if !matches!(idle, Some(None)) {
                let own = untested(&rule, execution, order, &one);
                idle = Some(own.map(|own| idle.flatten().unwrap_or(own)));
            }
            if let Some(violation) = &mut one.violation {
                let shown = Shown { text: KEY.into(), shown: key.to_string(), value: Ok(key) };
                violation.witness.bindings.insert(0, shown);
            }
            all = Some(match all {
                None => one,
                Some(before) => joined(before, one),
            });
        }
        let outcome = all.unwrap_or_else(nothing);
        Verdicts { outcome, lack: None, untested: idle.flatten() }
    }
}

fn joined(mut all: ExecutionOutcome, one: ExecutionOutcome) -> ExecutionOutcome {
    all.verdict = all.verdict.min(one.verdict);
    all.tally.holds += one.tally.holds;
    all.tally.violated += one.tally.violated;
    all.tally.unknown += one.tally.unknown;
    all.tally.skipped += one.tally.skipped;
    all.bound = all.bound.or(one.bound);
    let is_earlier = match (&all.violation, &one.violation) {
        (Some(old), Some(new)) => new.event < old.event,
        (None, new) => new.is_some(),
        (Some(_), None) => false,
    };
    if is_earlier {
        all.violation = one.violation;
    }
    all
}

/// Nothing was judged.
fn nothing() -> ExecutionOutcome {
    ExecutionOutcome {
        verdict: Verdict::Unknown,
        method: Method::RecordedOrder,
        tally: Tally::default(),
        bound: None,
        violation: None,
    }
}

/// The data that an excerpt lacks for a rule, so that it must not be judged: an excerpt was made for one rule
/// and has what that one reads.
fn lack(rule: &Rule, is_keyed: bool, execution: &Execution) -> Option<String> {
    let notes = execution.notes();
    let Some(Value::List(partial)) = notes.get(notes::PARTIAL) else { return None };
    let property = rule.property();
    if notes.get(notes::PROPERTY).and_then(Value::as_text) == Some(property.name.as_str()) {
        return None;
    }
    let is_partial = |name: &str| partial.iter().any(|other| other.as_text() == Some(name));
    let has_key = is_keyed && notes.contains_key(notes::KEY);
    let mut lacking = None;
    property.body.any(&mut |expr| {
        if let ExprKind::Field(_, name) = &expr.kind
            && !has_key
            && is_partial(&name.name)
        {
            lacking = Some(name.name.clone());
        }
        lacking.is_some()
    });
    if let Some(relation) = lacking {
        return Some(format!(
            "it is the evidence of another rule, and has not all of `{relation}`"
        ));
    }
    if matches!(property.scope, Scope::Quiet | Scope::AllQuiet) || rule.counts_messages() {
        return Some("it is the evidence of another rule, without messages".to_owned());
    }
    let begins = matches!(property.modality, Modality::Eventually { .. });
    begins.then(|| "it is the evidence of another rule, without the beginning".to_owned())
}
