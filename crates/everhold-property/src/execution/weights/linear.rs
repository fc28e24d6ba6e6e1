//! Claims about sums: which of them are sums of weights of events.

use everhold_trace::Value;

use crate::ast::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Ident, Over, Pattern, Quantifier, UnaryOp,
};
use crate::eval::{counts_messages, evaluate_expr};
use crate::fast::{Measure, Program};
use crate::library::{Builtin, Library};
use crate::state::Snapshot;

/// `terms + constant op 0`.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) op: BinaryOp,
    pub(super) constant: i64,
    pub(super) terms: Vec<(i64, Part)>,
    /// Whether it stands for an `exists`, which can be true while some nodes are unknown.
    pub(super) exists: bool,
}

/// A part of a sum.
#[derive(Debug)]
pub(super) enum Part {
    /// An aggregate over nodes.
    Nodes(Program),
    /// The number of messages in flight, of one kind or of all.
    Count(Option<String>),
    /// An aggregate over the messages in flight, of one kind or of all. The expression is the
    /// aggregate with the name [`PAYLOADS`] for the messages.
    Payloads(Option<String>, Box<Expr>),
}

/// Stands for the list of the payloads; no name in a text has a space.
pub(super) const PAYLOADS: &str = "the payloads";

impl Linear {
    /// The parts of a claim that must all hold; `None` if one of them has another form.
    pub(super) fn all(body: &Expr, library: &Library) -> Option<Vec<Linear>> {
        match &body.kind {
            ExprKind::Binary(BinaryOp::And, left, right) => {
                let mut all = Linear::all(left, library)?;
                all.extend(Linear::all(right, library)?);
                Some(all)
            }
            _ => Some(vec![Linear::one(body, library)?]),
        }
    }

    fn one(body: &Expr, library: &Library) -> Option<Linear> {
        match &body.kind {
            ExprKind::Binary(op, left, right) if is_comparison(*op) => {
                let mut linear = Linear { op: *op, constant: 0, terms: Vec::new(), exists: false };
                linear.add(1, left, library)?;
                linear.add(-1, right, library)?;
                // Comparisons of constants are left to the evaluator.
                (!linear.terms.is_empty()).then_some(linear)
            }
            ExprKind::Unary(UnaryOp::Not, claim) => Linear::one(claim, library)?.opposite(),
            // Some node meets the condition: their number is at least one.
            ExprKind::Quantified { quantifier: Quantifier::Exists, over, body } => {
                let count = aggregate(Aggregate::Count, over.clone(), Some(body.clone()));
                let (op, constant) = (BinaryOp::Ge, -1);
                let mut linear = Linear { op, constant, terms: Vec::new(), exists: true };
                linear.add(1, &count, library)?;
                Some(linear)
            }
            _ => None,
        }
    }

    /// The claim that is true exactly where this one is false.
    pub(super) fn opposite(self) -> Option<Linear> {
        (!self.exists).then_some(())?;
        Some(Linear { op: negated(self.op)?, ..self })
    }

    /// Whether it is one aggregate over nodes, taken once.
    pub(super) fn only_nodes(&self) -> bool {
        matches!(self.terms[..], [(1, Part::Nodes(_))])
    }

    fn add(&mut self, factor: i64, expr: &Expr, library: &Library) -> Option<()> {
        if let Some(value) = constant(expr, library) {
            let Value::Int(value) = value else { return None };
            self.constant = self.constant.checked_add(factor.checked_mul(value)?)?;
            return Some(());
        }
        match &expr.kind {
            ExprKind::Unary(UnaryOp::Neg, operand) => {
                self.add(factor.checked_neg()?, operand, library)
            }
            ExprKind::Binary(BinaryOp::Add, left, right) => {
                self.add(factor, left, library)?;
                self.add(factor, right, library)
            }
            ExprKind::Binary(BinaryOp::Sub, left, right) => {
                self.add(factor, left, library)?;
                self.add(factor.checked_neg()?, right, library)
            }
            ExprKind::Binary(BinaryOp::Mul, left, right) => {
                let (times, rest) = match (constant(left, library), constant(right, library)) {
                    (Some(Value::Int(times)), None) => (times, right),
                    (None, Some(Value::Int(times))) => (times, left),
                    _ => return None,
                };
                self.add(factor.checked_mul(times)?, rest, library)
            }
            _ => {
                self.terms.push((factor, Part::of(expr, library)?));
                Some(())
            }
        }
    }
}

impl Part {
    fn of(expr: &Expr, library: &Library) -> Option<Part> {
        match &expr.kind {
            ExprKind::Call(name, arguments) => match builtin(name, library)? {
                Builtin::InFlight => Some(Part::Count(kind(arguments, library)?)),
                Builtin::Len => match &arguments.first()?.kind {
                    ExprKind::Call(name, kinds) if is_messages(name, library) => {
                        Some(Part::Count(kind(kinds, library)?))
                    }
                    _ => None,
                },
                _ => None,
            },
            ExprKind::Aggregate { op: op @ (Aggregate::Sum | Aggregate::Count), over, body } => {
                if let Some(kind) = over_messages(over, library) {
                    return payloads(*op, over, body.as_deref(), kind, library);
                }
                if counts_messages(expr, library) {
                    return None;
                }
                let alone = one_node(*op, over, body.as_deref())?;
                Some(Part::Nodes(Measure::program(&alone, library)?))
            }
            _ => None,
        }
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq | Ne | Lt | Le | Gt | Ge)
}

fn negated(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        _ => return None,
    })
}

fn builtin(name: &Ident, library: &Library) -> Option<Builtin> {
    let own = library.function(&name.name).is_none();
    Builtin::named(&name.name).filter(|_| own).map(|(builtin, ..)| builtin)
}

fn is_messages(name: &Ident, library: &Library) -> bool {
    builtin(name, library) == Some(Builtin::Messages)
}

/// The kind of messages that a call names; `Some(None)`: all kinds.
#[expect(clippy::option_option, reason = "not understood, all kinds, or one")]
fn kind(arguments: &[Expr], library: &Library) -> Option<Option<String>> {
    match arguments {
        [] => Some(None),
        [kind] => match constant(kind, library)? {
            Value::Text(kind) => Some(Some(kind)),
            _ => None,
        },
        _ => None,
    }
}

/// The value of an expression that does not depend on the state.
fn constant(expr: &Expr, library: &Library) -> Option<Value> {
    let depends = expr.any(&mut |expr| match &expr.kind {
        ExprKind::Quantified { .. } | ExprKind::Aggregate { .. } | ExprKind::History { .. } => true,
        ExprKind::Call(name, _) => match builtin(name, library) {
            Some(Builtin::InFlight | Builtin::Messages | Builtin::Of(_)) => true,
            Some(_) | None => false,
        },
        _ => false,
    });
    if depends {
        return None;
    }
    evaluate_expr(expr, library, &[&Snapshot::default()], &[]).ok()
}

/// `sum(n in nodes, x in n.xs: e)` as `sum(n in nodes: sum(x in n.xs: e))`: an aggregate with one
/// variable for a node.
fn one_node(op: Aggregate, over: &Over, body: Option<&Expr>) -> Option<Expr> {
    let (first, rest) = over.binders.split_first()?;
    let (Pattern::Names(names), Domain::Nodes { .. }) = (&first.pattern, &first.domain) else {
        return None;
    };
    if names.len() != 1 {
        return None;
    }
    let body = body.map(|body| Box::new(body.clone()));
    if rest.is_empty() {
        return Some(aggregate(op, over.clone(), body));
    }
    let inner = Over { binders: rest.to_vec(), guard: over.guard.clone() };
    let inner = aggregate(op, inner, body);
    let outer = Over { binders: vec![first.clone()], guard: None };
    Some(aggregate(Aggregate::Sum, outer, Some(Box::new(inner))))
}

fn aggregate(op: Aggregate, over: Over, body: Option<Box<Expr>>) -> Expr {
    Expr::new(ExprKind::Aggregate { op, over, body })
}

/// The kind of messages over which an aggregate ranges with its first variable.
#[expect(clippy::option_option, reason = "none, all kinds, or one")]
fn over_messages(over: &Over, library: &Library) -> Option<Option<String>> {
    let Domain::Values(domain) = &over.binders.first()?.domain else { return None };
    match &domain.kind {
        ExprKind::Call(name, arguments) if is_messages(name, library) => kind(arguments, library),
        _ => None,
    }
}

fn payloads(
    op: Aggregate,
    over: &Over,
    body: Option<&Expr>,
    kind: Option<String>,
    library: &Library,
) -> Option<Part> {
    let (first, rest) = over.binders.split_first()?;
    let Pattern::Names(names) = &first.pattern else { return None };
    if names.len() != 1 {
        return None;
    }
    let domain = Domain::Values(Box::new(Expr::new(ExprKind::Name(PAYLOADS.into()))));
    let mut binders = vec![Binder { pattern: first.pattern.clone(), domain }];
    binders.extend_from_slice(rest);
    let over = Over { binders, guard: over.guard.clone() };
    let expr = aggregate(op, over, body.map(|body| Box::new(body.clone())));
    // The part of a message depends on its payload alone.
    let asks = expr.any(&mut |expr| match &expr.kind {
        ExprKind::History { .. } => true,
        ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } => {
            over.binders.iter().any(|binder| matches!(binder.domain, Domain::Nodes { .. }))
        }
        ExprKind::Call(name, _) => matches!(
            builtin(name, library),
            Some(Builtin::InFlight | Builtin::Messages | Builtin::Of(_))
        ),
        _ => false,
    });
    (!asks).then(|| Part::Payloads(kind, Box::new(expr)))
}
