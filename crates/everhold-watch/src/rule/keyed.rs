//! Properties that speak of one key at a time.
//!
//! `n.locks[key]`, where `key` is bound by nobody, makes a property *keyed*: it is claimed of every
//! key. Each key is judged by itself, over states that hold only what is said of it; so a change
//! costs what its own key costs, and keys can be spread over checkers. For that the property is
//! rewritten: `n.locks[key]` becomes `n.locks` of the state under the key.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{
    BinaryOp, Binder, Domain, Expr, ExprKind, Ident, Over, Property, Sampling, Share,
};
use everhold_trace::Value;

use super::grouped::{Grouped, Grouping};
use super::sampling::is_in;
use crate::world::{SlotId, World};

/// The name that stands for the key.
pub const KEY: &str = "key";

/// A property about one key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    /// Over the states under the key.
    pub(crate) property: Property,
    /// The relations that it looks into under the key, and the names of its groups.
    pub(crate) relations: BTreeSet<String>,
    /// The groups of tuples that it looks into.
    pub(crate) groupings: BTreeSet<Grouping>,
    /// The names of these.
    groups: BTreeSet<String>,
    /// The variables of nodes that it reads besides.
    pub(crate) variables: BTreeSet<String>,
    /// Which share of the keys is judged.
    share: Option<Share>,
}

/// A group without tuples.
static EMPTY: Value = Value::Map(BTreeMap::new());

impl Keyed {
    /// Whether the property is judged for a key: of keys of other relations it says nothing.
    pub(super) fn takes(&self, world: &World, slot: SlotId) -> bool {
        let key = &world.slot(slot).key;
        is_in(self.share, key) && world.is_own(key) && world.has_heard(slot, &self.relations)
    }

    /// The value of a relation as the property sees it: the map of a group is there if it is empty.
    pub(super) fn shown<'v>(&self, relation: &str, value: &'v Value) -> &'v Value {
        let is_empty = *value == Value::Null && self.groups.contains(relation);
        if is_empty { &EMPTY } else { value }
    }

    /// The relation of the nodes that a name stands for, and whether it is a group of tuples.
    pub(super) fn relation_of<'n>(&'n self, name: &'n str) -> (&'n str, bool) {
        let is_named = |grouping: &&Grouping| grouping.to_string() == name;
        match self.groupings.iter().find(is_named) {
            Some(grouping) => (grouping.relation(), true),
            None => (name, false),
        }
    }

    /// Why it cannot be judged, for each relation that it reads as if it were a variable.
    pub(crate) fn misread(&self, world: &World) -> impl Iterator<Item = String> {
        let is_relation = |name: &&String| world.is_relation(name);
        self.variables.iter().filter(is_relation).map(|name| {
            format!(
                "`{name}` is a relation: a rule about a key sees its tuples as `n.{name}[{KEY}]`, or \
                 those of which a part is the key, as `k -> v in n.{name} where v.part == {KEY}`"
            )
        })
    }

    /// The relations of the nodes that it looks into under the key.
    pub(crate) fn under_key(&self) -> impl Iterator<Item = &str> {
        self.relations.difference(&self.groups).map(String::as_str)
    }

    /// The relations of the nodes that it reads.
    pub(crate) fn told(&self) -> impl Iterator<Item = &str> {
        self.under_key().chain(self.groupings.iter().map(Grouping::relation))
    }
}

pub(super) fn is_key(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name == KEY)
}

/// Rewrites a keyed property; `None` if it does not mention the key.
pub(crate) fn keyed(property: &Property) -> Option<Result<Keyed, String>> {
    if !property.body.any(&mut |expr| is_key(expr)) {
        return None;
    }
    let mut rewriter = Rewriter::default();
    let body = rewriter.expr(&property.body);
    let Rewriter { mut relations, groupings, .. } = rewriter;
    let groups: BTreeSet<String> = groupings.iter().map(Grouping::to_string).collect();
    relations.extend(groups.iter().cloned());
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
            "`{KEY}` may only stand in brackets after a relation, as in `n.locks[{KEY}]`, or be \
             compared after `where` with a part of a tuple, as in \
             `j -> job in n.jobs where job.worker == {KEY}`"
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
    Some(Ok(Keyed { property, relations, groupings, groups, variables, share }))
}

/// Replaces `base.relation[key]` by `base.relation`, and notes the relations; relations of which a group
/// is asked for are replaced by the group.
#[derive(Default)]
struct Rewriter {
    relations: BTreeSet<String>,
    groupings: BTreeSet<Grouping>,
    /// The relations that are replaced at present.
    replaced: Vec<Replaced>,
}

/// Below a binder of the name `by`, `base.relation[by]` is a tuple of a group.
#[derive(Clone)]
struct Replaced {
    base: Expr,
    relation: String,
    by: String,
    group: String,
}

impl Replaced {
    /// Whether another binder of this name hides it.
    fn is_hidden(&self, name: &str) -> bool {
        let is_named = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(other) if other == name);
        self.by == name || self.base.any(&mut |expr| is_named(expr))
    }
}

impl Rewriter {
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
            ExprKind::Quantified { quantifier, over, body } => {
                let before = self.replaced.clone();
                let (over, body) = (self.over(over), self.boxed(body));
                self.replaced = before;
                ExprKind::Quantified { quantifier: *quantifier, over, body }
            }
            ExprKind::Aggregate { op, over, body } => {
                let before = self.replaced.clone();
                let over = self.over(over);
                let body = body.as_ref().map(|body| self.boxed(body));
                self.replaced = before;
                ExprKind::Aggregate { op: *op, over, body }
            }
            flat @ (ExprKind::Hole | ExprKind::Literal(_) | ExprKind::Name(_)) => flat.clone(),
        }
    }

    fn index(&mut self, base: &Expr, index: &Expr) -> ExprKind {
        match (&base.kind, &index.kind) {
            (ExprKind::Field(node, field), ExprKind::Name(name)) if name == KEY => {
                self.relations.insert(field.name.clone());
                ExprKind::Field(self.boxed(node), field.clone())
            }
            (ExprKind::Field(node, field), ExprKind::Name(name)) => {
                let is_it = |one: &&Replaced| {
                    one.by == *name && one.relation == field.name && one.base == **node
                };
                let group = self.replaced.iter().rev().find(is_it).map(|one| one.group.clone());
                let name =
                    group.map_or_else(|| field.clone(), |name| Ident { name, ..field.clone() });
                let kind = ExprKind::Field(self.boxed(node), name);
                ExprKind::Index(Box::new(Expr { kind, span: base.span }), self.boxed(index))
            }
            _ => ExprKind::Index(self.boxed(base), self.boxed(index)),
        }
    }

    fn over(&mut self, over: &Over) -> Over {
        let Some(Grouped { binders, groupings, guards }) = Grouped::of(over) else {
            let binders = over.binders.iter().map(|binder| self.binder(binder, None)).collect();
            return Over { binders, guard: over.guard.as_ref().map(|guard| self.boxed(guard)) };
        };
        let each = binders.iter().zip(&groupings);
        let binders = each.map(|(binder, grouping)| self.binder(binder, grouping.as_ref()));
        let binders = binders.collect();
        let guards = guards.into_iter().map(|guard| self.expr(guard));
        let guard = guards.reduce(|a, b| {
            let span = a.span;
            Expr { kind: ExprKind::Binary(BinaryOp::And, Box::new(a), Box::new(b)), span }
        });
        Over { binders, guard: guard.map(Box::new) }
    }

    /// A relation of which a group is asked for is replaced, here and wherever a tuple of it is read.
    fn binder(&mut self, binder: &Binder, grouping: Option<&Grouping>) -> Binder {
        let pattern = binder.pattern.clone();
        let domain = self.domain(&binder.domain);
        let names: Vec<&str> = pattern.idents().iter().map(|name| name.name.as_str()).collect();
        self.replaced.retain(|one| !names.iter().any(|name| one.is_hidden(name)));
        let (Domain::Values(values), Some(grouping)) = (&binder.domain, grouping) else {
            return Binder { pattern, domain };
        };
        let ExprKind::Field(base, relation) = &values.kind else {
            return Binder { pattern, domain };
        };
        let group = grouping.to_string();
        let name = Ident { name: group.clone(), ..relation.clone() };
        let kind = ExprKind::Field(self.boxed(base), name);
        let (base, relation) = (Expr::clone(base), relation.name.clone());
        self.replaced.push(Replaced { base, relation, by: names[0].to_owned(), group });
        self.groupings.insert(grouping.clone());
        let domain = Domain::Values(Box::new(Expr { kind, span: values.span }));
        Binder { pattern, domain }
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
