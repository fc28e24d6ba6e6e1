//! Checks of names and types, which find mistakes before a property is evaluated.
//!
//! Against an empty schema only names, arguments and literals are checked, since the types of the
//! states are unknown.

use crate::ast::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, History, Ident, Literal, Over, Pattern,
    Property, Scope, UnaryOp,
};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::eval::counts_messages;
use crate::library::{Builtin, Library, NodeFact};
use crate::parse::scope_text;
use crate::types::{Schema, Type};

/// The variable for the payload of the message, `on delivery`.
pub(crate) const MESSAGE: &str = "message";
/// The variable for the kind of the message, `on delivery`.
pub(crate) const MESSAGE_KIND: &str = "message_kind";

/// Checks the names and types of a property.
///
/// ```
/// use everhold_property::{Library, Schema, Value, check, parse};
/// let mut schema = Schema::default();
/// schema.observe("server", &Value::record([("term", 1)]));
/// let property = &parse(r#"always "p": forall n in nodes: n.trem > 0"#).properties[0];
/// let found = check(property, &Library::new(), &schema);
/// assert_eq!(found[0].message, "no node has a field `trem`");
/// assert_eq!(found[0].help.as_deref(), Some("did you mean `term`?"));
/// ```
#[must_use]
pub fn check(property: &Property, library: &Library, schema: &Schema) -> Vec<Diagnostic> {
    let mut checker = TypeChecker { library, schema, scope: Vec::new(), diagnostics: Vec::new() };
    if property.scope == Scope::Delivery {
        for name in ["sender", "receiver"] {
            checker.scope.push((name.to_owned(), Type::Node(None)));
        }
        checker.scope.push((MESSAGE.to_owned(), Type::Any));
        checker.scope.push((MESSAGE_KIND.to_owned(), Type::Text));
    }
    checker.condition(&property.body);
    let of_one_moment = !matches!(property.scope, Scope::Delivery | Scope::Chains);
    if !of_one_moment && counts_messages(&property.body, library) {
        let message = "messages in flight are counted in a state of all nodes".to_owned();
        let help = format!("`{}` shows some nodes only", scope_text(property.scope));
        checker.report(property.body.span, message, Some(help));
    }
    checker.diagnostics.sort();
    checker.diagnostics.dedup();
    checker.diagnostics
}

/// Checks several properties.
#[must_use]
pub fn check_all(properties: &[Property], library: &Library, schema: &Schema) -> Vec<Diagnostic> {
    properties.iter().flat_map(|property| check(property, library, schema)).collect()
}

struct TypeChecker<'a> {
    library: &'a Library,
    schema: &'a Schema,
    scope: Vec<(String, Type)>,
    diagnostics: Vec<Diagnostic>,
}

impl TypeChecker<'_> {
    fn report(&mut self, span: Span, message: String, help: Option<String>) {
        self.diagnostics.push(Diagnostic { span, message, help });
    }

    /// Reports a type that differs from the required one.
    fn need(&mut self, expr: &Expr, found: &Type, what: &str, good: bool) {
        if !good {
            let message = format!("this is {}, where {what} is needed", with_article(found));
            self.report(expr.span, message, None);
        }
    }

    fn condition(&mut self, expr: &Expr) {
        if let ExprKind::LeadsTo(from, goal) = &expr.kind {
            self.condition(from);
            return self.condition(goal);
        }
        let found = self.expr(expr);
        let good = found.overlaps(&Type::Bool);
        self.need(expr, &found, "a condition", good);
    }

    fn expr(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Hole => Type::Any,
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Field(base, field) => {
                let base = self.expr(base);
                self.field(&base, field)
            }
            ExprKind::Index(base, index) => self.index(base, index),
            ExprKind::Call(name, arguments) => self.call(name, arguments),
            ExprKind::List(items) => Type::List(Box::new(self.items(items))),
            ExprKind::Set(items) => Type::Set(Box::new(self.items(items))),
            ExprKind::Map(entries) => {
                let keys = entries.iter().map(|(key, _)| self.expr(key)).reduce(Type::join);
                let values = entries.iter().map(|(_, value)| self.expr(value)).reduce(Type::join);
                Type::Map(Box::new(keys.unwrap_or_default()), Box::new(values.unwrap_or_default()))
            }
            ExprKind::Record(fields) => Type::Record(
                fields.iter().map(|(name, value)| (name.name.clone(), self.expr(value))).collect(),
            ),
            ExprKind::Unary(UnaryOp::Not, operand) => {
                self.condition(operand);
                Type::Bool
            }
            ExprKind::Unary(UnaryOp::Neg, operand) => self.number(operand),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Is(base, _) => self.is_variant(base),
            ExprKind::Quantified { over, body, .. } => {
                self.under(over, |checker| checker.condition(body));
                Type::Bool
            }
            ExprKind::Aggregate { op, over, body } => {
                self.under(over, |checker| checker.aggregate(*op, body.as_deref()))
            }
            ExprKind::History { op, body, .. } => {
                let found = self.expr(body);
                match op {
                    History::Previous => found,
                    History::Changed => Type::Bool,
                    History::Window => Type::List(Box::new(found)),
                }
            }
            ExprKind::LeadsTo(..) => {
                self.condition(expr);
                Type::Bool
            }
        }
    }

    fn items(&mut self, items: &[Expr]) -> Type {
        items.iter().map(|item| self.expr(item)).reduce(Type::join).unwrap_or_default()
    }

    fn name(&mut self, name: &str, span: Span) -> Type {
        let bound = self.scope.iter().rev().find(|(other, _)| other == name);
        if let Some((_, found)) = bound {
            return found.clone();
        }
        if let Some(value) = self.library.constant(name) {
            return Type::of(value);
        }
        let known = self.scope.iter().map(|(name, _)| name.as_str());
        let near = nearest(name, known.chain(self.library.constant_names()));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.library.function(name).is_some() || Builtin::named(name).is_some() => {
                format!("`{name}` is a function: write `{name}(...)`")
            }
            None => format!(
                "bind it (forall {name} in ...), or supply it as a constant; texts stand between double quotes"
            ),
        };
        self.report(span, format!("unknown name `{name}`"), Some(help));
        Type::Any
    }

    /// The states of the nodes that a reference may lead to.
    fn states(&self, kind: Option<&str>) -> Vec<(&str, &Type)> {
        let kinds = self.schema.kinds().filter(|other| kind.is_none_or(|kind| kind == *other));
        kinds.filter_map(|kind| self.schema.state(kind).map(|state| (kind, state))).collect()
    }

    fn field(&mut self, base: &Type, field: &Ident) -> Type {
        match base {
            Type::Node(kind) => self.node_field(kind.as_deref(), field),
            Type::Record(fields) => match fields.get(&field.name) {
                Some(found) => found.clone(),
                None => self.unknown_field("there is no field", fields.keys(), field),
            },
            Type::Variant(variants) => variant_field(variants, &field.name).unwrap_or_else(|| {
                self.unknown_field("no variant has or is", variants.keys(), field)
            }),
            Type::Map(_, values) => values.as_ref().clone(),
            Type::Any | Type::Null | Type::Text => Type::Any,
            other => {
                let message = format!("{} has no fields", with_article(other));
                self.report(field.span, message, None);
                Type::Any
            }
        }
    }

    fn node_field(&mut self, kind: Option<&str>, field: &Ident) -> Type {
        let states = self.states(kind);
        if states.is_empty() {
            return Type::Any;
        }
        let mut found: Option<Type> = None;
        let mut names: Vec<String> = Vec::new();
        for (_, state) in states {
            match state {
                Type::Record(fields) => {
                    names.extend(fields.keys().cloned());
                    if let Some(other) = fields.get(&field.name) {
                        found =
                            Some(found.map_or(other.clone(), |found| found.join(other.clone())));
                    }
                }
                // A state that is not a record has an unknown structure, so any field may exist.
                _ => found = Some(Type::Any),
            }
        }
        found.unwrap_or_else(|| {
            let what = match kind {
                Some(kind) => format!("no {kind} node has a field"),
                None => "no node has a field".to_owned(),
            };
            self.unknown_field(&what, names.iter(), field)
        })
    }

    fn unknown_field<'n>(
        &mut self,
        what: &str,
        names: impl Iterator<Item = &'n String>,
        field: &Ident,
    ) -> Type {
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let help = match nearest(&field.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.len() <= 12 => format!("there are: {}", names.join(", ")),
            None => format!("there are {} others, such as {}", names.len(), names[..8].join(", ")),
        };
        self.report(field.span, format!("{what} `{}`", field.name), Some(help));
        Type::Any
    }

    fn index(&mut self, base: &Expr, index: &Expr) -> Type {
        let (container, at) = (self.expr(base), self.expr(index));
        match &container {
            Type::List(items) => {
                self.need(index, &at, "a position (int)", at.overlaps(&Type::Int));
                items.as_ref().clone()
            }
            Type::Map(keys, values) => {
                let what = format!("a key ({keys})");
                self.need(index, &at, &what, at.overlaps(keys));
                values.as_ref().clone()
            }
            Type::Any | Type::Null | Type::Record(_) | Type::Variant(_) => Type::Any,
            other => {
                self.need(base, other, "a list or a map", false);
                Type::Any
            }
        }
    }

    fn number(&mut self, expr: &Expr) -> Type {
        let found = self.expr(expr);
        self.need(expr, &found, "a number", found.is_number());
        if found.is_number() { found } else { Type::Any }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Implies => {
                self.condition(left);
                self.condition(right);
                Type::Bool
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
                let (left, right) = (self.number(left), self.number(right));
                left.join(right)
            }
            _ => {
                let (a, b) = (self.expr(left), self.expr(right));
                self.relation(op, (left, &a), (right, &b));
                Type::Bool
            }
        }
    }

    fn relation(&mut self, op: BinaryOp, left: (&Expr, &Type), right: (&Expr, &Type)) {
        let ((left_expr, a), (right_expr, b)) = (left, right);
        let span = left_expr.span.to(right_expr.span);
        match op {
            BinaryOp::Eq | BinaryOp::Ne => self.same(span, a, b, "equal"),
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                for (expr, found) in [left, right] {
                    self.need(expr, found, "something with an order", found.is_ordered());
                }
                if a.is_ordered() && b.is_ordered() {
                    self.same(span, a, b, "comparable");
                }
            }
            BinaryOp::In | BinaryOp::NotIn => match b.element() {
                Some(element) => self.same(span, a, &element, "among these"),
                None => self.need(right_expr, b, "a container", *b == Type::Text),
            },
            BinaryOp::Subsequence => {
                let good = |t: &Type| matches!(t, Type::Any | Type::Null | Type::List(_));
                self.need(left_expr, a, "a list", good(a));
                self.need(right_expr, b, "a list", good(b));
                if let (Type::List(a), Type::List(b)) = (a, b) {
                    self.same(span, a, b, "in one sequence");
                }
            }
            BinaryOp::Prefix => {
                let good = |t: &Type| {
                    matches!(t, Type::Any | Type::Null | Type::List(_) | Type::Text | Type::Bytes)
                };
                self.need(left_expr, a, "a list or text", good(a));
                self.need(right_expr, b, "a list or text", good(b));
            }
            _ => {
                self.need(left_expr, a, "a container", a.element().is_some());
                self.need(right_expr, b, "a container", b.element().is_some());
                if let Some((a, b)) = a.element().zip(b.element()) {
                    self.same(span, &a, &b, "among one another");
                }
            }
        }
    }

    fn same(&mut self, span: Span, a: &Type, b: &Type, what: &str) {
        if !a.overlaps(b) {
            let (a, b) = (with_article(a), with_article(b));
            self.report(span, format!("{a} and {b} are never {what}"), None);
        }
    }

    fn is_variant(&mut self, base: &Expr) -> Type {
        let found = self.expr(base);
        let good = matches!(found, Type::Any | Type::Null | Type::Text | Type::Variant(_));
        self.need(base, &found, "a variant", good);
        Type::Bool
    }

    fn call(&mut self, name: &Ident, arguments: &[Expr]) -> Type {
        let found: Vec<Type> = arguments.iter().map(|argument| self.expr(argument)).collect();
        if let Some(function) = self.library.function(&name.name) {
            let signature = function.signature().clone();
            self.arity(name, found.len(), signature.params.len(), signature.params.len());
            for ((expr, found), param) in arguments.iter().zip(&found).zip(&signature.params) {
                self.need(expr, found, &with_article(param), found.overlaps(param));
            }
            return signature.result;
        }
        let Some((builtin, least, most)) = Builtin::named(&name.name) else {
            let near = match name.name.as_str() {
                "length" | "lenght" | "size" | "cardinality" => Some("len"),
                other => nearest(other, self.library.function_names()),
            };
            let help = crate::parse::absent(&name.name).map(str::to_owned);
            let help = help.or_else(|| near.map(|near| format!("did you mean `{near}`?")));
            self.report(name.span, format!("there is no function `{}`", name.name), help);
            return Type::Any;
        };
        if !self.arity(name, found.len(), least, most) {
            return Type::Any;
        }
        self.builtin(builtin, arguments, &found)
    }

    fn arity(&mut self, name: &Ident, found: usize, least: usize, most: usize) -> bool {
        let good = (least..=most).contains(&found);
        if !good {
            let (bound, number) = match (least, most) {
                _ if least == most => ("", least),
                _ if found < least => ("at least ", least),
                _ => ("at most ", most),
            };
            let plural = if number == 1 { "" } else { "s" };
            let message =
                format!("`{}` takes {bound}{number} argument{plural}, not {found}", name.name);
            self.report(name.span, message, None);
        }
        good
    }

    fn builtin(&mut self, builtin: Builtin, arguments: &[Expr], found: &[Type]) -> Type {
        let [(expr, first), ..] = &arguments.iter().zip(found).collect::<Vec<_>>()[..] else {
            // Only these two need no argument.
            return match builtin {
                Builtin::Messages => Type::List(Box::new(Type::Any)),
                _ => Type::Int,
            };
        };
        match builtin {
            Builtin::Len => {
                let good = first.element().is_some() || matches!(first, Type::Text | Type::Bytes);
                self.need(expr, first, "a container or text", good);
                Type::Int
            }
            Builtin::Abs => self.number(expr),
            Builtin::First | Builtin::Last => {
                let good = matches!(first, Type::Any | Type::Null | Type::List(_));
                self.need(expr, first, "a list", good);
                first.element().unwrap_or_default()
            }
            Builtin::Keys => Type::Set(Box::new(first.entry().unwrap_or_default().0)),
            Builtin::Values => Type::List(Box::new(first.entry().unwrap_or_default().1)),
            Builtin::Sorted => Type::Bool,
            Builtin::Union | Builtin::Intersection | Builtin::Difference => {
                for (expr, found) in arguments.iter().zip(found) {
                    self.need(expr, found, "a container", found.element().is_some());
                }
                Type::Set(Box::new(first.element().unwrap_or_default()))
            }
            Builtin::Fold(op) if found.len() > 1 => {
                let all = found.iter().cloned().reduce(Type::join).unwrap_or_default();
                folded(op, all)
            }
            Builtin::Fold(op) => {
                self.need(expr, first, "a container", first.element().is_some());
                folded(op, first.element().unwrap_or_default())
            }
            Builtin::InFlight | Builtin::Messages => {
                self.need(
                    expr,
                    first,
                    "a text, the kind of a message,",
                    first.overlaps(&Type::Text),
                );
                match builtin {
                    Builtin::Messages => Type::List(Box::new(Type::Any)),
                    _ => Type::Int,
                }
            }
            Builtin::Of(fact) => self.node_fact(fact, expr, first),
        }
    }

    fn node_fact(&mut self, fact: NodeFact, expr: &Expr, found: &Type) -> Type {
        let needed = if fact == NodeFact::Named { Type::Text } else { Type::Node(None) };
        self.need(expr, found, &with_article(&needed), found.overlaps(&needed));
        match fact {
            NodeFact::Up | NodeFact::Reported => Type::Bool,
            NodeFact::Kind | NodeFact::Name => Type::Text,
            NodeFact::Named => Type::Node(None),
            NodeFact::State => {
                let kind = if let Type::Node(kind) = found { kind.as_deref() } else { None };
                let states = self.states(kind).into_iter().map(|(_, state)| state.clone());
                states.reduce(Type::join).unwrap_or_default()
            }
        }
    }

    fn aggregate(&mut self, op: Aggregate, body: Option<&Expr>) -> Type {
        match (op, body) {
            (Aggregate::Count, Some(body)) => {
                self.condition(body);
                Type::Int
            }
            (Aggregate::Sum | Aggregate::Avg, Some(body)) => {
                let found = self.number(body);
                folded(op, found)
            }
            (_, Some(body)) => {
                let found = self.expr(body);
                folded(op, found)
            }
            (_, None) => Type::Int,
        }
    }

    /// Runs `read` with the variables of `over` bound.
    fn under<T>(&mut self, over: &Over, read: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.scope.len();
        over.binders.iter().for_each(|binder| self.bind(binder));
        if let Some(guard) = &over.guard {
            self.condition(guard);
        }
        let result = read(self);
        self.scope.truncate(depth);
        result
    }

    fn bind(&mut self, binder: &Binder) {
        for name in binder.pattern.idents() {
            if self.scope.iter().any(|(other, _)| *other == name.name) {
                let message = format!("`{}` is bound already", name.name);
                self.report(name.span, message, Some("choose another name".into()));
            }
        }
        match &binder.pattern {
            Pattern::Names(names) => {
                let element = self.domain(&binder.domain, names);
                let bound = names.iter().map(|name| (name.name.clone(), element.clone()));
                self.scope.extend(bound);
            }
            Pattern::Entry(key, value) => {
                let (a, b) = self.entries(&binder.domain, key);
                self.scope.push((key.name.clone(), a));
                self.scope.push((value.name.clone(), b));
            }
        }
    }

    fn domain(&mut self, domain: &Domain, names: &[Ident]) -> Type {
        match domain {
            Domain::Nodes { kind, .. } => {
                if let Some(kind) = kind {
                    self.kind(kind, names);
                }
                Type::Node(kind.clone())
            }
            Domain::Range { from, to, .. } => {
                for end in [from, to] {
                    let found = self.expr(end);
                    self.need(end, &found, "an int", found.overlaps(&Type::Int));
                }
                Type::Int
            }
            Domain::Values(expr) => {
                let found = self.expr(expr);
                self.need(expr, &found, "a container", found.element().is_some());
                found.element().unwrap_or_default()
            }
        }
    }

    fn kind(&mut self, kind: &str, names: &[Ident]) {
        if self.schema.is_empty() || self.schema.state(kind).is_some() {
            return;
        }
        let help = match nearest(kind, self.schema.kinds()) {
            Some(near) => format!("did you mean `{near} nodes`?"),
            None => {
                format!("kinds are: {}", self.schema.kinds().collect::<Vec<_>>().join(", "))
            }
        };
        let span = names.first().map_or(Span::default(), |name| name.span);
        self.report(span, format!("no node is of kind `{kind}`"), Some(help));
    }

    fn entries(&mut self, domain: &Domain, key: &Ident) -> (Type, Type) {
        let Domain::Values(expr) = domain else {
            let message = "nodes and ranges have no entries".to_owned();
            self.report(key.span, message, Some("bind one variable: forall n in nodes".into()));
            return (Type::Any, Type::Any);
        };
        let found = self.expr(expr);
        self.need(expr, &found, "a map, record or list", found.entry().is_some());
        found.entry().unwrap_or_default()
    }
}

fn variant_field(variants: &std::collections::BTreeMap<String, Type>, name: &str) -> Option<Type> {
    if let Some(payload) = variants.get(name) {
        return Some(payload.clone());
    }
    let records = variants.values().filter_map(|payload| match payload {
        Type::Record(fields) => fields.get(name).cloned(),
        _ => None,
    });
    records.reduce(Type::join)
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) | Literal::Duration(_) => Type::Int,
        Literal::Float(_) => Type::Float,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn folded(op: Aggregate, element: Type) -> Type {
    match op {
        Aggregate::Count => Type::Int,
        Aggregate::Sum | Aggregate::Min | Aggregate::Max => element,
        Aggregate::Avg => Type::Float,
        Aggregate::Set => Type::Set(Box::new(element)),
        Aggregate::List => Type::List(Box::new(element)),
    }
}

fn with_article(found: &Type) -> String {
    match found {
        Type::Any | Type::Null | Type::Text | Type::Bytes => found.to_string(),
        Type::Int => "an int".into(),
        _ => format!("a {found}"),
    }
}
