//! Claims that hold although nothing put them to the test: there was no case, or a condition of the
//! claim was never true.

use std::collections::BTreeSet;
use std::fmt;

use everhold_trace::{Execution, NodeId, Order, Value};

use super::{ExecutionOutcome, Limits, Method, Trace, check_ordered, check_recorded, tuples};
use crate::ast::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Ident, Literal, Modality, Over, Pattern,
    Property, Quantifier, UnaryOp,
};
use crate::checker::Rule;
use crate::diagnostic::nearest;
use crate::eval::evaluate_expr;
use crate::print::print_expr;
use crate::state::State;
use crate::verdict::Verdict;

/// Why a claim that holds says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untested {
    /// The reason, as a clause: "`n.role == "Leader"` is never true".
    pub reason: String,
    /// A suggestion: "did you mean "leader"?".
    pub help: Option<String>,
}

/// Whether a claim with this outcome holds although nothing put it to the test. A condition counts
/// as tested if it is true for one node in one state that the scope allows.
///
/// ```
/// use everhold_property::{Library, Limits, Rule, Value, check_execution, parse, untested};
/// use everhold_trace::{EventKind, Order, TraceBuilder};
///
/// let mut trace = TraceBuilder::new();
/// let node = trace.add_node("n0", "server");
/// trace.begin(node, EventKind::Start);
/// trace.observe(Value::record([("role", "leader")]));
/// let execution = trace.finish();
///
/// let text = r#"always "p": forall n in nodes: n.role == "Leader" implies n.term > 0"#;
/// let rule = Rule::new(&parse(text).properties[0], &Library::new());
/// let outcome = check_execution(&rule, &execution, Limits::default());
/// let found = untested(&rule, &execution, &Order::of(&execution), &outcome).unwrap();
/// assert_eq!(found.reason, "`n.role == \"Leader\"` is never true");
/// assert_eq!(found.help.as_deref(), Some("did you mean \"leader\"?"));
/// ```
#[must_use]
pub fn untested(
    rule: &Rule,
    execution: &Execution,
    order: &Order,
    outcome: &ExecutionOutcome,
) -> Option<Untested> {
    let property = rule.property();
    if outcome.verdict != Verdict::Holds || property.modality == Modality::Sometimes {
        return None;
    }
    let judged = outcome.tally.holds + outcome.tally.violated;
    if judged == 0 {
        let reason = "there was no case to judge".to_owned();
        return Some(Untested { reason, help: None });
    }
    let mut conditions = Vec::new();
    collect(&property.body, &mut Vec::new(), &mut conditions);
    let never = conditions.iter().find(|condition| condition.is_never_true(rule, execution, order));
    if let Some(condition) = never {
        let reason = format!("`{}` is never true", print_expr(&condition.test));
        return Some(Untested { reason, help: condition.suggestion(rule, execution) });
    }
    let (whole, lack) = antecedent(property)?;
    let whole = Rule::new(&whole, rule.library());
    let found = match outcome.method {
        Method::RecordedOrder => check_recorded(&whole, execution, order),
        _ => check_ordered(&whole, execution, order, Limits { cases_max: CASES_MAX }),
    };
    (found.verdict == Verdict::Holds).then(|| Untested { reason: lack.to_string(), help: None })
}

/// What was lacking for a claim to be put to the test.
#[derive(Clone, Debug, PartialEq)]
enum Lack {
    /// The containers over whose elements the claim ranges have none.
    Elements(Vec<Expr>),
    /// Its conditions are never true together.
    Conditions,
    /// What has to lead to something never occurs.
    Trigger(Expr),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Elements(containers) => match &containers[..] {
                [only] => write!(f, "`{}` is always empty", print_expr(only)),
                _ => f.write_str("there is no combination of elements to judge"),
            },
            Lack::Conditions => f.write_str("its conditions are never true together"),
            Lack::Trigger(trigger) => {
                write!(f, "`{}` is never true, so nothing had to follow", print_expr(trigger))
            }
        }
    }
}

/// Claims with more cases are not judged a second time.
const CASES_MAX: u64 = 2_000_000;

/// A condition on one node.
struct Condition {
    variable: Ident,
    domain: Domain,
    test: Expr,
}

/// Collects the conditions of a claim that concern one node of a quantifier or an aggregate.
fn collect(expr: &Expr, scope: &mut Vec<(Ident, Domain)>, found: &mut Vec<Condition>) {
    match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            let depth = scope.len();
            enter(over, scope);
            over.guard.iter().for_each(|guard| conjuncts(guard, scope, found));
            collect(body, scope, found);
            scope.truncate(depth);
        }
        ExprKind::Aggregate { op, over, body } => {
            let depth = scope.len();
            enter(over, scope);
            over.guard.iter().for_each(|guard| conjuncts(guard, scope, found));
            if let (Aggregate::Count, Some(body)) = (op, body) {
                conjuncts(body, scope, found);
            }
            scope.truncate(depth);
        }
        ExprKind::Binary(BinaryOp::Implies, left, right) => {
            conjuncts(left, scope, found);
            collect(right, scope, found);
        }
        ExprKind::LeadsTo(from, _) => conjuncts(from, scope, found),
        ExprKind::Unary(UnaryOp::Not, inner) => {
            if let ExprKind::Binary(BinaryOp::And, ..) = inner.kind {
                conjuncts(inner, scope, found);
            }
        }
        ExprKind::Binary(op, left, right) if is_passive(*op) => {
            collect(left, scope, found);
            collect(right, scope, found);
        }
        _ => {}
    }
}

/// Operators whose sides are looked at for aggregates.
fn is_passive(op: BinaryOp) -> bool {
    use BinaryOp::{Add, And, Eq, Ge, Gt, Le, Lt, Mul, Sub};
    matches!(op, And | Eq | Le | Lt | Ge | Gt | Add | Sub | Mul)
}

fn enter(over: &Over, scope: &mut Vec<(Ident, Domain)>) {
    for binder in &over.binders {
        for ident in binder.pattern.idents() {
            scope.push((ident.clone(), binder.domain.clone()));
        }
    }
}

fn conjuncts(expr: &Expr, scope: &[(Ident, Domain)], found: &mut Vec<Condition>) {
    if let ExprKind::Binary(BinaryOp::And, left, right) = &expr.kind {
        conjuncts(left, scope, found);
        conjuncts(right, scope, found);
        return;
    }
    let special = expr.any(&mut |expr| {
        matches!(
            expr.kind,
            ExprKind::History { .. } | ExprKind::Aggregate { .. } | ExprKind::Quantified { .. }
        )
    });
    let mut names = BTreeSet::new();
    expr.any(&mut |expr| {
        if let ExprKind::Name(name) = &expr.kind
            && scope.iter().any(|(ident, _)| ident.name == *name)
        {
            names.insert(name.clone());
        }
        false
    });
    let only = names.pop_first().filter(|_| names.is_empty() && !special);
    let bound = only.and_then(|name| scope.iter().rev().find(|(ident, _)| ident.name == name));
    if let Some((variable, domain @ Domain::Nodes { .. })) = bound {
        let (variable, domain) = (variable.clone(), domain.clone());
        found.push(Condition { variable, domain, test: expr.clone() });
    }
}

impl Condition {
    fn over(&self) -> Over {
        let pattern = Pattern::Names(vec![self.variable.clone()]);
        Over { binders: vec![Binder { pattern, domain: self.domain.clone() }], guard: None }
    }

    fn is_never_true(&self, rule: &Rule, execution: &Execution, order: &Order) -> bool {
        let body = Box::new(not(self.test.clone()));
        let quantifier = Quantifier::Forall;
        let body = Expr::new(ExprKind::Quantified { quantifier, over: self.over(), body });
        let modality = Modality::Always;
        let property = Property { body, modality, ..rule.property().clone() };
        let rule = Rule::new(&property, rule.library());
        let trace = Trace::new(&rule, execution, order);
        let found = tuples::check(&rule, &trace, Limits { cases_max: u64::MAX });
        found.is_some_and(|found| found.verdict != Verdict::Violated)
    }

    /// A value that occurs and resembles the one that the condition asks for.
    fn suggestion(&self, rule: &Rule, execution: &Execution) -> Option<String> {
        let (subject, wanted) = match &self.test.kind {
            ExprKind::Binary(BinaryOp::Eq, left, right) => match (&left.kind, &right.kind) {
                (_, ExprKind::Literal(Literal::Text(text))) => (left, text),
                (ExprKind::Literal(Literal::Text(text)), _) => (right, text),
                _ => return None,
            },
            ExprKind::Is(base, variant) => (base, &variant.name),
            _ => return None,
        };
        let values = self.values(subject, rule, execution);
        let folded = values.iter().find(|value| value.to_lowercase() == wanted.to_lowercase());
        let near = folded
            .map(String::as_str)
            .or_else(|| nearest(wanted, values.iter().map(String::as_str)));
        match near {
            Some(near) => Some(format!("did you mean \"{near}\"?")),
            None if values.is_empty() => None,
            None => {
                let shown: Vec<String> =
                    values.iter().take(5).map(|value| format!("\"{value}\"")).collect();
                Some(format!("it is {}", shown.join(", ")))
            }
        }
    }

    /// The texts and variants that an expression about the node takes.
    fn values(&self, subject: &Expr, rule: &Rule, execution: &Execution) -> BTreeSet<String> {
        let order = Order::of(execution);
        let trace = Trace::new(rule, execution, &order);
        let mut found = BTreeSet::new();
        for node in execution.node_ids() {
            let mut last = None;
            for count in 0..=order.events_of(node) {
                let version = trace.states.version(node, count as usize);
                if version.is_some() && version != last && found.len() < VALUES_MAX {
                    found.extend(self.value(subject, rule, &trace, (node, count)));
                }
                last = version;
            }
        }
        found
    }

    fn value(
        &self,
        subject: &Expr,
        rule: &Rule,
        trace: &Trace<'_>,
        at: (NodeId, u32),
    ) -> Option<String> {
        let snapshot = trace.some(&[at]);
        let history: [&dyn State; 1] = [&snapshot];
        let bindings = [(self.variable.name.clone(), Value::Node(at.0))];
        match evaluate_expr(subject, rule.library(), &history, &bindings) {
            Ok(Value::Text(text)) => Some(text),
            Ok(Value::Variant { name, .. }) => Some(name),
            _ => None,
        }
    }
}

/// So many different values are looked at for a suggestion.
const VALUES_MAX: usize = 200;

fn not(expr: Expr) -> Expr {
    Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(expr)))
}

/// The property with all its conditions and nothing to claim: it holds if they are never true
/// together, or if there is nothing of which it claims something. Returns `None` if the claim has
/// neither conditions nor elements.
fn antecedent(property: &Property) -> Option<(Property, Lack)> {
    let mut lack = None;
    let body = strip(&property.body, &mut lack);
    let property = Property { body, modality: Modality::Always, ..property.clone() };
    lack.map(|lack| (property, lack))
}

fn strip(expr: &Expr, lack: &mut Option<Lack>) -> Expr {
    match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            let containers = over.binders.iter().filter_map(|binder| match &binder.domain {
                Domain::Values(container) => Some(container.as_ref().clone()),
                Domain::Range { .. } | Domain::Nodes { .. } => None,
            });
            let containers: Vec<Expr> = containers.collect();
            let ranges = over.binders.iter().any(|b| matches!(b.domain, Domain::Range { .. }));
            if over.guard.is_some() {
                *lack = Some(Lack::Conditions);
            } else if !containers.is_empty() || ranges {
                match lack {
                    Some(Lack::Elements(known)) => known.extend(containers),
                    Some(Lack::Conditions | Lack::Trigger(_)) => {}
                    None => *lack = Some(Lack::Elements(containers)),
                }
            }
            let (over, body) = (over.clone(), Box::new(strip(body, lack)));
            Expr::new(ExprKind::Quantified { quantifier: Quantifier::Forall, over, body })
        }
        ExprKind::Binary(BinaryOp::Implies, left, right) => {
            *lack = Some(Lack::Conditions);
            implies(left, strip(right, lack))
        }
        ExprKind::LeadsTo(from, _) => {
            *lack = Some(Lack::Trigger(from.as_ref().clone()));
            implies(from, falsehood())
        }
        _ => falsehood(),
    }
}

fn falsehood() -> Expr {
    Expr::new(ExprKind::Literal(Literal::Bool(false)))
}

fn implies(left: &Expr, right: Expr) -> Expr {
    let sides = (Box::new(left.clone()), Box::new(right));
    Expr::new(ExprKind::Binary(BinaryOp::Implies, sides.0, sides.1))
}
