//! Literals on values: the plain evaluation, with which the evaluation by codes is checked.

use everhold_property::{Expr, Library, Snapshot, State, evaluate_expr};
use everhold_trace::Value;

use super::domain::{Domain, Range};
use super::evaluate::Coded;
use super::literal::{Literal, Operand, Test};
use super::predicate::Predicate;
use super::rows::Rows;
use crate::dictionary::{Code, Dictionary};
use crate::evaluate::Truth;
use crate::relation::tree;
use crate::states::States;

/// Decides the literals of one class.
#[derive(Clone, Copy)]
pub(crate) struct Decider<'a> {
    pub(crate) states: &'a States,
    pub(crate) domain: &'a Domain,
    pub(crate) literals: &'a [Literal],
    pub(crate) library: &'a Library,
    pub(crate) coded: &'a Coded,
}

impl Decider<'_> {
    /// An operand that is not of one state, element or node alone, in all bindings or rows.
    pub(crate) fn codes(&self, operand: Operand, by_row: bool, rows: &Rows, codes: &mut Vec<Code>) {
        let Domain { kinds, ranges, .. } = self.domain;
        let column = |node: usize, table: usize, variable: usize| {
            self.states.kinds[kinds[node]].column(table, variable)
        };
        let maps = |node: usize, variable: usize| {
            let column = column(node, 0, variable);
            rows.states[node].iter().map(|state| column[*state as usize])
        };
        let mut of_bindings = Vec::new();
        match operand {
            Operand::AtItem { node, map, range, key } => {
                let Range { node: owner, table } = ranges[range];
                let column = column(owner, table, key);
                let keys = rows.items[range].iter().map(|item| column[*item as usize]);
                rows.spread(maps(node, map), &mut of_bindings);
                return self.lookups(of_bindings.into_iter().zip(keys), codes);
            }
            Operand::AtNode { node, map, key } => {
                let keys = rows.nodes[key].iter().map(|id| self.coded.node(*id));
                self.lookups(maps(node, map).zip(keys), &mut of_bindings);
            }
            Operand::Global => {
                of_bindings
                    .extend(rows.states[kinds.len()].iter().map(|state| Code::of_global(*state)));
            }
            _ => unreachable!("{operand:?} is known"),
        }
        match by_row {
            true => rows.spread(of_bindings, codes),
            false => *codes = of_bindings,
        }
    }

    fn lookups(&self, pairs: impl Iterator<Item = (Code, Code)>, codes: &mut Vec<Code>) {
        let mut last = None;
        codes.extend(pairs.map(|pair| match last {
            Some((known, found)) if known == pair => found,
            _ => last.insert((pair, self.lookup(pair))).1,
        }));
    }

    fn lookup(&self, (map, key): (Code, Code)) -> Code {
        let key = self.coded.value(key, &self.states.values);
        match self.states.values.value(map) {
            Value::Map(entries) => entries
                .get(key.as_ref())
                .and_then(|value| self.states.values.find(value))
                .unwrap_or(Dictionary::NULL),
            _ => Dictionary::NULL,
        }
    }

    /// The share in which a literal fails where its operands have nothing to do with each other:
    /// values of each, taken evenly from all of them, in all combinations. `None` of most tests of
    /// one operand,
    /// and where it cannot be told.
    pub(crate) fn by_chance(&self, literal: usize) -> Option<f64> {
        let of = &self.literals[literal];
        // A number might as well have the other sign.
        if of.test == Test::Negative {
            return Some(0.5);
        }
        let samples: Option<Vec<Vec<Code>>> =
            of.operands.iter().map(|operand| self.sample(*operand)).collect();
        let (Some(samples), 2..) = (samples, of.operands.len()) else { return None };
        let mut tuples = vec![Vec::new()];
        for sample in &samples {
            let longer = |tuple: &Vec<Code>| {
                sample.iter().map(|code| [&tuple[..], &[*code]].concat()).collect::<Vec<_>>()
            };
            tuples = tuples.iter().flat_map(longer).collect();
        }
        let (mut known, mut fails) = (0.0, 0.0);
        for truth in tuples.iter().map(|codes| self.decide(literal, codes)) {
            known += f64::from(u8::from(truth != Truth::Unknown));
            fails += f64::from(u8::from(truth == Truth::False));
        }
        (known > 0.0).then(|| fails / known)
    }

    fn sample(&self, operand: Operand) -> Option<Vec<Code>> {
        const SAMPLE: usize = 24;
        let column = |node: usize, table: usize, variable: usize| {
            let column = self.states.kinds[self.domain.kinds[node]].column(table, variable);
            let step = column.len().div_ceil(SAMPLE).max(1);
            Some(column.iter().step_by(step).copied().collect())
        };
        match operand {
            Operand::Node(_) => Some(self.coded.nodes().take(SAMPLE).collect()),
            Operand::State { node, variable } => column(node, 0, variable),
            Operand::Item { range, variable } => {
                let of = self.domain.ranges[range];
                column(of.node, of.table, variable)
            }
            Operand::AtNode { .. } | Operand::AtItem { .. } | Operand::Global => None,
        }
    }

    /// A literal on the values of its operands, by their codes.
    pub(crate) fn decide(&self, literal: usize, codes: &[Code]) -> Truth {
        let value = |code: Code| self.coded.value(code, &self.states.values);
        let of = &self.literals[literal];
        match (&of.test, codes) {
            (Test::True, [code]) => match *value(*code) {
                Value::Bool(truth) => truth.into(),
                _ => Truth::Unknown,
            },
            (Test::Is(wanted), [code]) => Truth::from(wanted == code),
            (Test::Negative, [code]) => match *value(*code) {
                Value::Int(number) => Truth::from(number < 0),
                Value::Float(number) => Truth::from(number < 0.0),
                _ => Truth::Unknown,
            },
            (Test::Variant(name), [code]) => Truth::from(match &*value(*code) {
                Value::Variant { name: is, .. } => is == name,
                Value::Text(is) => is == name,
                _ => false,
            }),
            (Test::Compare(relation), [a, b]) => relation.of(&value(*a), &value(*b)),
            (Test::Function(name), codes) => {
                self.function(name, codes.iter().map(|code| value(*code).into_owned()).collect())
            }
            (Test::Global(predicate), [codes @ .., global]) => {
                self.whole(predicate, codes.iter().map(|code| value(*code).into_owned()), *global)
            }
            _ => unreachable!("{of:?} has as many operands as codes"),
        }
    }

    fn function(&self, function: &str, values: Vec<Value>) -> Truth {
        let bindings: Vec<(String, Value)> =
            ["a", "b", "c", "d"].iter().map(|name| (*name).to_owned()).zip(values).collect();
        let arguments = bindings.iter().map(|(name, _)| tree::name(name)).collect();
        let call = tree::call(function, arguments);
        self.judge(&call, &Snapshot::default(), &bindings)
    }

    fn whole(
        &self,
        predicate: &Predicate,
        values: impl Iterator<Item = Value>,
        global: Code,
    ) -> Truth {
        let bindings: Vec<(String, Value)> =
            predicate.params().map(str::to_owned).zip(values).collect();
        self.judge(predicate.body(), &self.coded.globals().get(global.global()), &bindings)
    }

    fn judge(&self, expr: &Expr, state: &dyn State, bindings: &[(String, Value)]) -> Truth {
        match evaluate_expr(expr, self.library, &[state], bindings) {
            Ok(Value::Bool(truth)) => truth.into(),
            _ => Truth::Unknown,
        }
    }
}
