//! The places where variables can be recorded.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Expr, Stmt};

use crate::facts::{Direction, Point, PointKind, Receiver, VarId};

use super::walk::Walk;

impl Walk<'_> {
    /// Makes a place with what can be read there.
    fn point(&self, kind: PointKind, at: proc_macro2::LineColumn) -> Point {
        let mut names = BTreeSet::new();
        let mut visible: Vec<(VarId, String)> = Vec::new();
        for bound in self.scopes[self.base..].iter().rev().flat_map(|scope| scope.iter().rev()) {
            if names.insert(bound.name.clone()) && bound.name != "_" {
                visible.push((bound.var, bound.name.clone()));
            }
        }
        // A closure that did not capture `self` must not begin to.
        let has_self = self.has_self && self.inner == 0;
        if let (Some(owner), true) = (&self.owner, has_self) {
            let fields = self.index.fields.get(owner).into_iter().flatten();
            let readable =
                fields.filter(|(name, _)| !name.starts_with(|c: char| c.is_ascii_digit()));
            for (name, (var, ty)) in readable {
                visible.push((*var, format!("self.{name}")));
                // The parts of the node that are structures of their own.
                let part = ty.core.as_ref().filter(|core| !ty.shared && *core != owner);
                let parts = part.and_then(|core| self.index.fields.get(core)).into_iter().flatten();
                visible.extend(parts.map(|(part, (var, _))| (*var, format!("self.{name}.{part}"))));
            }
        }
        let receiver = self.owner.clone().filter(|_| has_self);
        let receiver = receiver.map(|of| Receiver { of, expression: "self".to_owned() });
        let (file, function) = (self.file, self.function);
        Point {
            kind,
            file,
            offset: self.source.offset(at),
            line: at.line,
            function,
            visible,
            receiver,
        }
    }

    /// Adds the end of a function before its last expression.
    pub(super) fn end_before(&mut self, span: Span) {
        let point = self.point(PointKind::End, span.start());
        self.facts.points.push(point);
    }

    /// Adds the end of a function at the end of its block, if that is reached.
    pub(super) fn end_of(&mut self, block: &syn::Block) {
        let is_reached = match block.stmts.last() {
            Some(Stmt::Expr(expr, Some(_))) => !matches!(
                expr,
                Expr::Return(_) | Expr::Loop(_) | Expr::Break(_) | Expr::Continue(_)
            ),
            Some(Stmt::Expr(expr, None)) => matches!(expr, Expr::While(_) | Expr::ForLoop(_)),
            Some(Stmt::Macro(it)) => it.semi_token.is_some() && !ends(&it.mac),
            Some(_) | None => true,
        };
        if is_reached {
            let point = self.point(PointKind::End, block.brace_token.span.close().start());
            self.facts.points.push(point);
        }
    }

    /// Gives the calls of a statement that communicate a place beside it.
    pub(super) fn place(&mut self, stmt: &Stmt, before: usize) {
        if let Stmt::Expr(expr @ Expr::Return(_), _) = stmt
            && self.inner == 0
        {
            let point = self.point(PointKind::End, expr.span().start());
            self.facts.points.push(point);
        }
        let is_followed = matches!(stmt, Stmt::Local(_) | Stmt::Expr(_, Some(_)))
            && !matches!(stmt, Stmt::Expr(Expr::Return(_) | Expr::Break(_), _));
        let (start, end) = (stmt.span().start(), stmt.span().end());
        for at in before.max(self.placed)..self.potentials.len() {
            let direction = self.potentials[at].meets.first().map(|meet| meet.direction);
            let point = match direction {
                Some(Direction::In) if is_followed => self.point(PointKind::Network, end),
                Some(_) => self.point(PointKind::Network, start),
                None => continue,
            };
            self.potentials[at].points.push(point);
        }
        self.placed = self.placed.max(self.potentials.len());
    }

    /// Gives the calls of a condition that communicate a place at the start of the body.
    pub(super) fn place_in(&mut self, body: &syn::Block, before: usize) {
        let calls = before.max(self.placed)..self.potentials.len();
        self.place_among(body, calls);
        self.placed = self.placed.max(self.potentials.len());
    }

    /// Gives calls that communicate a place at the start of one of several bodies.
    pub(super) fn place_among(&mut self, body: &syn::Block, calls: Range<usize>) {
        for at in calls {
            let point = self.point(PointKind::Network, body.brace_token.span.open().end());
            self.potentials[at].points.push(point);
            self.placed = self.placed.max(at + 1);
        }
    }

    /// Adds the places of marks between the statements of a block.
    pub(super) fn marks_before(&mut self, block: &syn::Block, at: usize) {
        let from = match at.checked_sub(1) {
            Some(last) => block.stmts[last].span().end().line,
            None => block.brace_token.span.open().end().line,
        };
        let next = match block.stmts.get(at) {
            Some(stmt) => stmt.span().start(),
            None => block.brace_token.span.close().start(),
        };
        let is_between = |line: &usize| *line >= from && *line < next.line;
        if self.source.marks.iter().any(is_between) {
            let point = self.point(PointKind::Mark, next);
            self.facts.points.push(point);
        }
    }
}

/// Returns whether a macro never returns.
fn ends(it: &syn::Macro) -> bool {
    let last = it.path.segments.last().map(|last| last.ident.to_string());
    last.is_some_and(|name| {
        matches!(name.as_str(), "panic" | "unreachable" | "todo" | "unimplemented")
    })
}
