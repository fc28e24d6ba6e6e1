//! Comparisons: the claims about one row. A comparison relates two terms, or a term and a value.

use everhold_property::{Expr, ExprKind, Literal};
use everhold_trace::Value;

use super::terms::{Side, Term};
use crate::dictionary::Dictionary;
use crate::evaluate::{Cell, Numbers, Truth};
use crate::relation::Relation;
use crate::relation::tree::{self, constant, related};
use crate::variables::Row;

/// A claim about one row of a family, whose sides are called left and right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Comparison {
    /// Of a term of the left side and one of the right.
    Cross(Relation, usize, usize),
    /// Of a term of the left side and a value; the flag says equal or not.
    Left(bool, usize, Cell),
    /// Of a term of the right side and a value.
    Right(bool, usize, Cell),
}

/// The names of the two sides of a family in a property.
#[derive(Clone, Debug)]
pub(super) struct SideNames {
    pub(super) left: Row,
    pub(super) right: Row,
    /// Whether the left side is the state before.
    pub(super) left_is_past: bool,
}

impl SideNames {
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

/// The two sides that comparisons refer to, and the values that their codes stand for.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) left: &'a Side,
    pub(super) right: &'a Side,
    pub(super) values: &'a Dictionary,
    pub(super) numbers: &'a Numbers,
}

impl Context<'_> {
    /// The value of a cell.
    pub(super) fn value(&self, cell: Cell) -> std::borrow::Cow<'_, Value> {
        cell.value(self.values, self.numbers)
    }

    /// The comparison as an expression of the language.
    pub(super) fn expr(&self, comparison: Comparison, rows: &SideNames) -> Expr {
        let (relation, left, right) = match comparison {
            Comparison::Cross(relation, left, right) => {
                let left = rows.left_expr(&self.left.terms[left]);
                (relation, left, rows.right_expr(&self.right.terms[right]))
            }
            Comparison::Left(equal, term, cell) => {
                let term = rows.left_expr(&self.left.terms[term]);
                (equality(equal), term, constant(&self.value(cell)))
            }
            Comparison::Right(equal, term, cell) => {
                let term = rows.right_expr(&self.right.terms[term]);
                (equality(equal), term, constant(&self.value(cell)))
            }
        };
        match (&right.kind, relation) {
            // `n.up` instead of `n.up == true`.
            (ExprKind::Literal(Literal::Bool(wanted)), Relation::Equal | Relation::Differ) => {
                if *wanted == (relation == Relation::Equal) {
                    left
                } else {
                    tree::not(left)
                }
            }
            _ => related(relation, left, right),
        }
    }

    /// The comparison as an English phrase.
    pub(super) fn words(&self, comparison: Comparison, rows: &SideNames) -> String {
        let say = |expr: &Expr| said(&everhold_property::print_expr(expr));
        match comparison {
            Comparison::Cross(relation, left, right) => {
                let (words, swapped) = relation.phrase();
                let left = say(&rows.left_expr(&self.left.terms[left]));
                let right = say(&rows.right_expr(&self.right.terms[right]));
                let (left, right) = if swapped { (right, left) } else { (left, right) };
                format!("{left} {words} {right}")
            }
            Comparison::Left(equal, term, cell) | Comparison::Right(equal, term, cell) => {
                let is_left = matches!(comparison, Comparison::Left(..));
                let term = if is_left { &self.left.terms[term] } else { &self.right.terms[term] };
                let expr = if is_left { rows.left_expr(term) } else { rows.right_expr(term) };
                let value = self.value(cell).to_string().replace('"', "");
                format!("{} is {}{value}", say(&expr), if equal { "" } else { "not " })
            }
        }
    }

    /// Whether a relation is true of two values.
    ///
    /// Equality and order need the codes alone: null has no place in an order.
    pub(super) fn relate(&self, relation: Relation, l: Cell, r: Cell) -> Truth {
        use Relation as R;
        match relation {
            R::Equal => (l == r).into(),
            R::Differ => (l != r).into(),
            R::Less | R::Greater | R::AtMost | R::AtLeast if l.is_null() || r.is_null() => {
                Truth::Unknown
            }
            R::Less => (l < r).into(),
            R::Greater => (l > r).into(),
            R::AtMost => (l <= r).into(),
            R::AtLeast => (l >= r).into(),
            _ => relation.of(&self.value(l), &self.value(r)),
        }
    }
}

fn equality(equal: bool) -> Relation {
    if equal { Relation::Equal } else { Relation::Differ }
}

/// An expression as an English phrase: `previous(n.term)` becomes `n's term before`.
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
