//! Claims about one variable of a node: one of few values, bounds, sorted, without duplicates.
//!
//! Evidence is counted over the steps in which the variable changed, not over the time that it stayed
//! the same.

use std::collections::BTreeSet;

use everhold_property::{Expr, parse, print_expr};
use everhold_trace::Value;

use super::comparison::Context;
use super::evidence::Evidence;
use super::lines::{Draft, Setting};
use super::terms::{Term, What};
use crate::dictionary::Code;
use crate::evaluate::{Cell, NumberCode, distinct};
use crate::relation::{Class, TokenKind};

/// A bound must be met this many times as often as the average value.
const PILE: u64 = 2;

/// The steps of nodes from row to row.
#[derive(Debug)]
pub(super) enum Changes {
    /// The row before each step and the row after it.
    Listed(Vec<(u32, u32)>),
    /// From each row to the next, where each node has this many consecutive rows.
    Beside(usize),
}

impl Changes {
    /// How often a column changed at all, and to each of these values.
    fn count<const N: usize>(&self, column: &[u32], values: [u32; N]) -> (u64, [u64; N]) {
        let (mut all, mut to) = (0, [0; N]);
        let mut see = |before: u32, after: u32| {
            let changed = u64::from(before != after);
            all += changed;
            for (count, value) in to.iter_mut().zip(values) {
                *count += changed & u64::from(after == value);
            }
        };
        match self {
            Changes::Listed(steps) => {
                steps.iter().for_each(|(l, r)| see(column[*l as usize], column[*r as usize]));
            }
            Changes::Beside(each) => {
                for own in column.chunks(*each) {
                    let befores = own.chunks(PIECE);
                    for (before, after) in befores.zip(own.get(1..).unwrap_or(&[]).chunks(PIECE)) {
                        all += count(before, after, |_| true);
                        for (number, value) in to.iter_mut().zip(values) {
                            *number += count(before, after, |code| code == value);
                        }
                    }
                }
            }
        }
        (all, to)
    }
}

/// The rows that are counted at a time: few enough for 16-bit counters, of which a vector has more.
const PIECE: usize = 1 << 14;

/// The steps that change the code to one for which `counts` is true.
fn count(before: &[u32], after: &[u32], counts: impl Fn(u32) -> bool) -> u64 {
    let steps = before.iter().zip(after);
    u64::from(steps.map(|(b, a)| u32::from(b != a && counts(*a))).sum::<u32>())
}

/// The claims about each term of a node, given its states and how they change.
pub(super) fn claims(
    setting: &Setting,
    samples: u64,
    changes: &Changes,
    context: &Context<'_>,
) -> (Vec<Draft>, u64) {
    let (mut found, mut tried) = (Vec::new(), 0);
    for (place, term) in context.left.terms.iter().enumerate() {
        if !matches!(term.what, What::Variable(_)) || term.nullable {
            continue;
        }
        let own = Own { place, term, setting, samples, context };
        let drafts = match term.class {
            Class::Token(TokenKind::Text) if term.is_role() => own.one_of(changes),
            Class::Number if !term.is_role() => own.bounds(changes),
            Class::List => own.lists(),
            _ => continue,
        };
        tried += 2;
        found.extend(drafts);
    }
    (found, tried)
}

/// One variable.
struct Own<'a> {
    place: usize,
    term: &'a Term,
    setting: &'a Setting,
    samples: u64,
    context: &'a Context<'a>,
}

impl Own<'_> {
    fn name(&self) -> String {
        print_expr(&self.setting.rows.right_expr(self.term))
    }

    /// With `k` values and `n` changes: if there were one more equally likely value, it would have been
    /// missed with a probability of `(k / (k + 1))^n`.
    fn one_of(&self, changes: &Changes) -> Vec<Draft> {
        let column = &self.context.left.columns[self.place];
        let codes = distinct(column);
        let shown = |code: &u32| format!("{:?}", self.text(column.cell(*code)));
        let mut values: Vec<String> = codes.iter().map(shown).collect();
        values.sort_unstable();
        let claim = format!("{} in {{{}}}", self.name(), values.join(", "));
        let (steps, []) = changes.count(column, []);
        let count = codes.len() as f64;
        let ln_chance = steps as f64 * (count / (count + 1.0)).ln();
        vec![self.draft(&claim, steps, ln_chance, 2.0)]
    }

    fn text(&self, cell: Cell) -> String {
        let value = self.context.value(cell);
        value.as_text().unwrap_or_default().to_owned()
    }

    /// If a value beyond the bound were as likely as the bound itself, `n` steps to the bound would all
    /// have missed it with a probability of `2^-n`. A value that is merely the largest so far is no
    /// bound: values must pile up there.
    fn bounds(&self, changes: &Changes) -> Vec<Draft> {
        let column = &self.context.left.columns[self.place];
        let low = column.iter().copied().fold(u32::MAX, u32::min);
        let high = column.iter().copied().fold(0, u32::max);
        let (all, met) = changes.count(column, [low, high]);
        let mut found = Vec::new();
        for (bound, op, met) in [(low, ">=", met[0]), (high, "<=", met[1])] {
            let Some(value) = self.context.numbers.int(NumberCode(bound)) else { continue };
            // Sizes are never negative.
            let trivial = self.term.is_size() && op == ">=" && value == 0;
            if !trivial && met * self.term.distinct as u64 >= PILE * all {
                let claim = format!("{} {op} {value}", self.name());
                let ln_chance = -(met as f64) * 2.0_f64.ln();
                found.push(self.draft(&claim, met, ln_chance, 4.0));
            }
        }
        found
    }

    /// Sorted lists and lists without duplicates. A list that was extended later is no separate
    /// evidence.
    fn lists(&self) -> Vec<Draft> {
        let column = &self.context.left.columns[self.place];
        let codes: Vec<Code> = distinct(column).into_iter().map(Code).collect();
        let mut lists: Vec<&[Value]> = Vec::new();
        for code in codes {
            match self.context.values.value(code) {
                Value::List(items) => lists.push(items),
                _ => return Vec::new(),
            }
        }
        lists.sort();
        let last = |(place, list): (usize, &&[Value])| match lists.get(place + 1) {
            Some(next) => !next.starts_with(list),
            None => true,
        };
        let longest: Vec<&[Value]> =
            lists.iter().enumerate().filter(|(p, l)| last((*p, l))).map(|(_, l)| *l).collect();
        let all: BTreeSet<&Value> = longest.iter().flat_map(|list| list.iter()).collect();
        let name = self.name();
        let mut found = Vec::new();
        if longest.iter().all(|list| in_order(list)) {
            // One of the `k!` orders of its `k` distinct elements is sorted.
            let orders = |list: &&[Value]| {
                (1..=list.iter().collect::<BTreeSet<_>>().len())
                    .map(|k| (k as f64).ln())
                    .sum::<f64>()
            };
            let ln_chance = -longest.iter().map(orders).sum::<f64>();
            let claim = format!("sorted({name})");
            found.push(self.draft(&claim, longest.len() as u64, ln_chance, 3.5));
        }
        if longest.iter().all(|list| list.iter().collect::<BTreeSet<_>>().len() == list.len()) {
            // Each element differs from those before it, of all elements that occurred.
            let free = |list: &&[Value]| {
                (0..list.len()).map(|k| (1.0 - k as f64 / all.len() as f64).ln()).sum::<f64>()
            };
            let ln_chance = longest.iter().map(free).sum::<f64>();
            let claim = format!("len(set({name})) == len({name})");
            found.push(self.draft(&claim, longest.len() as u64, ln_chance, 3.5));
        }
        found
    }

    fn draft(&self, claim: &str, distinct: u64, ln_chance: f64, weight: f64) -> Draft {
        let property = self.setting.named(words(claim), expr(claim));
        let evidence = Evidence { samples: self.samples, distinct, ln_chance };
        Draft::new(property, evidence, weight)
    }
}

/// A claim as an expression of the language.
pub(super) fn expr(claim: &str) -> Expr {
    let read = parse(&format!("always \"it\": {claim}")).into_result();
    read.expect("it is written as the language wants it").remove(0).body
}

/// A claim as a name, without the characters that a name cannot have.
pub(super) fn words(claim: &str) -> String {
    claim.replace('"', "")
}

/// Whether numbers or texts ascend.
fn in_order(list: &[Value]) -> bool {
    let comparable = list.iter().all(|item| matches!(item, Value::Int(_)))
        || list.iter().all(|item| matches!(item, Value::Text(_)));
    comparable && list.is_sorted()
}
