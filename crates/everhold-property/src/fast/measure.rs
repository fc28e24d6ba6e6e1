//! The contribution of one node to an aggregate over nodes.

use std::sync::Arc;

use everhold_trace::Value;

use super::compile::Program;
use super::evaluator::{Cache, Evaluator};
use super::ir::{Term, Test};
use super::row::Row;
use super::run::{Run, World};
use crate::ast::Expr;
use crate::library::Library;
use crate::state::Member;

/// An aggregate over nodes, as it would be if there were only one node. The aggregate over several
/// nodes is the sum of these parts.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    program: Program,
    caches: Vec<Cache>,
    /// The world while the node is down, and while it is up.
    worlds: [[World; 1]; 2],
}

impl Measure {
    /// Compiles `sum(n in nodes: e)` or `count(n in nodes: e)`. Returns `None` if the part of a node
    /// depends on other nodes or on earlier states.
    pub(crate) fn program(aggregate: &Expr, library: &Library) -> Option<Program> {
        let program = Program::of(aggregate, library, &[]);
        let Test::Truth(Term::Unit(unit)) = program.0.test else { return None };
        let unit = &program.0.units[unit];
        let alone = unit.vars.len() == 1 && unit.local && program.depth() == 0;
        alone.then_some(program)
    }

    /// The measure of one node.
    pub(crate) fn new(program: &Program, member: &Member) -> Measure {
        let world = |up: bool| {
            let member = Member { up, ..member.clone() };
            [Evaluator::new(program, &[member]).world().clone()]
        };
        Measure {
            program: program.clone(),
            caches: vec![Cache::Off; program.0.units.len()],
            worlds: [world(false), world(true)],
        }
    }

    /// The part of the node in a state; `None` if it is unknown.
    pub(crate) fn value(&mut self, up: bool, row: Option<Arc<Row>>) -> Option<Value> {
        let world = &mut self.worlds[usize::from(up)];
        *world[0].rows.last_mut().expect("there is a row for the node") = row;
        let Test::Truth(term) = &self.program.0.test else {
            unreachable!("the program is an aggregate")
        };
        let mut run = Run::new(&self.program.0, world, &self.caches);
        run.term(term).map(super::run::Val::into_value)
    }
}
