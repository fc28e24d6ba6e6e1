//! One text for all arrangements of a claim: `a.x >= b.y` and `b.y <= a.x`, an implication and its
//! contrapositive, `x == 600 - y` and `x + y == 600`, the same with other names of variables.

use std::collections::BTreeMap;

use everhold_property::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Literal, Over, Pattern, Property,
    Quantifier, UnaryOp, print_expr,
};

/// More nodes bound at once than this are not tried in all orders.
const ORDERS_MAX: usize = 4;

/// A text that two properties share if one is the other arranged differently. It is no property of
/// the language.
///
/// ```
/// use everhold_infer::arranged;
/// use everhold_property::parse;
///
/// let text = |claim: &str| {
///     let properties = parse(&format!("always \"it\": {claim}")).into_result().unwrap();
///     arranged(&properties[0])
/// };
/// let one = "forall a, b in nodes where a != b: a.lead implies a.term >= b.term";
/// let other = "forall x, y in nodes where y != x: x.term > y.term implies not y.lead";
/// assert_eq!(text(one), text(other));
/// ```
#[must_use]
pub fn arranged(property: &Property) -> String {
    let body = text(&property.body, &BTreeMap::new());
    format!("{:?} {:?}: {body}", property.modality, property.scope)
}

/// Names of the text by names of the property.
type Names = BTreeMap<String, String>;

/// A claim as a text.
fn text(expr: &Expr, names: &Names) -> String {
    match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            quantified("forall", over, names, &|names| {
                let mut parts = Vec::new();
                over.guard.iter().for_each(|guard| clause(guard, false, names, &mut parts));
                clause(body, true, names, &mut parts);
                joined(parts, " or ")
            })
        }
        ExprKind::Quantified { quantifier, over, body } => {
            quantified(&format!("{quantifier:?}"), over, names, &|names| {
                let guard = over.guard.as_ref().map(|guard| text(guard, names));
                format!("{} where {guard:?}", text(body, names))
            })
        }
        ExprKind::Binary(BinaryOp::Implies | BinaryOp::Or, ..)
        | ExprKind::Unary(UnaryOp::Not, _) => {
            let mut parts = Vec::new();
            clause(expr, true, names, &mut parts);
            joined(parts, " or ")
        }
        ExprKind::Binary(BinaryOp::And, a, b) => {
            joined(vec![text(a, names), text(b, names)], " and ")
        }
        ExprKind::Binary(op, a, b) => comparison(*op, a, b, true, names),
        _ => term(expr, names),
    }
}

/// The smallest of the texts that the orders of the bound nodes give.
fn quantified(word: &str, over: &Over, names: &Names, body: &dyn Fn(&Names) -> String) -> String {
    let (mut known, mut texts) = (names.clone(), Vec::new());
    let mut orders: Vec<Names> = vec![names.clone()];
    let binders = sorted(&over.binders);
    for binder in &binders {
        let own: Vec<&str> =
            binder.pattern.idents().iter().map(|name| name.name.as_str()).collect();
        let first = known.len();
        let fresh = |place: usize| format!("v{}", first + place);
        for (place, name) in own.iter().enumerate() {
            known.insert((*name).to_owned(), fresh(place));
        }
        let symmetric = matches!(binder.pattern, Pattern::Names(_)) && own.len() <= ORDERS_MAX;
        let ways = if symmetric { permutations(own.len()) } else { vec![(0..own.len()).collect()] };
        let with = |names: &Names| {
            let way = |way: &Vec<usize>| {
                let mut names = names.clone();
                for (name, place) in own.iter().zip(way) {
                    names.insert((*name).to_owned(), fresh(*place));
                }
                names
            };
            ways.iter().map(way).collect::<Vec<Names>>()
        };
        orders = orders.iter().flat_map(with).collect();
    }
    for names in &orders {
        let binders: Vec<String> = binders.iter().map(|b| binder(b, names)).collect();
        texts.push(format!("{word} {}: {}", binders.join(", "), body(names)));
    }
    texts.into_iter().min().unwrap_or_default()
}

/// The binders with those over nodes first, by kind, and those of one kind joined: they do not
/// depend on one another.
fn sorted(binders: &[Binder]) -> Vec<Binder> {
    let kind = |binder: &Binder| match &binder.domain {
        Domain::Nodes { kind, all } => (false, kind.clone(), *all),
        _ => (true, None, false),
    };
    let mut found = binders.to_vec();
    found.sort_by_key(kind);
    found.dedup_by(|next, last| match (&mut last.pattern, &next.pattern) {
        (Pattern::Names(own), Pattern::Names(more))
            if matches!(last.domain, Domain::Nodes { .. }) && last.domain == next.domain =>
        {
            own.extend(more.iter().cloned());
            true
        }
        _ => false,
    });
    found
}

fn binder(binder: &Binder, names: &Names) -> String {
    let count = binder.pattern.idents().len();
    let domain = match &binder.domain {
        Domain::Nodes { kind, all } => format!("nodes {kind:?} {all}"),
        Domain::Values(values) => term(values, names),
        Domain::Range { from, to, inclusive } => {
            format!("{}..{} {inclusive}", term(from, names), term(to, names))
        }
    };
    format!("{count} of {domain}")
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    for next in 0..count {
        let with = |way: Vec<usize>| {
            (0..=way.len()).map(move |place| {
                let mut way = way.clone();
                way.insert(place, next);
                way
            })
        };
        found = found.into_iter().flat_map(with).collect();
    }
    found
}

/// The parts of a disjunction that says that an expression is true, or false.
fn clause(expr: &Expr, wanted: bool, names: &Names, parts: &mut Vec<String>) {
    match &expr.kind {
        ExprKind::Unary(UnaryOp::Not, inner) => clause(inner, !wanted, names, parts),
        ExprKind::Binary(BinaryOp::Implies, a, b) if wanted => {
            clause(a, false, names, parts);
            clause(b, true, names, parts);
        }
        ExprKind::Binary(BinaryOp::Or, a, b) if wanted => {
            clause(a, true, names, parts);
            clause(b, true, names, parts);
        }
        ExprKind::Binary(BinaryOp::And, a, b) if !wanted => {
            clause(a, false, names, parts);
            clause(b, false, names, parts);
        }
        ExprKind::Binary(op, a, b) if op.is_comparison() => {
            parts.push(comparison(*op, a, b, wanted, names));
        }
        _ if wanted => parts.push(text(expr, names)),
        _ => parts.push(format!("not {}", text(expr, names))),
    }
}

fn joined(mut parts: Vec<String>, word: &str) -> String {
    parts.sort_unstable();
    parts.dedup();
    parts.join(word)
}

/// A comparison, or its negation.
fn comparison(op: BinaryOp, a: &Expr, b: &Expr, wanted: bool, names: &Names) -> String {
    use BinaryOp as B;
    if let (B::Eq | B::Ne, ExprKind::Literal(Literal::Bool(truth))) = (op, &b.kind) {
        let mut parts = Vec::new();
        clause(a, wanted == (*truth == (op == B::Eq)), names, &mut parts);
        return joined(parts, " or ");
    }
    let (op, a, b) = match op {
        B::Gt => (B::Lt, b, a),
        B::Ge => (B::Le, b, a),
        _ => (op, a, b),
    };
    let (op, a, b) = match (op, wanted) {
        (_, true) => (op, a, b),
        (B::Eq, _) => (B::Ne, a, b),
        (B::Ne, _) => (B::Eq, a, b),
        (B::Lt, _) => (B::Le, b, a),
        (B::Le, _) => (B::Lt, b, a),
        (B::In, _) => (B::NotIn, a, b),
        (B::NotIn, _) => (B::In, a, b),
        _ => return format!("not {} {op:?} {}", term(a, names), term(b, names)),
    };
    match op {
        B::Eq | B::Ne | B::Lt | B::Le => ordered(op, a, b, names),
        B::Disjoint => joined(vec![term(a, names), term(b, names)], " disjoint from "),
        _ => format!("{} {op:?} {}", term(a, names), term(b, names)),
    }
}

/// A comparison of two sums of multiples, as one sum against a constant.
fn ordered(op: BinaryOp, a: &Expr, b: &Expr, names: &Names) -> String {
    let mut sum = Sum::default();
    sum.add(a, 1, names);
    sum.add(b, -1, names);
    sum.parts.retain(|_, times| *times != 0);
    let turned = sum.parts.values().next().is_some_and(|times| *times < 0);
    if turned && matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
        sum.parts.values_mut().for_each(|times| *times = times.wrapping_neg());
        sum.constant = sum.constant.wrapping_neg();
    }
    let parts: Vec<String> =
        sum.parts.iter().map(|(part, times)| format!("{times}*{part}")).collect();
    format!("{} {op:?} {}", parts.join(" + "), sum.constant.wrapping_neg())
}

/// A sum of multiples of terms, and a constant.
#[derive(Default)]
struct Sum {
    parts: BTreeMap<String, i64>,
    constant: i64,
}

impl Sum {
    fn add(&mut self, expr: &Expr, times: i64, names: &Names) {
        match &expr.kind {
            ExprKind::Literal(Literal::Int(number)) => {
                self.constant = self.constant.wrapping_add(times.wrapping_mul(*number));
            }
            ExprKind::Unary(UnaryOp::Neg, inner) => self.add(inner, times.wrapping_neg(), names),
            ExprKind::Binary(BinaryOp::Add, a, b) => {
                self.add(a, times, names);
                self.add(b, times, names);
            }
            ExprKind::Binary(BinaryOp::Sub, a, b) => {
                self.add(a, times, names);
                self.add(b, times.wrapping_neg(), names);
            }
            ExprKind::Binary(BinaryOp::Mul, a, b) => match (&a.kind, &b.kind) {
                (ExprKind::Literal(Literal::Int(number)), _) => {
                    self.add(b, times.wrapping_mul(*number), names);
                }
                (_, ExprKind::Literal(Literal::Int(number))) => {
                    self.add(a, times.wrapping_mul(*number), names);
                }
                _ => self.part(term(expr, names), times),
            },
            ExprKind::Aggregate { op: Aggregate::Sum, over, body: Some(body) } => {
                self.total(over, body, times, names);
            }
            _ => self.part(term(expr, names), times),
        }
    }

    /// The sum of a difference is the difference of two sums.
    fn total(&mut self, over: &Over, body: &Expr, times: i64, names: &Names) {
        let mut inner = names.clone();
        for name in over.binders.iter().flat_map(|binder| binder.pattern.idents()) {
            let next = format!("s{}", inner.len());
            inner.insert(name.name.clone(), next);
        }
        let mut own = Sum::default();
        own.add(body, 1, &inner);
        if own.constant != 0 {
            own.parts.insert("1".into(), own.constant);
        }
        let binders: Vec<String> = over.binders.iter().map(|b| binder(b, &inner)).collect();
        let guard = over.guard.as_ref().map(|guard| text(guard, &inner));
        for (part, own) in own.parts {
            let total = format!("sum({} where {guard:?}: {part})", binders.join(", "));
            self.part(total, times.wrapping_mul(own));
        }
    }

    fn part(&mut self, part: String, times: i64) {
        let own = self.parts.entry(part).or_default();
        *own = own.wrapping_add(times);
    }
}

/// Anything else, with the names replaced.
fn term(expr: &Expr, names: &Names) -> String {
    let all = |items: &[Expr]| -> Vec<String> { items.iter().map(|x| term(x, names)).collect() };
    match &expr.kind {
        ExprKind::Name(name) => names.get(name).unwrap_or(name).clone(),
        ExprKind::Field(base, field) => format!("{}.{}", term(base, names), field.name),
        ExprKind::Index(base, index) => format!("{}[{}]", term(base, names), term(index, names)),
        ExprKind::Call(function, arguments) => {
            format!("{}({})", function.name, all(arguments).join(", "))
        }
        ExprKind::Set(items) => format!("{{{}}}", joined(all(items), ", ")),
        ExprKind::History { op, steps, body } => format!("{op:?}({}, {steps})", term(body, names)),
        ExprKind::Is(base, variant) => format!("{} is {}", term(base, names), variant.name),
        ExprKind::Aggregate { op, over, body } => {
            let body = |names: &Names| {
                let guard = over.guard.as_ref().map(|guard| text(guard, names));
                let body = body.as_ref().map(|body| text(body, names));
                format!("{body:?} where {guard:?}")
            };
            quantified(&format!("{op:?}"), over, names, &body)
        }
        ExprKind::Quantified { .. } => text(expr, names),
        ExprKind::Binary(op, a, b) if op.is_comparison() => comparison(*op, a, b, true, names),
        ExprKind::Binary(BinaryOp::Implies | BinaryOp::Or | BinaryOp::And, ..)
        | ExprKind::Unary(UnaryOp::Not, _) => text(expr, names),
        ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => {
            let mut sum = Sum::default();
            sum.add(expr, 1, names);
            let parts: Vec<String> =
                sum.parts.iter().map(|(part, times)| format!("{times}*{part}")).collect();
            format!("({} + {})", parts.join(" + "), sum.constant)
        }
        ExprKind::Binary(op, a, b) => format!("({} {op:?} {})", term(a, names), term(b, names)),
        _ => print_expr(expr),
    }
}

#[cfg(test)]
mod tests {
    use everhold_property::parse;

    use super::*;

    fn of(claim: &str) -> String {
        let read = parse(&format!("always \"it\": {claim}")).into_result();
        arranged(&read.expect("it is well formed")[0])
    }

    #[track_caller]
    fn same(one: &str, other: &str) {
        assert_eq!(of(one), of(other), "{one}\n{other}");
    }

    #[track_caller]
    fn differ(one: &str, other: &str) {
        assert_ne!(of(one), of(other), "{one}\n{other}");
    }

    #[test]
    fn arrangements_of_one_claim() {
        let one = |claim: &str| format!("forall n in nodes: {claim}");
        let two = |claim: &str| format!("forall a, b in nodes where a != b: {claim}");
        same(&one("n.x <= n.y"), "forall m in nodes: m.y >= m.x");
        same(&one("n.x == 600 - n.y"), &one("n.x + n.y == 600"));
        same(&one("n.x == 2 * n.y - 3"), &one("3 + n.x == n.y + n.y"));
        same(&one("n.up == true implies n.x != null"), &one("n.x == null implies not n.up"));
        same(
            &two("a.lead and a.t == b.t implies not b.lead"),
            &two("b.lead and b.t == a.t implies not a.lead"),
        );
        same(
            &two("a.s disjoint from b.t"),
            "forall x, y in nodes where y != x: x.t disjoint from y.s",
        );
        same(
            "sum(n in nodes: n.sent - n.got) == in_flight(\"m\")",
            "sum(k in nodes: k.sent) == in_flight(\"m\") + sum(n in nodes: n.got)",
        );
        same(
            "forall a in x nodes, b in y nodes: a.f >= b.g",
            "forall a in y nodes, b in x nodes: a.g <= b.f",
        );
        same(&two("a.f < b.g"), "forall a in nodes, b in nodes where b != a: a.g > b.f");
        same(&one("n.mode in {\"a\", \"b\"}"), &one("n.mode in {\"b\", \"a\"}"));
    }

    #[test]
    fn claims_that_differ() {
        let one = |claim: &str| format!("forall n in nodes: {claim}");
        let two = |claim: &str| format!("forall a, b in nodes where a != b: {claim}");
        differ(&one("n.x <= n.y"), &one("n.y <= n.x"));
        differ(&one("n.x < n.y"), &one("n.x <= n.y"));
        differ(&one("n.x == n.y + 1"), &one("n.x == n.y - 1"));
        differ(&two("a.lead implies a.x >= b.x"), &two("a.lead implies a.x <= b.x"));
        differ(&two("a.x <= b.y"), &one("n.x <= n.y"));
        differ(&one("n.x subset of n.y"), &one("n.y subset of n.x"));
        differ(&one("n.up implies n.ok"), &one("n.ok implies n.up"));
        differ("forall n in nodes: n.x >= 0", "forall n in server nodes: n.x >= 0");
    }
}
