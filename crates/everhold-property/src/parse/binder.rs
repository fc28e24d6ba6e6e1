//! `a, b in nodes, k -> v in a.table where a != b`.

use super::Parser;
use crate::ast::{Binder, Domain, Expr, Ident, Over, Pattern};
use crate::diagnostic::nearest;
use crate::lex::{RESERVED, TokenKind};

/// Domains bind tighter than comparisons, so that `where` and `:` end them.
const DOMAIN: u8 = 6;

impl Parser<'_> {
    pub(super) fn over(&mut self) -> Over {
        let mut binders = vec![self.binder()];
        while self.eat_punct(",") {
            binders.push(self.binder());
        }
        let guard = self.eat_word("where").then(|| Box::new(self.nested(Self::expr)));
        Over { binders, guard }
    }

    /// Whether a binder starts here: names up to `in` or `->`.
    pub(super) fn at_binder(&self) -> bool {
        let mut n = 0;
        loop {
            let Some(word) = self.word_after(n) else { return false };
            if RESERVED.contains(&word) {
                return false;
            }
            match self.kind_after(n + 1) {
                TokenKind::Punct(",") => n += 2,
                TokenKind::Punct("->") => return true,
                TokenKind::Word(word) => return word == "in",
                _ => return false,
            }
        }
    }

    fn binder(&mut self) -> Binder {
        let first = self.variable();
        let pattern = if self.eat_punct("->") {
            Pattern::Entry(first, self.variable())
        } else {
            let mut names = vec![first];
            while self.eat_punct(",") {
                names.push(self.variable());
            }
            Pattern::Names(names)
        };
        if !self.eat_word("in") {
            let help = "for instance forall a, b in nodes, x in a.log: ...".to_owned();
            self.unexpected_with("`in` and the domain of the variable", Some(help));
        }
        Binder { pattern, domain: self.domain() }
    }

    fn variable(&mut self) -> Ident {
        let span = self.span();
        if self.at_name()
            && let TokenKind::Word(name) = self.bump().kind
        {
            return Ident { name, span };
        }
        let reserved = self.word_after(0).map(|word| format!("`{word}` is a reserved word"));
        self.unexpected_with("the name of a variable", reserved);
        if self.word_after(1) == Some("in") {
            self.bump();
        }
        Ident { name: String::new(), span }
    }

    fn domain(&mut self) -> Domain {
        if let Some(domain) = self.node_domain() {
            return domain;
        }
        let from = self.nested(|parser| parser.binary(DOMAIN));
        let inclusive = self.at_punct("..=");
        if !self.eat_punct("..") && !self.eat_punct("..=") {
            self.misspelt_nodes(&from);
            return Domain::Values(Box::new(from));
        }
        let to = self.nested(|parser| parser.binary(DOMAIN));
        Domain::Range { from: Box::new(from), to: Box::new(to), inclusive }
    }

    /// `forall n in server node: ...`.
    fn misspelt_nodes(&mut self, from: &Expr) {
        let word = self.word_after(0).filter(|word| nearest(word, ["nodes"]).is_some());
        if word.is_some() && self.previous_span() == from.span {
            self.unexpected_with("`:` or `where`", Some("did you mean `nodes`?".into()));
            self.bump();
        }
    }

    /// `nodes`, `server nodes`, `"odd kind" nodes`, each perhaps after `all`.
    fn node_domain(&mut self) -> Option<Domain> {
        let is_nodes = |n: usize| self.word_after(n) == Some("nodes");
        let all = self.at_word("all")
            && (is_nodes(1) || is_nodes(2) && self.kind_word_after(1).is_some());
        let at = usize::from(all);
        if is_nodes(at) {
            self.at += at + 1;
            return Some(Domain::Nodes { kind: None, all });
        }
        let kind = self.kind_word_after(at).filter(|_| is_nodes(at + 1))?;
        self.at += at + 2;
        Some(Domain::Nodes { kind: Some(kind), all })
    }

    fn kind_word_after(&self, n: usize) -> Option<String> {
        match self.kind_after(n) {
            TokenKind::Word(word) if !RESERVED.contains(&word.as_str()) => Some(word.clone()),
            TokenKind::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}
