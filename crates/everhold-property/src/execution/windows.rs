//! All cuts at once, for claims about pairs of nodes that compare one value of each.
//!
//! Such a claim is violated by two compatible states that meet the conditions and whose values are
//! in a relation: `a.term == b.term`, `a.applied > b.commit`. The states of one node that are
//! compatible with a state of another are an interval, and its ends only move forward. So it is
//! enough to slide a window over the states of one node: for an order it keeps the extreme value,
//! for an equality the number of each value. The pairs are never visited one by one.
//!
//! If two values have to be equal besides (`a.term == b.term implies a.leader == b.leader`), the
//! states with one such value are looked at by themselves. A conjunction of claims is judged part by
//! part.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use everhold_trace::{NodeId, Slice, Value};

use super::{ExecutionOutcome, Method, Trace, outcome};
use crate::ast::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Over, Pattern, Property, Quantifier,
    UnaryOp,
};
use crate::ast::{Literal, Modality, Scope};
use crate::checker::{Rule, Tally};
use crate::eval::{counts_messages, evaluate};
use crate::fast::{Measure, Program};
use crate::library::Library;
use crate::state::State;
use crate::verdict::Verdict;

/// The form of a claim that windows decide.
#[derive(Debug)]
struct Form {
    /// For each variable, `list(a in nodes where condition: value)`.
    sides: [Program; 2],
    /// The relation of the values that violates the claim; `None`: any two values do.
    relation: Option<BinaryOp>,
    /// Whether two other values must be equal besides: then a value is a list of both.
    keyed: bool,
    /// Whether the two are different nodes.
    apart: bool,
}

/// The values of a node in its states: runs of states with the same value.
#[derive(Clone, Debug, Default)]
struct Column {
    runs: Vec<Run>,
    /// The states in which the condition or the value is unknown.
    unknown: Vec<u32>,
}

impl Column {
    /// Whether it is known in this state that the node is excluded, or its value.
    fn at(&self, state: u32) -> Option<Option<Keyed>> {
        if self.unknown.binary_search(&state).is_ok() {
            return None;
        }
        let place = self.runs.partition_point(|run| run.to < state);
        let run = self.runs.get(place).filter(|run| run.from <= state);
        Some(run.map(|run| run.value))
    }
}

/// A value that a node has in the states `from..=to`.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
    value: Keyed,
}

/// A value with the one that has to be equal; where there is none, that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keyed {
    key: i64,
    value: i64,
}

/// Judges a claim about pairs. Returns `None` if the claim has another form, or if something in it
/// is unknown so that only the pairs themselves show whether it holds anywhere.
pub(super) fn check(rule: &Rule, trace: &Trace<'_>) -> Option<ExecutionOutcome> {
    let property = rule.property();
    let parts = parts(&property.body);
    if parts.len() == 1 {
        return check_part(rule, trace);
    }
    let part = |body: Expr| {
        let part = Property { body, ..property.clone() };
        check_part(&Rule::new(&part, rule.library()), trace)
    };
    let all: Vec<ExecutionOutcome> = parts.into_iter().map(part).collect::<Option<_>>()?;
    let violations = all.iter().filter_map(|outcome| outcome.violation.as_ref());
    let first = violations.min_by_key(|violation| violation.event).map(|first| first.cut.clone());
    if first.is_none() && !holds_at_the_end(rule, trace) {
        // Each part may be known somewhere, and nowhere all of them.
        return None;
    }
    let mut found = all.into_iter().next()?;
    let pairs = found.tally.holds + found.tally.violated;
    let violated = u64::from(first.is_some());
    found.tally = Tally { holds: pairs.saturating_sub(violated), violated, ..Tally::default() };
    found.violation = first.map(|cut| trace.violation(rule, cut));
    found.verdict = if violated > 0 { Verdict::Violated } else { Verdict::Holds };
    Some(found)
}

/// Whether a claim is known to be true in the last state.
fn holds_at_the_end(rule: &Rule, trace: &Trace<'_>) -> bool {
    let last: Vec<u32> = trace.order.node_ids().map(|node| trace.order.events_of(node)).collect();
    let state = trace.snapshot(&last);
    let history: [&dyn State; 1] = [&state];
    evaluate(rule.property(), rule.library(), &history, &[]) == Some(Verdict::Holds)
}

/// The claims of which an expression is the conjunction, or the expression itself.
fn parts(expr: &Expr) -> Vec<Expr> {
    let with = |kind: ExprKind| Expr { kind, span: expr.span };
    let found = match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            let quantified = |body: Expr| {
                let (over, body) = (over.clone(), Box::new(body));
                with(ExprKind::Quantified { quantifier: Quantifier::Forall, over, body })
            };
            parts(body).into_iter().map(quantified).collect()
        }
        ExprKind::Binary(BinaryOp::Implies, left, right) => {
            let implied = |right: Expr| {
                with(ExprKind::Binary(BinaryOp::Implies, left.clone(), Box::new(right)))
            };
            parts(right).into_iter().map(implied).collect()
        }
        ExprKind::Binary(BinaryOp::And, left, right) => [parts(left), parts(right)].concat(),
        ExprKind::Unary(UnaryOp::Not, inner) => match &inner.kind {
            ExprKind::Binary(BinaryOp::Or, left, right) => {
                let not = |side: &Expr| {
                    parts(&with(ExprKind::Unary(UnaryOp::Not, Box::new(side.clone()))))
                };
                [not(left), not(right)].concat()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if found.is_empty() || found.len() > PARTS_MAX { vec![expr.clone()] } else { found }
}

/// Longer conjunctions are not taken apart.
const PARTS_MAX: usize = 16;

fn check_part(rule: &Rule, trace: &Trace<'_>) -> Option<ExecutionOutcome> {
    let property = rule.property();
    let form = Form::of(property, rule.library())?;
    let columns = [form.columns(0, trace)?, form.columns(1, trace)?];
    let columns = numbered(&form, columns)?;
    let mut search = Search { trace, form: &form, columns, pairs: 0, first: None, settled: true };
    if !form.apart {
        search.diagonal();
    }
    match property.scope {
        Scope::EveryCut => search.family(&Slice::consistent(trace.order)),
        Scope::AllQuiet => search.family(&Slice::quiet(trace.order)),
        Scope::Quiet => search.quiet_pairs(),
        Scope::Delivery | Scope::Chains => return None,
    }
    let mut tally = Tally { holds: search.pairs, ..Tally::default() };
    if search.first.is_none() && !search.settled {
        return None;
    }
    let violation = search.first.map(|(_, cut)| trace.violation(rule, cut));
    if violation.is_some() {
        (tally.holds, tally.violated) = (search.pairs.saturating_sub(1), 1);
    }
    let mut found = outcome(property.modality, Method::Windows, tally, None, violation);
    if found.verdict != Verdict::Violated {
        // Without any pair the property holds.
        found.verdict = Verdict::Holds;
    }
    Some(found)
}

impl Form {
    fn of(property: &Property, library: &Library) -> Option<Form> {
        if property.modality != Modality::Always || counts_messages(&property.body, library) {
            return None;
        }
        let mut variables: Vec<(String, Domain)> = Vec::new();
        let mut literals = Vec::new();
        let mut body = &property.body;
        while let ExprKind::Quantified { quantifier: Quantifier::Forall, over, body: inner } =
            &body.kind
        {
            for binder in &over.binders {
                let (Pattern::Names(names), Domain::Nodes { .. }) =
                    (&binder.pattern, &binder.domain)
                else {
                    return None;
                };
                let named = names.iter().map(|name| (name.name.clone(), binder.domain.clone()));
                variables.extend(named);
            }
            over.guard.iter().for_each(|guard| conjuncts(guard, &mut literals));
            body = inner;
        }
        negated(body, &mut literals)?;
        let [a, b] = <[_; 2]>::try_from(variables).ok()?;
        if a.0 == b.0 {
            return None;
        }
        let own = [Vec::new(), Vec::new()];
        let mut parts = Parts { names: [&a.0, &b.0], own, cross: None, equal: None, apart: false };
        literals.into_iter().try_for_each(|literal| parts.add(literal))?;
        // For quiet scopes, a node beside itself is left to tuples.
        if !parts.apart && property.scope != Scope::EveryCut {
            return None;
        }
        let (values, relation) = match parts.cross {
            Some((op, values)) => (values, Some(op)),
            None => ([number(0), number(0)], None),
        };
        let keyed = parts.equal.is_some();
        let values = match parts.equal {
            Some([key_a, key_b]) => {
                let [value_a, value_b] = values;
                [(key_a, value_a), (key_b, value_b)]
                    .map(|(key, value)| Expr::new(ExprKind::List(vec![key, value])))
            }
            None => values,
        };
        let [own_a, own_b] = parts.own;
        let [value_a, value_b] = values;
        Some(Form {
            sides: [side(&a, own_a, value_a, library)?, side(&b, own_b, value_b, library)?],
            relation,
            keyed,
            apart: parts.apart,
        })
    }

    /// The column of each node as this variable; `None` if a node's state leads to another node.
    fn columns(&self, variable: usize, trace: &Trace<'_>) -> Option<Vec<Raw>> {
        let program = &self.sides[variable];
        let one = |node: NodeId| {
            let mut measure = Measure::new(program, &trace.members[node.index()]);
            let mut raw = Raw::default();
            let mut seen: Option<(bool, Option<u32>, Seen)> = None;
            for count in 0..=trace.order.events_of(node) {
                let up = trace.up[node.index()][count as usize];
                let version = trace.states.version(node, count as usize);
                let now = match seen.take() {
                    Some((was_up, was, now)) if (was_up, was) == (up, version) => now,
                    _ => {
                        let row =
                            trace.state(node, count).map(|state| Arc::new(program.row(state)));
                        if row.as_ref().is_some_and(|row| row.leads_on()) {
                            return None;
                        }
                        match measure.value(up, row) {
                            None => Seen::Unknown,
                            Some(Value::List(mut items)) => {
                                items.pop().map_or(Seen::Excluded, Seen::Value)
                            }
                            Some(_) => return None,
                        }
                    }
                };
                raw.add(count, &now);
                seen = Some((up, version, now));
            }
            Some(raw)
        };
        trace.execution.node_ids().map(one).collect()
    }
}

/// A column before its values have numbers.
#[derive(Debug, Default)]
struct Raw {
    runs: Vec<(u32, u32, Value)>,
    unknown: Vec<u32>,
}

/// A node in a state, as one variable of the claim.
#[derive(Debug)]
enum Seen {
    Excluded,
    Unknown,
    Value(Value),
}

impl Raw {
    fn add(&mut self, state: u32, seen: &Seen) {
        match (seen, self.runs.last_mut()) {
            (Seen::Excluded, _) => {}
            (Seen::Unknown, _) => self.unknown.push(state),
            (Seen::Value(value), Some((_, to, last))) if *to + 1 == state && last == value => {
                *to = state;
            }
            (Seen::Value(value), _) => self.runs.push((state, state, value.clone())),
        }
    }
}

/// Gives values numbers that stand in the same relation; `None` if the values have none.
fn numbered(form: &Form, raw: [Vec<Raw>; 2]) -> Option<[Vec<Column>; 2]> {
    let runs = || raw.iter().flatten().flat_map(|raw| raw.runs.iter().map(|run| &run.2));
    let pairs: Vec<(&Value, &Value)> =
        runs().map(|value| split(form, value)).collect::<Option<_>>()?;
    let is_order = form.relation.is_some_and(|op| !matches!(op, BinaryOp::Eq | BinaryOp::Ne));
    let ints = pairs.iter().all(|(_, value)| matches!(value, Value::Int(_)));
    if is_order && !ints {
        return None;
    }
    let plain = |(key, value): &(&Value, &Value)| is_plain(key) && is_plain(value);
    if !pairs.iter().all(plain) {
        return None;
    }
    let ids = |values: BTreeSet<&Value>| -> BTreeMap<Value, i64> {
        values.into_iter().cloned().zip(0..).collect()
    };
    let keys = ids(pairs.iter().map(|(key, _)| *key).collect());
    let values = match is_order {
        true => BTreeMap::new(),
        false => ids(pairs.iter().map(|(_, value)| *value).collect()),
    };
    let number = |value: &Value| {
        let (key, value) = split(form, value).expect("all values were split before");
        let value = match value {
            Value::Int(number) if is_order => *number,
            value => values.get(value).copied().unwrap_or(0),
        };
        Keyed { key: keys.get(key).copied().unwrap_or(0), value }
    };
    let column = |raw: &Raw| {
        let run = |(from, to, value): &(u32, u32, Value)| Run {
            from: *from,
            to: *to,
            value: number(value),
        };
        Column { runs: raw.runs.iter().map(run).collect(), unknown: raw.unknown.clone() }
    };
    Some([raw[0].iter().map(column).collect(), raw[1].iter().map(column).collect()])
}

/// The value that has to be equal, and the one that stands in the relation.
fn split<'a>(form: &Form, value: &'a Value) -> Option<(&'a Value, &'a Value)> {
    match value {
        _ if !form.keyed => Some((&Value::Null, value)),
        Value::List(both) => match &both[..] {
            [key, value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a value equals no value of another type. Floats equal integers, and containers can hold
/// them.
fn is_plain(value: &Value) -> bool {
    use Value::{Bool, Int, Node, Null, Text};
    matches!(value, Int(_) | Text(_) | Bool(_) | Null | Node(_))
}

/// The literals that together violate a claim, sorted by their variables.
struct Parts<'a> {
    names: [&'a str; 2],
    own: [Vec<Expr>; 2],
    cross: Option<(BinaryOp, [Expr; 2])>,
    /// The values that have to be equal besides.
    equal: Option<[Expr; 2]>,
    /// Whether the two are different nodes.
    apart: bool,
}

impl Parts<'_> {
    fn add(&mut self, literal: Expr) -> Option<()> {
        match self.mentioned(&literal) {
            [_, false] => self.own[0].push(literal),
            [false, true] => self.own[1].push(literal),
            [true, true] => {
                let ExprKind::Binary(op, left, right) = literal.kind else { return None };
                let bare = |expr: &Expr| matches!(expr.kind, ExprKind::Name(_));
                if op == BinaryOp::Ne && bare(&left) && bare(&right) {
                    self.apart = true;
                    return Some(());
                }
                let (op, sides) = match (self.mentioned(&left), self.mentioned(&right)) {
                    ([true, false], [false, true]) => (op, [*left, *right]),
                    ([false, true], [true, false]) => (mirrored(op)?, [*right, *left]),
                    _ => return None,
                };
                mirrored(op)?;
                self.relate(op, sides)?;
            }
        }
        Some(())
    }

    /// Takes a relation; of two, one has to be an equality.
    fn relate(&mut self, op: BinaryOp, sides: [Expr; 2]) -> Option<()> {
        match self.cross.take() {
            None => self.cross = Some((op, sides)),
            Some(_) if self.equal.is_some() => return None,
            Some(other) if op == BinaryOp::Eq => {
                (self.cross, self.equal) = (Some(other), Some(sides));
            }
            Some((BinaryOp::Eq, equal)) => {
                (self.cross, self.equal) = (Some((op, sides)), Some(equal));
            }
            Some(_) => return None,
        }
        Some(())
    }

    fn mentioned(&self, expr: &Expr) -> [bool; 2] {
        self.names.map(|name| {
            expr.any(&mut |expr| matches!(&expr.kind, ExprKind::Name(other) if other == name))
        })
    }
}

/// The same relation seen from the other side.
fn mirrored(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Eq,
        BinaryOp::Ne => BinaryOp::Ne,
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Le,
        _ => return None,
    })
}

fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        _ => return None,
    })
}

fn conjuncts(expr: &Expr, found: &mut Vec<Expr>) {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::And, left, right) => {
            conjuncts(left, found);
            conjuncts(right, found);
        }
        _ => found.push(expr.clone()),
    }
}

/// The literals that together falsify an expression; `None` if it has several ways to be false.
fn negated(expr: &Expr, found: &mut Vec<Expr>) -> Option<()> {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::Implies, left, right) => {
            conjuncts(left, found);
            negated(right, found)
        }
        ExprKind::Binary(BinaryOp::Or, left, right) => {
            negated(left, found)?;
            negated(right, found)
        }
        ExprKind::Binary(BinaryOp::And, ..) | ExprKind::Quantified { .. } => None,
        ExprKind::Unary(UnaryOp::Not, inner) => {
            conjuncts(inner, found);
            Some(())
        }
        ExprKind::Binary(op, left, right) if opposite(*op).is_some() => {
            let op = opposite(*op)?;
            found.push(Expr::new(ExprKind::Binary(op, left.clone(), right.clone())));
            Some(())
        }
        _ => {
            found.push(Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(expr.clone()))));
            Some(())
        }
    }
}

fn number(value: i64) -> Expr {
    Expr::new(ExprKind::Literal(Literal::Int(value)))
}

fn side(
    (name, domain): &(String, Domain),
    conditions: Vec<Expr>,
    value: Expr,
    library: &Library,
) -> Option<Program> {
    let and = |left: Expr, right: Expr| {
        Expr::new(ExprKind::Binary(BinaryOp::And, Box::new(left), Box::new(right)))
    };
    let guard = conditions.into_iter().reduce(and).map(Box::new);
    let pattern = Pattern::Names(vec![crate::ast::Ident::new(name.clone())]);
    let over = Over { binders: vec![Binder { pattern, domain: domain.clone() }], guard };
    let kind = ExprKind::Aggregate { op: Aggregate::List, over, body: Some(Box::new(value)) };
    Measure::program(&Expr::new(kind), library)
}

struct Search<'a> {
    trace: &'a Trace<'a>,
    form: &'a Form,
    /// For each variable, the column of each node.
    columns: [Vec<Column>; 2],
    /// The number of pairs of compatible states.
    pairs: u64,
    /// The least cut of the first violation, and its last event.
    first: Option<(Option<everhold_trace::EventId>, Vec<u32>)>,
    /// Whether the claim is known to be true of each pair of nodes in some states. Where something
    /// is unknown, this is looked for in the last states only.
    settled: bool,
}

impl Search<'_> {
    /// A node beside itself.
    fn diagonal(&mut self) {
        for node in self.trace.execution.node_ids() {
            let last = self.trace.order.events_of(node);
            self.settle((node.index(), node.index()), (last, last));
            let own = &self.columns[0][node.index()];
            let other = &self.columns[1][node.index()];
            let state = own.runs.iter().flat_map(|run| run.from..=run.to).find(|state| {
                let pair = own.at(*state).flatten().zip(other.at(*state).flatten());
                pair.is_some_and(|(a, b)| related(self.form.relation, a, b))
            });
            if let Some(state) = state {
                self.found(self.trace.order.clock(node, state).to_vec());
            }
        }
    }

    /// Notes whether the claim is known of two nodes in these states, in one of the two ways in
    /// which they can stand for its variables.
    fn settle(&mut self, (p, q): (usize, usize), (at_p, at_q): (u32, u32)) {
        let known = |a: Option<Option<Keyed>>, b: Option<Option<Keyed>>| match (a, b) {
            (Some(None), _) | (_, Some(None)) => true,
            (Some(Some(a)), Some(Some(b))) => !related(self.form.relation, a, b),
            _ => false,
        };
        let columns = &self.columns;
        let forth = known(columns[0][p].at(at_p), columns[1][q].at(at_q));
        let back = known(columns[0][q].at(at_q), columns[1][p].at(at_p));
        self.settled &= forth || back;
    }

    fn family(&mut self, slice: &Slice<'_>) {
        let all: Vec<NodeId> = self.trace.order.node_ids().collect();
        let mut violations = Vec::new();
        slice.all_windows(|p, q, windows| {
            self.count(windows, p < q);
            let last = |place: usize| slice.states(place).last().copied().unwrap_or(0);
            self.settle((p, q), (last(p), last(q)));
            let found = self.pair((p, q), slice.states(p), slice.states(q), windows);
            violations.extend(found.map(|(at_p, at_q)| [(p, at_p), (q, at_q)]));
        });
        for pair in violations {
            let states = pair.map(|(place, state)| (all[place].index(), state));
            let cut = slice.cut_with(&states).expect("the states are compatible");
            self.found(cut);
        }
    }

    /// Under `when quiet`, each pair of nodes has a family of its own.
    fn quiet_pairs(&mut self) {
        let nodes: Vec<NodeId> = self.trace.order.node_ids().collect();
        for (i, p) in nodes.iter().enumerate() {
            for q in &nodes[i + 1..] {
                let slice = Slice::quiet_among(self.trace.order, &[*p, *q]);
                let last = |place: usize| slice.states(place).last().copied().unwrap_or(0);
                self.settle((p.index(), q.index()), (last(0), last(1)));
                for (a, b) in [(0, 1), (1, 0)] {
                    let place = |at: usize| if at == 0 { p.index() } else { q.index() };
                    let windows: Vec<(u32, u32)> = slice
                        .windows(a, b)
                        .map(|(_, window)| (*window.start() as u32, *window.end() as u32))
                        .collect();
                    self.count(&windows, a == 0);
                    let found =
                        self.pair((place(a), place(b)), slice.states(a), slice.states(b), &windows);
                    if let Some((at_a, at_b)) = found {
                        let id = |at: usize| if at == 0 { *p } else { *q };
                        let states = [(id(a), at_a), (id(b), at_b)];
                        let cut = self.trace.order.cut_with(&states);
                        self.found(cut.expect("the states are compatible"));
                    }
                }
            }
        }
    }

    fn count(&mut self, windows: &[(u32, u32)], once: bool) {
        if once {
            let sizes = windows.iter().map(|(low, high)| u64::from(high - low) + 1);
            self.pairs += sizes.sum::<u64>();
        }
    }

    fn found(&mut self, cut: Vec<u32>) {
        let event = self.trace.last_event(&cut);
        if self.first.as_ref().is_none_or(|(best, _)| event < *best) {
            self.first = Some((event, cut));
        }
    }

    /// Two compatible states, the first variable at `p` and the second at `q`, that violate the
    /// claim. `windows` has, for each of `states_p`, the least and greatest place in `states_q`.
    fn pair(
        &self,
        (p, q): (usize, usize),
        states_p: &[u32],
        states_q: &[u32],
        windows: &[(u32, u32)],
    ) -> Option<(u32, u32)> {
        let (own, other) = (&self.columns[0][p].runs, &self.columns[1][q].runs);
        if own.is_empty() || other.is_empty() {
            return None;
        }
        let states = (states_p, states_q);
        if !self.form.keyed {
            return self.slide(own, other, states, windows);
        }
        let (own, other) = (by_key(own), by_key(other));
        let beside = own.iter().filter_map(|(key, own)| Some((own, other.get(key)?)));
        beside.filter_map(|(own, other)| self.slide(own, other, states, windows)).min()
    }

    /// Slides a window over the runs of the second variable, along those of the first.
    fn slide(
        &self,
        own: &[Run],
        other: &[Run],
        (states_p, states_q): (&[u32], &[u32]),
        windows: &[(u32, u32)],
    ) -> Option<(u32, u32)> {
        let mut window = Window::new(self.form.relation, other);
        for run in own {
            let begin = states_p.partition_point(|state| *state < run.from);
            let end = states_p.partition_point(|state| *state <= run.to);
            if begin == end {
                continue;
            }
            // Within a run the windows overlap, so together they are one.
            let low = states_q[windows[begin].0 as usize];
            let high = states_q[windows[end - 1].1 as usize];
            window.slide(low, high);
            if !window.violates(run.value.value) {
                continue;
            }
            for at in begin..end {
                let (low, high) = (windows[at].0 as usize, windows[at].1 as usize);
                let beside = states_q[low..=high].iter().find(|state| {
                    let place = other.partition_point(|run| run.to < **state);
                    let run_q = other.get(place).filter(|run| run.from <= **state);
                    run_q.is_some_and(|run_q| related(self.form.relation, run.value, run_q.value))
                });
                if let Some(beside) = beside {
                    return Some((states_p[at], *beside));
                }
            }
        }
        None
    }
}

/// The runs with each key.
fn by_key(runs: &[Run]) -> BTreeMap<i64, Vec<Run>> {
    let mut found: BTreeMap<i64, Vec<Run>> = BTreeMap::new();
    for run in runs {
        found.entry(run.value.key).or_default().push(*run);
    }
    found
}

/// Whether two values together violate the claim.
fn related(op: Option<BinaryOp>, a: Keyed, b: Keyed) -> bool {
    a.key == b.key && compared(op, a.value, b.value)
}

fn compared(op: Option<BinaryOp>, a: i64, b: i64) -> bool {
    match op {
        None => true,
        Some(BinaryOp::Eq) => a == b,
        Some(BinaryOp::Ne) => a != b,
        Some(BinaryOp::Lt) => a < b,
        Some(BinaryOp::Le) => a <= b,
        Some(BinaryOp::Gt) => a > b,
        Some(BinaryOp::Ge) => a >= b,
        Some(_) => unreachable!("windows are for comparisons"),
    }
}

/// The runs of the other node that intersect the window.
struct Window<'a> {
    op: Option<BinaryOp>,
    runs: &'a [Run],
    /// The first run that has not left, and the first that has not entered.
    left: usize,
    right: usize,
    /// For an order: runs whose values may become the extreme one.
    extreme: VecDeque<usize>,
    /// For an equality: the number of runs of each value, and of values.
    counts: BTreeMap<i64, u32>,
}

impl<'a> Window<'a> {
    fn new(op: Option<BinaryOp>, runs: &'a [Run]) -> Window<'a> {
        let (extreme, counts) = (VecDeque::new(), BTreeMap::new());
        Window { op, runs, left: 0, right: 0, extreme, counts }
    }

    /// Moves the window to the states `low..=high`; neither end moves back.
    fn slide(&mut self, low: u32, high: u32) {
        while self.right < self.runs.len() && self.runs[self.right].from <= high {
            self.enter(self.right);
            self.right += 1;
        }
        while self.left < self.right && self.runs[self.left].to < low {
            self.leave(self.left);
            self.left += 1;
        }
    }

    fn enter(&mut self, at: usize) {
        let value = self.runs[at].value.value;
        match self.op {
            None => {}
            Some(BinaryOp::Eq | BinaryOp::Ne) => *self.counts.entry(value).or_default() += 1,
            Some(op) => {
                // A value is hidden by a later one that is in relation with at least as much.
                let least = matches!(op, BinaryOp::Gt | BinaryOp::Ge);
                let hides = |last: i64| if least { value <= last } else { value >= last };
                while self.extreme.back().is_some_and(|last| hides(self.runs[*last].value.value)) {
                    self.extreme.pop_back();
                }
                self.extreme.push_back(at);
            }
        }
    }

    fn leave(&mut self, at: usize) {
        if self.extreme.front() == Some(&at) {
            self.extreme.pop_front();
        }
        let value = self.runs[at].value.value;
        if let Some(count) = self.counts.get_mut(&value) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
            }
        }
    }

    fn violates(&self, value: i64) -> bool {
        match self.op {
            None => self.left < self.right,
            Some(BinaryOp::Eq) => self.counts.contains_key(&value),
            Some(BinaryOp::Ne) => {
                self.counts.len() > 1
                    || (self.counts.len() == 1 && !self.counts.contains_key(&value))
            }
            Some(_) => self
                .extreme
                .front()
                .is_some_and(|first| compared(self.op, value, self.runs[*first].value.value)),
        }
    }
}
