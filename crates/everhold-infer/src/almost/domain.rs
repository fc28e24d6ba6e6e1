//! Classes of properties. The variables of a class range over nodes, nodes that other nodes refer to,
//! and elements.

use everhold_property::{BinaryOp, Quantifier};
use everhold_property::{Binder, Domain as Over, Expr, ExprKind, Ident, Pattern};
use everhold_trace::Value;

use crate::relation::tree::{binary, call, constant, name};
use crate::states::States;
use crate::variables::{KindId, Row, TableId, Variables};

/// One class of properties: those with these variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The node variables. Without a link they are bound to different nodes.
    pub(crate) kinds: Vec<KindId>,
    /// The second node is one that the first refers to.
    pub(crate) link: Option<Link>,
    /// The element variables.
    pub(crate) ranges: Vec<Range>,
    /// Whether its properties are about the whole state, too.
    pub(crate) global: bool,
}

/// An element variable: the rows of a table of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Which node variable.
    pub(crate) node: usize,
    /// Which table of its kind.
    pub(crate) table: TableId,
}

/// A variable of the first node, or of the first element variable, that names a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) table: TableId,
    pub(crate) variable: usize,
}

const ELEMENT_NAMES: [[&str; 4]; 2] = [["x", "x2", "x3", "x4"], ["y", "y2", "y3", "y4"]];

impl Domain {
    /// All classes with up to `nodes_max` nodes; with `globals`, also those about the global state.
    pub(crate) fn all(states: &States, nodes_max: usize, globals: bool) -> Vec<Domain> {
        let kinds = &states.variables.kinds;
        let mut found = Vec::new();
        for kind in 0..kinds.len() {
            alone(kind, kinds[kind].tables.len(), &mut found);
            if nodes_max >= 2 {
                linked(kind, &states.variables, &mut found);
                for other in kind..kinds.len() {
                    paired([kind, other], &states.variables, &mut found);
                }
            }
            for count in 3..=nodes_max {
                found.push(Domain::of(vec![kind; count], None, Vec::new()));
            }
        }
        if globals {
            // Whole states are many; more variables next to them would be too many.
            let fits = |domain: &&Domain| {
                domain.link.is_none() && domain.kinds.len() + domain.ranges.len() <= 2
            };
            let with = |domain: &Domain| Domain { global: true, ..domain.clone() };
            let all: Vec<Domain> = found.iter().filter(fits).map(with).collect();
            found.extend(all);
        }
        found
    }

    fn of(kinds: Vec<KindId>, link: Option<Link>, ranges: Vec<Range>) -> Domain {
        Domain { kinds, link, ranges, global: false }
    }

    /// The number of states of a binding: those of its nodes, and the global state if it reads it.
    pub(crate) fn places(&self) -> usize {
        self.kinds.len() + usize::from(self.global)
    }

    /// Whether swapping the two nodes changes nothing.
    pub(crate) fn is_symmetric(&self) -> bool {
        let same_ranges = match self.ranges[..] {
            [] => true,
            [a, b] => a.node != b.node && a.table == b.table,
            _ => false,
        };
        self.link.is_none()
            && self.kinds.len() == 2
            && self.kinds[0] == self.kinds[1]
            && same_ranges
    }

    fn name(&self, node: usize) -> &'static str {
        match (self.link.is_some(), self.kinds.len()) {
            (true, _) | (_, 1) => "n",
            _ => ["a", "b", "c", "d", "e", "f", "g", "h"][node.min(7)],
        }
    }

    /// The expression for a node variable.
    pub(crate) fn node(&self, node: usize, variables: &Variables) -> Expr {
        match (self.link, node) {
            (Some(link), 1) => {
                let row =
                    if link.table == 0 { Row::Value("n".into()) } else { self.row(0, variables) };
                variables.kinds[self.kinds[0]].tables[link.table].variables[link.variable]
                    .expr(&row)
            }
            _ => name(self.name(node)),
        }
    }

    /// How the row of an element variable is named.
    pub(crate) fn row(&self, range: usize, variables: &Variables) -> Row {
        let Range { node, table } = self.ranges[range];
        let kind = &variables.kinds[self.kinds[node]];
        let binders = kind.binders(table, self.name(node), &ELEMENT_NAMES[range]);
        match &binders.last().expect("a table of elements has a binder").pattern {
            Pattern::Names(names) => Row::Value(names[0].name.clone()),
            Pattern::Entry(key, value) => Row::Entry(key.name.clone(), value.name.clone()),
        }
    }

    /// `forall` over this class.
    pub(crate) fn forall(&self, body: Expr, variables: &Variables) -> Expr {
        let mut binders = Vec::new();
        let free = if self.link.is_some() { 1 } else { self.kinds.len() };
        for node in 0..free {
            let kind = (variables.kinds.len() > 1).then(|| self.kind_name(node, variables));
            let domain = Over::Nodes { kind: kind.filter(|kind| !kind.is_empty()), all: false };
            let ident = Ident::new(self.name(node));
            match binders.last_mut() {
                Some(Binder { pattern: Pattern::Names(names), domain: before })
                    if *before == domain =>
                {
                    names.push(ident);
                }
                _ => binders.push(Binder { pattern: Pattern::Names(vec![ident]), domain }),
            }
        }
        for (place, range) in self.ranges.iter().enumerate() {
            let kind = &variables.kinds[self.kinds[range.node]];
            binders.extend(kind.binders(range.table, self.name(range.node), &ELEMENT_NAMES[place]));
        }
        let guard = self.guard(variables).map(Box::new);
        let over = everhold_property::Over { binders, guard };
        Expr::new(ExprKind::Quantified {
            quantifier: Quantifier::Forall,
            over,
            body: Box::new(body),
        })
    }

    fn kind_name(&self, node: usize, variables: &Variables) -> String {
        variables.kinds[self.kinds[node]].name.clone()
    }

    fn guard(&self, variables: &Variables) -> Option<Expr> {
        let mut parts = Vec::new();
        if self.link.is_some() {
            let target = self.node(1, variables);
            if variables.kinds.len() > 1 {
                let kind = Value::Text(self.kind_name(1, variables));
                let asked = call("kind", vec![target]);
                parts.push(binary(BinaryOp::Eq, asked, constant(&kind)));
            } else {
                parts.push(binary(BinaryOp::Ne, target, constant(&Value::Null)));
            }
        } else {
            for (i, kind) in self.kinds.iter().enumerate() {
                for (j, other) in self.kinds.iter().enumerate().skip(i + 1) {
                    if kind == other {
                        parts.push(binary(BinaryOp::Ne, name(self.name(i)), name(self.name(j))));
                    }
                }
            }
        }
        parts.into_iter().reduce(|a, b| binary(BinaryOp::And, a, b))
    }
}

/// One node, with none, one or two of its containers.
fn alone(kind: KindId, tables: usize, found: &mut Vec<Domain>) {
    let one = |ranges: Vec<Range>| Domain::of(vec![kind], None, ranges);
    let range = |table| Range { node: 0, table };
    found.push(one(Vec::new()));
    for first in 1..tables {
        found.push(one(vec![range(first)]));
    }
    for first in 1..tables {
        for second in first + 1..tables {
            found.push(one(vec![range(first), range(second)]));
        }
    }
}

/// A node and one that it refers to, by a variable or by an element.
fn linked(kind: KindId, variables: &Variables, found: &mut Vec<Domain>) {
    for (table, of) in variables.kinds[kind].tables.iter().enumerate() {
        for (variable, _) in of.variables.iter().enumerate().filter(|(_, v)| v.is_reference()) {
            for target in 0..variables.kinds.len() {
                let ranges = (table > 0).then_some(Range { node: 0, table });
                let link = Some(Link { table, variable });
                found.push(Domain::of(vec![kind, target], link, ranges.into_iter().collect()));
            }
        }
    }
}

/// Two different nodes, with elements of one of them or of the same container of both: nodes of
/// different kinds may have a container of the same name.
fn paired(kinds: [KindId; 2], variables: &Variables, found: &mut Vec<Domain>) {
    let two = |ranges: Vec<Range>| Domain::of(kinds.to_vec(), None, ranges);
    let tables = |node: usize| 1..variables.kinds[kinds[node]].tables.len();
    found.push(two(Vec::new()));
    for table in tables(0) {
        found.push(two(vec![Range { node: 0, table }]));
    }
    if kinds[0] != kinds[1] {
        for table in tables(1) {
            found.push(two(vec![Range { node: 1, table }]));
        }
    }
    let named = |node: usize, table: TableId| {
        let kind = &variables.kinds[kinds[node]];
        let (parent, variable) = kind.tables[table].origin.container()?;
        (parent == 0).then(|| kind.tables[0].variables[variable].to_string())
    };
    for table in tables(0) {
        let same = match kinds[0] == kinds[1] {
            true => Some(table),
            false => tables(1)
                .find(|other| named(0, table).is_some() && named(0, table) == named(1, *other)),
        };
        let other = same.map(|table| Range { node: 1, table });
        found.extend(other.map(|other| two(vec![Range { node: 0, table }, other])));
    }
}
