//! The flows of values through the bodies of functions.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Expr, FnArg, Pat, Stmt};

use crate::facts::{Direction, Facts, Flow, Kind, Meet, Var, VarId};

use super::index::{Body, Index, Ty, names_in};
use super::network;
use super::source::Source;

/// The value of an expression: the variables of which it is made, and its type.
#[derive(Clone, Debug, Default)]
pub(super) struct Val {
    pub(super) from: Vec<VarId>,
    pub(super) ty: Ty,
}

impl Val {
    pub(super) fn and(mut self, other: Val) -> Val {
        self.from.extend(other.from);
        if self.ty.core.is_none() {
            self.ty = other.ty;
        }
        self
    }
}

/// A call that communicates if its receiver is a connection, which is known at the end.
#[derive(Debug)]
pub(super) struct Potential {
    /// The variables of which one must be a connection; if empty, it surely communicates.
    pub(super) through: Vec<VarId>,
    pub(super) meets: Vec<Meet>,
    /// The places that exist if it communicates.
    pub(super) points: Vec<crate::facts::Point>,
}

/// A name in a scope.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) name: String,
    pub(super) var: VarId,
    pub(super) ty: Ty,
}

/// The walk through one body.
pub(super) struct Walk<'a> {
    pub(super) index: &'a Index<'a>,
    pub(super) facts: &'a mut Facts,
    pub(super) source: &'a Source,
    pub(super) potentials: &'a mut Vec<Potential>,
    /// The flows through which a connection remains a connection, by number.
    pub(super) carried: &'a mut BTreeSet<usize>,
    /// Macros whose content could not be read.
    pub(super) unread: &'a mut BTreeSet<String>,
    pub(super) function: usize,
    pub(super) file: usize,
    pub(super) owner: Option<String>,
    /// Whether `self` is a reference.
    pub(super) has_self: bool,
    pub(super) scopes: Vec<Vec<Bound>>,
    /// The number of closures and async blocks around.
    pub(super) inner: usize,
    /// The first scope that can be read here; those before are of the code around a closure.
    pub(super) base: usize,
    /// The variables that decide whether the present statement runs.
    pub(super) controls: Vec<VarId>,
    /// The potential calls before this one have their places.
    pub(super) placed: usize,
}

impl Walk<'_> {
    /// Walks through the body of a function.
    pub(super) fn body(&mut self, body: &Body<'_>) {
        self.scopes.push(Vec::new());
        let index = self.index;
        let callable = &index.callables[body.function];
        let typed = body.signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        });
        let mut from_framework = false;
        for (at, typed) in typed.enumerate() {
            let (var, ty) = (callable.params[at], callable.types[at].clone());
            let received = self.is_received(&typed.ty);
            match &*typed.pat {
                Pat::Ident(ident) => self.bind_var(ident.ident.to_string(), var, ty),
                pattern => self.pattern(pattern, &Val { from: vec![var], ty }, "taken apart"),
            }
            if received {
                from_framework = true;
                self.meet(var, Direction::In, format!("handler {}", callable.name), typed.span());
            }
        }
        if let syn::ReturnType::Type(_, ty) = &body.signature.output {
            let names = names_in(ty);
            let sent = |name: &String| network::is_sent(name) && !self.index.types.contains(name);
            if from_framework || names.iter().any(sent) {
                let call = format!("the result of handler {}", callable.name);
                self.meet(callable.result, Direction::Out, call, ty.span());
            }
        }
        let value = self.block(body.block, true);
        self.flow(&value, callable.result, "returned", body.block.span(), true);
        self.scopes.pop();
    }

    fn is_received(&self, ty: &syn::Type) -> bool {
        let names = names_in(ty);
        // A reference to a path is a path of files.
        let is_file = names.iter().any(|name| name == "Path") && !names.len().gt(&1);
        let is_reference = names.first().is_some_and(|name| name.starts_with('&'));
        let known = |name: &String| network::is_received(name) && !self.index.types.contains(name);
        names.iter().any(known) && !is_file && !is_reference
    }

    pub(super) fn line(&self, span: Span) -> usize {
        super::line(span)
    }

    /// Records that a variable surely meets the network.
    pub(super) fn meet(&mut self, var: VarId, direction: Direction, call: String, span: Span) {
        let meet = Meet { var, direction, call, file: self.file, line: self.line(span) };
        self.facts.meets.push(meet);
    }

    /// Makes a variable.
    pub(super) fn var(&mut self, name: &str, kind: Kind, ty: &Ty, span: Span) -> VarId {
        let owner = self.facts.functions[self.function].name.clone();
        let is_handle = ty.core.as_deref().is_some_and(|core| self.index.is_handle(core));
        let (name, file, line) = (name.to_owned(), self.file, self.line(span));
        // The type of a local variable is inferred, so it does not exclude a connection.
        self.facts.vars.push(Var { name, kind, owner, file, line, is_handle, is_plain: false });
        self.facts.vars.len() - 1
    }

    /// Records that a value flows into a variable.
    pub(super) fn flow(&mut self, value: &Val, to: VarId, how: &str, span: Span, carries: bool) {
        let (file, line) = (self.file, self.line(span));
        for from in value.from.iter().copied().filter(|from| *from != to) {
            let mut add = |from, to| {
                if carries {
                    self.carried.insert(self.facts.flows.len());
                }
                self.facts.flows.push(Flow { from, to, how: how.to_owned(), file, line });
            };
            add(from, to);
            if value.ty.shared {
                add(to, from);
            }
        }
    }

    /// Walks through what runs only if the variables have certain values.
    pub(super) fn under<T>(&mut self, deciding: &Val, inside: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.controls.len();
        self.controls.extend(&deciding.from);
        let result = inside(self);
        self.controls.truncate(before);
        result
    }

    /// Records that a change of the state, or a message, depends on what was decided before.
    pub(super) fn decided(&mut self, to: VarId, span: Span) {
        let deciding = Val { from: self.controls.clone(), ty: Ty::default() };
        self.flow(&deciding, to, "decides", span, false);
    }

    pub(super) fn bind_var(&mut self, name: String, var: VarId, ty: Ty) {
        self.scopes.last_mut().expect("a scope is open").push(Bound { name, var, ty });
    }

    pub(super) fn find(&self, name: &str) -> Option<Bound> {
        let bound = self.scopes.iter().rev().flat_map(|scope| scope.iter().rev());
        bound.clone().find(|bound| bound.name == name).cloned()
    }

    /// Binds the names of a pattern to a value.
    pub(super) fn pattern(&mut self, pattern: &Pat, value: &Val, how: &str) {
        match pattern {
            Pat::Ident(it) => {
                let name = it.ident.to_string();
                // A constant or a variant without fields looks like a name.
                if !name.starts_with(char::is_uppercase) {
                    let var = self.var(&name, Kind::Local, &value.ty, it.ident.span());
                    self.flow(value, var, how, it.span(), true);
                    self.bind_var(name, var, value.ty.clone());
                }
                if let Some((_, inner)) = &it.subpat {
                    self.pattern(inner, value, how);
                }
            }
            Pat::Type(it) => {
                let ty = self.index.own(self.index.ty(&it.ty), self.owner.as_ref());
                self.pattern(&it.pat, &Val { from: value.from.clone(), ty }, how);
            }
            Pat::Struct(it) => self.fields_of(it, value),
            Pat::Tuple(it) => it.elems.iter().for_each(|it| self.pattern(it, value, how)),
            Pat::TupleStruct(it) => {
                let key = path_key(&it.path, self.owner.as_ref());
                for (at, part) in it.elems.iter().enumerate() {
                    let value = self.part(&key, &at.to_string(), value);
                    self.pattern(part, &value, "taken apart");
                }
            }
            Pat::Slice(it) => it.elems.iter().for_each(|it| self.pattern(it, value, how)),
            Pat::Or(it) => it.cases.iter().for_each(|it| self.pattern(it, value, how)),
            Pat::Reference(it) => self.pattern(&it.pat, value, how),
            Pat::Paren(it) => self.pattern(&it.pat, value, how),
            _ => {}
        }
    }

    fn fields_of(&mut self, it: &syn::PatStruct, value: &Val) {
        let key = path_key(&it.path, self.owner.as_ref());
        for field in &it.fields {
            let syn::Member::Named(name) = &field.member else { continue };
            let value = self.part(&key, &name.to_string(), value);
            self.pattern(&field.pat, &value, "taken apart");
        }
    }

    /// Returns the value of a field of a structure or variant that is taken apart.
    fn part(&self, key: &str, name: &str, whole: &Val) -> Val {
        match self.index.fields.get(key).and_then(|fields| fields.get(name)) {
            Some((var, ty)) => {
                let mut from = whole.from.clone();
                from.push(*var);
                Val { from, ty: ty.clone() }
            }
            None => whole.clone(),
        }
    }

    /// Walks through a block; returns its value.
    pub(super) fn block(&mut self, block: &syn::Block, is_end: bool) -> Val {
        self.scopes.push(Vec::new());
        let mut value = Val::default();
        let is_end = is_end && self.inner == 0;
        for (at, stmt) in block.stmts.iter().enumerate() {
            let is_last = at + 1 == block.stmts.len();
            self.marks_before(block, at);
            let before = self.potentials.len();
            value = self.statement(stmt, is_last && is_end);
            self.place(stmt, before);
        }
        self.marks_before(block, block.stmts.len());
        if is_end {
            self.end_of(block);
        }
        self.scopes.pop();
        value
    }

    fn statement(&mut self, stmt: &Stmt, is_end: bool) -> Val {
        match stmt {
            Stmt::Local(local) => {
                self.local(local);
                Val::default()
            }
            Stmt::Expr(expr, semi) => {
                if is_end && semi.is_none() {
                    return self.last(expr);
                }
                let value = self.expr(expr);
                if semi.is_none() { value } else { Val::default() }
            }
            Stmt::Macro(it) => {
                let value = self.macro_call(&it.mac);
                if it.semi_token.is_none() { value } else { Val::default() }
            }
            Stmt::Item(_) => Val::default(),
        }
    }

    /// Walks through the last expression of a function, before which its state is recorded.
    fn last(&mut self, expr: &Expr) -> Val {
        match expr {
            Expr::If(it) => self.branches(it, true),
            Expr::Match(it) => self.matches(it, true),
            Expr::Block(it) => self.block(&it.block, true),
            Expr::Unsafe(it) => self.block(&it.block, true),
            other => {
                if !matches!(other, Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_)) {
                    self.end_before(other.span());
                }
                self.expr(other)
            }
        }
    }

    fn local(&mut self, local: &syn::Local) {
        let Some(init) = &local.init else {
            self.pattern(&local.pat, &Val::default(), "assigned");
            return;
        };
        if let (Pat::Tuple(pattern), Expr::Tuple(tuple)) = (&local.pat, &*init.expr) {
            for (part, expr) in pattern.elems.iter().zip(&tuple.elems) {
                let value = self.expr(expr);
                self.pattern(part, &value, "assigned");
            }
            return;
        }
        let value = self.expr(&init.expr);
        if let Some((_, diverge)) = &init.diverge {
            let _ = self.expr(diverge);
        }
        self.pattern(&local.pat, &value, "assigned");
        self.ends_of_channel(&local.pat, &init.expr);
    }

    /// Connects the two ends of a channel that is made here.
    fn ends_of_channel(&mut self, pattern: &Pat, made: &Expr) {
        let pattern = if let Pat::Type(it) = pattern { &*it.pat } else { pattern };
        let (Pat::Tuple(tuple), Expr::Call(call)) = (pattern, made) else { return };
        let Expr::Path(path) = &*call.func else { return };
        let segments: Vec<String> =
            path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        let is_channel = segments.iter().any(|name| name.contains("channel") || name == "bounded");
        let names: Vec<_> = tuple
            .elems
            .iter()
            .filter_map(|part| match part {
                Pat::Ident(it) => self.find(&it.ident.to_string()),
                _ => None,
            })
            .collect();
        if let ([sender, receiver], true) =
            (&names[..], is_channel || segments.last().is_some_and(|s| s == "unbounded"))
        {
            let value = Val { from: vec![sender.var], ty: Ty::default() };
            self.flow(&value, receiver.var, "through the channel", made.span(), true);
            let sender = sender.var;
            for bound in self.scopes.iter_mut().flatten().filter(|bound| bound.var == sender) {
                bound.ty = Ty { core: Some("Sender".to_owned()), shared: true };
            }
        }
    }
}

/// Returns the name under which the fields of a structure or variant are known.
pub(super) fn path_key(path: &syn::Path, owner: Option<&String>) -> String {
    let mut names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    if let (Some(first), Some(owner)) = (names.first_mut(), owner)
        && first == "Self"
    {
        first.clone_from(owner);
    }
    let is_type = |name: &String| name.starts_with(char::is_uppercase);
    match &names[..] {
        [.., of, variant] if is_type(of) => format!("{of}::{variant}"),
        [.., last] => last.clone(),
        [] => String::new(),
    }
}
