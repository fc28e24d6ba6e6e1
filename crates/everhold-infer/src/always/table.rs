//! The rows of a table of snapshots.

use std::sync::OnceLock;

use everhold_property::{Scope, Type};

use super::Settings;
use super::all_nodes::AllNodes;
use super::rows::{BLOCK, Pairs};
use super::single::Changes;
use super::terms::{Side, Term, What};
use crate::evaluate::{Column, few};
use crate::outcome::{Bound, LeftOut, WhyLeftOut};
use crate::relation::Class;
use crate::snapshots::Snapshots;
use crate::variables::{Access, Variable};

/// Distinct values are counted up to this many.
const DISTINCT_MAX: usize = 1_000;

/// A table, and the order in which its rows are kept.
pub(super) struct TableRows<'a> {
    table: &'a Snapshots,
    layout: Layout,
    pairs_max: usize,
    /// The scope that the pairs of nodes are judged in.
    scope: Option<Scope>,
    bounds: Vec<Bound>,
}

/// The order in which the rows are kept.
enum Layout {
    /// As they were read.
    AsRead,
    /// All rows of the first node, then all of the second, and so on. Every snapshot has this many
    /// nodes, always in the same order, so the rows that two nodes show together lie side by side.
    ByNode(usize),
}

impl<'a> TableRows<'a> {
    /// The rows of a table.
    ///
    /// No message is in flight in a snapshot, so scopes that ask for quiet show the same pairs as
    /// every cut, and the first of these scopes stands for all of them.
    pub(super) fn of(table: &'a Snapshots, settings: &Settings) -> TableRows<'a> {
        let of_states =
            |scope: &&Scope| matches!(scope, Scope::EveryCut | Scope::Quiet | Scope::AllQuiet);
        let scope = settings.scopes.iter().find(of_states).copied();
        let (layout, pairs_max) = (Layout::of(table), settings.pairs_max());
        TableRows { table, layout, pairs_max, scope, bounds: Vec::new() }
    }

    /// The terms: the variables of the table.
    pub(super) fn side(&self, left_out: &mut Vec<LeftOut>) -> Side {
        let table = self.table;
        let mut side = Side { groups: self.layout.column(&table.node_of), ..Side::default() };
        for (name, column) in table.variables.iter().zip(&table.columns) {
            let distinct = few(column, DISTINCT_MAX).map_or(DISTINCT_MAX, |codes| codes.len());
            if distinct < 2 {
                left_out.push(LeftOut { variable: name.clone(), why: WhyLeftOut::Unchanging });
                continue;
            }
            let variable = Variable { path: vec![Access::Field(name.clone())], ty: Type::Int };
            let what = What::Variable(variable);
            // Counting has no early exit and is therefore done by vectors.
            let nulls = |part: &[u32]| part.iter().filter(|code| **code == 0).count();
            let nullable = column.chunks(4096).any(|part| nulls(part) > 0);
            let (class, names_nodes) = (Class::Number, false);
            side.terms.push(Term { what, class, distinct, nullable, names_nodes });
            side.columns.push(Column::Numbers(self.layout.column(column)));
            side.episodes.push(OnceLock::new());
        }
        side
    }

    /// Each row with itself.
    pub(super) fn alone(&self) -> Pairs {
        Pairs::alone(self.table.rows(), self.table.rows() as u64)
    }

    /// How each node goes from one of its rows to the next.
    pub(super) fn changes(&self) -> Changes {
        let table = self.table;
        if let Layout::ByNode(_) = self.layout {
            return Changes::Beside(table.snapshots());
        }
        let mut last = vec![None; table.nodes.len()];
        let mut steps = Vec::new();
        for (row, node) in (0..).zip(&table.node_of) {
            let before: Option<u32> = last[*node as usize].replace(row);
            steps.extend(before.map(|before| (before, row)));
        }
        Changes::Listed(steps)
    }

    /// The rows of all nodes, snapshot by snapshot.
    pub(super) fn all_nodes(&self) -> AllNodes<'a> {
        match self.layout {
            Layout::ByNode(nodes) => AllNodes::ByNode { nodes, each: self.table.snapshots() },
            Layout::AsRead => AllNodes::BySnapshot { begins: &self.table.begins },
        }
    }

    /// The nodes of each snapshot in pairs, each pair in one order.
    pub(super) fn pairs(&mut self, scope: Scope) -> Pairs {
        if self.scope != Some(scope) {
            return Pairs::listed(Vec::new(), Vec::new(), 0);
        }
        let Layout::ByNode(nodes) = self.layout else { return self.listed() };
        let each = self.table.snapshots();
        let begin = |node: usize| u32::try_from(node * each).expect("rows are numbered by 32 bits");
        let others = |left: usize| (left + 1..nodes).map(move |right| (begin(left), begin(right)));
        Pairs::beside((0..nodes).flat_map(others).collect(), each)
    }

    fn listed(&mut self) -> Pairs {
        let (mut lefts, mut rights, mut samples) = (Vec::new(), Vec::new(), 0);
        for snapshot in self.table.begins.windows(2) {
            for left in snapshot[0]..snapshot[1] {
                let others = left + 1..snapshot[1];
                samples += others.len() as u64;
                if lefts.len() < self.pairs_max {
                    lefts.extend(std::iter::repeat_n(left, others.len()));
                    rights.extend(others);
                }
            }
        }
        if samples > lefts.len() as u64 {
            let looked_at = lefts.len() as u64;
            self.bounds.push(Bound::PairsOfStates { looked_at, all: samples });
        }
        Pairs::listed(lefts, rights, samples)
    }

    /// The limits that were reached.
    pub(super) fn bounds(&self) -> &[Bound] {
        &self.bounds
    }
}

impl Layout {
    /// By node, if there are enough snapshots for it to be worth it.
    fn of(table: &Snapshots) -> Layout {
        let nodes = table.nodes.len();
        let regular = table.snapshots() >= BLOCK / 2
            && table.rows() == nodes * table.snapshots()
            && table.node_of.chunks(nodes).all(|own| own == &table.node_of[..nodes])
            && (0..).step_by(nodes).zip(&table.begins).all(|(row, begin)| row == *begin as usize);
        if regular { Layout::ByNode(nodes) } else { Layout::AsRead }
    }

    fn column(&self, read: &[u32]) -> Vec<u32> {
        let Layout::ByNode(nodes) = self else { return read.to_vec() };
        let each = read.len() / nodes;
        let mut found = vec![0; read.len()];
        // In pieces that stay in the cache while each node picks its own.
        for (place, piece) in read.chunks(nodes * 1024).enumerate() {
            for node in 0..*nodes {
                let own = piece.iter().skip(node).step_by(*nodes);
                let begin = node * each + place * 1024;
                found[begin..].iter_mut().zip(own).for_each(|(into, code)| *into = *code);
            }
        }
        found
    }
}
