//! The flows of values through expressions.

use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, Member};

use crate::facts::{Kind, VarId};

use super::index::Ty;
use super::walk::{Val, Walk, path_key};

impl Walk<'_> {
    /// Walks through an expression; returns the variables of which its value is made.
    pub(super) fn expr(&mut self, expr: &Expr) -> Val {
        match expr {
            Expr::Path(it) => self.path(&it.path),
            Expr::Field(it) => self.field(it),
            Expr::Call(it) => self.call(it),
            Expr::MethodCall(it) => self.method_call(it),
            Expr::Macro(it) => self.macro_call(&it.mac),
            Expr::Assign(it) => {
                let value = self.expr(&it.right);
                self.assign(&it.left, &value, "assigned");
                Val::default()
            }
            Expr::Binary(it) => self.binary(it),
            Expr::Struct(it) => self.literal(it),
            Expr::Reference(it) => {
                let mut value = self.expr(&it.expr);
                value.ty.shared |= it.mutability.is_some();
                value
            }
            Expr::Paren(it) => self.expr(&it.expr),
            Expr::Group(it) => self.expr(&it.expr),
            Expr::Unary(it) => self.expr(&it.expr),
            Expr::Cast(it) => Val { ty: self.index.ty(&it.ty), ..self.expr(&it.expr) },
            Expr::Try(it) => self.expr(&it.expr),
            Expr::Await(it) => self.expr(&it.base),
            Expr::Index(it) => {
                let _ = self.expr(&it.index);
                self.expr(&it.expr)
            }
            Expr::Tuple(it) => self.all(it.elems.iter()),
            Expr::Array(it) => self.all(it.elems.iter()),
            Expr::Repeat(it) => self.expr(&it.expr),
            Expr::Range(it) => self.all(it.start.iter().chain(&it.end).map(|part| &**part)),
            other => self.control(other),
        }
    }

    /// Walks through expressions that decide what runs.
    fn control(&mut self, expr: &Expr) -> Val {
        match expr {
            Expr::Block(it) => self.block(&it.block, false),
            Expr::Unsafe(it) => self.block(&it.block, false),
            Expr::Const(it) => self.block(&it.block, false),
            Expr::Async(it) => self.apart(|walk| walk.block(&it.block, false)),
            Expr::If(it) => self.branches(it, false),
            Expr::Match(it) => self.matches(it, false),
            Expr::Let(it) => {
                let value = self.expr(&it.expr);
                self.pattern(&it.pat, &value, "taken apart");
                value
            }
            Expr::While(it) => {
                self.scopes.push(Vec::new());
                let before = self.potentials.len();
                let _ = self.expr(&it.cond);
                self.place_in(&it.body, before);
                let _ = self.block(&it.body, false);
                self.scopes.pop();
                Val::default()
            }
            Expr::ForLoop(it) => {
                self.scopes.push(Vec::new());
                let before = self.potentials.len();
                let value = self.expr(&it.expr);
                self.pattern(&it.pat, &value, "taken from");
                self.place_in(&it.body, before);
                let _ = self.block(&it.body, false);
                self.scopes.pop();
                Val::default()
            }
            Expr::Loop(it) => self.block(&it.body, false),
            Expr::Closure(it) => self.closure(it, &Val::default()),
            Expr::Return(it) => {
                if self.inner == 0 {
                    self.returned(it);
                }
                Val::default()
            }
            Expr::Break(it) => it.expr.as_ref().map_or_else(Val::default, |it| self.expr(it)),
            _ => Val::default(),
        }
    }

    fn returned(&mut self, it: &syn::ExprReturn) {
        if let Some(result) = &it.expr {
            let value = self.expr(result);
            let to = self.index.callables[self.function].result;
            self.flow(&value, to, "returned", it.span(), true);
        }
    }

    /// Walks through code that is not a part of the function's own sequence of steps.
    fn apart(&mut self, walk: impl FnOnce(&mut Self) -> Val) -> Val {
        let base = std::mem::replace(&mut self.base, self.scopes.len());
        self.inner += 1;
        let value = walk(self);
        self.inner -= 1;
        self.base = base;
        value
    }

    pub(super) fn branches(&mut self, it: &syn::ExprIf, is_end: bool) -> Val {
        self.scopes.push(Vec::new());
        let before = self.potentials.len();
        let deciding = self.expr(&it.cond);
        self.place_in(&it.then_branch, before);
        let value = self.under(&deciding, |walk| walk.block(&it.then_branch, is_end));
        self.scopes.pop();
        let Some((_, other)) = &it.else_branch else { return value };
        let other = self.under(&deciding, |walk| match &**other {
            Expr::If(other) => walk.branches(other, is_end),
            Expr::Block(other) => walk.block(&other.block, is_end),
            other => walk.expr(other),
        });
        value.and(other)
    }

    pub(super) fn matches(&mut self, it: &syn::ExprMatch, is_end: bool) -> Val {
        let before = self.potentials.len();
        let scrutinee = self.expr(&it.expr);
        let communicates = before..self.potentials.len();
        let mut value = Val::default();
        for arm in &it.arms {
            self.scopes.push(Vec::new());
            self.pattern(&arm.pat, &scrutinee, "taken apart");
            let mut deciding = scrutinee.clone();
            if let Some((_, guard)) = &arm.guard {
                deciding = deciding.and(self.expr(guard));
            }
            let communicates = communicates.clone();
            let other = self.under(&deciding, |walk| match &*arm.body {
                Expr::Block(body) => {
                    walk.place_among(&body.block, communicates);
                    walk.block(&body.block, is_end)
                }
                body => walk.expr(body),
            });
            value = value.and(other);
            self.scopes.pop();
        }
        value
    }

    /// Walks through a closure whose parameters have this value.
    pub(super) fn closure(&mut self, it: &ExprClosure, given: &Val) -> Val {
        self.apart(|walk| {
            walk.scopes.push(Vec::new());
            it.inputs.iter().for_each(|input| walk.pattern(input, given, "passed to the closure"));
            let value = walk.expr(&it.body);
            walk.scopes.pop();
            value
        })
    }

    pub(super) fn all<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) -> Val {
        exprs.fold(Val::default(), |value, expr| value.and(self.expr(expr)))
    }

    fn path(&self, path: &syn::Path) -> Val {
        if let Some(name) = path.get_ident().map(ToString::to_string) {
            if name == "self" {
                return Val {
                    from: Vec::new(),
                    ty: Ty { core: self.owner.clone(), shared: false },
                };
            }
            if let Some(bound) = self.find(&name) {
                return Val { from: vec![bound.var], ty: bound.ty };
            }
        }
        let last = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        if let Some((var, ty)) = self.index.globals.get(&last) {
            return Val { from: vec![*var], ty: ty.clone() };
        }
        let key = path_key(path, self.owner.as_ref());
        let of = key.split("::").next().unwrap_or_default();
        let core = self.index.types.contains(of).then(|| of.to_owned());
        Val { from: Vec::new(), ty: Ty { core, shared: false } }
    }

    /// Returns the variable of a field, if the type of its owner is known or no other type has one
    /// of that name.
    fn field_of(&self, ty: &Ty, name: &str) -> Option<(VarId, Ty)> {
        let known = ty.core.as_deref().and_then(|core| self.index.fields.get(core));
        if let Some(found) = known.and_then(|fields| fields.get(name)) {
            return Some(found.clone());
        }
        if known.is_some() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mut all = self.index.fields.values().filter_map(|fields| fields.get(name));
        let first = all.next()?;
        all.next().is_none().then(|| first.clone())
    }

    fn field(&mut self, it: &syn::ExprField) -> Val {
        let base = self.expr(&it.base);
        match self.field_of(&base.ty, &member(&it.member)) {
            Some((var, ty)) => {
                let mut from = base.from;
                from.push(var);
                Val { from, ty }
            }
            None => base,
        }
    }

    fn binary(&mut self, it: &syn::ExprBinary) -> Val {
        use syn::BinOp;
        let assigns = matches!(
            it.op,
            BinOp::AddAssign(_)
                | BinOp::SubAssign(_)
                | BinOp::MulAssign(_)
                | BinOp::DivAssign(_)
                | BinOp::RemAssign(_)
                | BinOp::BitXorAssign(_)
                | BinOp::BitAndAssign(_)
                | BinOp::BitOrAssign(_)
                | BinOp::ShlAssign(_)
                | BinOp::ShrAssign(_)
        );
        let right = self.expr(&it.right);
        if assigns {
            self.assign(&it.left, &right, "assigned");
            return Val::default();
        }
        let left = self.expr(&it.left);
        left.and(right)
    }

    fn literal(&mut self, it: &syn::ExprStruct) -> Val {
        let key = path_key(&it.path, self.owner.as_ref());
        let mut from = Vec::new();
        for field in &it.fields {
            let mut value = self.expr(&field.expr);
            value.ty.shared &= value.ty.core.as_deref() == Some("Sender");
            let known =
                self.index.fields.get(&key).and_then(|fields| fields.get(&member(&field.member)));
            if let Some((to, _)) = known.cloned() {
                self.flow(&value, to, "assigned", field.span(), true);
            }
            // A connection in a structure does not make the structure a connection.
            let is_handle = |var: &VarId| self.facts.vars[*var].is_handle;
            from.extend(value.from.into_iter().filter(|var| !is_handle(var)));
        }
        if let Some(rest) = &it.rest {
            from.extend(self.expr(rest).from);
        }
        let of = key.split("::").next().unwrap_or_default().to_owned();
        Val { from, ty: Ty { core: Some(of), shared: false } }
    }

    /// Records that a value flows into a place.
    pub(super) fn assign(&mut self, place: &Expr, value: &Val, how: &str) {
        if let Expr::Tuple(it) = place {
            it.elems.iter().for_each(|part| self.assign(part, value, how));
            return;
        }
        let value = Val { from: value.from.clone(), ty: Ty::default() };
        for to in self.places(place) {
            // A connection in a structure does not make the structure a connection.
            let is_field = self.facts.vars[to].kind == Kind::Field;
            let carries = is_field || !matches!(place, Expr::Field(_));
            self.flow(&value, to, how, place.span(), carries);
            if matches!(self.facts.vars[to].kind, Kind::Field | Kind::Global) {
                self.decided(to, place.span());
            }
        }
    }

    /// Returns the variables that change when a place does.
    pub(super) fn places(&mut self, place: &Expr) -> Vec<VarId> {
        match place {
            Expr::Path(it) => self.path(&it.path).from,
            Expr::Field(it) => {
                let base = self.base_type(&it.base);
                let mut found = self.places(&it.base);
                if let Some((var, _)) = self.field_of(&base, &member(&it.member)) {
                    // The owner of the field changes too, but not the owner of that owner.
                    found.retain(|at| !matches!(self.facts.vars[*at].kind, Kind::Field));
                    found.push(var);
                }
                found
            }
            Expr::Index(it) => self.places(&it.expr),
            Expr::Unary(it) => self.places(&it.expr),
            Expr::Paren(it) => self.places(&it.expr),
            Expr::Reference(it) => self.places(&it.expr),
            Expr::Try(it) => self.places(&it.expr),
            Expr::Await(it) => self.places(&it.base),
            Expr::MethodCall(it) => self.places(&it.receiver),
            _ => Vec::new(),
        }
    }

    /// Returns the type of an expression without recording its flows again.
    pub(super) fn base_type(&self, expr: &Expr) -> Ty {
        match expr {
            Expr::Path(it) => self.path(&it.path).ty,
            Expr::Field(it) => {
                let base = self.base_type(&it.base);
                self.field_of(&base, &member(&it.member)).map_or_else(Ty::default, |(_, ty)| ty)
            }
            Expr::Index(it) => self.base_type(&it.expr),
            Expr::Unary(it) => self.base_type(&it.expr),
            Expr::Paren(it) => self.base_type(&it.expr),
            Expr::Reference(it) => self.base_type(&it.expr),
            Expr::Try(it) => self.base_type(&it.expr),
            Expr::Await(it) => self.base_type(&it.base),
            Expr::MethodCall(it) => self.base_type(&it.receiver),
            _ => Ty::default(),
        }
    }
}

pub(super) fn member(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(at) => at.index.to_string(),
    }
}

/// Returns whether an expression is a mutable borrow, or an argument that may be one.
pub(super) fn is_mutable(expr: &Expr) -> bool {
    matches!(expr, Expr::Reference(it) if it.mutability.is_some())
}
