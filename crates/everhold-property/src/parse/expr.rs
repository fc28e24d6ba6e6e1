//! Operators, by precedence climbing.

use super::{CHAIN_MAX, DEPTH_MAX, Parser};
use crate::ast::{BinaryOp, COMPARISON, Expr, ExprKind, Literal, NEGATE, NOT, UnaryOp};
use crate::diagnostic::Span;
use crate::lex::TokenKind;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Expr {
        self.binary(0)
    }

    /// Runs `read` one level deeper, or refuses when the text nests too deeply.
    pub(super) fn nested(&mut self, read: impl FnOnce(&mut Self) -> Expr) -> Expr {
        if self.depth >= DEPTH_MAX {
            let help = "split the property, or supply a function".to_owned();
            self.error(self.span(), "this nests too deeply", Some(help));
            // The text up to the next property belongs to the same mistake.
            while !self.at_end() && !self.at_header() {
                self.bump();
            }
            self.error_at = Some(self.at);
            return self.hole();
        }
        self.depth += 1;
        let expr = read(self);
        self.depth -= 1;
        expr
    }

    pub(super) fn hole(&self) -> Expr {
        Expr { kind: ExprKind::Hole, span: self.span() }
    }

    /// An expression whose operators bind at least as tightly as `least`.
    pub(super) fn binary(&mut self, least: u8) -> Expr {
        let mut left = self.unary();
        let mut chain = 0;
        loop {
            if least <= COMPARISON && self.at_word("is") {
                left = self.is_variant(left);
                continue;
            }
            let Some((op, tokens)) = self.operator().filter(|(op, _)| op.precedence() >= least)
            else {
                return left;
            };
            chain += 1;
            if chain > CHAIN_MAX {
                let help = "use `forall`, `exists` or a set".to_owned();
                self.error(self.span(), "this chain is too long", Some(help));
                return left;
            }
            let at = self.span();
            self.at += tokens;
            left = self.operand(op, left);
            if op.is_comparison() {
                self.refuse_chain(at, op);
            }
        }
    }

    fn operand(&mut self, op: BinaryOp, left: Expr) -> Expr {
        // `implies` is right-associative: a implies (b implies c).
        let least = if op == BinaryOp::Implies { op.precedence() } else { op.precedence() + 1 };
        let right = self.nested(|parser| parser.binary(least));
        let span = left.span.to(right.span);
        Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }
    }

    fn refuse_chain(&mut self, at: Span, first: BinaryOp) {
        let Some((second, tokens)) = self.operator().filter(|(op, _)| op.is_comparison()) else {
            return;
        };
        let span = at.to(self.tokens[self.at + tokens - 1].span);
        let (first, second) = (first.text(), second.text());
        let help = format!("write `a {first} b and b {second} c`, or use parentheses");
        self.error(span, "comparisons do not chain", Some(help));
    }

    /// The operator at the present token, and the number of its tokens.
    fn operator(&mut self) -> Option<(BinaryOp, usize)> {
        match self.kind() {
            TokenKind::Punct(punct) => {
                let punct = *punct;
                self.symbol(punct).map(|op| (op, 1))
            }
            TokenKind::Word(_) => self.word_operator(),
            _ => None,
        }
    }

    fn symbol(&mut self, punct: &'static str) -> Option<BinaryOp> {
        let op = match punct {
            "==" | "=" => BinaryOp::Eq,
            "!=" | "<>" => BinaryOp::Ne,
            "<" => BinaryOp::Lt,
            "<=" => BinaryOp::Le,
            ">" => BinaryOp::Gt,
            ">=" => BinaryOp::Ge,
            "+" => BinaryOp::Add,
            "-" => BinaryOp::Sub,
            "*" => BinaryOp::Mul,
            "/" => BinaryOp::Div,
            "%" => BinaryOp::Rem,
            "&&" | "&" => BinaryOp::And,
            "||" => BinaryOp::Or,
            "=>" => BinaryOp::Implies,
            _ => return None,
        };
        // The operators of other languages are read as their equivalents here, so that one slip is
        // one error.
        if op.text() != punct {
            let message = format!("`{punct}` is not an operator");
            self.error(self.span(), message, Some(format!("write `{}`", op.text())));
        }
        Some(op)
    }

    fn word_operator(&self) -> Option<(BinaryOp, usize)> {
        let (first, second) = (self.word_after(0)?, self.word_after(1));
        // The second word of an operator may be omitted; the printer adds it.
        let with = |op, little| Some((op, if second == Some(little) { 2 } else { 1 }));
        match (first, second) {
            ("implies", _) => Some((BinaryOp::Implies, 1)),
            ("or", _) => Some((BinaryOp::Or, 1)),
            ("and", _) => Some((BinaryOp::And, 1)),
            ("in", _) => Some((BinaryOp::In, 1)),
            ("not", Some("in")) => Some((BinaryOp::NotIn, 2)),
            ("subset", _) => with(BinaryOp::Subset, "of"),
            ("disjoint", _) => with(BinaryOp::Disjoint, "from"),
            ("prefix", _) => with(BinaryOp::Prefix, "of"),
            ("subsequence", _) => with(BinaryOp::Subsequence, "of"),
            _ => None,
        }
    }

    /// `left is Variant`, which has the precedence of a comparison.
    fn is_variant(&mut self, left: Expr) -> Expr {
        self.bump();
        let negated = self.at_word("not").then(|| self.bump().span);
        let Some(variant) = self.name_or_text() else {
            self.unexpected_with("the name of a variant", Some("for instance x is Leader".into()));
            return left;
        };
        if let Some(span) = negated {
            let help = format!("write `not (x is {})`", variant.name);
            self.error(span, "`is not` is not an operator", Some(help));
        }
        let span = left.span.to(variant.span);
        Expr { kind: ExprKind::Is(Box::new(left), variant), span }
    }

    fn unary(&mut self) -> Expr {
        let start = self.span();
        if self.at_punct("!") {
            self.error(start, "`!` is not an operator", Some("write `not`".into()));
        }
        let (op, least) = if self.at_word("not") || self.at_punct("!") {
            (UnaryOp::Not, NOT + 1)
        } else if self.at_punct("-") {
            (UnaryOp::Neg, NEGATE)
        } else {
            return self.postfix();
        };
        self.bump();
        if op == UnaryOp::Neg
            && let Some(literal) = self.negative_literal()
        {
            let span = start.to(self.previous_span());
            return self.postfix_of(Expr { kind: ExprKind::Literal(literal), span });
        }
        let operand = self.nested(|parser| parser.binary(least));
        let span = start.to(operand.span);
        Expr { kind: ExprKind::Unary(op, Box::new(operand)), span }
    }

    /// Reads `-5` as one literal, because it denotes one value.
    fn negative_literal(&mut self) -> Option<Literal> {
        let literal = match self.kind() {
            TokenKind::Int(value) => Literal::Int(value.wrapping_neg()),
            TokenKind::Float(value) => Literal::Float(-value),
            TokenKind::Duration(nanos) => Literal::Duration(-nanos),
            _ => return None,
        };
        self.bump();
        Some(literal)
    }
}
