//! Rules about a key that nobody binds, which a watch judges for every key; and excerpts, which are
//! judged only by what they have.

use std::collections::BTreeSet;

use everhold_property::{
    ExecutionOutcome, ExprKind, Limits, Method, Modality, Property, Rule, Scope, Shown, Span,
    Tally, Verdict, check_ordered, check_recorded,
};
use everhold_trace::{Execution, Order, Value, notes};

/// The name that stands for the key.
pub(crate) const KEY: &str = "key";

/// The relations that a property looks into under the key: `n.locks[key]`.
pub(crate) fn relations(property: &Property) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    property.body.any(&mut |expr| {
        if let ExprKind::Index(base, index) = &expr.kind
            && let (ExprKind::Field(_, relation), ExprKind::Name(name)) = (&base.kind, &index.kind)
            && name == KEY
        {
            found.insert(relation.name.clone());
        }
        false
    });
    found
}

/// Where a property names the key in brackets.
pub(crate) fn places(property: &Property) -> Vec<Span> {
    let mut found = Vec::new();
    property.body.any(&mut |expr| {
        if let ExprKind::Index(_, index) = &expr.kind
            && matches!(&index.kind, ExprKind::Name(name) if name == KEY)
        {
            found.push(index.span);
        }
        false
    });
    found
}

/// The keys of these relations in all states of an execution, or the one that it is about.
pub(crate) fn keys(execution: &Execution, relations: &BTreeSet<String>) -> BTreeSet<Value> {
    if let Some(key) = execution.notes().get(notes::KEY) {
        return BTreeSet::from([key.clone()]);
    }
    let states = execution.local_states();
    let mut found = BTreeSet::new();
    for node in execution.node_ids() {
        let mut last = None;
        for count in 0..=execution.events_of(node).len() {
            let version = states.version(node, count);
            let state = states.at(node, count).filter(|_| version != last);
            for relation in relations {
                if let Some(Value::Map(map)) = state.and_then(|state| state.get(relation)) {
                    let new: Vec<&Value> = map.keys().filter(|key| !found.contains(*key)).collect();
                    found.extend(new.into_iter().cloned());
                }
            }
            last = version;
        }
    }
    found
}

/// How executions are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) limits: Limits,
    /// Whether the recorded order is the only one.
    pub(super) recorded: bool,
}

impl How {
    /// Judges a rule on an execution; of an unknown verdict also why, where that is known.
    pub(super) fn judge(
        self,
        rule: &Rule,
        keyed: Option<&BTreeSet<String>>,
        execution: &Execution,
        order: &Order,
    ) -> (ExecutionOutcome, Option<String>) {
        if let Some(lack) = lack(rule, keyed.is_some(), execution) {
            return (nothing(), Some(lack));
        }
        let Some(relations) = keyed else { return (self.one(rule, execution, order), None) };
        let keys = keys(execution, relations);
        if keys.is_empty() {
            let names: Vec<String> = relations.iter().map(|name| format!("`{name}`")).collect();
            return (nothing(), Some(format!("no node shows a key of {}", names.join(" or "))));
        }
        (self.every_key(rule, keys, execution, order), None)
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
    ) -> ExecutionOutcome {
        let mut all: Option<ExecutionOutcome> = None;
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
            if let Some(violation) = &mut one.violation {
                let shown = Shown { text: KEY.into(), shown: key.to_string(), value: Ok(key) };
                violation.witness.bindings.insert(0, shown);
            }
            all = Some(match all {
                None => one,
                Some(before) => joined(before, one),
            });
        }
        all.unwrap_or_else(nothing)
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

/// What an excerpt lacks for a rule, so that it must not be judged: an excerpt was made for one rule
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
