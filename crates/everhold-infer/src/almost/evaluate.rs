//! Literals on codes: what was decided for two values once is not decided again.

use std::borrow::Cow;

use everhold_property::{BinaryOp, Expr, ExprKind, Ident, Library, Snapshot, State, Type};
use everhold_property::{evaluate_expr, relate};
use everhold_trace::{NodeId, Value};

use super::domain::Domain;
use super::literal::{Literal, Operand, Relation};
use super::predicate::{PARAMS_MAX, Predicate};
use super::rows::Rows;
use super::worlds::Worlds;
use crate::bitmap;
use crate::dictionary::{Code, Dictionary};
use crate::states::States;

/// What of a literal is known in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Truth {
    False,
    True,
    Unknown,
}

impl From<Option<bool>> for Truth {
    fn from(truth: Option<bool>) -> Truth {
        match truth {
            Some(true) => Truth::True,
            Some(false) => Truth::False,
            None => Truth::Unknown,
        }
    }
}

/// Evaluates the literals of one class on rows; one a thread.
pub(crate) struct Bench<'a> {
    states: &'a States,
    domain: &'a Domain,
    literals: &'a [Literal],
    library: &'a Library,
    coded: &'a Coded,
    /// For each literal what was decided lately.
    known: Vec<Vec<(Key, Truth)>>,
    /// For each code its place among the values of a column that is being made.
    places: Vec<u32>,
}

/// The codes of the operands of a literal.
type Key = [Code; PARAMS_MAX + 1];

/// An operand in all rows of a piece.
pub(crate) struct Column {
    codes: Vec<Code>,
    /// Its distinct codes, and for each row the place of its own among them; none of whole states.
    values: Vec<Code>,
    places: Vec<u32>,
}

/// What is looked up of codes again and again.
#[derive(Clone, Debug)]
pub(crate) struct Coded {
    /// The codes of node ids; an id that no state mentions has a code that no value has.
    nodes: Vec<Code>,
    /// The integers among the values; `None` for other values.
    ints: Vec<Option<i64>>,
    /// The whole states.
    worlds: Worlds,
}

impl Coded {
    pub(crate) fn of(states: &States, worlds: Worlds) -> Coded {
        let nodes = states.runs.iter().map(|run| run.nodes.len()).max().unwrap_or(0);
        let nodes = u32::try_from(nodes).expect("node ids are 32 bits");
        let code = |id: u32| {
            let met = states.values.find(&Value::Node(NodeId(id)));
            met.unwrap_or(Code::MAX - id)
        };
        let values = u32::try_from(states.values.len()).expect("codes are 32 bits");
        let ints = (0..values).map(|code| states.values.value(code).as_int()).collect();
        Coded { nodes: (0..nodes).map(code).collect(), ints, worlds }
    }

    pub(crate) fn worlds(&self) -> &Worlds {
        &self.worlds
    }

    pub(crate) fn node(&self, node: u32) -> Code {
        self.nodes[node as usize]
    }

    fn value<'a>(&self, code: Code, values: &'a Dictionary) -> Cow<'a, Value> {
        match (code as usize) < values.len() {
            true => Cow::Borrowed(values.value(code)),
            false => Cow::Owned(Value::Node(NodeId(Code::MAX - code))),
        }
    }
}

/// Where a literal and where its negation is false; where it is unknown, neither.
#[derive(Clone, Debug)]
pub(crate) struct Fails {
    pub(crate) plain: Vec<u64>,
    pub(crate) negated: Vec<u64>,
    /// Whether it is known everywhere.
    pub(crate) total: bool,
}

impl Fails {
    /// Of a literal that is known everywhere, given where it is true.
    fn total(rows: usize, test: impl FnMut(usize) -> bool) -> Fails {
        let negated = bitmap::collect(rows, test);
        let mut plain: Vec<u64> = negated.iter().map(|word| !word).collect();
        if let Some(last) = plain.last_mut().filter(|_| !rows.is_multiple_of(64)) {
            *last &= (1 << (rows % 64)) - 1;
        }
        Fails { plain, negated, total: true }
    }

    fn of(rows: usize, mut truth: impl FnMut(usize) -> Truth) -> Fails {
        let (mut plain, mut negated) = (Vec::new(), Vec::new());
        for start in (0..rows).step_by(64) {
            let (mut fails, mut holds) = (0, 0);
            for row in start..(start + 64).min(rows) {
                let truth = truth(row);
                fails |= u64::from(truth == Truth::False) << (row - start);
                holds |= u64::from(truth == Truth::True) << (row - start);
            }
            plain.push(fails);
            negated.push(holds);
        }
        Fails::new(plain, negated, rows)
    }

    fn new(plain: Vec<u64>, negated: Vec<u64>, rows: usize) -> Fails {
        let known = |(plain, negated): (&u64, &u64)| (plain | negated).count_ones() as usize;
        let total = plain.iter().zip(&negated).map(known).sum::<usize>() == rows;
        Fails { plain, negated, total }
    }
}

/// Slots of what was decided lately, a power of two.
const KNOWN: usize = 1 << 13;

impl<'a> Bench<'a> {
    pub(crate) fn new(
        states: &'a States,
        domain: &'a Domain,
        literals: &'a [Literal],
        library: &'a Library,
        coded: &'a Coded,
    ) -> Bench<'a> {
        let known = vec![Vec::new(); literals.len()];
        Bench { states, domain, literals, library, coded, known, places: Vec::new() }
    }

    /// An operand in all rows.
    pub(crate) fn column(&mut self, operand: Operand, rows: &Rows) -> Column {
        let codes = self.codes(operand, rows);
        if operand == Operand::World {
            return Column { codes, values: Vec::new(), places: Vec::new() };
        }
        let known = self.states.values.len();
        self.places.resize(known + self.coded.nodes.len(), u32::MAX);
        let index = |code: Code| match code as usize {
            place if place < known => place,
            _ => known + (Code::MAX - code) as usize,
        };
        let mut values = Vec::new();
        let mut place = |code: &Code| {
            let place = &mut self.places[index(*code)];
            if *place == u32::MAX {
                *place = u32::try_from(values.len()).expect("codes are 32 bits");
                values.push(*code);
            }
            *place
        };
        let places = codes.iter().map(&mut place).collect();
        values.iter().for_each(|code| self.places[index(*code)] = u32::MAX);
        Column { codes, values, places }
    }

    fn codes(&self, operand: Operand, rows: &Rows) -> Vec<Code> {
        let column = |node: usize, table: usize, variable: usize| {
            self.states.kinds[self.domain.kinds[node]].column(table, variable)
        };
        let state = |node: usize, variable: usize| {
            let column = column(node, 0, variable);
            move |row: usize| column[rows.states[node][row] as usize]
        };
        let item = |range: usize, variable: usize| {
            let of = self.domain.ranges[range];
            let column = column(of.node, of.table, variable);
            move |row: usize| column[rows.items[range][row] as usize]
        };
        let node = |node: usize| move |row: usize| self.coded.node(rows.nodes[node][row]);
        let all = 0..rows.len();
        match operand {
            Operand::Node(id) => all.map(node(id)).collect(),
            Operand::State { node, variable } => all.map(state(node, variable)).collect(),
            Operand::Item { range, variable } => all.map(item(range, variable)).collect(),
            Operand::AtNode { node: of, map, key } => {
                let (map, key) = (state(of, map), node(key));
                self.lookups(all.map(|row| (map(row), key(row))))
            }
            Operand::AtItem { node, map, range, key } => {
                let (map, key) = (state(node, map), item(range, key));
                self.lookups(all.map(|row| (map(row), key(row))))
            }
            Operand::World => rows.states[self.domain.kinds.len()].clone(),
        }
    }

    fn lookups(&self, pairs: impl Iterator<Item = (Code, Code)>) -> Vec<Code> {
        let mut last = ((Code::MAX, Code::MAX), Dictionary::NULL);
        let mut found = |pair: (Code, Code)| {
            if last.0 != pair {
                last = (pair, self.lookup(pair));
            }
            last.1
        };
        pairs.map(&mut found).collect()
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

    /// Evaluates a literal on rows whose operands have these columns.
    pub(crate) fn fails(&mut self, literal: usize, columns: &[&Column]) -> Fails {
        let rows = columns[0].codes.len();
        let as_codes = |operand: &Operand| {
            // Numbers are equal by size, and a float may be equal to an integer.
            !matches!(operand.ty(self.domain, self.states), Type::Float | Type::Any)
        };
        let is_int = |operand: &Operand| *operand.ty(self.domain, self.states) == Type::Int;
        let of = &self.literals[literal];
        match (&of.relation, columns) {
            (Relation::Is(code), [column]) => {
                let code = *code;
                Fails::total(rows, |row| column.codes[row] == code)
            }
            (Relation::Two(BinaryOp::Eq), [a, b]) if of.operands.iter().all(as_codes) => {
                Fails::total(rows, |row| a.codes[row] == b.codes[row])
            }
            (Relation::Two(op @ (BinaryOp::Lt | BinaryOp::Le)), [a, b])
                if of.operands.iter().all(is_int) =>
            {
                self.ordered(*op == BinaryOp::Le, &a.codes, &b.codes)
            }
            _ => self.decided(literal, columns),
        }
    }

    /// `a < b` or `a <= b` of integers; unknown where one is missing.
    fn ordered(&self, or_equal: bool, a: &[Code], b: &[Code]) -> Fails {
        let ints = &self.coded.ints;
        let below = |row: usize, or_equal: bool, swap: bool| match (
            ints[a[row] as usize],
            ints[b[row] as usize],
        ) {
            (Some(a), Some(b)) => {
                let (a, b) = if swap { (b, a) } else { (a, b) };
                a < b || or_equal && a == b
            }
            _ => false,
        };
        // `not a < b` is `b <= a`.
        let plain = bitmap::collect(a.len(), |row| below(row, !or_equal, true));
        let negated = bitmap::collect(a.len(), |row| below(row, or_equal, false));
        Fails::new(plain, negated, a.len())
    }

    fn decided(&mut self, literal: usize, columns: &[&Column]) -> Fails {
        let mut known = std::mem::take(&mut self.known[literal]);
        known.resize(KNOWN, ([Code::MAX; PARAMS_MAX + 1], Truth::Unknown));
        let mut key = [Code::MAX - 1; PARAMS_MAX + 1];
        let mut decide = |codes: &mut dyn Iterator<Item = Code>| {
            key.iter_mut().zip(codes).for_each(|(key, code)| *key = code);
            let slot = &mut known[slot(&key[..columns.len()])];
            if slot.0 != key {
                *slot = (key, self.decide(literal, &key[..columns.len()]));
            }
            slot.1
        };
        let rows = columns[0].codes.len();
        let fails = match columns {
            // Fewer pairs of values than rows: each pair once.
            [a, b]
                if !self.literals[literal].is_whole()
                    && a.values.len() * b.values.len() <= rows =>
            {
                let pairs = a.values.iter().flat_map(|x| b.values.iter().map(move |y| [*x, *y]));
                let table: Vec<Truth> = pairs.map(|pair| decide(&mut pair.into_iter())).collect();
                let width = b.values.len();
                let place = |row: usize| a.places[row] as usize * width + b.places[row] as usize;
                Fails::of(rows, |row| table[place(row)])
            }
            _ => Fails::of(rows, |row| decide(&mut columns.iter().map(|column| column.codes[row]))),
        };
        self.known[literal] = known;
        fails
    }

    /// The share in which a literal fails where its operands have nothing to do with each other:
    /// values of each, taken evenly from all of them, in all combinations. `None` of one operand,
    /// and where it cannot be told.
    pub(crate) fn by_chance(&self, literal: usize) -> Option<f64> {
        let of = &self.literals[literal];
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
            Operand::Node(_) => Some(self.coded.nodes.iter().take(SAMPLE).copied().collect()),
            Operand::State { node, variable } => column(node, 0, variable),
            Operand::Item { range, variable } => {
                let of = self.domain.ranges[range];
                column(of.node, of.table, variable)
            }
            Operand::AtNode { .. } | Operand::AtItem { .. } | Operand::World => None,
        }
    }

    fn decide(&self, literal: usize, codes: &[Code]) -> Truth {
        let value = |code: Code| self.coded.value(code, &self.states.values);
        let of = &self.literals[literal];
        match (&of.relation, codes) {
            (Relation::True, [code]) => match *value(*code) {
                Value::Bool(truth) => Some(truth).into(),
                _ => Truth::Unknown,
            },
            (Relation::Is(wanted), [code]) => Some(wanted == code).into(),
            (Relation::Variant(name), [code]) => Some(match &*value(*code) {
                Value::Variant { name: is, .. } => is == name,
                Value::Text(is) => is == name,
                _ => false,
            })
            .into(),
            (Relation::Two(op), [a, b]) => relate(*op, &value(*a), &value(*b)).ok().into(),
            (Relation::Predicate(name), codes) => {
                self.function(name, codes.iter().map(|code| value(*code).into_owned()).collect())
            }
            (Relation::Whole(predicate), [codes @ .., world]) => {
                self.whole(predicate, codes.iter().map(|code| value(*code).into_owned()), *world)
            }
            _ => unreachable!("{of:?} has as many operands as codes"),
        }
    }

    fn function(&self, function: &str, values: Vec<Value>) -> Truth {
        let bindings: Vec<(String, Value)> =
            ["a", "b", "c", "d"].iter().map(|name| (*name).to_owned()).zip(values).collect();
        let argument = |(name, _): &(String, Value)| Expr::new(ExprKind::Name(name.clone()));
        let arguments = bindings.iter().map(argument).collect();
        let call = Expr::new(ExprKind::Call(Ident::new(function), arguments));
        self.judge(&call, &Snapshot::default(), &bindings)
    }

    fn whole(
        &self,
        predicate: &Predicate,
        values: impl Iterator<Item = Value>,
        world: Code,
    ) -> Truth {
        let bindings: Vec<(String, Value)> =
            predicate.params().map(str::to_owned).zip(values).collect();
        self.judge(predicate.body(), &self.coded.worlds.get(world), &bindings)
    }

    fn judge(&self, expr: &Expr, state: &dyn State, bindings: &[(String, Value)]) -> Truth {
        match evaluate_expr(expr, self.library, &[state], bindings) {
            Ok(Value::Bool(truth)) => Some(truth).into(),
            _ => Truth::Unknown,
        }
    }
}

fn slot(key: &[Code]) -> usize {
    let mixed = key.iter().fold(0u64, |mixed, code| {
        (mixed ^ u64::from(*code)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    });
    (mixed >> 20) as usize & (KNOWN - 1)
}
