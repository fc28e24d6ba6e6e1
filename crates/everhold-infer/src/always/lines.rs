//! From what survived to lines that can be read: written out, justified, ranked.

use everhold_property::{
    BinaryOp, Binder, Expr, ExprKind, Over, Property, Quantifier, Scope, print_expr,
};

use super::candidates::{Candidate, Candidates};
use super::comparison::{Comparison, Context, SideNames};
use super::doubt;
use super::evidence::Evidence;
use super::family::Form;
use super::rows::Pairs;
use super::terms::Side;
use crate::evaluate::Cell;
use crate::outcome::Reason;
use crate::relation::tree::{self, binary, call, constant, name, nodes};
use crate::relation::{Class, Relation};

/// A property that held wherever it was judged, and the evidence for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// The property, as `check` reads it.
    pub property: Property,
    /// The cases in which it was judged: local states, pairs of states, deliveries, steps.
    pub samples: u64,
    /// The distinct cases among them: pairs of values of each node; occasions on which a node was in a
    /// role; changes of a value.
    pub distinct: u64,
    /// One minus the false discovery rate at which the property is accepted (Benjamini and Hochberg).
    pub confidence: f64,
    /// The key by which lines are sorted, the greatest first: how much the line tells a reader.
    pub score: f64,
}

/// A property that held and is not shown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hidden {
    /// The property.
    pub property: Property,
    /// Why it is not shown.
    pub reason: Reason,
}

/// A candidate that survived; whether its evidence suffices is decided later.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) property: Property,
    pub(super) evidence: Evidence,
    pub(super) weight: f64,
    /// Whether it is one of the few claims that are looked for in every protocol.
    pub(super) simple: bool,
    /// The number that only grows, as `.name`, if that is all that it says.
    pub(super) clock: Option<String>,
    /// Variables that may be copies of others, which alone would make the claim true.
    pub(super) copies: Vec<(String, String)>,
}

impl Draft {
    pub(super) fn new(property: Property, evidence: Evidence, weight: f64) -> Draft {
        Draft { property, evidence, weight, simple: true, clock: None, copies: Vec::new() }
    }
}

/// Where the rows of a family are from.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) form: Form,
    pub(super) scope: Scope,
    /// The kinds of the two nodes, where there are several.
    pub(super) kinds: (Option<String>, Option<String>),
    /// The names of the rows.
    pub(super) rows: SideNames,
    /// Ranges over elements, after those over nodes.
    pub(super) inner: Vec<Binder>,
}

impl Setting {
    /// The property that a candidate stands for.
    pub(super) fn property(
        &self,
        candidates: &Candidates,
        candidate: Candidate,
        context: &Context<'_>,
    ) -> Property {
        let condition: Vec<Comparison> = candidates.conditions[candidate.condition]
            .iter()
            .map(|place| candidates.comparisons[*place])
            .collect();
        let comparison = candidates.comparisons[candidate.comparison];
        let claim = (context.expr(comparison, &self.rows), context.words(comparison, &self.rows));
        self.conditional(&condition, claim, context)
    }

    /// A claim, as an expression and as a phrase, under a condition.
    pub(super) fn conditional(
        &self,
        condition: &[Comparison],
        (claim, mut words): (Expr, String),
        context: &Context<'_>,
    ) -> Property {
        let rows = &self.rows;
        let mut conditions: Vec<Expr> =
            condition.iter().map(|comparison| context.expr(*comparison, rows)).collect();
        if self.form == Form::Delivery {
            conditions.splice(0..0, self.kind_conditions());
        }
        let body = match conditions.into_iter().reduce(|a, b| binary(BinaryOp::And, a, b)) {
            Some(condition) => binary(BinaryOp::Implies, condition, claim),
            None => claim,
        };
        for (place, condition) in condition.iter().enumerate() {
            words += if place == 0 { " when " } else { " and " };
            words += &context.words(*condition, rows);
        }
        self.named(words, body)
    }

    /// A claim about the rows, quantified and named.
    pub(super) fn named(&self, claim: String, body: Expr) -> Property {
        tree::always(claim + &self.scope_words(), self.scope, self.quantified(body))
    }

    fn scope_words(&self) -> String {
        let kinds = match &self.kinds {
            (Some(a), Some(b)) if a == b => format!(", {a} nodes"),
            (Some(a), Some(b)) => format!(", {a} and {b} nodes"),
            (Some(a), None) => format!(", {a} nodes"),
            _ => String::new(),
        };
        let scope = match self.scope {
            Scope::EveryCut => "",
            Scope::Quiet => ", when quiet",
            Scope::AllQuiet => ", when all is quiet",
            // The phrase names sender and receiver already.
            Scope::Delivery => "",
            Scope::Chains => ", along chains",
        };
        format!("{kinds}{scope}")
    }

    fn kind_conditions(&self) -> Vec<Expr> {
        let (Some(a), Some(b)) = &self.kinds else { return Vec::new() };
        let is = |node: &str, kind: &str| {
            binary(BinaryOp::Eq, call("kind", vec![name(node)]), constant(&kind.into()))
        };
        vec![is("sender", a), is("receiver", b)]
    }

    fn quantified(&self, body: Expr) -> Expr {
        let nodes = |names: &[&str], kind: &Option<String>| nodes(names, kind.as_deref());
        let apart = || Some(Box::new(binary(BinaryOp::Ne, name("a"), name("b"))));
        let mut over = match (&self.form, &self.kinds) {
            (Form::Delivery, _) => return body,
            (Form::Two | Form::TwoElements, (a, b)) if a == b => {
                Over { binders: vec![nodes(&["a", "b"], a)], guard: apart() }
            }
            (Form::Two | Form::TwoElements, (a, b)) => {
                Over { binders: vec![nodes(&["a"], a), nodes(&["b"], b)], guard: None }
            }
            (_, (kind, _)) => Over { binders: vec![nodes(&["n"], kind)], guard: None },
        };
        over.binders.extend(self.inner.iter().cloned());
        let (quantifier, body) = (Quantifier::Forall, Box::new(body));
        Expr::new(ExprKind::Quantified { quantifier, over, body })
    }

    /// How much a true line of this shape tells a reader.
    pub(super) fn weight(
        &self,
        candidates: &Candidates,
        candidate: Candidate,
        context: &Context<'_>,
    ) -> f64 {
        let condition = &candidates.conditions[candidate.condition];
        let two = matches!(self.form, Form::Two);
        let excludes = |term: usize, value: Option<Cell>| {
            two && condition.iter().any(|place| match candidates.comparisons[*place] {
                Comparison::Left(true, other, code) => {
                    other == term && value.is_none_or(|value| value == code)
                }
                _ => false,
            })
        };
        let relation = match candidates.comparisons[candidate.comparison] {
            Comparison::Cross(relation, l, r) => {
                let same = if l == r { 1.0 } else { 0.0 };
                same + match relation {
                    // That one variable stays while another one does is true of most steps.
                    Relation::Equal if self.form == Form::Steps => 1.2,
                    Relation::Equal | Relation::Prefix | Relation::Extends => 3.0,
                    Relation::Subsequence | Relation::Supersequence => 2.8,
                    Relation::Subset | Relation::Superset | Relation::Disjoint => 2.5,
                    Relation::In | Relation::Holds | Relation::NotIn | Relation::Lacks => 2.0,
                    Relation::Less | Relation::Greater => 2.0,
                    Relation::AtMost | Relation::AtLeast if self.form == Form::Steps => 1.2,
                    // An order within a node is what a person checks first.
                    Relation::AtMost | Relation::AtLeast if self.form == Form::One => 3.0,
                    Relation::AtMost | Relation::AtLeast => 2.0,
                    Relation::Differ => 1.5,
                }
            }
            // Mutual exclusion is the purpose of many protocols.
            Comparison::Right(false, term, code) if excludes(term, Some(code)) => 4.0,
            Comparison::Right(true, term, _) if excludes(term, None) => 3.0,
            Comparison::Right(..) if self.form == Form::One => 3.5,
            Comparison::Left(..) | Comparison::Right(..) => 1.5,
        };
        // Each condition makes the line harder to read.
        let conditions = condition.len() as f64;
        let coincidence = self.is_of_counters(candidates, candidate, context);
        self.form_weight() + self.scope_weight() + relation
            - conditions
            - if coincidence { 2.0 } else { 0.0 }
    }

    /// Whether it says something of numbers when two counters happen to be equal, or of anything
    /// when two sizes are.
    fn is_of_counters(
        &self,
        candidates: &Candidates,
        candidate: Candidate,
        context: &Context<'_>,
    ) -> bool {
        let Comparison::Cross(_, l, r) = candidates.comparisons[candidate.comparison] else {
            return false;
        };
        let number = |side: &Side, term: usize| side.terms[term].class == Class::Number;
        let condition = &candidates.conditions[candidate.condition];
        let of_numbers = number(context.left, l) && number(context.right, r);
        condition.iter().any(|part| match candidates.comparisons[*part] {
            Comparison::Cross(_, p, q) => {
                let sizes = context.left.terms[p].is_size() && context.right.terms[q].is_size();
                sizes || of_numbers && number(context.left, p) && number(context.right, q)
            }
            _ => false,
        })
    }

    /// The part of the weight that depends on the scope: what is true in fewer states says less.
    pub(super) fn scope_weight(&self) -> f64 {
        match self.scope {
            Scope::EveryCut | Scope::Delivery => 0.0,
            Scope::Quiet | Scope::AllQuiet => -0.7,
            Scope::Chains => -2.0,
        }
    }

    /// The number that only grows, if that is all that a candidate says, and the number grows
    /// whatever the rest of the node does.
    pub(super) fn clock(
        &self,
        candidates: &Candidates,
        candidate: Candidate,
        (pairs, context): (&Pairs, &Context<'_>),
    ) -> Option<String> {
        let Comparison::Cross(Relation::AtMost, l, r) =
            candidates.comparisons[candidate.comparison]
        else {
            return None;
        };
        let free = candidates.conditions[candidate.condition].is_empty();
        if self.form != Form::Steps || l != r || !free || !doubt::is_clock(pairs, l, context) {
            return None;
        }
        let text = print_expr(&self.rows.right_expr(&context.right.terms[r]));
        text.split_once('.').map(|(_, field)| format!(".{field}"))
    }

    /// The part of the weight that depends on the form of the family.
    pub(super) fn form_weight(&self) -> f64 {
        match self.form {
            Form::Two | Form::TwoElements => 3.0,
            Form::Delivery | Form::Elements(_) => 2.0,
            Form::One => 1.5,
            // That a counter only grows is true of most counters.
            Form::Steps => 0.5,
        }
    }
}

/// The confidence in each draft, and whether it is accepted.
///
/// The procedure of Benjamini and Hochberg keeps the expected share of coincidences among the
/// accepted drafts below `alpha`: with `m` candidates tried, the draft of rank `k` has the q-value
/// `min over j >= k of p(j) * m / j`, and is accepted if that is at most `alpha`. Simple candidates,
/// which are few, get one half of `alpha` (weights after Genovese, Roeder and Wasserman): their
/// number takes the place of `m`, twice.
pub(super) fn confidences(
    drafts: &[Draft],
    (simple, tried): (u64, u64),
    alpha: f64,
) -> Vec<(f64, bool)> {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let ln_of = |count: u64| (2.0 * count.max(1) as f64).ln();
    let (ln_simple, ln_others) = (ln_of(simple), ln_of(tried.saturating_sub(simple)));
    let ln_p = |place: &usize| {
        let own = &drafts[*place];
        own.evidence.ln_chance + if own.simple { ln_simple } else { ln_others }
    };
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by(|a, b| ln_p(a).total_cmp(&ln_p(b)));
    let mut found = vec![(0.0, false); drafts.len()];
    let mut worst = 0.0_f64;
    for (rank, place) in order.iter().enumerate().rev() {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_rank = ((rank + 1) as f64).ln();
        let ln_q = ln_p(place) - ln_rank;
        worst = if rank + 1 == order.len() { ln_q } else { worst.min(ln_q) };
        let q = worst.exp().min(1.0);
        // Whatever share of coincidences is allowed, a claim without a case is none.
        let Evidence { samples, distinct, .. } = drafts[*place].evidence;
        found[*place] = (1.0 - q, q <= alpha && samples > 0 && distinct > 0);
    }
    found
}
