//! Predicates of the user that are written in the language and may read the whole state.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use everhold_property::{
    Diagnostic, Domain, Expr, ExprKind, Ident, Over, Type, parse_expr, print_expr,
};

/// A predicate over variables of some types, tried with all variables that have them.
///
/// Functions of a library see their arguments alone. A predicate is an expression of the
/// language: it may also ask all nodes.
///
/// ```
/// use everhold_infer::Predicate;
/// use everhold_property::Type;
///
/// let node = Type::Node(None);
/// let text = "exists m in nodes: m.leader == n";
/// let followed = Predicate::new("followed", [("n", node.clone())], text).unwrap();
/// assert_eq!(followed.to_string(), format!("followed(n): {text}"));
///
/// let wrong = Predicate::new("followed", [("n", node)], "exists a in nodes: a.leader == n");
/// assert_eq!(wrong.unwrap_err()[0].message, "inferred properties call their nodes `a` too");
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    name: String,
    params: Vec<(String, Type)>,
    body: Expr,
}

/// The most parameters: each has as many choices as there are variables.
pub(crate) const PARAMS_MAX: usize = 4;

impl Predicate {
    /// A predicate of this name, with the names and types of its parameters.
    ///
    /// # Errors
    ///
    /// If the text is no expression, or has names that cannot be told from those of the property
    /// that it becomes a part of.
    pub fn new<'a>(
        name: &str,
        params: impl IntoIterator<Item = (&'a str, Type)>,
        body: &str,
    ) -> Result<Predicate, Vec<Diagnostic>> {
        let params: Vec<_> = params.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
        let body = parse_expr(body)?;
        let mut wrong = Vec::new();
        if !(1..=PARAMS_MAX).contains(&params.len()) {
            let message = format!("a predicate has 1 to {PARAMS_MAX} parameters");
            wrong.push(Diagnostic::new(body.span, message));
        }
        body.any(&mut |expr| {
            wrong.extend(bound(expr).into_iter().filter_map(|ident| clash(ident, &params)));
            false
        });
        if wrong.is_empty() {
            Ok(Predicate { name: name.to_owned(), params, body })
        } else {
            Err(wrong)
        }
    }

    /// The types of the parameters.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        self.params.iter().map(|(_, ty)| ty)
    }

    /// The names of the parameters.
    pub(crate) fn params(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn body(&self) -> &Expr {
        &self.body
    }

    /// The predicate with these arguments in place of its parameters.
    pub(crate) fn of(&self, arguments: &[Expr]) -> Expr {
        let mut body = self.body.clone();
        each_name(&mut body, &mut |expr| {
            let ExprKind::Name(name) = &expr.kind else { return };
            let place = self.params.iter().position(|(param, _)| param == name);
            if let Some(argument) = place.and_then(|place| arguments.get(place)) {
                *expr = argument.clone();
            }
        });
        body
    }

    /// All fields that it reads, of whatever.
    pub(crate) fn fields(&self) -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        self.body.any(&mut |expr| {
            if let ExprKind::Field(_, field) = &expr.kind {
                fields.insert(field.name.clone());
            }
            false
        });
        fields
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<&str> = self.params().collect();
        write!(f, "{}({}): {}", self.name, params.join(", "), print_expr(&self.body))
    }
}

/// By name: two predicates of one name are one.
impl Ord for Predicate {
    fn cmp(&self, other: &Predicate) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl PartialOrd for Predicate {
    fn partial_cmp(&self, other: &Predicate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Predicate) -> bool {
        self.name == other.name
    }
}

impl Eq for Predicate {}

/// The names that an expression binds.
fn bound(expr: &Expr) -> Vec<&Ident> {
    match &expr.kind {
        ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } => {
            over.binders.iter().flat_map(|binder| binder.pattern.idents()).collect()
        }
        _ => Vec::new(),
    }
}

/// The error in a bound name that hides a parameter or the variables of a property.
fn clash(ident: &Ident, params: &[(String, Type)]) -> Option<Diagnostic> {
    let name = ident.name.as_str();
    let message = if params.iter().any(|(param, _)| param == name) {
        format!("`{name}` is a parameter already")
    } else if matches!(name, "a" | "b" | "c" | "d" | "e" | "f" | "g" | "h" | "n") {
        format!("inferred properties call their nodes `{name}` too")
    } else if name.starts_with(['x', 'y']) {
        format!("inferred properties call their elements `{name}` too")
    } else {
        return None;
    };
    Some(Diagnostic::new(ident.span, message).with_help("another name, such as `m`"))
}

/// Calls `visit` with every name below, the parts of binders included.
fn each_name(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut expr.kind {
        ExprKind::Name(_) => visit(expr),
        ExprKind::Hole | ExprKind::Literal(_) => {}
        ExprKind::Field(base, _) | ExprKind::Is(base, _) | ExprKind::Unary(_, base) => {
            each_name(base, visit);
        }
        ExprKind::History { body, .. } => each_name(body, visit),
        ExprKind::Index(left, right)
        | ExprKind::Binary(_, left, right)
        | ExprKind::LeadsTo(left, right) => {
            each_name(left, visit);
            each_name(right, visit);
        }
        ExprKind::Call(_, items) | ExprKind::List(items) | ExprKind::Set(items) => {
            items.iter_mut().for_each(|item| each_name(item, visit));
        }
        ExprKind::Map(entries) => {
            for (key, value) in entries {
                each_name(key, visit);
                each_name(value, visit);
            }
        }
        ExprKind::Record(fields) => {
            fields.iter_mut().for_each(|(_, value)| each_name(value, visit));
        }
        ExprKind::Quantified { over, body, .. } => {
            each_name_of(over, visit);
            each_name(body, visit);
        }
        ExprKind::Aggregate { over, body, .. } => {
            each_name_of(over, visit);
            body.iter_mut().for_each(|body| each_name(body, visit));
        }
    }
}

fn each_name_of(over: &mut Over, visit: &mut dyn FnMut(&mut Expr)) {
    for binder in &mut over.binders {
        match &mut binder.domain {
            Domain::Nodes { .. } => {}
            Domain::Range { from, to, .. } => {
                each_name(from, visit);
                each_name(to, visit);
            }
            Domain::Values(container) => each_name(container, visit),
        }
    }
    over.guard.iter_mut().for_each(|guard| each_name(guard, visit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_give_way_everywhere_and_nothing_else_does() {
        let text = "count(m in nodes where m != who: m.log[who] is Some and [who] == {who}) > 0 \
                    or exists i in 0..who, k -> v in who.map: not (v.who == who)";
        let predicate =
            Predicate::new("p", [("who", Type::Node(None))], text).expect("it is right");
        let argument = parse_expr("n.parent").expect("it is right");
        let wanted = text.replace("v.who", "v.WHO").replace("who", "n.parent");
        let wanted = wanted.replace("v.WHO", "v.who");
        let wanted = print_expr(&parse_expr(&wanted).expect("it is right"));
        assert_eq!(print_expr(&predicate.of(&[argument])), wanted);
        let fields: Vec<String> = predicate.fields().into_iter().collect();
        assert_eq!(fields, ["log", "map", "who"]);
    }
}
