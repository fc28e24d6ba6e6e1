//! The reason for a violation: the bindings that falsify a property, and the values involved.

use std::fmt;

use everhold_trace::Value;

use crate::ast::{BinaryOp, Expr, ExprKind, Over, Property, Quantifier, UnaryOp};
use crate::eval::{Bound, Plain, loops};
use crate::library::Library;
use crate::print::print_expr;
use crate::state::State;
use crate::verdict::Unknown;

/// The bindings that falsify a property, and the values of the expressions in it under those
/// bindings.
///
/// ```
/// use everhold_property::{Library, Snapshot, Value, explain, parse};
/// let text = r#"always "p": forall a, b in nodes: a.x == b.x"#;
/// let mut state = Snapshot::default();
/// for x in [1, 2] {
///     let node = state.add(&format!("s{x}"), "server");
///     state.set(node, Value::record([("x", x)]));
/// }
/// let witness = explain(&parse(text).properties[0], &Library::new(), &[&state], &[]).unwrap();
/// assert_eq!(witness.to_string(), "a = s1\nb = s2\na.x = 1\nb.x = 2\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Witness {
    /// The variables, in the order of their binding.
    pub bindings: Vec<Shown>,
    /// The expressions that decide the result, with their values.
    pub values: Vec<Shown>,
}

/// An expression with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The variable or expression in the syntax of the language.
    pub text: String,
    /// Its value, or the reason why it is unknown.
    pub value: Result<Value, Unknown>,
    /// The value for people: nodes by their names.
    pub shown: String,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in self.bindings.iter().chain(&self.values) {
            writeln!(f, "{} = {}", item.text, item.shown)?;
        }
        Ok(())
    }
}

/// Finds the bindings that falsify a property in the last state of `history`; `None` if it is not
/// false.
#[must_use]
pub fn explain(
    property: &Property,
    library: &Library,
    history: &[&dyn State],
    bindings: &[(String, Value)],
) -> Option<Witness> {
    let mut plain = Plain::new(library, history, bindings.to_vec());
    if plain.judge_property(property) != Some(Ok(false)) {
        return None;
    }
    let mut finder = Finder { plain, witness: Witness::default() };
    for (name, value) in bindings {
        finder.bound(name, value);
    }
    finder.falsified(&property.body);
    Some(finder.witness)
}

/// The values of the expressions within an expression under some bindings. It serves `leads to`,
/// which no single state falsifies.
#[must_use]
pub fn mentioned(
    expr: &Expr,
    library: &Library,
    history: &[&dyn State],
    bindings: &[(String, Value)],
) -> Witness {
    let plain = Plain::new(library, history, bindings.to_vec());
    let mut finder = Finder { plain, witness: Witness::default() };
    for (name, value) in bindings {
        finder.bound(name, value);
    }
    finder.leaves(expr);
    finder.witness
}

struct Finder<'a> {
    plain: Plain<'a>,
    witness: Witness,
}

/// The largest number of values; more would hide those that matter.
const VALUES_MAX: usize = 24;

impl Finder<'_> {
    fn bound(&mut self, name: &str, value: &Value) {
        let shown = self.show(value);
        let item = Shown { text: name.to_owned(), value: Ok(value.clone()), shown };
        self.witness.bindings.push(item);
    }

    /// Renders a value, with nodes by their names at the outermost level only.
    fn show(&self, value: &Value) -> String {
        let members = self.plain.world().members();
        let name = |value: &Value| match value {
            Value::Node(id) => members.iter().find(|m| m.id == *id).map(|m| m.name.clone()),
            _ => None,
        };
        let several = |items: &mut dyn Iterator<Item = &Value>| {
            let each = items.map(|item| name(item).unwrap_or_else(|| item.to_string()));
            each.collect::<Vec<_>>().join(", ")
        };
        match value {
            Value::List(items) => format!("[{}]", several(&mut items.iter())),
            Value::Set(items) => format!("{{{}}}", several(&mut items.iter())),
            _ => name(value).unwrap_or_else(|| value.to_string()),
        }
    }

    /// Records the parts that make a false expression false.
    fn falsified(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
                if self.pin(over, body, false) {
                    over.guard.iter().for_each(|guard| self.leaves(guard));
                    self.falsified(body);
                }
            }
            ExprKind::Binary(BinaryOp::And, left, right) => {
                let side = if self.plain.judge(left) == Ok(false) { left } else { right };
                self.falsified(side);
            }
            ExprKind::Binary(BinaryOp::Or, left, right) => {
                self.falsified(left);
                self.falsified(right);
            }
            ExprKind::Binary(BinaryOp::Implies, left, right) => {
                self.satisfied(left);
                self.falsified(right);
            }
            ExprKind::Unary(UnaryOp::Not, operand) => self.satisfied(operand),
            _ => self.leaves(expr),
        }
    }

    /// Records the parts that make a true expression true.
    fn satisfied(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Quantified { quantifier: Quantifier::Exists, over, body } => {
                if self.pin(over, body, true) {
                    over.guard.iter().for_each(|guard| self.leaves(guard));
                    self.satisfied(body);
                }
            }
            ExprKind::Binary(BinaryOp::And, left, right) => {
                self.satisfied(left);
                self.satisfied(right);
            }
            ExprKind::Unary(UnaryOp::Not, operand) => self.falsified(operand),
            _ => self.leaves(expr),
        }
    }

    /// Keeps the first binding under which the guard is true and the body is `wanted`.
    fn pin(&mut self, over: &Over, body: &Expr, wanted: bool) -> bool {
        let mut found = None;
        self.plain.for_each(over, &mut |plain, known| {
            let guard = match &over.guard {
                Some(guard) => known.is_ok() && plain.judge(guard) == Ok(true),
                None => known.is_ok(),
            };
            if guard && plain.judge(body) == Ok(wanted) {
                found = Some(plain.bindings.clone());
            }
            found.is_none()
        });
        let Some(bindings) = found else { return false };
        for (bound, _) in loops(over) {
            let names = match bound {
                Bound::One(name) => vec![name],
                Bound::Entry(key, value) => vec![key, value],
            };
            for name in names {
                let value = bindings.iter().rev().find(|(other, _)| other == name);
                let value = value.expect("the loop bound it").1.clone();
                self.bound(name, &value);
            }
        }
        self.plain.bindings = bindings;
        true
    }

    /// Records the values of the largest parts that are neither logic nor comparison.
    fn leaves(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Hole => {}
            // Variables are already among the bindings; constants are recorded.
            ExprKind::Name(name) if self.plain.bindings.iter().any(|(other, _)| other == name) => {}
            ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Is(..)
            | ExprKind::List(_)
            | ExprKind::Set(_)
            | ExprKind::LeadsTo(..) => {
                let mut children = Vec::new();
                expr.for_each_child(&mut |child| children.push(child));
                children.into_iter().for_each(|child| self.leaves(child));
            }
            _ => self.value(expr),
        }
    }

    fn value(&mut self, expr: &Expr) {
        let text = print_expr(expr);
        let full = self.witness.values.len() >= VALUES_MAX;
        if full || self.witness.values.iter().any(|shown| shown.text == text) {
            return;
        }
        let value = self.plain.eval(expr);
        let shown = match &value {
            Ok(value) => self.show(value),
            Err(unknown) => format!("unknown: {unknown}"),
        };
        self.witness.values.push(Shown { text, value, shown });
    }
}
