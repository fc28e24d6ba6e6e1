//! Properties that speak of one key at a time.
//!
//! `n.locks[key]`, where `key` is bound by nobody, makes a property *keyed*: it is claimed of every
//! key. Each key is judged by itself, over states that hold only what is said of it; so a change
//! costs what its own key costs, and keys can be spread over checkers. For that the property is
//! rewritten: `n.locks[key]` becomes `n.locks` of the state under the key.

use std::collections::BTreeSet;

use everhold_property::{Binder, Domain, Expr, ExprKind, Over, Property, Sampling, Share};
use everhold_trace::Value;

use super::sampling::is_in;

/// The name that stands for the key.
pub const KEY: &str = "key";

/// A property about one key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    /// Over the states under the key.
    pub(crate) property: Property,
    /// The relations that it looks into under the key.
    pub(crate) relations: BTreeSet<String>,
    /// The variables of nodes that it reads besides.
    pub(crate) variables: BTreeSet<String>,
    /// Which share of the keys is judged.
    share: Option<Share>,
}

impl Keyed {
    /// Whether the property is judged for a key.
    pub(super) fn takes(&self, key: &Value) -> bool {
        is_in(self.share, key)
    }
}

/// Rewrites a keyed property; `None` if it does not mention the key.
pub(crate) fn keyed(property: &Property) -> Option<Result<Keyed, String>> {
    let is_key = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name == KEY);
    if !property.body.any(&mut |expr| is_key(expr)) {
        return None;
    }
    let mut relations = BTreeSet::new();
    let body = Rewriter { relations: &mut relations }.expr(&property.body);
    let mut variables = BTreeSet::new();
    body.any(&mut |expr| {
        if let ExprKind::Field(_, name) = &expr.kind
            && !relations.contains(&name.name)
        {
            variables.insert(name.name.clone());
        }
        false
    });
    if body.any(&mut |expr| is_key(expr)) {
        return Some(Err(format!(
            "`{KEY}` may only stand in brackets after a relation, as in `n.locks[{KEY}]`"
        )));
    }
    let whole = body.any(
        &mut |expr| matches!(&expr.kind, ExprKind::Call(function, _) if function.name == "state"),
    );
    if whole {
        return Some(Err("`state(n)` cannot be asked for under a key".to_owned()));
    }
    let share = property.sampling.keys;
    let property = Property { body, sampling: Sampling::default(), ..property.clone() };
    Some(Ok(Keyed { property, relations, variables, share }))
}

/// Replaces `base.relation[key]` by `base.relation`, and notes the relations.
struct Rewriter<'a> {
    relations: &'a mut BTreeSet<String>,
}

impl Rewriter<'_> {
    fn boxed(&mut self, expr: &Expr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn all(&mut self, items: &[Expr]) -> Vec<Expr> {
        items.iter().map(|item| self.expr(item)).collect()
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        Expr { kind: self.kind(&expr.kind), span: expr.span }
    }

    fn kind(&mut self, kind: &ExprKind) -> ExprKind {
        match kind {
            ExprKind::Index(base, index) => self.index(base, index),
            ExprKind::Field(base, field) => ExprKind::Field(self.boxed(base), field.clone()),
            ExprKind::Is(base, name) => ExprKind::Is(self.boxed(base), name.clone()),
            ExprKind::Unary(op, base) => ExprKind::Unary(*op, self.boxed(base)),
            ExprKind::History { op, steps, body } => {
                ExprKind::History { op: *op, steps: *steps, body: self.boxed(body) }
            }
            ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, self.boxed(a), self.boxed(b)),
            ExprKind::LeadsTo(a, b) => ExprKind::LeadsTo(self.boxed(a), self.boxed(b)),
            ExprKind::Call(name, items) => ExprKind::Call(name.clone(), self.all(items)),
            ExprKind::List(items) => ExprKind::List(self.all(items)),
            ExprKind::Set(items) => ExprKind::Set(self.all(items)),
            ExprKind::Map(entries) => ExprKind::Map(
                entries.iter().map(|(key, value)| (self.expr(key), self.expr(value))).collect(),
            ),
            ExprKind::Record(fields) => ExprKind::Record(
                fields.iter().map(|(name, value)| (name.clone(), self.expr(value))).collect(),
            ),
            ExprKind::Quantified { quantifier, over, body } => ExprKind::Quantified {
                quantifier: *quantifier,
                over: self.over(over),
                body: self.boxed(body),
            },
            ExprKind::Aggregate { op, over, body } => ExprKind::Aggregate {
                op: *op,
                over: self.over(over),
                body: body.as_ref().map(|body| self.boxed(body)),
            },
            flat @ (ExprKind::Hole | ExprKind::Literal(_) | ExprKind::Name(_)) => flat.clone(),
        }
    }

    fn index(&mut self, base: &Expr, index: &Expr) -> ExprKind {
        match (&base.kind, &index.kind) {
            (ExprKind::Field(node, field), ExprKind::Name(name)) if name == KEY => {
                self.relations.insert(field.name.clone());
                ExprKind::Field(self.boxed(node), field.clone())
            }
            _ => ExprKind::Index(self.boxed(base), self.boxed(index)),
        }
    }

    fn over(&mut self, over: &Over) -> Over {
        let binders = over.binders.iter().map(|binder| Binder {
            pattern: binder.pattern.clone(),
            domain: self.domain(&binder.domain),
        });
        let binders = binders.collect();
        Over { binders, guard: over.guard.as_ref().map(|guard| self.boxed(guard)) }
    }

    fn domain(&mut self, domain: &Domain) -> Domain {
        match domain {
            Domain::Values(values) => Domain::Values(self.boxed(values)),
            Domain::Range { from, to, inclusive } => {
                Domain::Range { from: self.boxed(from), to: self.boxed(to), inclusive: *inclusive }
            }
            nodes @ Domain::Nodes { .. } => nodes.clone(),
        }
    }
}
