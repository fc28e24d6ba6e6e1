//! `for 1 in 100 keys every 100ms`: which part of a property a watch looks at.

use super::Parser;
use crate::ast::{Expr, ExprKind, Modality, Sampling, Scope, Share};
use crate::diagnostic::Span;
use crate::lex::TokenKind;

/// More keys than this cannot be told apart by a share.
const KEYS_MAX: i64 = 1_000_000_000;

impl Parser<'_> {
    /// `1 in 100 keys`, after `for`.
    pub(super) fn share_of_keys(&mut self) -> Option<Share> {
        let span = self.span();
        let numbers = (self.kind_after(0).clone(), self.kind_after(2).clone());
        let (TokenKind::Int(some), TokenKind::Int(of)) = numbers else { return self.bad_share() };
        let words = (self.word_after(1), self.word_after(3));
        let (Some("in"), Some("keys" | "key")) = words else { return self.bad_share() };
        self.at += 4;
        let span = span.to(self.previous_span());
        if !(1..=of).contains(&some) || of > KEYS_MAX {
            let help =
                "a share lies between 1 in 1000000000 and all of them, as in `for 1 in 100 keys`";
            self.push(span, "this is no share of the keys", help);
            return None;
        }
        Some(Share { some: some.unsigned_abs(), of: of.unsigned_abs() })
    }

    fn bad_share(&mut self) -> Option<Share> {
        let help = "a part of the keys is written like this: `for 1 in 100 keys`".to_owned();
        self.unexpected_with("a share of the keys", Some(help));
        while !self.at_end() && !self.at_punct(":") && !self.at_header() && !self.scope_word() {
            self.bump();
        }
        None
    }

    /// `100ms`, after `every`.
    pub(super) fn period(&mut self) -> Option<u64> {
        match self.kind().clone() {
            TokenKind::Duration(nanos) if nanos >= 1_000 => {
                self.bump();
                Some(nanos.unsigned_abs())
            }
            TokenKind::Duration(_) => {
                let span = self.span();
                self.bump();
                let help = "stamps tell microseconds apart, so the least is `every 1us`";
                self.push(span, "this is no time between two moments", help);
                None
            }
            _ => {
                let help = "for instance `every 100ms`, `every 2s`".to_owned();
                self.unexpected_with("a time", Some(help));
                if matches!(self.kind(), TokenKind::Int(_) | TokenKind::Float(_)) {
                    self.bump();
                }
                None
            }
        }
    }

    /// The sampling, as far as looking at less cannot find what is not so.
    pub(super) fn checked_sampling(
        &mut self,
        header: Span,
        mut sampling: Sampling,
        (modality, scope): (Modality, Scope),
        body: &Expr,
    ) -> Sampling {
        let is_key = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name == "key");
        let is_hole = |expr: &Expr| matches!(expr.kind, ExprKind::Hole);
        let speaks_of_key = body.any(&mut |expr| is_key(expr) || is_hole(expr));
        if sampling.keys.is_some() && !speaks_of_key {
            let help = "write `n.relation[key]` in the claim, or leave out `for ... keys`";
            self.push(header, "a share of the keys in a property that speaks of no key", help);
            sampling.keys = None;
        }
        let is_past = |expr: &Expr| matches!(expr.kind, ExprKind::History { .. });
        let obstacle = match (modality, scope) {
            (Modality::Always | Modality::Sometimes, Scope::Delivery | Scope::Chains) => {
                Some("is not about states at one time")
            }
            (Modality::Always | Modality::Sometimes, _) if body.any(&mut |e| is_past(e)) => {
                Some("looks back at the state before")
            }
            (Modality::Always | Modality::Sometimes, _) => None,
            _ => Some("waits for something, which may come and go between two moments"),
        };
        if let (Some(obstacle), Some(_)) = (obstacle, sampling.every) {
            let message = format!("`every` in a property that {obstacle}");
            let help = "leave out `every`; of properties about a key, a share of the keys can be \
                        looked at: `for 1 in 100 keys`";
            self.push(header, &message, help);
            sampling.every = None;
        }
        sampling
    }
}
