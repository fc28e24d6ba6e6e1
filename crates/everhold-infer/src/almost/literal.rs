//! Literals: a relation of one to three operands, as text and as tree.

use std::sync::Arc;

use everhold_property::{Expr, ExprKind, Ident, Type};

use super::domain::Domain;
use super::predicate::Predicate;
use crate::dictionary::Code;
use crate::relation::Relation;
use crate::relation::tree::{self, related};
use crate::states::States;
use crate::variables::Row;

/// A value that each row of a class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operand {
    /// A node variable itself.
    Node(usize),
    /// A variable of the state of a node.
    State { node: usize, variable: usize },
    /// A variable of an element.
    Item { range: usize, variable: usize },
    /// The entry of a map of a node under a node.
    AtNode { node: usize, map: usize, key: usize },
    /// The entry of a map of a node under a variable of an element.
    AtItem { node: usize, map: usize, range: usize, key: usize },
    /// The global state.
    Global,
}

/// The claim of a literal about its operands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Test {
    /// The operand is true.
    True,
    /// The operand is this value.
    Is(Code),
    /// The operand is a number below zero.
    Negative,
    /// The operand is of this variant.
    Variant(String),
    /// Two operands are in a relation.
    Compare(Relation),
    /// A function of the user's library is true of the operands.
    Function(String),
    /// A predicate of the user is true of the operands, the last of which is the global state.
    Global(Arc<Predicate>),
}

/// A test applied to operands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Literal {
    pub(crate) test: Test,
    pub(crate) operands: Vec<Operand>,
}

impl Operand {
    /// The node variables it reads, as bits.
    fn nodes(self, domain: &Domain) -> u32 {
        let of_range = |range: usize| 1 << domain.ranges[range].node;
        // To name the node referred to is to read the first, which does.
        let id = |node: usize| if domain.link.is_some() { 1 } else { 1 << node };
        match self {
            Operand::Node(node) => id(node),
            Operand::State { node, .. } => 1 << node,
            Operand::Item { range, .. } => of_range(range),
            Operand::AtNode { node, key, .. } => 1 << node | id(key),
            Operand::AtItem { node, range, .. } => 1 << node | of_range(range),
            Operand::Global => 0,
        }
    }

    fn ranges(self) -> u32 {
        match self {
            Operand::Item { range, .. } | Operand::AtItem { range, .. } => 1 << range,
            _ => 0,
        }
    }

    /// The same with the two nodes, and their elements, swapped.
    fn swapped(self) -> Operand {
        match self {
            Operand::Node(node) => Operand::Node(1 - node),
            Operand::State { node, variable } => Operand::State { node: 1 - node, variable },
            Operand::Item { range, variable } => Operand::Item { range: 1 - range, variable },
            Operand::AtNode { node, map, key } => {
                Operand::AtNode { node: 1 - node, map, key: 1 - key }
            }
            Operand::AtItem { node, map, range, key } => {
                Operand::AtItem { node: 1 - node, map, range: 1 - range, key }
            }
            Operand::Global => self,
        }
    }

    /// The type of its values.
    pub(crate) fn ty<'a>(self, domain: &Domain, states: &'a States) -> &'a Type {
        const NODE: &Type = &Type::Node(None);
        const ANY: &Type = &Type::Any;
        let of = |node: usize, table: usize, variable: usize| {
            &states.variables.kinds[domain.kinds[node]].tables[table].variables[variable].ty
        };
        match self {
            Operand::Node(_) => NODE,
            Operand::Global => ANY,
            Operand::State { node, variable } => of(node, 0, variable),
            Operand::Item { range, variable } => {
                of(domain.ranges[range].node, domain.ranges[range].table, variable)
            }
            Operand::AtNode { node, map, .. } | Operand::AtItem { node, map, .. } => {
                match of(node, 0, map) {
                    Type::Map(_, value) => value,
                    other => other,
                }
            }
        }
    }

    /// The operand in the language; the whole state has no name.
    pub(crate) fn expr(self, domain: &Domain, states: &States) -> Expr {
        let variables = &states.variables;
        let state = |node: usize, variable: usize| {
            let shown = &variables.kinds[domain.kinds[node]].tables[0].variables[variable];
            // The variable is written below a name, which then gives way to the node.
            let expr = shown.expr(&Row::Value("n".into()));
            rebase(expr, &domain.node(node, variables))
        };
        let item = |range: usize, variable: usize| {
            let of = domain.ranges[range];
            let table = &variables.kinds[domain.kinds[of.node]].tables[of.table];
            table.variables[variable].expr(&domain.row(range, variables))
        };
        let at = |map: Expr, key: Expr| Expr::new(ExprKind::Index(Box::new(map), Box::new(key)));
        match self {
            Operand::Node(node) => domain.node(node, variables),
            Operand::State { node, variable } => state(node, variable),
            Operand::Item { range, variable } => item(range, variable),
            Operand::AtNode { node, map, key } => at(state(node, map), domain.node(key, variables)),
            Operand::AtItem { node, map, range, key } => at(state(node, map), item(range, key)),
            Operand::Global => Expr::new(ExprKind::Hole),
        }
    }
}

/// Puts `base` where the path of a variable starts.
fn rebase(expr: Expr, base: &Expr) -> Expr {
    match expr.kind {
        ExprKind::Name(_) => base.clone(),
        ExprKind::Field(inner, field) => {
            Expr::new(ExprKind::Field(Box::new(rebase(*inner, base)), field))
        }
        ExprKind::Call(name, arguments) => {
            let arguments = arguments.into_iter().map(|inner| rebase(inner, base)).collect();
            Expr::new(ExprKind::Call(name, arguments))
        }
        _ => expr,
    }
}

impl Literal {
    /// The node variables it reads, as bits.
    pub(crate) fn nodes(&self, domain: &Domain) -> u32 {
        self.operands.iter().fold(0, |bits, operand| bits | operand.nodes(domain))
    }

    /// The element variables it reads, as bits.
    pub(crate) fn ranges(&self) -> u32 {
        self.operands.iter().fold(0, |bits, operand| bits | operand.ranges())
    }

    /// Whether it is about the whole state.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.test, Test::Global(_))
    }

    /// The same with the two nodes swapped; symmetric relations keep their operands in order.
    pub(crate) fn swapped(&self) -> Literal {
        let operands = self.operands.iter().map(|operand| operand.swapped()).collect();
        Literal { test: self.test.clone(), operands }.ordered()
    }

    /// The one of the equal ways to write it.
    pub(crate) fn ordered(mut self) -> Literal {
        if matches!(self.test, Test::Compare(relation) if relation.is_symmetric()) {
            self.operands.sort();
        }
        self
    }

    /// Whether it is an order, or an equality, of numbers.
    pub(crate) fn is_order(&self, domain: &Domain, states: &States) -> bool {
        use Relation as R;
        let number =
            |operand: &Operand| matches!(operand.ty(domain, states), Type::Int | Type::Float);
        matches!(self.test, Test::Compare(R::Less | R::AtMost | R::Equal))
            && self.operands.iter().all(number)
    }

    /// How much there is to read: the simpler of two equivalent literals is shown.
    pub(crate) fn cost(&self) -> u32 {
        let of = |operand: &Operand| match operand {
            Operand::Node(_) => 1,
            Operand::State { .. } | Operand::Item { .. } => 2,
            Operand::AtNode { .. } | Operand::AtItem { .. } => 4,
            Operand::Global => 0,
        };
        let test = match &self.test {
            Test::True | Test::Function(_) | Test::Global(_) | Test::Negative => 0,
            Test::Compare(Relation::Equal | Relation::In) => 1,
            Test::Is(_) | Test::Variant(_) | Test::Compare(_) => 2,
        };
        test + self.operands.iter().map(of).sum::<u32>()
    }

    /// Whether two literals say different things of the same operands, so that a disjunction of
    /// them is another literal or says nothing.
    pub(crate) fn same_operands(&self, other: &Literal) -> bool {
        let sorted = |literal: &Literal| {
            let mut operands = literal.operands.clone();
            operands.sort();
            operands
        };
        sorted(self) == sorted(other)
    }

    /// The literal, or its negation, in the language.
    pub(crate) fn expr(&self, negated: bool, domain: &Domain, states: &States) -> Expr {
        let mut operands = self.operands.iter().map(|operand| operand.expr(domain, states));
        let mut next = || operands.next().expect("the test has its operands");
        let signed = |expr: Expr| if negated { tree::not(expr) } else { expr };
        match &self.test {
            Test::True => signed(next()),
            Test::Is(code) => {
                let relation = if negated { Relation::Differ } else { Relation::Equal };
                related(relation, next(), tree::constant(states.values.value(*code)))
            }
            Test::Negative => {
                let relation = if negated { Relation::AtLeast } else { Relation::Less };
                related(relation, next(), tree::constant(&0.into()))
            }
            Test::Variant(name) => {
                signed(Expr::new(ExprKind::Is(Box::new(next()), Ident::new(name))))
            }
            Test::Compare(relation) => match (negated, relation.negated()) {
                (true, Some(opposite)) => related(opposite, next(), next()),
                _ => signed(related(*relation, next(), next())),
            },
            Test::Function(name) => signed(tree::call(name, operands.collect())),
            Test::Global(predicate) => signed(predicate.of(&operands.collect::<Vec<_>>())),
        }
    }
}
