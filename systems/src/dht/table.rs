//! Nodes for each prefix of a node's own identifier.

use everhold::prelude::*;

use super::{Id, Ids};

/// One row for each digit.
pub const ROWS: usize = 16;
/// One column for each value of a digit.
pub const COLUMNS: usize = 16;

/// A routing table. Row `r` has nodes that share `r` digits with the owner; its columns are the
/// values of the next digit, with a few nodes each.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    #[serde(skip)]
    ids: Ids,
    #[serde(skip)]
    me: Id,
    #[serde(skip)]
    cell_max: usize,
    /// Each row is sorted by identifier, so that a cell is a range.
    rows: Vec<Vec<NodeId>>,
}

impl Table {
    pub(super) fn new(me: NodeId, ids: Ids, cell_max: usize) -> Table {
        Table { ids, me: ids.of(me), cell_max, rows: vec![Vec::new(); ROWS] }
    }

    /// The nodes of a row, without the owner.
    #[must_use]
    pub fn row(&self, row: usize) -> &[NodeId] {
        &self.rows[row]
    }

    /// The nodes of one cell.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> &[NodeId] {
        let digit = |node: &NodeId| self.ids.of(*node).digit(row);
        let nodes = &self.rows[row];
        let start = nodes.partition_point(|node| digit(node) < column);
        let length = nodes[start..].partition_point(|node| digit(node) == column);
        &nodes[start..start + length]
    }

    /// Adds a node if its cell has room; returns the row that changed.
    pub(super) fn learn(&mut self, node: NodeId) -> Option<usize> {
        let id = self.ids.of(node);
        let row = self.me.shared_prefix(id);
        let known = self.rows[row].binary_search_by_key(&id, |known| self.ids.of(*known));
        let at = known.err()?;
        if self.cell(row, id.digit(row)).len() == self.cell_max {
            return None;
        }
        self.rows[row].insert(at, node);
        Some(row)
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.rows[self.me.shared_prefix(self.ids.of(node))].retain(|known| *known != node);
    }
}
