//! Tuples by a part of them.
//!
//! `j -> job in n.jobs where job.worker == key` asks for the tuples of `jobs` that have the key as a part,
//! here as `worker`, whatever keys of their own they have. In D3S's terms, a stage maps each tuple to
//! that part, and the next stage has one instance for each value of it (sections 2.3 and 2.4). The
//! rule is rewritten: the tuples of one group are a map of their own, which a node has under the key.

use std::collections::BTreeSet;
use std::fmt;

use everhold_property::{
    BinaryOp, Binder, Domain, Expr, ExprKind, Literal, Over, Pattern, Property,
};
use everhold_trace::Value;

use super::keyed::is_key;

/// By which part the tuples of a relation are grouped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grouping {
    relation: String,
    /// Whether it is a part of the value, or of the key.
    of_value: bool,
    /// The way from there to the part.
    path: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    At(Value),
}

/// The name of the map that has the tuples of one group; no relation of a node is called so.
impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = if self.of_value { "value" } else { "key" };
        write!(f, "{} by {root}", self.relation)?;
        self.path.iter().try_for_each(|step| match step {
            Step::Field(name) => write!(f, ".{name}"),
            Step::At(index) => write!(f, "[{index}]"),
        })
    }
}

impl Grouping {
    /// The relation whose tuples are grouped.
    #[must_use]
    pub fn relation(&self) -> &str {
        &self.relation
    }

    /// The group of a tuple; `None` if it lacks that part.
    #[must_use]
    pub fn group<'v>(&self, key: &'v Value, value: &'v Value) -> Option<&'v Value> {
        let root = if self.of_value { value } else { key };
        let found = self.path.iter().try_fold(root, |value, step| step.of(value));
        found.filter(|group| **group != Value::Null)
    }

    /// The groupings in a property about a key.
    #[must_use]
    pub fn of(property: &Property) -> BTreeSet<Grouping> {
        let mut found = BTreeSet::new();
        property.body.any(&mut |expr| {
            if let ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } = &expr.kind
            {
                found.extend(Grouped::of(over).into_iter().flat_map(|grouped| grouped.groupings));
            }
            false
        });
        found.into_iter().flatten().collect()
    }

    /// The grouping that makes `part` the key, if `part` is one of a tuple that the binder binds.
    fn by(part: &Expr, binder: &Binder) -> Option<Grouping> {
        let Domain::Values(domain) = &binder.domain else { return None };
        let ExprKind::Field(_, relation) = &domain.kind else { return None };
        let mut path = Vec::new();
        let mut at = part;
        let of_value = loop {
            let is_value = match &binder.pattern {
                Pattern::Entry(_, value) => is_name(at, &value.name),
                Pattern::Names(names) => is_tuple(at, domain, &names.first()?.name),
            };
            let key = binder.pattern.idents().first().map(|key| key.name.as_str());
            match &at.kind {
                _ if is_value => break true,
                _ if key.is_some_and(|key| is_name(at, key)) => break false,
                ExprKind::Field(base, field) => {
                    path.push(Step::Field(field.name.clone()));
                    at = base;
                }
                ExprKind::Index(base, index) => {
                    path.push(Step::At(literal(index)?));
                    at = base;
                }
                _ => return None,
            }
        };
        path.reverse();
        Some(Grouping { relation: relation.name.clone(), of_value, path })
    }
}

impl Step {
    /// The same as the language has it.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Step::Field(name), Value::Variant { name: variant, payload }) => {
                if variant == name {
                    Some(payload)
                } else {
                    payload.get(name)
                }
            }
            (Step::Field(name), Value::Map(entries)) => entries.get(&Value::from(name.as_str())),
            (Step::Field(name), _) => value.get(name),
            (Step::At(index), Value::Variant { payload, .. }) => {
                Step::At(index.clone()).of_list(payload)
            }
            (Step::At(_), _) => self.of_list(value),
        }
    }

    fn of_list<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let Step::At(index) = self else { return None };
        match (value, index) {
            (Value::List(items), Value::Int(at)) => items.get(usize::try_from(*at).ok()?),
            (Value::Map(entries), index) => entries.get(index),
            (Value::Record(fields), Value::Text(name)) => fields.get(name),
            _ => None,
        }
    }
}

/// The binders of a quantifier some of which are asked for a group.
pub(super) struct Grouped<'e> {
    /// One binder for each variable, so that each can have a group of its own.
    pub(super) binders: Vec<Binder>,
    /// Of each binder.
    pub(super) groupings: Vec<Option<Grouping>>,
    /// The rest of the guard.
    pub(super) guards: Vec<&'e Expr>,
}

impl<'e> Grouped<'e> {
    /// `None` if no binder is asked for a group.
    pub(super) fn of(over: &'e Over) -> Option<Grouped<'e>> {
        let guard = over.guard.as_ref()?;
        let mut guards = Vec::new();
        conjuncts(guard, &mut guards);
        if !guards.iter().any(|guard| compared(guard).is_some()) {
            return None;
        }
        let binders: Vec<Binder> = over.binders.iter().flat_map(one_by_one).collect();
        let mut groupings: Vec<Option<Grouping>> = vec![None; binders.len()];
        guards.retain(|guard| {
            let Some(part) = compared(guard) else { return true };
            let mut places = binders.iter().zip(&mut groupings);
            let found = places.find_map(|(binder, place)| {
                let grouping = place.is_none().then(|| Grouping::by(part, binder)).flatten()?;
                *place = Some(grouping);
                Some(())
            });
            found.is_none()
        });
        groupings.iter().any(Option::is_some).then_some(Grouped { binders, groupings, guards })
    }
}

/// `a, b in xs` as `a in xs, b in xs`.
fn one_by_one(binder: &Binder) -> Vec<Binder> {
    match (&binder.pattern, &binder.domain) {
        (Pattern::Names(names), Domain::Values(_)) => {
            let one = |name: &everhold_property::Ident| Binder {
                pattern: Pattern::Names(vec![name.clone()]),
                domain: binder.domain.clone(),
            };
            names.iter().map(one).collect()
        }
        _ => vec![binder.clone()],
    }
}

fn conjuncts<'e>(expr: &'e Expr, found: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::And, a, b) => {
            conjuncts(a, found);
            conjuncts(b, found);
        }
        _ => found.push(expr),
    }
}

/// The other side of a comparison with the key.
fn compared(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::Eq, a, b) if is_key(a) => Some(b),
        ExprKind::Binary(BinaryOp::Eq, a, b) if is_key(b) => Some(a),
        _ => None,
    }
}

fn is_name(expr: &Expr, wanted: &str) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name == wanted)
}

/// Whether it is the value of a tuple: `n.jobs[k]`.
fn is_tuple(expr: &Expr, domain: &Expr, key: &str) -> bool {
    matches!(&expr.kind, ExprKind::Index(base, index) if **base == *domain && is_name(index, key))
}

fn literal(expr: &Expr) -> Option<Value> {
    match &expr.kind {
        ExprKind::Literal(Literal::Int(number)) => Some(Value::Int(*number)),
        ExprKind::Literal(Literal::Text(text)) => Some(Value::from(text.as_str())),
        _ => None,
    }
}
