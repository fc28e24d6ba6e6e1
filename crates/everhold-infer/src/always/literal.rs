//! What is claimed of one row: a relation of two terms, or of a term and a value.

use std::borrow::Cow;

use everhold_property::{BinaryOp, Expr, ExprKind, Literal as Constant, relate};
use everhold_trace::Value;

use super::terms::{Class, Numbers, Side, Term};
use crate::dictionary::Dictionary;
use crate::variables::Row;

/// A relation of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    Equal,
    Less,
    Greater,
    AtMost,
    AtLeast,
    Differ,
    In,
    Holds,
    NotIn,
    Lacks,
    Subset,
    Superset,
    Disjoint,
    Prefix,
    Extends,
    Subsequence,
    Supersequence,
}

/// A claim about one row of a family, whose sides are called left and right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Literal {
    /// Of a term of the left side and one of the right.
    Cross(Relation, usize, usize),
    /// Of a term of the left side and a value; the flag says equal or not.
    Left(bool, usize, u32),
    /// Of a term of the right side and a value.
    Right(bool, usize, u32),
}

impl Relation {
    /// The relations worth trying between values of these classes, the strongest first.
    pub(super) fn between(left: Class, right: Class) -> &'static [Relation] {
        use Relation as R;
        match (left, right) {
            (Class::Number, Class::Number) => {
                &[R::Equal, R::Less, R::Greater, R::AtMost, R::AtLeast, R::Differ]
            }
            (Class::Token(a), Class::Token(b)) if a == b => &[R::Equal, R::Differ],
            (Class::List, Class::List) => {
                const LISTS: [Relation; 9] = [
                    R::Equal,
                    R::Prefix,
                    R::Extends,
                    R::Subsequence,
                    R::Supersequence,
                    R::Subset,
                    R::Superset,
                    R::Disjoint,
                    R::Differ,
                ];
                &LISTS
            }
            (Class::Set, Class::Set) => &[R::Equal, R::Subset, R::Superset, R::Disjoint, R::Differ],
            (Class::Token("record"), _) | (_, Class::Token("record")) => &[],
            (Class::Number | Class::Token(_), Class::List | Class::Set) => &[R::In, R::NotIn],
            (Class::List | Class::Set, Class::Number | Class::Token(_)) => &[R::Holds, R::Lacks],
            _ => &[],
        }
    }

    /// The relations that follow from it.
    pub(super) fn implies(self) -> &'static [Relation] {
        use Relation as R;
        match self {
            R::Equal => &[
                R::AtMost,
                R::AtLeast,
                R::Prefix,
                R::Extends,
                R::Subsequence,
                R::Supersequence,
                R::Subset,
                R::Superset,
            ],
            R::Less => &[R::AtMost, R::Differ],
            R::Greater => &[R::AtLeast, R::Differ],
            R::Prefix => &[R::Subsequence, R::Subset],
            R::Extends => &[R::Supersequence, R::Superset],
            R::Subsequence => &[R::Subset],
            R::Supersequence => &[R::Superset],
            _ => &[],
        }
    }

    /// The same with its sides exchanged.
    pub(super) fn mirrored(self) -> Relation {
        use Relation as R;
        match self {
            R::Less => R::Greater,
            R::Greater => R::Less,
            R::AtMost => R::AtLeast,
            R::AtLeast => R::AtMost,
            R::In => R::Holds,
            R::Holds => R::In,
            R::NotIn => R::Lacks,
            R::Lacks => R::NotIn,
            R::Subset => R::Superset,
            R::Superset => R::Subset,
            R::Prefix => R::Extends,
            R::Extends => R::Prefix,
            R::Subsequence => R::Supersequence,
            R::Supersequence => R::Subsequence,
            R::Equal | R::Differ | R::Disjoint => self,
        }
    }

    /// How it is written: the operator, and whether the right side comes first.
    fn operator(self) -> (BinaryOp, bool) {
        use Relation as R;
        match self {
            R::Equal => (BinaryOp::Eq, false),
            R::Differ => (BinaryOp::Ne, false),
            R::Less => (BinaryOp::Lt, false),
            R::Greater => (BinaryOp::Gt, false),
            R::AtMost => (BinaryOp::Le, false),
            R::AtLeast => (BinaryOp::Ge, false),
            R::In => (BinaryOp::In, false),
            R::NotIn => (BinaryOp::NotIn, false),
            R::Holds => (BinaryOp::In, true),
            R::Lacks => (BinaryOp::NotIn, true),
            R::Subset => (BinaryOp::Subset, false),
            R::Superset => (BinaryOp::Subset, true),
            R::Disjoint => (BinaryOp::Disjoint, false),
            R::Prefix => (BinaryOp::Prefix, false),
            R::Extends => (BinaryOp::Prefix, true),
            R::Subsequence => (BinaryOp::Subsequence, false),
            R::Supersequence => (BinaryOp::Subsequence, true),
        }
    }

    /// How it is said, and whether the right side comes first.
    fn words(self) -> (&'static str, bool) {
        use Relation as R;
        match self {
            R::Equal => ("equals", false),
            R::Differ => ("differs from", false),
            R::Less => ("is below", false),
            R::Greater => ("is above", false),
            R::AtMost => ("is at most", false),
            R::AtLeast => ("is at least", false),
            R::In => ("is in", false),
            R::NotIn => ("is not in", false),
            R::Holds => ("is in", true),
            R::Lacks => ("is not in", true),
            R::Subset => ("is part of", false),
            R::Superset => ("is part of", true),
            R::Disjoint => ("shares nothing with", false),
            R::Prefix => ("is a prefix of", false),
            R::Extends => ("is a prefix of", true),
            R::Subsequence => ("is a subsequence of", false),
            R::Supersequence => ("is a subsequence of", true),
        }
    }
}

/// How the two sides of a family are called.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) left: Row,
    pub(super) right: Row,
    /// Whether the left side is the state before.
    pub(super) left_is_past: bool,
}

impl Rows {
    pub(super) fn left_expr(&self, term: &Term) -> Expr {
        let expr = term.expr(&self.left);
        if !self.left_is_past {
            return expr;
        }
        let op = everhold_property::History::Previous;
        Expr::new(ExprKind::History { op, steps: 1, body: Box::new(expr) })
    }

    pub(super) fn right_expr(&self, term: &Term) -> Expr {
        term.expr(&self.right)
    }
}

/// What literals are made of and need to be written and judged.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) left: &'a Side,
    pub(super) right: &'a Side,
    pub(super) values: &'a Dictionary,
    pub(super) numbers: &'a Numbers,
}

impl Context<'_> {
    /// The value of a code of a term.
    pub(super) fn value(&self, class: Class, code: u32) -> Cow<'_, Value> {
        match class {
            Class::Number => Cow::Owned(self.numbers.value(code)),
            _ => Cow::Borrowed(self.values.value(code)),
        }
    }

    /// As it is written.
    pub(super) fn expr(&self, literal: Literal, rows: &Rows) -> Expr {
        let (op, left, right) = match literal {
            Literal::Cross(relation, left, right) => {
                let (op, swapped) = relation.operator();
                let left = rows.left_expr(&self.left.terms[left]);
                let right = rows.right_expr(&self.right.terms[right]);
                if swapped { (op, right, left) } else { (op, left, right) }
            }
            Literal::Left(equal, term, code) => {
                let term = &self.left.terms[term];
                (equality(equal), rows.left_expr(term), constant(&self.value(term.class, code)))
            }
            Literal::Right(equal, term, code) => {
                let term = &self.right.terms[term];
                (equality(equal), rows.right_expr(term), constant(&self.value(term.class, code)))
            }
        };
        match (&right.kind, op) {
            // A truth value speaks for itself.
            (ExprKind::Literal(Constant::Bool(wanted)), BinaryOp::Eq | BinaryOp::Ne) => {
                if *wanted == (op == BinaryOp::Eq) {
                    left
                } else {
                    Expr::new(ExprKind::Unary(everhold_property::UnaryOp::Not, Box::new(left)))
                }
            }
            _ => Expr::new(ExprKind::Binary(op, Box::new(left), Box::new(right))),
        }
    }

    /// As it is said.
    pub(super) fn words(&self, literal: Literal, rows: &Rows) -> String {
        let say = |expr: &Expr| said(&everhold_property::print_expr(expr));
        match literal {
            Literal::Cross(relation, left, right) => {
                let (words, swapped) = relation.words();
                let left = say(&rows.left_expr(&self.left.terms[left]));
                let right = say(&rows.right_expr(&self.right.terms[right]));
                let (left, right) = if swapped { (right, left) } else { (left, right) };
                format!("{left} {words} {right}")
            }
            Literal::Left(equal, term, code) | Literal::Right(equal, term, code) => {
                let is_left = matches!(literal, Literal::Left(..));
                let term = if is_left { &self.left.terms[term] } else { &self.right.terms[term] };
                let expr = if is_left { rows.left_expr(term) } else { rows.right_expr(term) };
                let value = self.value(term.class, code).to_string().replace('"', "");
                format!("{} is {}{value}", say(&expr), if equal { "" } else { "not " })
            }
        }
    }

    /// Whether a relation is true of two values; `None` where that is not known.
    pub(super) fn relate(
        &self,
        relation: Relation,
        classes: (Class, Class),
        l: u32,
        r: u32,
    ) -> Option<bool> {
        use Relation as R;
        match relation {
            R::Equal => Some(l == r),
            R::Differ => Some(l != r),
            R::Less | R::Greater | R::AtMost | R::AtLeast if l == 0 || r == 0 => None,
            R::Less => Some(l < r),
            R::Greater => Some(l > r),
            R::AtMost => Some(l <= r),
            R::AtLeast => Some(l >= r),
            _ => {
                let (op, swapped) = relation.operator();
                let (left, right) = (self.value(classes.0, l), self.value(classes.1, r));
                let (left, right) = if swapped { (right, left) } else { (left, right) };
                relate(op, &left, &right).ok()
            }
        }
    }
}

fn equality(equal: bool) -> BinaryOp {
    if equal { BinaryOp::Eq } else { BinaryOp::Ne }
}

/// A value written out; only those that the language can write.
pub(super) fn constant(value: &Value) -> Expr {
    let literal = match value {
        Value::Null => Constant::Null,
        Value::Bool(truth) => Constant::Bool(*truth),
        Value::Int(number) => Constant::Int(*number),
        Value::Float(number) => Constant::Float(*number),
        Value::Bytes(bytes) => Constant::Bytes(bytes.clone()),
        other => Constant::Text(other.as_text().unwrap_or_default().to_owned()),
    };
    Expr::new(ExprKind::Literal(literal))
}

/// An expression as people say it: `previous(n.term)` is `n's term before`.
pub(super) fn said(text: &str) -> String {
    if let Some(inner) = text.strip_prefix("previous(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("{} before", said(inner));
    }
    if let Some(inner) = text.strip_prefix("len(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("the size of {}", said(inner));
    }
    if let Some(inner) = text.strip_prefix("name(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("{inner}'s name");
    }
    match text.split_once('.') {
        Some((owner, field)) => format!("{owner}'s {}", field.replace('"', "").replace('_', " ")),
        None => text.to_owned(),
    }
}
