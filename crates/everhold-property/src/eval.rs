//! The meaning of a property: the plain evaluator.
//!
//! It walks the tree and looks names up; nothing is cached. It is meant to be slow and obvious: the
//! compiled evaluator is tested against it, and the values shown to people are computed by it.

use everhold_trace::{NodeId, Value};

use crate::ast::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, History, Literal, Over, Pattern, Property,
    Quantifier, Scope, UnaryOp,
};
use crate::library::{Builtin, Library, NodeFact, fold};
use crate::ops;
use crate::state::State;
use crate::verdict::{Unknown, Verdict};

/// A truth value, or the reason why it is unknown.
pub(crate) type Judged = Result<bool, Unknown>;

/// Variables and their values, the innermost last.
pub(crate) type Bindings = Vec<(String, Value)>;

/// Judges a property in the last state of `history`, which lists the states so far, the oldest
/// first.
///
/// Returns `None` if the scope of the property excludes that state: messages are in flight, or the
/// body is not about a single state (`leads to`). Under `on delivery` the bindings are `sender` and
/// `receiver`; otherwise there are none.
///
/// ```
/// use everhold_property::{Library, Snapshot, Value, Verdict, evaluate, parse};
/// let property = &parse(r#"always "p": forall n in nodes: n.x > 0"#).properties[0];
/// let mut state = Snapshot::default();
/// let n = state.add("n0", "server");
/// assert_eq!(evaluate(property, &Library::new(), &[&state], &[]), Some(Verdict::Unknown));
/// state.set(n, Value::record([("x", 1)]));
/// assert_eq!(evaluate(property, &Library::new(), &[&state], &[]), Some(Verdict::Holds));
/// ```
#[must_use]
pub fn evaluate(
    property: &Property,
    library: &Library,
    history: &[&dyn State],
    bindings: &[(String, Value)],
) -> Option<Verdict> {
    let mut plain = Plain::new(library, history, bindings.to_vec());
    plain.judge_property(property).map(verdict)
}

/// The value of an expression in the last state of `history`.
pub fn evaluate_expr(
    expr: &Expr,
    library: &Library,
    history: &[&dyn State],
    bindings: &[(String, Value)],
) -> Result<Value, Unknown> {
    Plain::new(library, history, bindings.to_vec()).eval(expr)
}

pub(crate) fn verdict(judged: Judged) -> Verdict {
    judged.map_or(Verdict::Unknown, Verdict::from)
}

/// One variable, or a key and a value.
pub(crate) enum Bound<'a> {
    One(&'a str),
    Entry(&'a str, &'a str),
}

/// The binders with one domain for each variable: `a, b in nodes` is two loops.
pub(crate) fn loops(over: &Over) -> Vec<(Bound<'_>, &Domain)> {
    over.binders.iter().flat_map(binder_loops).collect()
}

fn binder_loops(binder: &Binder) -> Vec<(Bound<'_>, &Domain)> {
    match &binder.pattern {
        Pattern::Names(names) => {
            names.iter().map(|name| (Bound::One(&name.name), &binder.domain)).collect()
        }
        Pattern::Entry(key, value) => {
            vec![(Bound::Entry(&key.name, &value.name), &binder.domain)]
        }
    }
}

/// Whether `when quiet` concerns only the nodes that are bound by the outermost chain of `forall`.
/// A quantifier over nodes elsewhere in the body makes it concern all nodes.
pub(crate) fn is_local(body: &Expr) -> bool {
    fn chain(expr: &Expr, bound: bool) -> bool {
        match &expr.kind {
            ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
                let nodes = |binder: &Binder| matches!(binder.domain, Domain::Nodes { .. });
                let guard = over.guard.as_ref().is_none_or(|guard| !mentions_all(guard));
                guard && chain(body, bound || over.binders.iter().any(nodes))
            }
            _ => bound && !mentions_all(expr),
        }
    }
    chain(body, false)
}

pub(crate) fn mentions_all(expr: &Expr) -> bool {
    expr.any(&mut |expr| match &expr.kind {
        ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } => {
            over.binders.iter().any(|binder| matches!(binder.domain, Domain::Nodes { .. }))
        }
        _ => false,
    })
}

pub(crate) fn all_quiet(state: &dyn State) -> bool {
    let ids = || state.members().iter().map(|member| member.id);
    ids().all(|from| ids().all(|to| !state.in_flight(from, to)))
}

pub(crate) fn literal(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) | Literal::Duration(value) => Value::Int(*value),
        Literal::Float(value) => Value::Float(*value),
        Literal::Text(text) => Value::Text(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

/// The handler of one binding, or of a domain that is unknown; it returns false to end the search.
type Visit<'v, 'a> = dyn FnMut(&mut Plain<'a>, Result<(), Unknown>) -> bool + 'v;

pub(crate) struct Plain<'a> {
    library: &'a Library,
    history: &'a [&'a dyn State],
    /// The number of states by which the present evaluation looks back.
    back: usize,
    pub(crate) bindings: Bindings,
    /// Under `when quiet`: the nodes bound so far by the outermost chain of `forall`.
    quiet: Option<Vec<NodeId>>,
}

impl<'a> Plain<'a> {
    pub(crate) fn new(
        library: &'a Library,
        history: &'a [&'a dyn State],
        bindings: Bindings,
    ) -> Plain<'a> {
        assert!(!history.is_empty(), "a property is judged in a state");
        Plain { library, history, back: 0, bindings, quiet: None }
    }

    /// The state being evaluated. Before the first state, the first one stands in for its past.
    pub(crate) fn world(&self) -> &'a dyn State {
        self.history[self.history.len() - 1 - self.back.min(self.history.len() - 1)]
    }

    pub(crate) fn judge_property(&mut self, property: &Property) -> Option<Judged> {
        if matches!(property.modality, crate::ast::Modality::LeadsTo { .. }) {
            return None;
        }
        match property.scope {
            Scope::EveryCut | Scope::Delivery | Scope::Chains => {}
            Scope::Quiet if is_local(&property.body) => self.quiet = Some(Vec::new()),
            Scope::Quiet | Scope::AllQuiet => {
                if !all_quiet(self.world()) {
                    return None;
                }
            }
        }
        Some(self.chain(&property.body))
    }

    /// Judges the outermost chain of `forall`, along which `when quiet` skips nodes with messages
    /// in flight.
    fn chain(&mut self, expr: &Expr) -> Judged {
        match &expr.kind {
            ExprKind::Quantified { quantifier: Quantifier::Forall, over, body }
                if self.quiet.is_some() =>
            {
                self.quantified(Quantifier::Forall, over, &mut |plain| plain.chain(body))
            }
            _ => {
                let quiet = self.quiet.take();
                let judged = self.judge(expr);
                self.quiet = quiet;
                judged
            }
        }
    }

    pub(crate) fn judge(&mut self, expr: &Expr) -> Judged {
        match self.eval(expr)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(ops::mismatch_one("a condition", &other)),
        }
    }

    pub(crate) fn eval(&mut self, expr: &Expr) -> Result<Value, Unknown> {
        match &expr.kind {
            ExprKind::Hole => Err(Unknown::NoSuchName("?".into())),
            ExprKind::Literal(value) => Ok(literal(value)),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Field(base, field) => {
                let base = self.eval(base)?;
                self.field(&base, &field.name)
            }
            ExprKind::Index(base, index) => {
                let (base, index) = (self.eval(base)?, self.eval(index)?);
                ops::index(&base, &index).cloned()
            }
            ExprKind::Call(name, arguments) => self.call(&name.name, arguments),
            ExprKind::List(items) => Ok(Value::List(self.eval_all(items)?)),
            ExprKind::Set(items) => Ok(ops::set_of(self.eval_all(items)?)),
            ExprKind::Map(entries) => {
                let each =
                    entries.iter().map(|(key, value)| Ok((self.eval(key)?, self.eval(value)?)));
                Ok(Value::Map(each.collect::<Result<_, Unknown>>()?))
            }
            ExprKind::Record(fields) => {
                let each =
                    fields.iter().map(|(name, value)| Ok((name.name.clone(), self.eval(value)?)));
                Ok(Value::Record(each.collect::<Result<_, Unknown>>()?))
            }
            ExprKind::Unary(UnaryOp::Not, operand) => {
                self.judge(operand).map(|truth| Value::Bool(!truth))
            }
            ExprKind::Unary(UnaryOp::Neg, operand) => ops::negate(&self.eval(operand)?),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Is(base, variant) => {
                Ok(Value::Bool(ops::is_variant(&self.eval(base)?, &variant.name)))
            }
            ExprKind::Quantified { quantifier, over, body } => {
                self.quantified(*quantifier, over, &mut |plain| plain.judge(body)).map(Value::Bool)
            }
            ExprKind::Aggregate { op, over, body } => self.aggregate(*op, over, body.as_deref()),
            ExprKind::History { op, steps, body } => self.past(*op, *steps, body),
            ExprKind::LeadsTo(..) => Err(Unknown::NoSuchName("leads to".into())),
        }
    }

    fn eval_all(&mut self, items: &[Expr]) -> Result<Vec<Value>, Unknown> {
        items.iter().map(|item| self.eval(item)).collect()
    }

    fn name(&self, name: &str) -> Result<Value, Unknown> {
        let bound = self.bindings.iter().rev().find(|(other, _)| other == name);
        let found = bound.map(|(_, value)| value).or_else(|| self.library.constant(name));
        found.cloned().ok_or_else(|| Unknown::NoSuchName(name.to_owned()))
    }

    fn field(&self, base: &Value, name: &str) -> Result<Value, Unknown> {
        match base {
            Value::Node(node) => {
                let state = self.world().state(*node).ok_or(Unknown::NotReported(*node))?;
                // A state that is itself a node id is not followed a second time.
                match state {
                    Value::Node(_) => Err(ops::mismatch_one(".", state)),
                    _ => ops::field(state, name).cloned(),
                }
            }
            _ => ops::field(base, name).cloned(),
        }
    }

    fn call(&mut self, name: &str, arguments: &[Expr]) -> Result<Value, Unknown> {
        let arguments = self.eval_all(arguments)?;
        if let Some(function) = self.library.function(name) {
            return function.call(&arguments);
        }
        match Builtin::named(name) {
            Some((_, least, most)) if !(least..=most).contains(&arguments.len()) => {
                Err(Unknown::NoSuchName(format!("{name} with {} arguments", arguments.len())))
            }
            Some((Builtin::InFlight, ..)) => in_flight(self.world(), arguments.first()),
            Some((Builtin::Messages, ..)) => payloads(self.world(), arguments.first()),
            Some((Builtin::Of(fact), ..)) => node_fact(self.world(), fact, &arguments[0]),
            Some((builtin, ..)) => builtin.call(&arguments),
            None => Err(Unknown::NoSuchName(name.to_owned())),
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Value, Unknown> {
        match op {
            BinaryOp::And => {
                let (left, right) = (self.judge(left), self.judge(right));
                and(left, right).map(Value::Bool)
            }
            BinaryOp::Or => {
                let (left, right) = (self.judge(left), self.judge(right));
                or(left, right).map(Value::Bool)
            }
            BinaryOp::Implies => {
                let (left, right) = (self.judge(left), self.judge(right));
                or(left.map(|truth| !truth), right).map(Value::Bool)
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                ops::arithmetic(op, &left, &right)
            }
            _ => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                ops::relate(op, &left, &right).map(Value::Bool)
            }
        }
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        over: &Over,
        body: &mut dyn FnMut(&mut Plain<'a>) -> Judged,
    ) -> Judged {
        let forall = quantifier == Quantifier::Forall;
        let mut result = Ok(forall);
        self.for_each(over, &mut |plain, known| {
            let instance = known.and_then(|()| {
                let guard = match &over.guard {
                    Some(guard) => plain.unchained(|plain| plain.judge(guard)),
                    None => Ok(true),
                };
                // The body is evaluated even if the guard is unknown, because it may decide the
                // result.
                let body = if guard == Ok(false) { Ok(true) } else { body(plain) };
                if forall { or(guard.map(|guard| !guard), body) } else { and(guard, body) }
            });
            let combine = if forall { and } else { or };
            result = combine(result.clone(), instance);
            result != Ok(!forall)
        });
        result
    }

    /// Runs `read` outside the chain on which quietness is required.
    fn unchained<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let quiet = self.quiet.take();
        let result = read(self);
        self.quiet = quiet;
        result
    }

    fn aggregate(
        &mut self,
        op: Aggregate,
        over: &Over,
        body: Option<&Expr>,
    ) -> Result<Value, Unknown> {
        let mut values = Ok(Vec::new());
        self.for_each(over, &mut |plain, known| match known
            .and_then(|()| plain.contribution(op, over, body))
        {
            Ok(value) => {
                values.as_mut().expect("the first unknown ends it").extend(value);
                true
            }
            Err(unknown) => {
                values = Err(unknown);
                false
            }
        });
        fold(op, values?)
    }

    /// The contribution of one binding to an aggregate, if any.
    fn contribution(
        &mut self,
        op: Aggregate,
        over: &Over,
        body: Option<&Expr>,
    ) -> Result<Option<Value>, Unknown> {
        if let Some(guard) = &over.guard
            && !self.judge(guard)?
        {
            return Ok(None);
        }
        match (op, body) {
            (Aggregate::Count, Some(body)) => Ok(self.judge(body)?.then_some(Value::Null)),
            (_, Some(body)) => self.eval(body).map(Some),
            (_, None) => Ok(Some(Value::Null)),
        }
    }

    fn past(&mut self, op: History, steps: u32, body: &Expr) -> Result<Value, Unknown> {
        match op {
            History::Previous => self.ago(steps as usize, body),
            History::Changed => {
                let (now, before) = (self.ago(0, body)?, self.ago(1, body)?);
                Ok(Value::Bool(!ops::equal(&now, &before)))
            }
            History::Window => {
                let there = self.history.len().saturating_sub(self.back).max(1);
                let values = (0..there.min(steps as usize)).rev().map(|ago| self.ago(ago, body));
                Ok(Value::List(values.collect::<Result<_, _>>()?))
            }
        }
    }

    fn ago(&mut self, steps: usize, body: &Expr) -> Result<Value, Unknown> {
        self.back += steps;
        let value = self.eval(body);
        self.back -= steps;
        value
    }

    /// Calls `visit` for each binding of the variables.
    pub(crate) fn for_each(&mut self, over: &Over, visit: &mut Visit<'_, 'a>) {
        self.bind(&loops(over), visit);
    }

    fn bind(&mut self, loops: &[(Bound<'_>, &Domain)], visit: &mut Visit<'_, 'a>) -> bool {
        let Some(((bound, domain), rest)) = loops.split_first() else {
            return visit(self, Ok(()));
        };
        let depth = self.bindings.len();
        let instances = match self.unchained(|plain| plain.instances(bound, domain)) {
            Ok(instances) => instances,
            Err(unknown) => return visit(self, Err(unknown)),
        };
        for instance in instances {
            let in_chain = self.enter_quiet(&instance, domain);
            self.bindings.extend(instance);
            let go_on = !in_chain.enters() || self.bind(rest, visit);
            self.bindings.truncate(depth);
            in_chain.leave(&mut self.quiet);
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Under `when quiet`, a node joins the others only if nothing is in flight between them.
    fn enter_quiet(&mut self, instance: &[(String, Value)], domain: &Domain) -> Entry {
        let world = self.world();
        let (Some(nodes), Domain::Nodes { .. }) = (&mut self.quiet, domain) else {
            return Entry::Free;
        };
        let Value::Node(node) = instance[0].1 else { return Entry::Free };
        let apart =
            |other: &NodeId| !world.in_flight(node, *other) && !world.in_flight(*other, node);
        if !apart(&node) || !nodes.iter().all(apart) {
            return Entry::Barred;
        }
        nodes.push(node);
        Entry::Joined
    }

    /// The values of one variable, or of a key and a value.
    fn instances(&mut self, bound: &Bound<'_>, domain: &Domain) -> Result<Vec<Bindings>, Unknown> {
        let one = |name: &str, value: Value| vec![(name.to_owned(), value)];
        match (bound, domain) {
            (Bound::One(name), Domain::Nodes { kind, all }) => {
                let members = self.world().members().iter();
                let chosen = members.filter(|member| {
                    (*all || member.up) && kind.as_ref().is_none_or(|kind| *kind == member.kind)
                });
                Ok(chosen.map(|member| one(name, Value::Node(member.id))).collect())
            }
            (Bound::One(name), Domain::Range { from, to, inclusive }) => {
                let (from, to) = (self.eval(from)?, self.eval(to)?);
                let (from, to) = ops::range(&from, &to, *inclusive)?;
                Ok((from..to).map(|at| one(name, Value::Int(at))).collect())
            }
            (Bound::One(name), Domain::Values(expr)) => {
                let items = ops::elements(&self.eval(expr)?)?;
                Ok(items.into_iter().map(|item| one(name, item)).collect())
            }
            (Bound::Entry(key, value), Domain::Values(expr)) => {
                let container = self.eval(expr)?;
                let pair = |k: Value, v: &Value| {
                    vec![((*key).to_owned(), k), ((*value).to_owned(), v.clone())]
                };
                Ok(ops::entries(&container)?.into_iter().map(|(k, v)| pair(k, v)).collect())
            }
            (Bound::Entry(..), _) => {
                Err(Unknown::Mismatch { op: "->", left: "nodes or a range", right: None })
            }
        }
    }
}

/// The relation of a binding to the chain of `when quiet`.
enum Entry {
    /// The binding is not part of the chain.
    Free,
    /// The node of the binding was added to the chain.
    Joined,
    /// A message is in flight: the binding is skipped.
    Barred,
}

impl Entry {
    fn enters(&self) -> bool {
        !matches!(self, Entry::Barred)
    }

    fn leave(self, quiet: &mut Option<Vec<NodeId>>) {
        if let (Entry::Joined, Some(nodes)) = (self, quiet) {
            nodes.pop();
        }
    }
}

/// The number of messages in flight, of one kind or of all kinds.
fn in_flight(world: &dyn State, kind: Option<&Value>) -> Result<Value, Unknown> {
    let messages = world.messages().ok_or(Unknown::NotCounted)?;
    let count = match kind {
        None => messages.values().sum(),
        Some(Value::Text(kind)) => messages.get(kind).copied().unwrap_or(0),
        Some(other) => return Err(ops::mismatch_one("in_flight", other)),
    };
    i64::try_from(count).map(Value::Int).map_err(|_| Unknown::Overflow)
}

/// The payloads of the messages in flight, of one kind or of all kinds.
fn payloads(world: &dyn State, kind: Option<&Value>) -> Result<Value, Unknown> {
    let payloads = world.payloads().ok_or(Unknown::NotRead)?;
    match kind {
        None => Ok(Value::List(payloads.values().flatten().cloned().collect())),
        Some(Value::Text(kind)) => Ok(Value::List(payloads.get(kind).cloned().unwrap_or_default())),
        Some(other) => Err(ops::mismatch_one("messages", other)),
    }
}

/// Whether an expression asks for the payloads of messages in flight.
pub(crate) fn reads_messages(expr: &Expr, library: &Library) -> bool {
    calls(expr, library, &|builtin| builtin == Builtin::Messages)
}

/// Whether an expression asks for the messages in flight: for their number or their payloads.
pub(crate) fn counts_messages(expr: &Expr, library: &Library) -> bool {
    calls(expr, library, &|builtin| matches!(builtin, Builtin::InFlight | Builtin::Messages))
}

fn calls(expr: &Expr, library: &Library, wanted: &dyn Fn(Builtin) -> bool) -> bool {
    let asks = |name: &str| {
        library.function(name).is_none()
            && Builtin::named(name).is_some_and(|(builtin, ..)| wanted(builtin))
    };
    expr.any(&mut |expr| matches!(&expr.kind, ExprKind::Call(name, _) if asks(&name.name)))
}

pub(crate) fn node_fact(
    world: &dyn State,
    fact: NodeFact,
    argument: &Value,
) -> Result<Value, Unknown> {
    let member = |node: NodeId| world.members().iter().find(|member| member.id == node);
    match (fact, argument) {
        (_, Value::Null) => Ok(Value::Null),
        (NodeFact::Named, Value::Text(name)) => {
            let found = world.members().iter().find(|member| member.name == *name);
            Ok(found.map_or(Value::Null, |member| Value::Node(member.id)))
        }
        (NodeFact::Up, Value::Node(node)) => {
            Ok(Value::Bool(member(*node).is_some_and(|member| member.up)))
        }
        (NodeFact::Kind, Value::Node(node)) => {
            Ok(member(*node).map_or(Value::Null, |member| Value::Text(member.kind.clone())))
        }
        (NodeFact::Name, Value::Node(node)) => {
            Ok(member(*node).map_or(Value::Null, |member| Value::Text(member.name.clone())))
        }
        (NodeFact::Reported, Value::Node(node)) => Ok(Value::Bool(world.state(*node).is_some())),
        (NodeFact::State, Value::Node(node)) => {
            world.state(*node).cloned().ok_or(Unknown::NotReported(*node))
        }
        (NodeFact::Named, _) => Err(ops::mismatch_one("node", argument)),
        (_, _) => Err(ops::mismatch_one("a function of nodes", argument)),
    }
}

fn and(left: Judged, right: Judged) -> Judged {
    match (left, right) {
        (Ok(false), _) | (_, Ok(false)) => Ok(false),
        (Err(unknown), _) | (_, Err(unknown)) => Err(unknown),
        (Ok(true), Ok(true)) => Ok(true),
    }
}

fn or(left: Judged, right: Judged) -> Judged {
    match (left, right) {
        (Ok(true), _) | (_, Ok(true)) => Ok(true),
        (Err(unknown), _) | (_, Err(unknown)) => Err(unknown),
        (Ok(false), Ok(false)) => Ok(false),
    }
}
