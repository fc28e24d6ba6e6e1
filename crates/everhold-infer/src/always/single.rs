//! Claims about one variable of a node: one of few values, bounds, sorted, without duplicates.
//!
//! Evidence is what the variable came to be, not how long it stayed: the steps in which it changed.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{Expr, parse, print_expr};
use everhold_trace::Value;

use super::evidence::Evidence;
use super::lines::{Draft, Setting};
use super::literal::Context;
use super::terms::{Class, Term, What};

/// A bound counts only if it is met so many times as often as other values.
const PILE: u64 = 2;

/// The claims about each term of a node, given its states and its steps.
pub(super) fn claims(
    setting: &Setting,
    samples: u64,
    steps: &[(u32, u32)],
    context: &Context<'_>,
) -> (Vec<Draft>, u64) {
    let (mut found, mut tried) = (Vec::new(), 0);
    for (place, term) in context.left.terms.iter().enumerate() {
        if !matches!(term.what, What::Variable(_)) || term.nullable {
            continue;
        }
        let own = Own { place, term, setting, samples, context };
        let drafts = match term.class {
            Class::Token("text") if term.is_role() => own.one_of(&own.taken(steps)),
            Class::Number if !term.is_role() => own.bounds(&own.taken(steps)),
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
    /// How often each value was taken.
    fn taken(&self, steps: &[(u32, u32)]) -> BTreeMap<u32, u64> {
        let column = &self.context.left.columns[self.place];
        let mut taken = BTreeMap::new();
        for (before, after) in steps {
            let (before, after) = (column[*before as usize], column[*after as usize]);
            if before != after {
                *taken.entry(after).or_default() += 1;
            }
        }
        taken
    }

    fn name(&self) -> String {
        print_expr(&self.setting.rows.right_expr(self.term))
    }

    /// If there were one more value, as likely as these are on average, it would have been taken.
    fn one_of(&self, taken: &BTreeMap<u32, u64>) -> Vec<Draft> {
        let codes = super::family::distinct(&self.context.left.columns[self.place]);
        let shown = |code: &u32| format!("{:?}", self.text(*code));
        let mut values: Vec<String> = codes.iter().map(shown).collect();
        values.sort_unstable();
        let claim = format!("{} in {{{}}}", self.name(), values.join(", "));
        let (steps, count) = (taken.values().sum::<u64>() as f64, codes.len() as f64);
        let ln_chance = steps * (count / (count + 1.0)).ln();
        vec![self.draft(&claim, codes.len(), ln_chance, 2.0)]
    }

    fn text(&self, code: u32) -> String {
        let value = self.context.value(self.term.class, code);
        value.as_text().unwrap_or_default().to_owned()
    }

    /// If one beyond the bound were as likely as the bound, half of the steps would have gone
    /// there. Values that are merely the largest so far are no bound: they must pile up.
    fn bounds(&self, taken: &BTreeMap<u32, u64>) -> Vec<Draft> {
        let column = &self.context.left.columns[self.place];
        let (Some(low), Some(high)) = (column.iter().min(), column.iter().max()) else {
            return Vec::new();
        };
        let all: u64 = taken.values().sum();
        let mut found = Vec::new();
        for (bound, op) in [(*low, ">="), (*high, "<=")] {
            let met = taken.get(&bound).copied().unwrap_or(0);
            let Some(value) = self.context.numbers.int(bound) else { continue };
            // That a size is not negative is no news.
            let trivial = self.term.is_size() && op == ">=" && value == 0;
            if !trivial && met * self.term.distinct as u64 >= PILE * all {
                let claim = format!("{} {op} {value}", self.name());
                let ln_chance = -(met as f64) * 2.0_f64.ln();
                found.push(self.draft(&claim, self.term.distinct, ln_chance, 2.5));
            }
        }
        found
    }

    /// Sorted, or without duplicates. A list that was extended later is no evidence of its own.
    fn lists(&self) -> Vec<Draft> {
        let codes = super::family::distinct(&self.context.left.columns[self.place]);
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
            // Of all orders of its distinct elements one.
            let orders = |list: &&[Value]| {
                (1..=list.iter().collect::<BTreeSet<_>>().len())
                    .map(|k| (k as f64).ln())
                    .sum::<f64>()
            };
            let ln_chance = -longest.iter().map(orders).sum::<f64>();
            let claim = format!("sorted({name})");
            found.push(self.draft(&claim, longest.len(), ln_chance, 3.5));
        }
        if longest.iter().all(|list| list.iter().collect::<BTreeSet<_>>().len() == list.len()) {
            // Each element is another one than those before it, of all that occurred.
            let free = |list: &&[Value]| {
                (0..list.len()).map(|k| (1.0 - k as f64 / all.len() as f64).ln()).sum::<f64>()
            };
            let ln_chance = longest.iter().map(free).sum::<f64>();
            let claim = format!("len(set({name})) == len({name})");
            found.push(self.draft(&claim, longest.len(), ln_chance, 3.5));
        }
        found
    }

    fn draft(&self, claim: &str, distinct: usize, ln_chance: f64, weight: f64) -> Draft {
        let property = self.setting.named(words(claim), expr(claim));
        let evidence = Evidence { samples: self.samples, distinct: distinct as u64, ln_chance };
        Draft { property, evidence, weight }
    }
}

/// A claim as the language reads it.
pub(super) fn expr(claim: &str) -> Expr {
    let read = parse(&format!("always \"it\": {claim}")).into_result();
    read.expect("it is written as the language wants it").remove(0).body
}

/// A claim as it is named: without what a name cannot hold.
pub(super) fn words(claim: &str) -> String {
    claim.replace('"', "")
}

/// Whether numbers or texts ascend.
fn in_order(list: &[Value]) -> bool {
    let comparable = list.iter().all(|item| matches!(item, Value::Int(_)))
        || list.iter().all(|item| matches!(item, Value::Text(_)));
    comparable && list.is_sorted()
}
