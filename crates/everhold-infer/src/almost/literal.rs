//! Literals: a relation of one to three operands, as text and as tree.

use std::sync::Arc;

use everhold_property::{BinaryOp, Expr, ExprKind, Ident, Literal as Written, Type, UnaryOp};
use everhold_trace::Value;

use super::domain::{Domain, binary, literal};
use super::predicate::Predicate;
use crate::dictionary::Code;
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
    /// What a map of a node has under a node.
    AtNode { node: usize, map: usize, key: usize },
    /// What a map of a node has under a variable of an element.
    AtItem { node: usize, map: usize, range: usize, key: usize },
    /// The whole state.
    World,
}

/// How operands relate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// The operand is true.
    True,
    /// The operand is this value.
    Is(Code),
    /// The operand is of this variant.
    Variant(String),
    /// Two operands compared: `== < <= in`, `subset of`, `disjoint from`, `prefix of`.
    Two(BinaryOp),
    /// A function of the user's library.
    Predicate(String),
    /// A predicate of the user over the whole state, which is the last operand.
    Whole(Arc<Predicate>),
}

/// A predicate applied to operands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Literal {
    pub(crate) relation: Relation,
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
            Operand::World => 0,
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
            Operand::World => self,
        }
    }

    /// What it holds.
    pub(crate) fn ty<'a>(self, domain: &Domain, states: &'a States) -> &'a Type {
        const NODE: &Type = &Type::Node(None);
        const ANY: &Type = &Type::Any;
        let of = |node: usize, table: usize, variable: usize| {
            &states.variables.kinds[domain.kinds[node]].tables[table].variables[variable].ty
        };
        match self {
            Operand::Node(_) => NODE,
            Operand::World => ANY,
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
            Operand::World => Expr::new(ExprKind::Hole),
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
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.relation, Relation::Whole(_))
    }

    /// The same with the two nodes swapped; symmetric relations keep their operands in order.
    pub(crate) fn swapped(&self) -> Literal {
        let operands = self.operands.iter().map(|operand| operand.swapped()).collect();
        Literal { relation: self.relation.clone(), operands }.ordered()
    }

    /// The one of the equal ways to write it.
    pub(crate) fn ordered(mut self) -> Literal {
        if matches!(self.relation, Relation::Two(BinaryOp::Eq | BinaryOp::Disjoint)) {
            self.operands.sort();
        }
        self
    }

    /// How much there is to read: the simpler of two equivalent literals is shown.
    pub(crate) fn cost(&self) -> u32 {
        let of = |operand: &Operand| match operand {
            Operand::Node(_) => 1,
            Operand::State { .. } | Operand::Item { .. } => 2,
            Operand::AtNode { .. } | Operand::AtItem { .. } => 4,
            Operand::World => 0,
        };
        let relation = match &self.relation {
            Relation::True | Relation::Predicate(_) | Relation::Whole(_) => 0,
            Relation::Two(BinaryOp::Eq | BinaryOp::In) => 1,
            Relation::Is(_) | Relation::Variant(_) | Relation::Two(_) => 2,
        };
        relation + self.operands.iter().map(of).sum::<u32>()
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
        let mut next = || operands.next().expect("the relation has its operands");
        let not = |expr: Expr| match negated {
            true => Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(expr))),
            false => expr,
        };
        match &self.relation {
            Relation::True => not(next()),
            Relation::Is(code) => {
                let op = if negated { BinaryOp::Ne } else { BinaryOp::Eq };
                binary(op, next(), constant(states.values.value(*code)))
            }
            Relation::Variant(name) => {
                not(Expr::new(ExprKind::Is(Box::new(next()), Ident::new(name))))
            }
            Relation::Two(op) => match (negated, opposite(*op)) {
                (true, Some(opposite)) => binary(opposite, next(), next()),
                _ => not(binary(*op, next(), next())),
            },
            Relation::Predicate(name) => {
                not(Expr::new(ExprKind::Call(Ident::new(name), operands.collect())))
            }
            Relation::Whole(predicate) => not(predicate.of(&operands.collect::<Vec<_>>())),
        }
    }
}

fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Le => BinaryOp::Gt,
        BinaryOp::In => BinaryOp::NotIn,
        _ => return None,
    })
}

fn constant(value: &Value) -> Expr {
    literal(match value {
        Value::Bool(truth) => Written::Bool(*truth),
        Value::Int(number) => Written::Int(*number),
        Value::Text(text) => Written::Text(text.clone()),
        _ => Written::Null,
    })
}
