//! The flows of values through calls and macros.

use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Pat, Token};

use crate::facts::{Direction, Kind, Meet, VarId};

use super::expr::is_mutable;
use super::index::Ty;
use super::network;
use super::walk::{Potential, Val, Walk};

impl Walk<'_> {
    pub(super) fn method_call(&mut self, it: &syn::ExprMethodCall) -> Val {
        let receiver = self.expr(&it.receiver);
        let method = it.method.to_string();
        let known = self.resolve(&receiver.ty, &method);
        // Closures of the package's own functions get their arguments from there.
        let given = if known.is_empty() { receiver.clone() } else { Val::default() };
        let args: Vec<Val> = it.args.iter().map(|arg| self.argument(arg, &given)).collect();
        let result = self.var(&method, Kind::Call, &Ty::default(), it.method.span());
        let exprs: Vec<&Expr> = it.args.iter().collect();
        if !known.is_empty() {
            return self.known_call(&known, &exprs, &args, result, &method);
        }
        let directions = network::directions(&method, args.len());
        let is_io = !directions.is_empty();
        for direction in directions {
            self.method_meets(direction, &method, &receiver, &exprs, &args, result, it.span());
        }
        self.flow(
            &receiver,
            result,
            &format!("through {method}"),
            it.span(),
            !is_io || method == "accept",
        );
        let selects = network::selects(&method);
        for arg in args.iter().filter(|_| !selects) {
            self.flow(arg, result, &format!("through {method}"), it.span(), false);
        }
        if network::puts(&method) {
            for to in self.places(&it.receiver) {
                for arg in &args {
                    self.flow(arg, to, &format!("put by {method}"), it.span(), false);
                }
            }
        }
        self.fill(&exprs, &args, Some(&receiver), &method, it.span());
        let ty = if method == "len" { Ty::default() } else { receiver.ty };
        Val { from: vec![result], ty }
    }

    fn argument(&mut self, arg: &Expr, given: &Val) -> Val {
        match arg {
            Expr::Closure(closure) => self.closure(closure, given),
            other => self.expr(other),
        }
    }

    /// Records that a call with mutable borrows fills them from the other arguments.
    fn fill(
        &mut self,
        exprs: &[&Expr],
        args: &[Val],
        receiver: Option<&Val>,
        name: &str,
        span: proc_macro2::Span,
    ) {
        for (at, expr) in exprs.iter().enumerate().filter(|(_, expr)| is_mutable(expr)) {
            let others = args.iter().enumerate().filter(|(other, _)| *other != at);
            let given: Vec<Val> = others.map(|(_, value)| value).chain(receiver).cloned().collect();
            for to in self.places(expr) {
                for value in &given {
                    let value = Val { from: value.from.clone(), ty: Ty::default() };
                    self.flow(&value, to, &format!("filled by {name}"), span, false);
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn method_meets(
        &mut self,
        direction: Direction,
        method: &str,
        receiver: &Val,
        exprs: &[&Expr],
        args: &[Val],
        result: VarId,
        span: proc_macro2::Span,
    ) {
        let through = match receiver.ty.core.as_deref() {
            Some(core) if self.index.is_handle(core) => Vec::new(),
            _ if receiver.from.is_empty() => return,
            _ => receiver.from.clone(),
        };
        let vars = match direction {
            Direction::In => {
                let filled: Vec<VarId> = exprs.iter().flat_map(|expr| self.places(expr)).collect();
                let fills = method.starts_with("read")
                    || method.contains("recv")
                    || method.starts_with("peek");
                std::iter::once(result).chain(filled.into_iter().filter(|_| fills)).collect()
            }
            Direction::Out => {
                let sent: Vec<VarId> = args.iter().flat_map(|arg| arg.from.clone()).collect();
                sent.iter().for_each(|var| self.decided(*var, span));
                sent
            }
        };
        self.potential(through, vars, direction, method, span);
    }

    fn potential(
        &mut self,
        through: Vec<VarId>,
        vars: Vec<VarId>,
        direction: Direction,
        call: &str,
        span: proc_macro2::Span,
    ) {
        let (file, line) = (self.file, self.line(span));
        let meet = |var| Meet { var, direction, call: call.to_owned(), file, line };
        let meets = vars.into_iter().map(meet).collect();
        self.potentials.push(Potential { through, meets, points: Vec::new() });
    }

    /// Returns the methods of the package that a call may mean.
    fn resolve(&self, ty: &Ty, method: &str) -> Vec<usize> {
        match ty.core.as_deref() {
            Some(core) if self.index.types.contains(core) => self.index.named(method, Some(core)),
            Some(core) if self.index.traits.contains(core) => self.index.methods(method),
            // A generic parameter or an unknown type.
            Some(core) if core.len() <= 2 || core == "Self" => self.index.methods(method),
            Some(_) => Vec::new(),
            None if network::is_common(method) => Vec::new(),
            None => self.index.methods(method),
        }
    }

    /// Records the flows of a call of functions of the package.
    fn known_call(
        &mut self,
        known: &[usize],
        exprs: &[&Expr],
        args: &[Val],
        result: VarId,
        name: &str,
    ) -> Val {
        let index = self.index;
        let span = exprs.first().map_or_else(proc_macro2::Span::call_site, Spanned::span);
        let mut ty = Ty::default();
        for function in known {
            let callable = &index.callables[*function];
            // A method that is called by its path has its receiver as the first argument.
            let skipped = args.len().saturating_sub(callable.params.len());
            let rest = args.iter().zip(exprs).skip(skipped);
            for ((value, expr), (param, of)) in
                rest.zip(callable.params.iter().zip(&callable.types))
            {
                self.flow(value, *param, &format!("argument of {name}"), span, true);
                if is_mutable(expr) || of.shared {
                    let back = Val { from: vec![*param], ty: Ty::default() };
                    for to in self.places(expr) {
                        self.flow(&back, to, &format!("set by {name}"), span, true);
                    }
                }
            }
            let value = Val { from: vec![callable.result], ty: Ty::default() };
            self.flow(&value, result, &format!("returned by {name}"), span, true);
            ty = callable.result_type.clone();
        }
        Val { from: vec![result], ty }
    }

    pub(super) fn call(&mut self, it: &syn::ExprCall) -> Val {
        let exprs: Vec<&Expr> = it.args.iter().collect();
        let args: Vec<Val> = exprs.iter().map(|arg| self.argument(arg, &Val::default())).collect();
        let Expr::Path(path) = &*it.func else {
            let callee = self.expr(&it.func);
            return args.into_iter().fold(callee, Val::and);
        };
        let mut names: Vec<String> =
            path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let (Some(first), Some(owner)) = (names.first_mut(), &self.owner)
            && first == "Self"
        {
            first.clone_from(owner);
        }
        let name = names.last().cloned().unwrap_or_default();
        let is_net = names.iter().any(|name| name == "net");
        let of = names.len().checked_sub(2).map(|at| names[at].clone());
        let of = of.map(|of| if is_net { format!("net::{of}") } else { of });
        // A variant or a structure with unnamed fields.
        if name.starts_with(char::is_uppercase) {
            return self.constructor(&names, &args, it.span());
        }
        let is_type = of
            .as_ref()
            .is_some_and(|of| of.trim_start_matches("net::").starts_with(char::is_uppercase));
        let known = match &of {
            Some(of) if is_type => self.index.named(&name, Some(of)),
            _ => self.index.named(&name, None),
        };
        let result = self.var(&name, Kind::Call, &Ty::default(), it.func.span());
        if !known.is_empty() {
            let mut value = self.known_call(&known, &exprs, &args, result, &name);
            if value.ty.core.as_deref() == Some("Self") {
                value.ty.core = of;
            }
            return value;
        }
        self.foreign_call(&names, is_type.then_some(of).flatten(), &exprs, &args, result, it.span())
    }

    fn constructor(&mut self, names: &[String], args: &[Val], span: proc_macro2::Span) -> Val {
        let of = names.iter().rev().take(2).rev().cloned().collect::<Vec<_>>().join("::");
        let key = if self.index.fields.contains_key(&of) {
            of
        } else {
            names.last().cloned().unwrap_or_default()
        };
        for (at, arg) in args.iter().enumerate() {
            let known = self.index.fields.get(&key).and_then(|fields| fields.get(&at.to_string()));
            if let Some((to, _)) = known.cloned() {
                self.flow(arg, to, "assigned", span, true);
            }
        }
        let core = names.iter().rev().find(|name| self.index.types.contains(*name)).cloned();
        let value = args.iter().cloned().fold(Val::default(), Val::and);
        match core {
            Some(core) => Val { ty: Ty { core: Some(core), shared: false }, ..value },
            None => value,
        }
    }

    /// Records the flows of a call of a function outside of the package.
    fn foreign_call(
        &mut self,
        names: &[String],
        of: Option<String>,
        exprs: &[&Expr],
        args: &[Val],
        result: VarId,
        span: proc_macro2::Span,
    ) -> Val {
        let name = names.last().cloned().unwrap_or_default();
        let direction = network::direction_of(&name);
        let makes_handle = of.as_deref().is_some_and(|of| self.index.is_handle(of))
            || (network::is_client(names) && direction.is_none());
        if let Some(direction) = direction.filter(|_| !args.is_empty()) {
            let through: Vec<VarId> = args[0].from.clone();
            let is_handle =
                args[0].ty.core.as_deref().is_some_and(|core| self.index.is_handle(core));
            let vars = match direction {
                Direction::In => {
                    let filled = exprs.iter().skip(1).flat_map(|expr| self.places(expr));
                    std::iter::once(result).chain(filled.collect::<Vec<_>>()).collect()
                }
                Direction::Out => args.iter().skip(1).flat_map(|arg| arg.from.clone()).collect(),
            };
            match is_handle {
                true => self.potential(Vec::new(), vars, direction, &name, span),
                false if through.is_empty() => {}
                false => self.potential(through, vars, direction, &name, span),
            }
        }
        for arg in args {
            let arg = Val { from: arg.from.clone(), ty: Ty::default() };
            self.flow(&arg, result, &format!("through {name}"), span, direction.is_none());
        }
        self.fill(exprs, args, None, &name, span);
        if makes_handle {
            self.facts.vars[result].is_handle = true;
        }
        let wraps = of.as_deref().is_some_and(network::is_wrapper);
        let mut ty = match of {
            Some(of) if !wraps => Ty { core: Some(of), shared: false },
            _ => args.first().map(|arg| arg.ty.clone()).unwrap_or_default(),
        };
        ty.shared |= names.iter().any(|name| name == "Arc" || name == "Rc");
        Val { from: vec![result], ty }
    }

    pub(super) fn macro_call(&mut self, it: &syn::Macro) -> Val {
        let name = it.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let tokens = it.tokens.clone();
        if name == "select" {
            return match Select::parse.parse2(tokens) {
                Ok(select) => self.select(&select),
                Err(_) => self.unread(&name, it.span()),
            };
        }
        if name == "matches" {
            return match Matches::parse.parse2(tokens) {
                Ok(Matches(expr)) => self.expr(&expr),
                Err(_) => self.unread(&name, it.span()),
            };
        }
        let parts = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone());
        let parts = parts.or_else(|_| {
            Punctuated::<Expr, Token![;]>::parse_terminated
                .parse2(tokens)
                .map(|parts| parts.into_iter().collect())
        });
        match parts {
            Ok(parts) => self.formatted(&name, &parts, it.span()),
            Err(_) => self.unread(&name, it.span()),
        }
    }

    fn unread(&mut self, name: &str, span: proc_macro2::Span) -> Val {
        // The macros of `tracing` take fields, which change nothing.
        if matches!(name, "trace" | "debug" | "info" | "warn" | "error" | "event" | "span") {
            return Val::default();
        }
        let line = self.line(span);
        self.unread.insert(format!("line {line}: the macro {name}! has a syntax of its own"));
        Val::default()
    }

    /// Walks through a macro whose arguments are expressions, as those of `format!` are.
    fn formatted(
        &mut self,
        name: &str,
        parts: &Punctuated<Expr, Token![,]>,
        span: proc_macro2::Span,
    ) -> Val {
        let mut values: Vec<Val> = parts
            .iter()
            .map(|part| match part {
                Expr::Assign(named) => self.expr(&named.right),
                Expr::Lit(literal) => self.captured(literal),
                other => self.expr(other),
            })
            .collect();
        if !matches!(name, "write" | "writeln") || values.is_empty() {
            let value = values.into_iter().fold(Val::default(), Val::and);
            return if name == "vec" { value } else { Val { ty: Ty::default(), ..value } };
        }
        let to = values.remove(0);
        let written: Vec<VarId> = values.iter().flat_map(|value| value.from.clone()).collect();
        let is_handle = to.ty.core.as_deref().is_some_and(|core| self.index.is_handle(core));
        let through = if is_handle { Vec::new() } else { to.from };
        if is_handle || !through.is_empty() {
            self.potential(through, written, Direction::Out, &format!("{name}!"), span);
        }
        let places = self.places(&parts[0]);
        for value in &values {
            for to in &places {
                self.flow(value, *to, "put by write!", span, false);
            }
        }
        Val::default()
    }

    /// Returns the variables that are captured in a format text.
    fn captured(&self, literal: &syn::ExprLit) -> Val {
        let syn::Lit::Str(text) = &literal.lit else { return Val::default() };
        let text = text.value();
        let names = text.split('{').skip(1).filter_map(|part| part.split(['}', ':']).next());
        let found = names.filter_map(|name| self.find(name)).map(|bound| bound.var);
        Val { from: found.collect(), ty: Ty::default() }
    }

    fn select(&mut self, select: &Select) -> Val {
        let mut value = Val::default();
        for (pattern, future, handler) in &select.0 {
            self.scopes.push(Vec::new());
            let given = future.as_ref().map_or_else(Val::default, |future| self.expr(future));
            if let Some(pattern) = pattern {
                self.pattern(pattern, &given, "taken apart");
            }
            value = value.and(self.expr(handler));
            self.scopes.pop();
        }
        value
    }
}

/// The branches of `tokio::select!`.
struct Select(Vec<(Option<Pat>, Option<Expr>, Expr)>);

impl Parse for Select {
    fn parse(input: ParseStream<'_>) -> syn::Result<Select> {
        let mut branches = Vec::new();
        if input.peek(syn::Ident) && input.peek2(Token![;]) {
            let _: syn::Ident = input.parse()?;
            let _: Token![;] = input.parse()?;
        }
        while !input.is_empty() {
            let (mut pattern, mut future) = (None, None);
            if input.peek(Token![else]) {
                let _: Token![else] = input.parse()?;
            } else {
                pattern = Some(Pat::parse_multi_with_leading_vert(input)?);
                let _: Token![=] = input.parse()?;
                future = Some(input.parse()?);
                if input.peek(Token![,]) && input.peek2(Token![if]) {
                    let _: Token![,] = input.parse()?;
                    let _: Token![if] = input.parse()?;
                    let _: Expr = input.parse()?;
                }
            }
            let _: Token![=>] = input.parse()?;
            let handler = match input.peek(syn::token::Brace) {
                true => Expr::Block(input.parse()?),
                false => input.parse()?,
            };
            branches.push((pattern, future, handler));
            let _: Option<Token![,]> = input.parse()?;
        }
        Ok(Select(branches))
    }
}

/// The expression of `matches!`.
struct Matches(Expr);

impl Parse for Matches {
    fn parse(input: ParseStream<'_>) -> syn::Result<Matches> {
        let expr = input.parse()?;
        let _: Token![,] = input.parse()?;
        let _: proc_macro2::TokenStream = input.parse()?;
        Ok(Matches(expr))
    }
}
