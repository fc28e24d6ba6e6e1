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
use crate::evaluate::Numbers;
use crate::relation::tree::{self, binary, call, constant, name, sum_over};
use crate::states::States;
use crate::variables::{KindId, Row};
use flow::{Feature, Flow};
use matrix::{Matrix, Total};

/// Cases counted for one total.
const CASES_MAX: u64 = 1_000;
/// Quiet moments with different addends that a claim about quiet moments needs.
const QUIET_MIN: usize = 4;

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
    pub(super) fn claims(&self) -> (Vec<Draft>, u64) {
        let Some(flow) = Flow::of(self) else { return (Vec::new(), 0) };
        let Matrix { totals, tried } = Matrix::of(&flow);
        let mut found = Vec::new();
        for total in &totals {
            // Counters and the number of messages of one kind are looked for elsewhere.
            if flow.speaks_of_payloads(total) || flow.has_several_kinds(total) {
                found.extend(self.drafts(total, &flow));
            }
        }
        (found, tried)
    }

    fn drafts(&self, total: &Total, flow: &Flow) -> Vec<Draft> {
        let Some(sum) = flow.value(total) else { return Vec::new() };
        let cases = flow.cases(total);
        // An event that changes one of the numbers might as well have left the other.
        let free = cases.min(CASES_MAX).saturating_sub(total.len() as u64);
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_chance = -(free as f64) * 2.0_f64.ln();
        let samples = flow.rows.len() as u64;
        let draft = |property: Property, weight: f64| {
            let evidence = Evidence { samples, distinct: cases, ln_chance };
            Draft { property, evidence, weight }
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

    fn expr(&self, feature: &Feature) -> Expr {
        match feature {
            Feature::Term { kind, term } => {
                let kinds = &self.states.variables.kinds;
                let of = (kinds.len() > 1).then(|| kinds[*kind].name.as_str());
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
