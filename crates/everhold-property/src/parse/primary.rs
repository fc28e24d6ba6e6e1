//! Operands: literals, names, calls, brackets, quantifiers, and the suffixes that follow them.

use super::{Parser, sugar};
use crate::ast::{Aggregate, Expr, ExprKind, History, Ident, Literal, Quantifier};
use crate::diagnostic::Span;
use crate::lex::{RESERVED, TokenKind, decode_hex};

/// The largest history: every state that a property looks back on must be kept.
pub(super) const HISTORY_MAX: u32 = 1000;

impl Parser<'_> {
    pub(super) fn postfix(&mut self) -> Expr {
        let base = self.primary();
        self.postfix_of(base)
    }

    pub(super) fn postfix_of(&mut self, mut base: Expr) -> Expr {
        for _ in 0..super::CHAIN_MAX {
            if self.eat_punct(".") {
                base = self.field(base);
            } else if self.eat_punct("[") {
                let open = self.previous_span();
                let index = self.nested(Self::expr);
                self.close("]", open);
                let span = base.span.to(self.previous_span());
                base = Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), span };
            } else {
                break;
            }
        }
        base
    }

    fn field(&mut self, base: Expr) -> Expr {
        let Some(field) = self.name_or_text() else {
            let help = "write an odd name between double quotes: n.\"odd name\"".to_owned();
            self.unexpected_with("the name of a field", Some(help));
            return base;
        };
        let is_past = ["previous", "changed", "window"].contains(&field.name.as_str());
        if is_past && self.at_punct("(") {
            let help = format!("write `{}(n.term)`: it takes what is looked back at", field.name);
            self.error(field.span, "the past is no field of a node", Some(help));
        }
        let span = base.span.to(field.span);
        Expr { kind: ExprKind::Field(Box::new(base), field), span }
    }

    /// Reads a name where no keyword is possible, so that any word is accepted.
    pub(super) fn name_or_text(&mut self) -> Option<Ident> {
        let span = self.span();
        let (TokenKind::Word(name) | TokenKind::Text(name)) = self.kind().clone() else {
            return None;
        };
        self.bump();
        Some(Ident { name, span })
    }

    fn primary(&mut self) -> Expr {
        let start = self.span();
        let kind = match self.kind().clone() {
            TokenKind::Int(value) => self.literal(Literal::Int(value)),
            TokenKind::Float(value) => self.literal(Literal::Float(value)),
            TokenKind::Duration(nanos) => self.literal(Literal::Duration(nanos)),
            TokenKind::Text(text) => self.literal(Literal::Text(text)),
            TokenKind::Punct("(") => return self.parenthesised(),
            TokenKind::Punct("[") => {
                self.bump();
                ExprKind::List(self.items("]"))
            }
            TokenKind::Punct("{") => self.braces(),
            TokenKind::Word(_) if self.at_let() => return self.let_in(),
            TokenKind::Word(_) if self.at_if() => return self.if_else(),
            TokenKind::Word(word) => match word.as_str() {
                "true" => self.literal(Literal::Bool(true)),
                "false" => self.literal(Literal::Bool(false)),
                "null" => self.literal(Literal::Null),
                "forall" => return self.quantified(Quantifier::Forall),
                "exists" => return self.quantified(Quantifier::Exists),
                "nodes" => return self.stray_nodes(),
                reserved if RESERVED.contains(&reserved) => return self.missing_operand(),
                _ => self.name_or_call(word),
            },
            TokenKind::Punct(_) | TokenKind::End => return self.missing_operand(),
        };
        Expr { kind, span: start.to(self.previous_span()) }
    }

    fn literal(&mut self, literal: Literal) -> ExprKind {
        self.bump();
        ExprKind::Literal(literal)
    }

    fn missing_operand(&mut self) -> Expr {
        let hole = self.hole();
        self.unexpected("a value");
        // A token that can close or continue the enclosing expression is left for that expression.
        let stays = matches!(
            self.kind(),
            TokenKind::Punct(")" | "]" | "}" | "," | ":" | "==" | "!=" | "<" | "<=" | ">" | ">=")
                | TokenKind::Word(_)
                | TokenKind::End
        );
        if !stays {
            self.bump();
        }
        hole
    }

    fn stray_nodes(&mut self) -> Expr {
        let hole = self.hole();
        let help = "range over it: count(n in nodes), forall n in nodes: ...".to_owned();
        self.error(self.span(), "`nodes` is not a value", Some(help));
        self.bump();
        hole
    }

    fn parenthesised(&mut self) -> Expr {
        let open = self.bump().span;
        let mut inner = self.nested(|parser| {
            let inner = parser.expr();
            parser.leads_to(inner)
        });
        if sugar::leads(&inner) && self.at_word("within") {
            self.inner_within = self.eat_within();
        }
        self.close(")", open);
        inner.span = open.to(self.previous_span());
        inner
    }

    pub(super) fn close(&mut self, bracket: &str, open: Span) {
        if self.eat_punct(bracket) {
            return;
        }
        let line = self.source[..open.start].matches('\n').count() + 1;
        let help = format!("the bracket opened on line {line} is not closed");
        self.unexpected_with(&format!("`{bracket}`"), Some(help));
    }

    /// Reads expressions between commas up to the closing bracket; the opening one has been
    /// consumed.
    fn items(&mut self, close: &str) -> Vec<Expr> {
        let open = self.previous_span();
        let mut items = Vec::new();
        while !self.at_punct(close) && !self.at_end() && !self.at_header() {
            items.push(self.nested(Self::expr));
            if self.at_word("within") {
                let help = "to count over the last states, write `count(x in window(p, 4): x)`; \
                            `once(p within 3 steps)` asks if it was so in one of them";
                self.error(self.span(), "a bound cannot stand here", Some(help.to_owned()));
                self.eat_within();
            }
            if !self.eat_punct(",") {
                break;
            }
        }
        self.close(close, open);
        items
    }

    /// A set `{a, b}`, a map `{a -> b}`, or a record `{name: a}`.
    fn braces(&mut self) -> ExprKind {
        let open = self.bump().span;
        let is_field = matches!(self.kind(), TokenKind::Word(_) | TokenKind::Text(_))
            && matches!(self.kind_after(1), TokenKind::Punct(":"));
        if is_field || self.at_punct(":") {
            return self.record(open);
        }
        if self.eat_punct("->") {
            self.close("}", open);
            return ExprKind::Map(Vec::new());
        }
        if self.eat_punct("}") {
            return ExprKind::Set(Vec::new());
        }
        let first = self.nested(Self::expr);
        if self.at_punct("->") {
            return self.map(open, first);
        }
        let mut items = vec![first];
        while self.eat_punct(",") && !self.at_punct("}") {
            items.push(self.nested(Self::expr));
        }
        self.close("}", open);
        ExprKind::Set(items)
    }

    fn map(&mut self, open: Span, first: Expr) -> ExprKind {
        let mut entries = Vec::new();
        let mut key = first;
        loop {
            self.expect_punct("->", "between the key and the value");
            let value = self.nested(Self::expr);
            entries.push((key, value));
            if !self.eat_punct(",") || self.at_punct("}") {
                break;
            }
            key = self.nested(Self::expr);
        }
        self.close("}", open);
        ExprKind::Map(entries)
    }

    fn record(&mut self, open: Span) -> ExprKind {
        let mut fields = Vec::new();
        if !self.eat_punct(":") {
            while let Some(name) = self.name_or_text() {
                self.expect_punct(":", "after the name of the field");
                fields.push((name, self.nested(Self::expr)));
                if !self.eat_punct(",") {
                    break;
                }
            }
        }
        self.close("}", open);
        ExprKind::Record(fields)
    }

    fn quantified(&mut self, quantifier: Quantifier) -> Expr {
        let start = self.bump().span;
        let over = self.over();
        self.expect_punct(":", "after the domain of the variables");
        let body = self.nested(|parser| {
            let body = parser.expr();
            parser.leads_to(body)
        });
        let span = start.to(body.span);
        Expr { kind: ExprKind::Quantified { quantifier, over, body: Box::new(body) }, span }
    }

    fn name_or_call(&mut self, word: String) -> ExprKind {
        let name = Ident { name: word, span: self.bump().span };
        if !self.eat_punct("(") {
            return ExprKind::Name(name.name);
        }
        let aggregate = Aggregate::ALL.iter().find(|(text, _)| *text == name.name);
        if let Some((_, op)) = aggregate.filter(|_| self.at_binder()) {
            return self.aggregate(*op);
        }
        match name.name.as_str() {
            "previous" => self.history(History::Previous, name.span),
            "changed" => self.history(History::Changed, name.span),
            "window" => self.history(History::Window, name.span),
            "once" | "historically" => self.within_the_past(&name),
            "bytes" => self.bytes(name.span),
            _ => ExprKind::Call(name, self.items(")")),
        }
    }

    fn aggregate(&mut self, op: Aggregate) -> ExprKind {
        let open = self.previous_span();
        let over = self.over();
        let body = if self.eat_punct(":") {
            Some(Box::new(self.nested(Self::expr)))
        } else {
            if op != Aggregate::Count {
                let help = format!("for instance {}(n in nodes: n.size)", op.name());
                self.unexpected_with("`:` and a value", Some(help));
            }
            None
        };
        self.close(")", open);
        ExprKind::Aggregate { op, over, body }
    }

    fn history(&mut self, op: History, span: Span) -> ExprKind {
        let mut arguments = self.items(")").into_iter();
        let body = arguments.next().unwrap_or_else(|| self.hole());
        let steps = match (op, arguments.next().map(|steps| steps.kind)) {
            (History::Previous | History::Changed, None) => Some(1),
            (History::Previous | History::Window, Some(ExprKind::Literal(Literal::Int(n)))) => {
                u32::try_from(n).ok().filter(|steps| (1..=HISTORY_MAX).contains(steps))
            }
            _ => None,
        };
        if steps.is_none() || body.kind == ExprKind::Hole || arguments.next().is_some() {
            let help = "write previous(e), previous(e, 2), changed(e), or window(e, 3); \
                        the number is written out, from 1 to 1000";
            self.push(span, "this is not a valid expression about the past", help);
        }
        ExprKind::History { op, steps: steps.unwrap_or(1), body: Box::new(body) }
    }

    fn bytes(&mut self, span: Span) -> ExprKind {
        let arguments = self.items(")");
        if let [Expr { kind: ExprKind::Literal(Literal::Text(text)), .. }] = arguments.as_slice()
            && let Some(bytes) = decode_hex(text)
        {
            return ExprKind::Literal(Literal::Bytes(bytes));
        }
        self.push(span, "these are no bytes", "write two hex digits a byte: bytes(\"00ff\")");
        ExprKind::Literal(Literal::Bytes(Vec::new()))
    }
}
