//! Expressions of the property language, built from their parts.

use everhold_property::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Ident, Literal, Modality, Over, Pattern,
    Property, Sampling, Scope, Span, UnaryOp,
};
use everhold_trace::Value;

use super::Relation;

/// A name.
pub(crate) fn name(name: &str) -> Expr {
    Expr::new(ExprKind::Name(name.to_owned()))
}

/// A call of a function.
pub(crate) fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    Expr::new(ExprKind::Call(Ident::new(function), arguments))
}

/// Two expressions with an operator between them.
pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::new(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

/// The negation of an expression.
pub(crate) fn not(expr: Expr) -> Expr {
    Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(expr)))
}

/// Two expressions in a relation.
pub(crate) fn related(relation: Relation, left: Expr, right: Expr) -> Expr {
    let (op, swapped) = relation.operator();
    if swapped { binary(op, right, left) } else { binary(op, left, right) }
}

/// A constant. Values that have no literal of their own (variants) are written as their text.
pub(crate) fn constant(value: &Value) -> Expr {
    let literal = match value {
        Value::Null => Literal::Null,
        Value::Bool(truth) => Literal::Bool(*truth),
        Value::Int(number) => Literal::Int(*number),
        Value::Float(number) => Literal::Float(*number),
        Value::Bytes(bytes) => Literal::Bytes(bytes.clone()),
        other => Literal::Text(other.as_text().unwrap_or_default().to_owned()),
    };
    Expr::new(ExprKind::Literal(literal))
}

/// Variables that range over the nodes of a kind, or over all nodes.
pub(crate) fn nodes(names: &[&str], kind: Option<&str>) -> Binder {
    Binder {
        pattern: Pattern::Names(names.iter().map(|name| Ident::new(*name)).collect()),
        domain: Domain::Nodes { kind: kind.map(str::to_owned), all: false },
    }
}

/// The sum of an expression over the nodes `n` of a kind.
pub(crate) fn sum_over(kind: Option<&str>, body: Expr) -> Expr {
    let over = Over { binders: vec![nodes(&["n"], kind)], guard: None };
    let (op, body) = (Aggregate::Sum, Some(Box::new(body)));
    Expr::new(ExprKind::Aggregate { op, over, body })
}

/// A property with the modality `always`.
pub(crate) fn always(name: String, scope: Scope, body: Expr) -> Property {
    Property {
        name,
        modality: Modality::Always,
        scope,
        sampling: Sampling::default(),
        body,
        span: Span::default(),
    }
}
