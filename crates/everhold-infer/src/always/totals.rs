//! Conserved totals: sums over nodes and over the payloads of the messages in flight that no event
//! changes, such as the money of a bank.
//!
//! On a consistent cut such a total is its value at the start plus the changes of the events in the
//! cut. It is therefore the same on all cuts exactly if every event leaves it as it is. Each event is
//! one row of a matrix: how much it changes each number of its node, and what it adds to the
//! messages in flight of each kind and takes from them. A total is a vector of small coefficients
//! that the matrix maps to zero, found for at most four numbers at a time (`flow`).

mod flow;
mod matrix;

use everhold_property::{
    Aggregate, BinaryOp, Binder, Domain, Expr, ExprKind, Ident, Over, Pattern, Property, Scope,
    print_expr,
};
use everhold_trace::Execution;

use super::atoms::Atoms;
use super::evidence::Evidence;
use super::lines::Draft;
use super::single::words;
use super::terms::Side;
use super::unjudged::NotJudged;
use crate::evaluate::Numbers;
use crate::relation::tree::{self, binary, call, constant, name, sum_over};
use crate::states::States;
use crate::variables::{KindId, Row};
use flow::{Feature, Flow};
use matrix::{Matrix, Total};

/// Cases counted for one total.
const CASES_MAX: u64 = 1_000;
/// Quiet moments with different addends that a claim about quiet moments needs.
const QUIET_MIN: usize = 2;

/// The recorded states, and the terms of the nodes in them.
pub(super) struct Totals<'a> {
    pub(super) states: &'a States,
    pub(super) atoms: &'a Atoms,
    pub(super) numbers: &'a Numbers,
    pub(super) sides: &'a [Side],
    pub(super) executions: &'a [&'a Execution],
    /// Whether claims about moments without messages are wanted.
    pub(super) quiet: bool,
}

impl Totals<'_> {
    /// The totals that no event changes, what follows from them for quiet moments and for the sums
    /// over nodes alone, and how many were tried.
    pub(super) fn claims(&self, unjudged: &mut NotJudged) -> (Vec<Draft>, u64) {
        let Some(flow) = Flow::of(self, unjudged) else { return (Vec::new(), 0) };
        let Matrix { totals, tried } = Matrix::of(&flow);
        let mut found = Vec::new();
        // Nearly all choices of numbers are no total. They count against the totals alone: as
        // candidates like all others they would drown the others.
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_tried = (tried.max(1) as f64).ln();
        for total in &totals {
            // Counters and the number of messages of one kind are looked for elsewhere.
            if flow.speaks_of_payloads(total) || flow.has_several_kinds(total) {
                found.extend(self.drafts(total, ln_tried, &flow));
            }
        }
        (found, totals.len() as u64)
    }

    fn drafts(&self, total: &Total, ln_tried: f64, flow: &Flow) -> Vec<Draft> {
        let Some(sum) = flow.value(total) else { return Vec::new() };
        let cases = flow.cases(total);
        // An event that changes one of the numbers might as well have left the other.
        let free = cases.min(CASES_MAX).saturating_sub(total.len() as u64);
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_chance = (ln_tried - (free as f64) * 2.0_f64.ln()).min(0.0);
        let samples = flow.rows.len() as u64;
        let draft = |property: Property, weight: f64| {
            let evidence = Evidence { samples, distinct: cases, ln_chance };
            Draft::new(property, evidence, weight)
        };
        let mut found =
            vec![draft(self.property(total, flow, (BinaryOp::Eq, sum), Scope::EveryCut), 6.0)];
        let of_nodes = flow.of_nodes(total);
        if self.quiet && flow.quiet_cases(&of_nodes) >= QUIET_MIN {
            let claim = self.property(&of_nodes, flow, (BinaryOp::Eq, sum), Scope::AllQuiet);
            found.push(draft(claim, 6.2));
        }
        for (kind, part) in flow.parts_below(total) {
            // The sum over one node is a bound of that node.
            if self.nodes_of(kind) > 1 {
                let claim = self.property(&part, flow, (BinaryOp::Le, sum), Scope::EveryCut);
                found.push(draft(claim, 5.5));
            }
        }
        found
    }

    fn nodes_of(&self, kind: KindId) -> usize {
        let runs = self.atoms.runs.iter();
        runs.map(|run| run.iter().filter(|(own, _)| *own == Some(kind)).count()).max().unwrap_or(0)
    }

    /// `sums on the left, those that are taken off on the right`.
    fn property(
        &self,
        total: &[(usize, i64)],
        flow: &Flow,
        (op, sum): (BinaryOp, i64),
        scope: Scope,
    ) -> Property {
        let side = |wanted: bool| {
            let own = total.iter().filter(move |(_, times)| (*times > 0) == wanted);
            let parts = own.map(|(feature, times)| match times.unsigned_abs() {
                1 => self.expr(&flow.features[*feature]),
                times => {
                    let times = constant(&i64::try_from(times).unwrap_or(i64::MAX).into());
                    binary(BinaryOp::Mul, times, self.expr(&flow.features[*feature]))
                }
            });
            parts.reduce(|a, b| binary(BinaryOp::Add, a, b))
        };
        let left = side(true).unwrap_or_else(|| constant(&0.into()));
        let right = match (side(false), sum) {
            (None, sum) => constant(&sum.into()),
            (Some(right), 0) => right,
            (Some(right), sum) if sum < 0 => {
                binary(BinaryOp::Sub, right, constant(&sum.saturating_neg().into()))
            }
            (Some(right), sum) => binary(BinaryOp::Add, right, constant(&sum.into())),
        };
        let body = binary(op, left, right);
        let is = if op == BinaryOp::Eq { "is" } else { "is at most" };
        let said = print_expr(&body).replacen("==", is, 1).replacen("<=", is, 1);
        let quiet = if scope == Scope::AllQuiet { ", when all is quiet" } else { "" };
        tree::always(words(&said) + quiet, scope, body)
    }

    /// The name of a kind of nodes, if there are several.
    fn kind_name(&self, kind: KindId) -> Option<&str> {
        let kinds = &self.states.variables.kinds;
        (kinds.len() > 1).then(|| kinds[kind].name.as_str())
    }

    fn expr(&self, feature: &Feature) -> Expr {
        match feature {
            Feature::Term { kind, term } => {
                let of = self.kind_name(*kind);
                sum_over(of, self.sides[*kind].terms[*term].expr(&Row::Value("n".into())))
            }
            Feature::Count { label } => call("in_flight", vec![constant(&label.as_str().into())]),
            Feature::Amount { label, field } => payloads(label, field.as_deref()),
        }
    }
}

/// `sum(m in messages("Transfer"): m.amount)`.
fn payloads(label: &str, field: Option<&str>) -> Expr {
    let messages = call("messages", vec![constant(&label.into())]);
    let pattern = Pattern::Names(vec![Ident::new("m")]);
    let binder = Binder { pattern, domain: Domain::Values(Box::new(messages)) };
    let body = match field {
        Some(field) => Expr::new(ExprKind::Field(Box::new(name("m")), Ident::new(field))),
        None => name("m"),
    };
    let over = Over { binders: vec![binder], guard: None };
    Expr::new(ExprKind::Aggregate { op: Aggregate::Sum, over, body: Some(Box::new(body)) })
}

#[cfg(test)]
mod tests {
    use everhold_property::{print, print_expr};
    use everhold_trace::{EventKind, MessageId, Observation, TraceBuilder, Value};

    use super::*;
    use crate::{Always, Settings, always};

    /// A sequence of pseudo-random numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> i64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from((self.0 >> 33) % end).expect("it is small")
        }
    }

    /// Three accounts of one kind, or one that grants and two that get; of what is sent, one time in
    /// `forgets` nothing arrives. The last transfers do not arrive in time.
    fn transfers(kinds: [&str; 2], forgets: u64) -> Execution {
        let mut random = Random(3);
        let mut trace = TraceBuilder::new();
        let kind = |node: usize| if node == 0 { kinds[0] } else { kinds[1] };
        let ids: Vec<_> =
            (0..3).map(|node| trace.add_node(&format!("n{node}"), kind(node))).collect();
        let mut money = [60_i64, 0, 0];
        let mut flying: Vec<(usize, i64, MessageId)> = Vec::new();
        for step in 0..400 {
            let arrives = step >= 3 && !flying.is_empty() && random.below(3) > 0;
            let node = if arrives {
                let place = usize::try_from(random.below(flying.len() as u64)).expect("a place");
                let (to, amount, message) = flying.swap_remove(place);
                trace.begin(ids[to], EventKind::Deliver { message });
                if forgets == 0 || random.below(forgets) > 0 {
                    money[to] += amount;
                }
                to
            } else {
                let node =
                    if step < 3 { step } else { usize::try_from(random.below(3)).expect("a node") };
                trace.begin(ids[node], EventKind::Local { name: "step".into() });
                let amount = random.below(20) + 1;
                if step >= 3 && amount <= money[node] {
                    let to = if node == 0 { 1 + step % 2 } else { 0 };
                    let payload = Value::record([("amount", amount)]);
                    flying.push((to, amount, trace.send(ids[to], "Pay", Some(payload))));
                    money[node] -= amount;
                }
                node
            };
            let field = if node == 0 { kinds[0] } else { kinds[1] };
            let field = if field.is_empty() { "money" } else { field };
            trace.observe(Value::record([(field, money[node]), ("load", random.below(9))]));
        }
        trace.finish()
    }

    fn lines(found: &Always) -> Vec<String> {
        let scoped = |property: &Property| match property.scope {
            Scope::EveryCut => print_expr(&property.body),
            _ => format!("when quiet: {}", print_expr(&property.body)),
        };
        found.lines.iter().map(|line| scoped(&line.property)).collect()
    }

    #[track_caller]
    fn check(execution: &Execution, wanted: &[&str]) {
        let lines = lines(&always(&[execution], &Settings::default()));
        for wanted in wanted {
            assert!(lines.iter().any(|line| line == wanted), "{wanted}\n{lines:#?}");
        }
    }

    #[test]
    fn the_money_of_a_bank() {
        check(
            &transfers(["", ""], 0),
            &[
                "sum(n in nodes: n.money) + sum(m in messages(\"Pay\"): m.amount) == 60",
                "when quiet: sum(n in nodes: n.money) == 60",
            ],
        );
    }

    /// One pool and those who get from it: the sum of what they have is bounded.
    #[test]
    fn a_pool_and_its_users() {
        check(
            &transfers(["free", "quota"], 0),
            &[
                "sum(n in free nodes: n.free) + sum(n in quota nodes: n.quota) \
                 + sum(m in messages(\"Pay\"): m.amount) == 60",
                "when quiet: sum(n in free nodes: n.free) + sum(n in quota nodes: n.quota) == 60",
                "sum(n in quota nodes: n.quota) <= 60",
            ],
        );
    }

    /// The same execution with other states and payloads.
    fn changed(
        execution: &Execution,
        state: impl Fn(usize, Value) -> Value,
        payload: impl Fn(Value) -> Value,
    ) -> Execution {
        let mut trace = TraceBuilder::new();
        let nodes = execution.nodes().iter();
        let ids: Vec<_> = nodes.map(|node| trace.add_node(&node.name, &node.kind)).collect();
        for (place, event) in execution.events().iter().enumerate() {
            trace.begin(ids[event.node.index()], event.kind.clone());
            for send in &event.sends {
                let to = send.to.expect("nothing is sent to all");
                trace.send(to, &send.label, send.payload.clone().map(&payload));
            }
            if let Some(Observation::State(now)) = &event.observation {
                trace.observe(state(place, now.clone()));
            }
        }
        trace.finish()
    }

    fn with(value: &Value, name: &str, field: impl Into<Value>) -> Value {
        let Value::Record(mut fields) = value.clone() else { panic!("states are records") };
        fields.insert(name.to_owned(), field.into());
        Value::Record(fields)
    }

    #[track_caller]
    fn check_unjudged(execution: &Execution, wanted: &[&str]) {
        let found = always(&[execution], &Settings::default());
        let found: Vec<String> = found.unjudged.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }

    const MONEY: &str = "when quiet: sum(n in nodes: n.money) == 60";

    /// Numbers with fractions, or too large to be added, leave the other totals as they are.
    #[test]
    fn numbers_that_cannot_be_added() {
        let bank = transfers(["", ""], 0);
        let same = |payload: Value| payload;
        let ratio =
            |place: usize| if place.is_multiple_of(3) { 0.5 } else { f64::from(place as u32) };
        let fractions = changed(&bank, |place, state| with(&state, "ratio", ratio(place)), same);
        check(&fractions, &[MONEY]);
        let rounding = "not all values are whole numbers, and sums of others depend on rounding";
        check_unjudged(&fractions, &[&format!("judged no totals of `ratio`: {rounding}")]);
        let large =
            |place: usize| if place.is_multiple_of(2) { i64::MAX } else { i64::MIN + place as i64 };
        let large = changed(&bank, |place, state| with(&state, "mark", large(place)), same);
        check(&large, &[MONEY]);
        let why = "judged no totals of `mark`: the sum does not fit into 64 bits";
        check_unjudged(&large, &[why]);
        let amount = |payload: Value| with(&payload, "fee", 0.25);
        let fees = changed(&bank, |_, state| state, amount);
        check(&fees, &[MONEY]);
        let why = format!("judged no totals of `fee` of Pay messages: {rounding}");
        check_unjudged(&fees, &[&why]);
    }

    /// Null counts for nothing in a sum, so a number may be missing at times.
    #[test]
    fn numbers_that_may_be_missing() {
        let bank = transfers(["", ""], 0);
        let poor = |_, state: Value| match &state {
            Value::Record(fields) if fields["money"] == Value::Int(0) => {
                with(&state, "money", Value::Null)
            }
            _ => state,
        };
        let missing = changed(&bank, poor, |payload| payload);
        check(&missing, &[MONEY]);
        check_unjudged(&missing, &[]);
    }

    /// The payload of an enumeration is used like its fields.
    #[test]
    fn payloads_of_variants() {
        let bank = transfers(["", ""], 0);
        let variant =
            |payload: Value| Value::Variant { name: "Pay".into(), payload: Box::new(payload) };
        let total = "sum(n in nodes: n.money) + sum(m in messages(\"Pay\"): m.amount) == 60";
        check(&changed(&bank, |_, state| state, variant), &[MONEY, total]);
        let amount = |payload: Value| match payload {
            Value::Record(mut fields) => variant(fields.remove("amount").expect("it is there")),
            other => panic!("payloads are records, not {other}"),
        };
        let total = "sum(n in nodes: n.money) + sum(m in messages(\"Pay\"): m.Pay) == 60";
        check(&changed(&bank, |_, state| state, amount), &[MONEY, total]);
    }

    /// Money that gets lost is no total, not even if it is little.
    #[test]
    fn a_leak() {
        let leaky = transfers(["", ""], 30);
        let found = always(&[&leaky], &Settings::default());
        let sums = |property: &Property| print(property).contains("sum(n in nodes: n.money)");
        let hidden = found.hidden.iter().map(|hidden| &hidden.property);
        let all: Vec<&Property> =
            found.lines.iter().map(|line| &line.property).chain(hidden).collect();
        assert!(!all.iter().any(|property| sums(property)), "{all:#?}");
    }
}
