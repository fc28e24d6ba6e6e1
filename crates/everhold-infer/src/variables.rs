//! The variables of each kind of node, as a tree with types.
//!
//! The state of a node is a table of one row a state. A container in it opens a further table,
//! with one row for each of its elements: `x in n.children`, `k -> v in n.store`. The variables of
//! a table are what can be reached from its row without ranging over anything: fields, payloads of
//! variants, sizes of containers.

use std::fmt;

use everhold_property::{Binder, Domain, Expr, ExprKind, Ident, Pattern, Schema, Type};
use everhold_trace::Value;

use crate::outcome::{LeftOut, WhyLeftOut};

/// The place of a kind in [`Variables::kinds`].
pub type KindId = usize;
/// The place of a table in [`Kind::tables`]; 0 is that of the states.
pub type TableId = usize;

/// How deep containers may lie in containers.
const DEPTH_MAX: usize = 3;
/// How many variables of one kind are looked at.
const VARIABLES_MAX: usize = 256;

/// All variables of all kinds of node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables {
    /// The kinds of node that showed a state, sorted by name.
    pub kinds: Vec<Kind>,
    /// The variables that are left out.
    pub left_out: Vec<LeftOut>,
}

/// The variables of one kind of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name; may be empty.
    pub name: String,
    /// The tables; the first has one row a state, each other comes after its parent.
    pub tables: Vec<Table>,
}

/// A table: the origin of its rows, and the variables of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Where the rows come from.
    pub origin: Origin,
    /// The variables of a row.
    pub variables: Vec<Variable>,
}

/// Where the rows of a table come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// One row a state of the node.
    State,
    /// One row for each element of a list or set.
    Elements {
        /// The table of the container.
        table: TableId,
        /// The container among the variables of that table.
        variable: usize,
    },
    /// One row for each entry of a map; paths start with [`Access::Key`] or [`Access::Entry`].
    Entries {
        /// The table of the map.
        table: TableId,
        /// The map among the variables of that table.
        variable: usize,
    },
}

/// One step of a path from a row to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// A field of a record.
    Field(String),
    /// The payload of a variant, if the value is that variant.
    Payload(String),
    /// The number of elements.
    Size,
    /// The key of an entry.
    Key,
    /// The value of an entry.
    Entry,
}

/// A value that every row of a table has, null where it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The way from the row to it; empty for the row itself.
    pub path: Vec<Access>,
    /// The type of its values.
    pub ty: Type,
}

impl Variables {
    /// The variables of states with these types.
    ///
    /// ```
    /// use everhold_infer::Variables;
    /// use everhold_property::Schema;
    /// use everhold_trace::Value;
    ///
    /// let mut schema = Schema::default();
    /// let log = Value::list([Value::record([("term", 1)])]);
    /// schema.observe("server", &Value::record([("log", log), ("term", 1.into())]));
    /// let variables = Variables::of(&schema);
    /// assert_eq!(variables.kinds[0].to_string(), "\
    /// server: log, len(log), term
    /// server, x in log: x, x.term
    /// ");
    /// ```
    #[must_use]
    pub fn of(schema: &Schema) -> Variables {
        let mut variables = Variables::default();
        for name in schema.kinds() {
            let state = schema.state(name).expect("the kind is known");
            let mut kind = Kind { name: name.to_owned(), tables: Vec::new() };
            kind.add(Origin::State, vec![(Vec::new(), state)], 0, &mut variables.left_out);
            variables.kinds.push(kind);
        }
        variables
    }

    /// The kind of this name.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<KindId> {
        self.kinds.iter().position(|kind| kind.name == name)
    }
}

impl Kind {
    /// Adds a table whose rows have these values, and the tables of the containers in it.
    fn add(
        &mut self,
        origin: Origin,
        roots: Vec<(Vec<Access>, &Type)>,
        depth: usize,
        left_out: &mut Vec<LeftOut>,
    ) {
        let mut found = Vec::new();
        for (path, ty) in roots {
            // A state as a whole is no variable; an element is.
            expand(path, ty, origin == Origin::State, &mut found);
        }
        let known: usize = self.tables.iter().map(|table| table.variables.len()).sum();
        if known + found.len() > VARIABLES_MAX {
            let kept = VARIABLES_MAX.saturating_sub(known);
            let what = if self.name.is_empty() { "nodes" } else { &self.name };
            let variable = format!("{} variables of {what}", found.len() - kept);
            left_out.push(LeftOut { variable, why: WhyLeftOut::TooMany(VARIABLES_MAX) });
            found.truncate(kept);
        }
        for variable in found.iter().filter(|variable| variable.ty == Type::Any) {
            let (variable, why) = (variable.to_string(), WhyLeftOut::MixedTypes);
            left_out.push(LeftOut { variable, why });
        }
        let table = self.tables.len();
        let containers: Vec<(usize, Type)> =
            found.iter().enumerate().map(|(place, v)| (place, v.ty.clone())).collect();
        self.tables.push(Table { origin, variables: found });
        for (variable, ty) in containers {
            if depth >= DEPTH_MAX {
                continue;
            }
            match &ty {
                Type::List(items) | Type::Set(items) if **items != Type::Any => {
                    let origin = Origin::Elements { table, variable };
                    self.add(origin, vec![(Vec::new(), items)], depth + 1, left_out);
                }
                Type::Map(keys, values) if **keys != Type::Any => {
                    let roots =
                        vec![(vec![Access::Key], &**keys), (vec![Access::Entry], &**values)];
                    self.add(Origin::Entries { table, variable }, roots, depth + 1, left_out);
                }
                _ => {}
            }
        }
    }

    /// The containers on the way to a table, the outermost first: table and variable.
    #[must_use]
    pub fn way_to(&self, table: TableId) -> Vec<(TableId, usize)> {
        let mut way = Vec::new();
        let mut at = table;
        while let Some((parent, variable)) = self.tables[at].origin.container() {
            way.push((parent, variable));
            at = parent;
        }
        way.reverse();
        way
    }

    /// The binders that range over the rows of a table of `node`, with variables named after
    /// `names`: `n in server nodes, x in n.log`.
    ///
    /// # Panics
    ///
    /// If there are fewer names than containers on the way to the table.
    #[must_use]
    pub fn binders(&self, table: TableId, node: &str, names: &[&str]) -> Vec<Binder> {
        let mut binders = Vec::new();
        let mut base = Row::Value(node.to_owned());
        let mut names = names.iter();
        let mut tables: Vec<TableId> = self.way_to(table).iter().skip(1).map(|(t, _)| *t).collect();
        tables.push(table);
        for ((parent, variable), child) in self.way_to(table).into_iter().zip(tables) {
            let container = self.tables[parent].variables[variable].expr(&base);
            let name = *names.next().expect("a name for each container");
            let (pattern, row) = match self.tables[child].origin {
                Origin::Entries { .. } => {
                    let (key, value) = (format!("{name}k"), format!("{name}v"));
                    let pattern = Pattern::Entry(Ident::new(&key), Ident::new(&value));
                    (pattern, Row::Entry(key, value))
                }
                _ => (Pattern::Names(vec![Ident::new(name)]), Row::Value(name.to_owned())),
            };
            binders.push(Binder { pattern, domain: Domain::Values(Box::new(container)) });
            base = row;
        }
        binders
    }
}

impl Origin {
    /// The container whose elements the rows are.
    #[must_use]
    pub fn container(self) -> Option<(TableId, usize)> {
        match self {
            Origin::State => None,
            Origin::Elements { table, variable } | Origin::Entries { table, variable } => {
                Some((table, variable))
            }
        }
    }
}

/// How a row is named in a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// By one variable: a node or an element.
    Value(String),
    /// By the key and the value of an entry.
    Entry(String, String),
}

impl Variable {
    /// The value in a row: null where the path leads nowhere.
    #[must_use]
    pub fn of(&self, row: &Value) -> Value {
        let mut at = row;
        for access in &self.path {
            at = match (access, at) {
                (Access::Field(name), Value::Record(fields)) => match fields.get(name) {
                    Some(value) => value,
                    None => return Value::Null,
                },
                (Access::Payload(wanted), Value::Variant { name, payload }) if name == wanted => {
                    payload
                }
                (Access::Size, container) => return size(container),
                // The caller gives the key or the value of the entry.
                (Access::Key | Access::Entry, value) => value,
                _ => return Value::Null,
            };
        }
        at.clone()
    }

    /// The expression for it, given how the row is named.
    #[must_use]
    pub fn expr(&self, row: &Row) -> Expr {
        let name = |name: &str| Expr::new(ExprKind::Name(name.to_owned()));
        let mut expr = match (row, self.path.first()) {
            (Row::Value(variable), _) => name(variable),
            (Row::Entry(key, _), Some(Access::Key)) => name(key),
            (Row::Entry(_, value), _) => name(value),
        };
        for access in &self.path {
            expr = match access {
                Access::Field(field) | Access::Payload(field) => {
                    Expr::new(ExprKind::Field(Box::new(expr), Ident::new(field)))
                }
                Access::Size => Expr::new(ExprKind::Call(Ident::new("len"), vec![expr])),
                Access::Key | Access::Entry => expr,
            };
        }
        expr
    }

    /// Whether it says which node: by id.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(self.ty, Type::Node(_))
    }

    /// Whether it is the key of an entry or below it.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.path.first() == Some(&Access::Key)
    }
}

/// The number of elements; null has none.
fn size(container: &Value) -> Value {
    let len = match container {
        Value::Null => 0,
        Value::List(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Map(entries) => entries.len(),
        _ => return Value::Null,
    };
    Value::Int(i64::try_from(len).unwrap_or(i64::MAX))
}

/// Adds the variables that can be reached from a value of this type without ranging over anything.
fn expand(path: Vec<Access>, ty: &Type, is_state: bool, found: &mut Vec<Variable>) {
    let below = |access: Access| {
        let mut longer = path.clone();
        longer.push(access);
        longer
    };
    match ty {
        Type::Record(fields) => {
            let is_element = path.iter().all(|a| matches!(a, Access::Key | Access::Entry));
            if is_state && !path.is_empty() || !is_state && is_element {
                // A part or an element as a whole: the same in two nodes, or an argument of a
                // predicate.
                found.push(Variable { path: path.clone(), ty: ty.clone() });
            }
            for (name, ty) in fields {
                expand(below(Access::Field(name.clone())), ty, is_state, found);
            }
        }
        Type::Variant(variants) => {
            found.push(Variable { path: path.clone(), ty: ty.clone() });
            for (name, ty) in variants.iter().filter(|(_, ty)| **ty != Type::Null) {
                expand(below(Access::Payload(name.clone())), ty, is_state, found);
            }
        }
        Type::List(_) | Type::Set(_) | Type::Map(..) => {
            found.push(Variable { path: path.clone(), ty: ty.clone() });
            found.push(Variable { path: below(Access::Size), ty: Type::Int });
        }
        Type::Null => {}
        _ => found.push(Variable { path, ty: ty.clone() }),
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = everhold_property::print_expr(&self.expr(&Row::Value(String::from("x"))));
        // Below a node, its fields by name; a row itself as `x`.
        match (self.path.first(), self.path.len()) {
            (None, _) => f.write_str("x"),
            _ => f.write_str(&text),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.name.is_empty() { "nodes" } else { &self.name };
        for (id, table) in self.tables.iter().enumerate() {
            let shown = |variable: &Variable, state: bool| {
                let text = variable.to_string();
                if state { text.replacen("x.", "", 1) } else { text }
            };
            f.write_str(what)?;
            for (parent, variable) in self.way_to(id) {
                let container = &self.tables[parent].variables[variable];
                write!(f, ", x in {}", shown(container, parent == 0))?;
            }
            let names: Vec<String> =
                table.variables.iter().map(|variable| shown(variable, id == 0)).collect();
            writeln!(f, ": {}", names.join(", "))?;
        }
        Ok(())
    }
}
