//! Execution of a program over rows.

use std::sync::Arc;

use everhold_trace::{NodeId, Value};

use super::compile::Code;
use super::evaluator::Cache;
use super::ir::{Contribution, LoopOver, Nodes, Range, Reg, Term, Test, Unit};
use super::row::{Cell, Row};
use crate::ast::{BinaryOp, History};
use crate::eval::node_fact;
use crate::library::{NodeFact, fold};
use crate::ops;
use crate::state::{Member, State};
use crate::verdict::Verdict;

/// The rows of one global state.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) members: Arc<[Member]>,
    /// The kind of each member, among those that the program names.
    pub(super) kinds: Arc<[Option<usize>]>,
    /// The row of each member.
    pub(super) rows: Vec<Option<Arc<Row>>>,
}

/// The place of a node among members, which are sorted by id. Mostly, ids are consecutive.
#[inline]
pub(super) fn place_of(members: &[Member], node: NodeId) -> Option<usize> {
    let guess = node.0.wrapping_sub(members.first()?.id.0) as usize;
    match members.get(guess) {
        Some(member) if member.id == node => Some(guess),
        _ => members.binary_search_by_key(&node, |member| member.id).ok(),
    }
}

impl World {
    #[inline]
    pub(super) fn row(&self, node: NodeId) -> Option<&Row> {
        self.rows[place_of(&self.members, node)?].as_deref()
    }

    pub(super) fn admits(&self, nodes: Nodes, place: usize) -> bool {
        (nodes.all || self.members[place].up)
            && nodes.kind.is_none_or(|kind| self.kinds[place] == Some(kind))
    }
}

/// Questions about nodes are answered from the members alone.
impl State for World {
    fn members(&self) -> &[Member] {
        &self.members
    }

    fn state(&self, _: NodeId) -> Option<&Value> {
        None
    }
}

/// A value: borrowed from where it is stored, or computed.
pub(super) enum Val<'a> {
    Ref(&'a Value),
    Own(Value),
}

impl Val<'_> {
    fn get(&self) -> &Value {
        match self {
            Val::Ref(value) => value,
            Val::Own(value) => value,
        }
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Val::Ref(value) => value.clone(),
            Val::Own(value) => value,
        }
    }
}

/// The content of a register.
#[derive(Clone)]
pub(super) enum Held<'a> {
    Nothing,
    Node(NodeId),
    Element(&'a [Cell]),
    Value(Value),
}

/// The variables. Most programs have few, which then need no allocation.
struct Registers<'a> {
    few: [Held<'a>; FEW],
    more: Vec<Held<'a>>,
}

const FEW: usize = 4;

impl<'a> Registers<'a> {
    fn new(count: usize) -> Registers<'a> {
        let more = vec![Held::Nothing; count.saturating_sub(FEW)];
        Registers { few: [const { Held::Nothing }; FEW], more }
    }
}

impl<'a> std::ops::Index<Reg> for Registers<'a> {
    type Output = Held<'a>;

    fn index(&self, reg: Reg) -> &Held<'a> {
        if reg < FEW { &self.few[reg] } else { &self.more[reg - FEW] }
    }
}

impl<'a> std::ops::IndexMut<Reg> for Registers<'a> {
    fn index_mut(&mut self, reg: Reg) -> &mut Held<'a> {
        if reg < FEW { &mut self.few[reg] } else { &mut self.more[reg - FEW] }
    }
}

/// One evaluation. The value `None` stands for unknown.
pub(super) struct Run<'a> {
    pub(super) code: &'a Code,
    /// The states, the present one last.
    worlds: &'a [World],
    /// The state being read, which is `back` states before the present one.
    world: &'a World,
    back: usize,
    caches: &'a [Cache],
    registers: Registers<'a>,
}

/// The handler of one binding, or of a domain that is unknown; it returns false to end the loop.
type Visit<'v, 'a> = dyn FnMut(&mut Run<'a>, bool) -> bool + 'v;

impl<'a> Run<'a> {
    pub(super) fn new(code: &'a Code, worlds: &'a [World], caches: &'a [Cache]) -> Run<'a> {
        let world = worlds.last().expect("there is always a present state");
        let registers = Registers::new(code.registers);
        Run { code, worlds, world, back: 0, caches, registers }
    }

    pub(super) fn hold(&mut self, reg: Reg, node: NodeId) {
        self.registers[reg] = Held::Node(node);
    }

    pub(super) fn world(&self) -> &'a World {
        self.world
    }

    /// Selects the state `back` states before the present one, or the first state.
    fn look(&mut self, back: usize) {
        self.back = back;
        self.world = &self.worlds[(self.worlds.len() - 1).saturating_sub(back)];
    }

    pub(super) fn test(&mut self, test: &'a Test) -> Verdict {
        match test {
            Test::Const(value) => Verdict::from(*value),
            Test::All(tests) => self.all(tests),
            Test::Any(tests) => self.any(tests),
            Test::Not(test) => self.test(test).negate(),
            Test::Relate(op, left, right) => {
                if let (Some(left), Some(right)) = (self.peek(left), self.peek(right)) {
                    return relate(*op, left, right);
                }
                let (Some(left), Some(right)) = (self.term(left), self.term(right)) else {
                    return Verdict::Unknown;
                };
                relate(*op, left.get(), right.get())
            }
            Test::Apart(a, b) => match (&self.registers[*a], &self.registers[*b]) {
                (Held::Node(a), Held::Node(b)) => Verdict::from(a != b),
                _ => Verdict::Unknown,
            },
            Test::Is(term, name) => match self.term(term) {
                Some(value) => Verdict::from(ops::is_variant(value.get(), name)),
                None => Verdict::Unknown,
            },
            Test::Changed(term) => {
                let (now, before) = (self.term(term), self.ago(1, term));
                match now.zip(before) {
                    Some((now, before)) => Verdict::from(!ops::equal(now.get(), before.get())),
                    None => Verdict::Unknown,
                }
            }
            Test::Loop { forall, over, body } => self.quantified(*forall, over, body),
            Test::Unit(unit) => match self.caches[*unit].verdict() {
                Some(verdict) => verdict,
                None => self.unit_verdict(&self.code.units[*unit]),
            },
            Test::Truth(term) => match self.term(term).as_ref().map(Val::get) {
                Some(Value::Bool(truth)) => Verdict::from(*truth),
                _ => Verdict::Unknown,
            },
        }
    }

    fn all(&mut self, tests: &'a [Test]) -> Verdict {
        let mut result = Verdict::Holds;
        for test in tests {
            result = result.and(self.test(test));
            if result == Verdict::Violated {
                break;
            }
        }
        result
    }

    fn any(&mut self, tests: &'a [Test]) -> Verdict {
        let mut result = Verdict::Violated;
        for test in tests {
            result = result.or(self.test(test));
            if result == Verdict::Holds {
                break;
            }
        }
        result
    }

    /// The value of a term that can be borrowed without a computation.
    #[inline]
    fn peek(&self, term: &'a Term) -> Option<&'a Value> {
        match term {
            Term::Const(value) => Some(value),
            Term::Slot(reg, slot) => match &self.registers[*reg] {
                Held::Node(node) => match &self.world().row(*node)?.slots[*slot] {
                    Cell::Value(value) => Some(value),
                    Cell::At(..) | Cell::Unknown => None,
                },
                _ => None,
            },
            Term::Column(reg, column) => match &self.registers[*reg] {
                Held::Element(cells) => match &cells[*column] {
                    Cell::Value(value) => Some(value),
                    Cell::At(..) | Cell::Unknown => None,
                },
                _ => None,
            },
            Term::Index(base, index) => ops::index(self.peek(base)?, self.peek(index)?).ok(),
            _ => None,
        }
    }

    fn cell(&self, mut cell: &'a Cell) -> Option<Val<'a>> {
        // Each hop leaves a shorter path, so the loop ends.
        loop {
            match cell {
                Cell::Value(value) => return Some(Val::Ref(value)),
                Cell::At(node, slot) => cell = &self.world().row(*node)?.slots[*slot],
                Cell::Unknown => return None,
            }
        }
    }

    pub(super) fn term(&mut self, term: &'a Term) -> Option<Val<'a>> {
        match term {
            Term::Const(value) => Some(Val::Ref(value)),
            Term::Unknown => None,
            Term::Node(reg) | Term::Slot(reg, _) | Term::Column(reg, _) | Term::Var(reg) => {
                self.variable(*reg, term)
            }
            Term::Field(base, name, slot) => {
                let base = self.term(base)?;
                self.field(base, name, *slot)
            }
            Term::Index(base, index) => {
                let (base, index) = (self.term(base)?, self.term(index)?);
                match base {
                    Val::Ref(base) => ops::index(base, index.get()).ok().map(Val::Ref),
                    Val::Own(base) => ops::index(&base, index.get()).ok().cloned().map(Val::Own),
                }
            }
            Term::Fact(fact, argument) => {
                let argument = self.term(argument)?;
                self.fact(*fact, argument.get())
            }
            Term::Builtin(builtin, arguments) => {
                if let [only] = &arguments[..]
                    && let Some(argument) = self.peek(only)
                {
                    return builtin.call(std::slice::from_ref(argument)).ok().map(Val::Own);
                }
                let arguments = self.values(arguments)?;
                builtin.call(&arguments).ok().map(Val::Own)
            }
            Term::Function(function, arguments) => {
                function.call(&self.values(arguments)?).ok().map(Val::Own)
            }
            Term::Unit(unit) => match self.caches[*unit].value() {
                Some(value) => value.map(Val::Own),
                None => self.unit_value(&self.code.units[*unit]).map(Val::Own),
            },
            Term::Aggregate { op, over, body } => {
                let values = self.contributions(over, body)?;
                fold(*op, values).ok().map(Val::Own)
            }
            Term::Past(op, steps, body) => self.past(*op, *steps, body),
            Term::Test(test) => match self.test(test) {
                Verdict::Unknown => None,
                verdict => Some(Val::Own(Value::Bool(verdict == Verdict::Holds))),
            },
            _ => self.build(term).map(Val::Own),
        }
    }

    /// The value of a term that builds a new value from others.
    fn build(&mut self, term: &'a Term) -> Option<Value> {
        match term {
            Term::List(items) => self.values(items).map(Value::List),
            Term::Set(items) => self.values(items).map(ops::set_of),
            Term::Map(entries) => {
                let mut map = std::collections::BTreeMap::new();
                for (key, value) in entries {
                    map.insert(self.term(key)?.into_value(), self.term(value)?.into_value());
                }
                Some(Value::Map(map))
            }
            Term::Record(fields) => {
                let mut record = std::collections::BTreeMap::new();
                for (name, value) in fields {
                    record.insert(name.clone(), self.term(value)?.into_value());
                }
                Some(Value::Record(record))
            }
            Term::Negate(operand) => ops::negate(self.term(operand)?.get()).ok(),
            Term::Arithmetic(op, left, right) => {
                let (left, right) = (self.term(left)?, self.term(right)?);
                ops::arithmetic(*op, left.get(), right.get()).ok()
            }
            _ => unreachable!("`term` handles the rest"),
        }
    }

    fn values(&mut self, terms: &'a [Term]) -> Option<Vec<Value>> {
        terms.iter().map(|term| self.term(term).map(Val::into_value)).collect()
    }

    fn variable(&self, reg: Reg, term: &Term) -> Option<Val<'a>> {
        match (&self.registers[reg], term) {
            (Held::Node(node), Term::Slot(_, slot)) => {
                self.cell(&self.world().row(*node)?.slots[*slot])
            }
            (Held::Node(node), _) => Some(Val::Own(Value::Node(*node))),
            (Held::Element(cells), Term::Column(_, column)) => self.cell(&cells[*column]),
            (Held::Value(value), _) => Some(Val::Own(value.clone())),
            (Held::Element(_) | Held::Nothing, _) => None,
        }
    }

    fn field(&self, base: Val<'a>, name: &str, slot: usize) -> Option<Val<'a>> {
        match base {
            Val::Ref(&Value::Node(node)) | Val::Own(Value::Node(node)) => {
                self.cell(&self.world().row(node)?.slots[slot])
            }
            Val::Ref(base) => ops::field(base, name).ok().map(Val::Ref),
            Val::Own(base) => ops::field(&base, name).ok().cloned().map(Val::Own),
        }
    }

    fn fact(&self, fact: NodeFact, argument: &Value) -> Option<Val<'a>> {
        match (fact, argument) {
            (NodeFact::State, Value::Node(node)) => {
                let slot = self.code.layout.state_slot();
                self.cell(&self.world().row(*node)?.slots[slot])
            }
            (NodeFact::Reported, Value::Node(node)) => {
                Some(Val::Own(Value::Bool(self.world().row(*node).is_some())))
            }
            _ => node_fact(self.world(), fact, argument).ok().map(Val::Own),
        }
    }

    fn ago(&mut self, steps: usize, body: &'a Term) -> Option<Val<'a>> {
        let back = self.back;
        self.look(back + steps);
        let value = self.term(body);
        self.look(back);
        value
    }

    fn past(&mut self, op: History, steps: usize, body: &'a Term) -> Option<Val<'a>> {
        if op == History::Previous {
            return self.ago(steps, body);
        }
        let there = self.worlds.len().saturating_sub(self.back).max(1);
        let values =
            (0..there.min(steps)).rev().map(|ago| self.ago(ago, body).map(Val::into_value));
        Some(Val::Own(Value::List(values.collect::<Option<_>>()?)))
    }

    fn quantified(&mut self, forall: bool, over: &'a LoopOver, body: &'a Test) -> Verdict {
        let mut result = Verdict::from(forall);
        self.for_each(over, &mut |run, known| {
            let guard = over.guard.as_deref();
            let instance = if known { run.instance(forall, guard, body) } else { Verdict::Unknown };
            result = if forall { result.and(instance) } else { result.or(instance) };
            result != Verdict::from(!forall)
        });
        result
    }

    /// One instance of a quantifier: guard implies body, or guard and body.
    pub(super) fn instance(
        &mut self,
        forall: bool,
        guard: Option<&'a Test>,
        body: &'a Test,
    ) -> Verdict {
        let guard = guard.map_or(Verdict::Holds, |guard| self.test(guard));
        match guard {
            Verdict::Violated => Verdict::from(forall),
            _ if forall => guard.negate().or(self.test(body)),
            _ => guard.and(self.test(body)),
        }
    }

    fn contributions(&mut self, over: &'a LoopOver, body: &'a Contribution) -> Option<Vec<Value>> {
        let mut values = Some(Vec::new());
        self.for_each(over, &mut |run, known| {
            let guard = over.guard.as_deref();
            match if known { run.contribution(guard, body) } else { None } {
                Some(value) => {
                    values.as_mut().expect("the first unknown ends it").extend(value);
                    true
                }
                None => {
                    values = None;
                    false
                }
            }
        });
        values
    }

    /// The contribution of one binding to an aggregate, if any; `None` if it is unknown.
    #[expect(clippy::option_option, reason = "unknown, nothing, or a value")]
    pub(super) fn contribution(
        &mut self,
        guard: Option<&'a Test>,
        body: &'a Contribution,
    ) -> Option<Option<Value>> {
        match guard.map_or(Verdict::Holds, |guard| self.test(guard)) {
            Verdict::Unknown => return None,
            Verdict::Violated => return Some(None),
            Verdict::Holds => {}
        }
        match body {
            Contribution::If(test) => match self.test(test) {
                Verdict::Unknown => None,
                verdict => Some((verdict == Verdict::Holds).then_some(Value::Null)),
            },
            Contribution::Value(term) => self.term(term).map(|value| Some(value.into_value())),
        }
    }

    fn for_each(&mut self, over: &'a LoopOver, visit: &mut Visit<'_, 'a>) {
        self.nest(over, 0, visit);
    }

    fn nest(&mut self, over: &'a LoopOver, depth: usize, visit: &mut Visit<'_, 'a>) -> bool {
        let Some(this) = over.loops.get(depth) else { return visit(self, true) };
        let mut next = |run: &mut Run<'a>, held: Held<'a>| {
            run.registers[this.reg] = held;
            run.nest(over, depth + 1, visit)
        };
        match &this.domain {
            Range::Nodes(nodes) => {
                let world = self.world();
                let mut admitted =
                    (0..world.members.len()).filter(|place| world.admits(*nodes, *place));
                return admitted.all(|place| next(self, Held::Node(world.members[place].id)));
            }
            Range::Table(reg, table) => {
                let Held::Node(node) = self.registers[*reg] else { return visit(self, false) };
                let rows = self.world().row(node).and_then(|row| row.tables[*table].as_ref());
                let Some(rows) = rows else { return visit(self, false) };
                return rows.iter().all(|cells| next(self, Held::Element(cells)));
            }
            Range::Ints { from, to, inclusive } => {
                if let Some((from, to)) = self.ints(from, to, *inclusive) {
                    return (from..to).all(|at| next(self, Held::Value(Value::Int(at))));
                }
            }
            Range::Values(term) => {
                let items = self.term(term).and_then(|value| ops::elements(value.get()).ok());
                if let Some(items) = items {
                    return items.into_iter().all(|item| next(self, Held::Value(item)));
                }
            }
            Range::Entries(term, other) => {
                if let Some(container) = self.term(term)
                    && let Ok(entries) = ops::entries(container.get())
                {
                    return entries.into_iter().all(|(key, value)| {
                        self.registers[*other] = Held::Value(value.clone());
                        next(self, Held::Value(key))
                    });
                }
            }
        }
        visit(self, false)
    }

    fn ints(&mut self, from: &'a Term, to: &'a Term, inclusive: bool) -> Option<(i64, i64)> {
        let (from, to) = (self.term(from)?, self.term(to)?);
        ops::range(from.get(), to.get(), inclusive).ok()
    }

    /// The result of a quantifier that is not cached.
    fn unit_verdict(&mut self, unit: &'a Unit) -> Verdict {
        let super::ir::UnitBody::Quantified { forall, body } = &unit.body else {
            unreachable!("tests refer to quantifiers")
        };
        let mut result = Verdict::from(*forall);
        self.for_each_tuple(unit, 0, &mut |run| {
            let instance = run.instance(*forall, unit.guard.as_ref(), body);
            result = if *forall { result.and(instance) } else { result.or(instance) };
            result != Verdict::from(!*forall)
        });
        result
    }

    /// The result of an aggregate that is not cached.
    fn unit_value(&mut self, unit: &'a Unit) -> Option<Value> {
        let super::ir::UnitBody::Aggregate { op, body } = &unit.body else {
            unreachable!("terms refer to aggregates")
        };
        let mut values = Some(Vec::new());
        self.for_each_tuple(unit, 0, &mut |run| {
            match (run.contribution(unit.guard.as_ref(), body), &mut values) {
                (Some(value), Some(values)) => values.extend(value),
                _ => values = None,
            }
            values.is_some()
        });
        fold(*op, values?).ok()
    }

    fn for_each_tuple(
        &mut self,
        unit: &'a Unit,
        depth: usize,
        visit: &mut dyn FnMut(&mut Run<'a>) -> bool,
    ) -> bool {
        let Some((reg, nodes)) = unit.vars.get(depth) else { return visit(self) };
        let world = self.world();
        (0..world.members.len()).filter(|place| world.admits(*nodes, *place)).all(|place| {
            self.registers[*reg] = Held::Node(world.members[place].id);
            self.for_each_tuple(unit, depth + 1, visit)
        })
    }
}

/// Relates two values; common cases skip the construction of a reason for unknown.
#[inline]
fn relate(op: BinaryOp, left: &Value, right: &Value) -> Verdict {
    match (op, left, right) {
        (BinaryOp::Eq, _, _) => Verdict::from(ops::equal(left, right)),
        (BinaryOp::Ne, _, _) => Verdict::from(!ops::equal(left, right)),
        (BinaryOp::Lt, Value::Int(a), Value::Int(b)) => Verdict::from(a < b),
        (BinaryOp::Le, Value::Int(a), Value::Int(b)) => Verdict::from(a <= b),
        (BinaryOp::Gt, Value::Int(a), Value::Int(b)) => Verdict::from(a > b),
        (BinaryOp::Ge, Value::Int(a), Value::Int(b)) => Verdict::from(a >= b),
        _ => ops::relate(op, left, right).map_or(Verdict::Unknown, Verdict::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node is found among members with these ids, and no other.
    #[track_caller]
    fn check(ids: &[u32]) {
        let members: Vec<Member> =
            ids.iter().map(|id| Member::new(NodeId(*id), "n", "node")).collect();
        for node in [0, 1, 2, 3, 7, 8, 9, 40, 41, u32::MAX - 1, u32::MAX] {
            let expected = ids.iter().position(|id| *id == node);
            assert_eq!(place_of(&members, NodeId(node)), expected, "{node} of {ids:?}");
        }
    }

    #[test]
    fn nodes_are_found_however_large_their_numbers_are() {
        check(&[]);
        check(&[0, 1, 2, 3]);
        check(&[1, 2, 3]);
        check(&[2, 7, 40]);
        check(&[8, 9, u32::MAX - 1]);
        check(&[0, u32::MAX]);
    }
}
