//! Forms that stand for others: `let`, `if`, `once` and `historically`, and `leads to` below `or`
//! and `implies`. They are replaced while reading, so every judge knows them.

use std::collections::BTreeSet;

use super::Parser;
use super::primary::HISTORY_MAX;
use crate::ast::{
    BinaryOp, Bound, Expr, ExprKind, History, Ident, Literal, Over, Quantifier, UnaryOp,
};
use crate::diagnostic::Span;
use crate::lex::TokenKind;

/// A claim in which `let` repeats an expression so often that it has more parts than this is
/// refused.
const PARTS_MAX: usize = 5_000;

impl Parser<'_> {
    /// Whether `let x =` stands here.
    pub(super) fn at_let(&self) -> bool {
        self.at_word("let")
            && self.word_after(1).is_some()
            && matches!(self.kind_after(2), TokenKind::Punct("="))
    }

    /// `let x = e, y = f: body`: the body with the expressions in place of the names.
    pub(super) fn let_in(&mut self) -> Expr {
        let start = self.bump().span;
        let mut bound = Vec::new();
        loop {
            let hole = Ident { name: String::new(), span: self.span() };
            let name = self.name_or_text().unwrap_or(hole);
            if !self.eat_punct("=") {
                self.unexpected("`=` and the value of the name");
            }
            let mut value = self.nested(Self::expr);
            // A later value may use an earlier name.
            for (earlier, known) in bound.iter().rev() {
                self.put_in(&mut value, earlier, known);
            }
            bound.push((name, value));
            if !self.eat_punct(",") {
                break;
            }
        }
        self.expect_punct(":", "after the value of the name");
        let mut body = self.nested(|parser| {
            let body = parser.expr();
            parser.leads_to(body)
        });
        for (name, value) in &bound {
            self.put_in(&mut body, name, value);
        }
        Expr { span: start.to(body.span), ..body }
    }

    /// Puts a value in place of a name.
    fn put_in(&mut self, expr: &mut Expr, name: &Ident, value: &Expr) {
        if let Some(again) = rebound(expr, name, &names_of(value)) {
            let message = format!("`{}` is bound already", again.name);
            self.push(again.span, &message, "choose another name");
        }
        if parts(expr) + uses(expr, &name.name) * parts(value) > PARTS_MAX {
            let help = "supply a function from Rust, or let the node show the value";
            self.push(name.span, "this `let` makes the claim too large", help);
            expr.kind = ExprKind::Hole;
        }
        replace(expr, &name.name, value);
    }

    /// Whether a condition begins here with `if`.
    pub(super) fn at_if(&self) -> bool {
        const OPERATORS: [&str; 11] = [
            "in",
            "is",
            "and",
            "or",
            "implies",
            "leads",
            "subset",
            "disjoint",
            "prefix",
            "subsequence",
            "within",
        ];
        self.at_word("if")
            && match self.kind_after(1) {
                TokenKind::Word(word) => !OPERATORS.contains(&word.as_str()),
                TokenKind::Punct(punct) => ["(", "[", "{"].contains(punct),
                TokenKind::Int(_) | TokenKind::Float(_) | TokenKind::Text(_) => true,
                TokenKind::Duration(_) => true,
                TokenKind::End => false,
            }
    }

    /// `if c then p else q`: `(c implies p) and (not c implies q)`.
    pub(super) fn if_else(&mut self) -> Expr {
        let start = self.bump().span;
        let condition = self.nested(Self::expr);
        if !self.eat_word("then") {
            self.unexpected("`then` and a claim");
        }
        let then = self.nested(Self::expr);
        if !self.eat_word("else") {
            let help = "without `else`, write `c implies p`".to_owned();
            self.unexpected_with("`else` and a claim", Some(help));
            return then;
        }
        let otherwise = self.nested(Self::expr);
        let span = start.to(otherwise.span);
        let not = with(ExprKind::Unary(UnaryOp::Not, Box::new(condition.clone())), span);
        let left = binary(BinaryOp::Implies, condition, then, span);
        let right = binary(BinaryOp::Implies, not, otherwise, span);
        binary(BinaryOp::And, left, right, span)
    }

    /// `once(p within 3 steps)`: p was true now or in one of the three states before;
    /// `historically(...)`: in all of them. The bracket has been opened.
    pub(super) fn within_the_past(&mut self, name: &Ident) -> ExprKind {
        let open = self.previous_span();
        let body = self.nested(Self::expr);
        let bound = self.eat_within();
        self.close(")", open);
        let steps = match bound {
            Some(Bound::Steps(steps)) => u32::try_from(steps).ok().filter(|n| *n < HISTORY_MAX),
            Some(Bound::Nanos(_)) | None => None,
        };
        if steps.is_none() {
            let message = format!("`{}` looks back over a number of steps", name.name);
            let help = format!(
                "write {}(p within 20 steps), with at most {} steps; for a whole past, or one of \
                 5s, let the node keep what it has seen in its state, or write the claim forwards, \
                 `p leads to q within 5s`",
                name.name,
                HISTORY_MAX - 1
            );
            self.push(name.span, &message, &help);
        }
        let span = name.span.to(self.previous_span());
        let steps = steps.unwrap_or(0) + 1;
        let window =
            with(ExprKind::History { op: History::Window, steps, body: Box::new(body) }, span);
        let (op, value) = match name.name.as_str() {
            "once" => (BinaryOp::In, true),
            _ => (BinaryOp::NotIn, false),
        };
        binary(op, with(ExprKind::Literal(Literal::Bool(value)), span), window, span).kind
    }
}

/// The claim with a `leads to` below `or`, `implies` and `forall` at its top: `p implies (a leads to
/// b)` is `p and a leads to b`. Where that is not the same, it stays where it is.
pub(super) fn lifted(expr: Expr) -> Expr {
    let span = expr.span;
    match expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            let body = Box::new(lifted(*body));
            with(ExprKind::Quantified { quantifier: Quantifier::Forall, over, body }, span)
        }
        ExprKind::Binary(BinaryOp::Implies, left, right) if !leads(&left) && leads(&right) => {
            under(*left, lifted(*right), span)
        }
        ExprKind::Binary(BinaryOp::Or, left, right) if leads(&left) != leads(&right) => {
            let (claim, other) = if leads(&left) { (left, right) } else { (right, left) };
            let not = with(ExprKind::Unary(UnaryOp::Not, other), span);
            under(not, lifted(*claim), span)
        }
        kind => Expr { kind, span },
    }
}

/// A claim that is made only where a condition holds.
fn under(condition: Expr, claim: Expr, span: Span) -> Expr {
    match claim.kind {
        ExprKind::LeadsTo(from, goal) => {
            let from = binary(BinaryOp::And, condition, *from, span);
            with(ExprKind::LeadsTo(Box::new(from), goal), span)
        }
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body }
            if !binds(&over, &names_of(&condition)) =>
        {
            let body = Box::new(under(condition, *body, span));
            with(ExprKind::Quantified { quantifier: Quantifier::Forall, over, body }, span)
        }
        kind => binary(BinaryOp::Implies, condition, Expr { kind, span: claim.span }, span),
    }
}

/// Why a `leads to` cannot be judged where it stands, and what to write.
pub(super) fn why_not_lifted(expr: &Expr) -> (&'static str, &'static str) {
    const TOP: &str = "write always \"...\": [forall ...:] p leads to q within 5s";
    match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Exists, .. } => {
            ("`leads to` cannot stand below `exists`: which one it is, is known only later", TOP)
        }
        ExprKind::Unary(UnaryOp::Not, _) => {
            ("`leads to` cannot be negated: that it never happens is known only at the end", TOP)
        }
        ExprKind::Binary(BinaryOp::And, ..) => {
            ("`leads to` cannot stand below `and`", "write one property for each side of the `and`")
        }
        ExprKind::Binary(BinaryOp::Or, left, right) if leads(left) && leads(right) => {
            ("`leads to` cannot stand on both sides of `or`", TOP)
        }
        ExprKind::Binary(BinaryOp::Implies, left, _) if leads(left) => {
            ("`leads to` cannot be a condition: whether it is met is known only later", TOP)
        }
        ExprKind::LeadsTo(..) => {
            ("`leads to` cannot stand inside another one", "write one property for each of them")
        }
        ExprKind::Quantified { body, .. } if leads(body) => why_not_lifted(body),
        ExprKind::Binary(BinaryOp::Or | BinaryOp::Implies, left, right) => {
            why_not_lifted(if leads(left) { left } else { right })
        }
        _ => ("`leads to` cannot stand inside another claim", TOP),
    }
}

/// Whether a `leads to` is in it.
pub(super) fn leads(expr: &Expr) -> bool {
    expr.any(&mut |expr| matches!(expr.kind, ExprKind::LeadsTo(..)))
}

fn with(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

fn binary(op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
    with(ExprKind::Binary(op, Box::new(left), Box::new(right)), span)
}

/// The names that an expression uses.
fn names_of(expr: &Expr) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    expr.any(&mut |expr| {
        if let ExprKind::Name(name) = &expr.kind {
            found.insert(name.clone());
        }
        false
    });
    found
}

fn idents(over: &Over) -> impl Iterator<Item = &Ident> {
    over.binders.iter().flat_map(|binder| binder.pattern.idents())
}

fn binds(over: &Over, names: &BTreeSet<String>) -> bool {
    idents(over).any(|ident| names.contains(&ident.name))
}

/// A variable in an expression that has the name, or one of those that its value uses.
fn rebound(expr: &Expr, name: &Ident, used: &BTreeSet<String>) -> Option<Ident> {
    let mut found = None;
    expr.any(&mut |expr| {
        if let ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } = &expr.kind {
            let is = |ident: &&Ident| ident.name == name.name || used.contains(&ident.name);
            found = found.take().or_else(|| idents(over).find(is).cloned());
        }
        found.is_some()
    });
    found
}

/// How many parts an expression has.
fn parts(expr: &Expr) -> usize {
    let mut count = 0;
    expr.any(&mut |_| {
        count += 1;
        false
    });
    count
}

/// How often an expression uses a name.
fn uses(expr: &Expr, name: &str) -> usize {
    let mut count = 0;
    expr.any(&mut |expr| {
        count += usize::from(matches!(&expr.kind, ExprKind::Name(other) if other == name));
        false
    });
    count
}

/// Puts a value in place of each use of a name.
fn replace(expr: &mut Expr, name: &str, value: &Expr) {
    if matches!(&expr.kind, ExprKind::Name(other) if other == name) {
        expr.kind = value.kind.clone();
        return;
    }
    expr.for_each_child_mut(&mut |child| replace(child, name, value));
}
