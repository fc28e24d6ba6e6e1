//! The values that a program reads from one state: its slots and tables.

use std::collections::BTreeMap;

use everhold_trace::{NodeId, Value};

use super::ir::Slot;
use crate::ops;

/// The parts of one node's state that a program reads, looked up once.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub(super) slots: Vec<Cell>,
    pub(super) tables: Vec<Option<Vec<Box<[Cell]>>>>,
    /// Whether some cell refers to another node, so that results depend on that node too.
    pub(super) leads_on: bool,
}

/// One looked-up value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Value(Value),
    /// The path reached a node; the rest of the path is looked up there.
    At(NodeId, Slot),
    Unknown,
}

/// The paths and tables that are looked up in every state.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    paths: Vec<Vec<String>>,
    slots: BTreeMap<Vec<String>, Slot>,
    pub(super) tables: Vec<Table>,
}

/// The elements of one container field, taken apart into columns.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) field: String,
    pub(super) entries: bool,
    pub(super) columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    Key,
    Item(Vec<String>),
}

impl Cell {
    /// Whether the cell is certain to equal the value at `path`.
    fn is(&self, state: &Value, path: &[String]) -> bool {
        let Cell::Value(held) = self else { return false };
        let mut value = state;
        for name in path {
            match (value, ops::field(value, name)) {
                (Value::Node(_), _) | (_, Err(_)) => return false,
                (_, Ok(field)) => value = field,
            }
        }
        value == held
    }
}

fn leads_on(slots: &[Cell], tables: &[Option<Vec<Box<[Cell]>>>]) -> bool {
    let at = |cell: &Cell| matches!(cell, Cell::At(..));
    slots.iter().any(at) || tables.iter().flatten().flatten().any(|cells| cells.iter().any(at))
}

impl Row {
    /// Whether the property follows a reference from this state to another node.
    #[must_use]
    pub fn leads_on(&self) -> bool {
        self.leads_on
    }
}

impl Layout {
    /// The slot of the whole state, which `state(n)` asks for.
    pub(super) fn state_slot(&self) -> Slot {
        self.slots[&Vec::new()]
    }

    /// The slot of a path, and of each path that remains when a part of it leads to a node.
    pub(super) fn slot(&mut self, path: &[String]) -> Slot {
        if let Some(slot) = self.slots.get(path) {
            return *slot;
        }
        let slot = self.paths.len();
        self.paths.push(path.to_vec());
        self.slots.insert(path.to_vec(), slot);
        if path.len() > 1 {
            self.slot(&path[1..]);
        }
        slot
    }

    pub(super) fn table(&mut self, field: &str, entries: bool) -> usize {
        let same = |table: &Table| table.field == field && table.entries == entries;
        self.tables.iter().position(same).unwrap_or_else(|| {
            self.tables.push(Table { field: field.to_owned(), entries, columns: Vec::new() });
            self.tables.len() - 1
        })
    }

    pub(super) fn column(&mut self, table: usize, column: Column) -> usize {
        if let Column::Item(path) = &column
            && !path.is_empty()
        {
            self.slot(path);
        }
        let columns = &mut self.tables[table].columns;
        columns.iter().position(|other| *other == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        })
    }

    /// Whether a change of this field alone could change a row.
    pub(super) fn reads(&self, field: &str) -> bool {
        self.paths.iter().any(|path| path.first().is_none_or(|first| first == field))
            || self.tables.iter().any(|table| table.field == field)
    }

    pub(super) fn row(&self, state: &Value) -> Row {
        // A state that is itself a node id has no fields.
        let bare = matches!(state, Value::Node(_));
        let slots: Vec<Cell> = self
            .paths
            .iter()
            .map(|path| match bare && !path.is_empty() {
                true => Cell::Unknown,
                false => self.cell(state, path),
            })
            .collect();
        let tables: Vec<_> = self
            .tables
            .iter()
            .map(|table| if bare { None } else { self.elements(table, state) })
            .collect();
        let leads_on = leads_on(&slots, &tables);
        Row { slots, tables, leads_on }
    }

    /// Updates `row` to match `state`; returns whether anything changed.
    pub(super) fn update(&self, row: &mut Row, state: &Value) -> bool {
        if !matches!(state, Value::Record(_)) {
            let new = self.row(state);
            return std::mem::replace(row, new) != *row;
        }
        let mut changed = false;
        for (cell, path) in row.slots.iter_mut().zip(&self.paths) {
            if !cell.is(state, path) {
                *cell = self.cell(state, path);
                changed = true;
            }
        }
        for (elements, table) in row.tables.iter_mut().zip(&self.tables) {
            let new = self.elements(table, state);
            if *elements != new {
                *elements = new;
                changed = true;
            }
        }
        row.leads_on = leads_on(&row.slots, &row.tables);
        changed
    }

    fn cell(&self, value: &Value, path: &[String]) -> Cell {
        let mut value = value;
        for (i, name) in path.iter().enumerate() {
            if let Value::Node(node) = value {
                return Cell::At(*node, self.slots[&path[i..]]);
            }
            match ops::field(value, name) {
                Ok(field) => value = field,
                Err(_) => return Cell::Unknown,
            }
        }
        Cell::Value(value.clone())
    }

    fn elements(&self, table: &Table, state: &Value) -> Option<Vec<Box<[Cell]>>> {
        let container = ops::field(state, &table.field).ok()?;
        if table.entries {
            let entries = ops::entries(container).ok()?;
            return Some(
                entries.iter().map(|(key, item)| self.columns(table, key, item)).collect(),
            );
        }
        let mut rows = Vec::new();
        let visit = &mut |item: &Value| {
            rows.push(self.columns(table, &ops::NULL, item));
            Ok(())
        };
        ops::for_each_element(container, visit).ok()?.then_some(rows)
    }

    fn columns(&self, table: &Table, key: &Value, item: &Value) -> Box<[Cell]> {
        let cell = |column: &Column| match column {
            Column::Key => Cell::Value(key.clone()),
            Column::Item(path) => self.cell(item, path),
        };
        table.columns.iter().map(cell).collect()
    }
}
