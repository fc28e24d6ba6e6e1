//! The two sources of rows: recorded runs, and tables of snapshots.
//!
//! A source says which rows there are, which of them follow each other at one node, and which are
//! seen together. The claims about the rows and their evidence are the same for both (`search`).

use everhold_property::Scope;

use super::all_nodes::AllNodes;
use super::atoms::Atoms;
use super::pairs::{self, Together};
use super::rows::Pairs;
use super::single::Changes;
use super::table::TableRows;
use crate::outcome::Bound;
use crate::states::States;
use crate::variables::KindId;

/// Where the rows come from.
pub(super) enum Source<'a> {
    Runs(Runs<'a>),
    Table(TableRows<'a>),
}

/// Recorded runs: a row is a node in one of its states.
pub(super) struct Runs<'a> {
    pub(super) states: &'a States,
    pub(super) atoms: &'a Atoms,
    pub(super) together: Together<'a>,
}

impl<'a> Source<'a> {
    /// The name of a kind of node, if there are several kinds.
    pub(super) fn kind_name(&self, kind: KindId) -> Option<String> {
        match self {
            Source::Runs(runs) => {
                let kinds = &runs.states.variables.kinds;
                (kinds.len() > 1).then(|| kinds[kind].name.clone())
            }
            Source::Table(_) => None,
        }
    }

    /// Each row with itself.
    pub(super) fn alone(&self, kind: KindId) -> Pairs {
        match self {
            Source::Runs(runs) => pairs::alone(runs.states, runs.atoms, kind),
            Source::Table(table) => table.alone(),
        }
    }

    /// How nodes went from row to row, and the distinct steps, if claims about steps are made.
    ///
    /// The snapshots of a table may have any number of steps between them, so a table has none.
    pub(super) fn steps(&self, kind: KindId) -> (Changes, Option<Pairs>) {
        match self {
            Source::Runs(runs) => {
                let all = pairs::all_steps(runs.states, runs.atoms, kind);
                let steps = pairs::steps(&all);
                let starts = pairs::starts(runs.atoms, kind);
                (Changes::Listed([all, starts].concat()), Some(steps))
            }
            Source::Table(table) => (table.changes(), None),
        }
    }

    /// The rows that all nodes of a kind have at the same time.
    pub(super) fn all_nodes(&self, kind: KindId) -> AllNodes<'a> {
        match self {
            Source::Runs(Runs { states, atoms, .. }) => AllNodes::Recorded { kind, states, atoms },
            Source::Table(table) => table.all_nodes(),
        }
    }

    /// The rows of two nodes that a scope shows together; of one kind, each pair in one order.
    pub(super) fn pairs(&mut self, scope: Scope, left: KindId, right: KindId) -> Pairs {
        match self {
            Source::Runs(runs) => runs.together.pairs(scope, left, right),
            Source::Table(table) => table.pairs(scope),
        }
    }

    /// The two ends of the messages that nodes of a kind sent to themselves.
    pub(super) fn own_deliveries(&self, kind: KindId) -> Option<Pairs> {
        match self {
            Source::Runs(runs) => Some(runs.together.own_deliveries(kind)),
            Source::Table(_) => None,
        }
    }

    /// The limits that were reached.
    pub(super) fn bounds(&self) -> &[Bound] {
        match self {
            Source::Runs(runs) => &runs.together.bounds,
            Source::Table(table) => table.bounds(),
        }
    }
}
