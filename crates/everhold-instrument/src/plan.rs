//! The decision what is recorded, where, and for which node.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Facts, Kind, Point, PointKind, VarId};
use crate::slice::Slices;

/// The places at which variables are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// The marks if there are any, or else the ends of functions and the calls that communicate.
    #[default]
    Auto,
    /// The ends of functions.
    Ends,
    /// The calls that communicate.
    Network,
    /// The marks.
    Marks,
    /// All of them.
    All,
}

/// The nodes of an instrumented process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The type that looks like a node, if there is one, or else the process.
    #[default]
    Auto,
    /// The process.
    Process,
    /// The values of a type, which are told apart by a field or by their addresses.
    Type {
        /// The type.
        of: String,
        /// The field.
        field: Option<String>,
    },
}

/// If fewer fields and globals than these interact with the network, the state is in local
/// variables.
const STATES_MIN: usize = 3;

/// The fields that name a node, in the order in which they are preferred.
const IDENTITIES: &[&str] = &[
    "id",
    "node_id",
    "self_id",
    "me",
    "my_id",
    "local_id",
    "identity",
    "self_name",
    "node",
    "name",
    "addr",
    "address",
    "local_addr",
    "localID",
    "ID",
    "Id",
    "nodeID",
    "selfID",
    "Name",
    "localAddr",
    "Addr",
    "self",
];

/// A statement that records variables.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The name of the place.
    pub site: String,
    /// The file, as a number in [`Facts::files`].
    pub file: usize,
    /// The offset in the file, in bytes.
    pub offset: usize,
    /// The line.
    pub line: usize,
    /// The names and expressions of the variables.
    pub values: Vec<(String, String)>,
    /// The node to which they belong, if it is not the process.
    pub node: Option<Node>,
}

/// The node to which variables belong: a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The type.
    pub kind: String,
    /// The expression that identifies it; without one its address does.
    pub identity: Option<String>,
    /// The expression that reads the value.
    pub value: String,
}

/// The statements to insert.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The statements, in the order of the files and offsets.
    pub statements: Vec<Statement>,
    /// The type whose values are nodes, with the field that tells them apart.
    pub node: Option<(String, Option<String>)>,
}

impl Plan {
    /// Decides what to record: fields and variables of packages, and with `locals` also the local
    /// ones. These are recorded at marks too, and if there is hardly any other.
    #[must_use]
    pub fn of(facts: &Facts, slices: &Slices, places: Places, nodes: &Nodes, locals: bool) -> Plan {
        let node = match nodes {
            Nodes::Process => None,
            Nodes::Type { of, field } => Some((of.clone(), field.clone())),
            Nodes::Auto => node_type(facts, slices),
        };
        let has_marks = facts.points.iter().any(|point| point.kind == PointKind::Mark);
        let is_wanted = |point: &&Point| match places {
            Places::Auto if has_marks => point.kind == PointKind::Mark,
            Places::Auto => point.kind != PointKind::Mark,
            Places::Ends => point.kind == PointKind::End,
            Places::Network => point.kind == PointKind::Network,
            Places::Marks => point.kind == PointKind::Mark,
            Places::All => true,
        };
        // Where the state is in fields, a local variable says what was once computed.
        let is_state = |var: &VarId| matches!(facts.vars[*var].kind, Kind::Field | Kind::Global);
        let states =
            (0..facts.vars.len()).filter(|var| is_state(var) && slices.interacts(facts, *var));
        let locals = locals || states.count() < STATES_MIN;
        let mut places: BTreeMap<(usize, usize), Statement> = BTreeMap::new();
        for point in facts.points.iter().filter(is_wanted) {
            let statement = statement(
                facts,
                slices,
                point,
                node.as_ref(),
                locals || point.kind == PointKind::Mark,
            );
            if !statement.values.is_empty() {
                places.entry((point.file, point.offset)).or_insert(statement);
            }
        }
        Plan { statements: places.into_values().collect(), node }
    }
}

fn statement(
    facts: &Facts,
    slices: &Slices,
    point: &Point,
    node: Option<&(String, Option<String>)>,
    locals: bool,
) -> Statement {
    let function = &facts.functions[point.function];
    let owner = node.and_then(|(of, field)| {
        let receiver = point.receiver.as_ref().filter(|receiver| receiver.of == *of)?;
        let value = receiver.expression.clone();
        let is_field = |(var, _): &&(VarId, String)| {
            facts.vars[*var].kind == Kind::Field && Some(&facts.vars[*var].name) == field.as_ref()
        };
        let read = point.visible.iter().find(is_field).map(|(_, expression)| expression.clone());
        let identity =
            field.as_ref().map(|field| read.unwrap_or_else(|| format!("{value}.{field}")));
        Some(Node { kind: of.clone(), identity, value })
    });
    let is_node = owner.is_some();
    // If some values are nodes, other values are not a part of the state of the process.
    let is_apart = node.is_some() && !is_node && point.kind != PointKind::Mark;
    let mut seen = BTreeSet::new();
    let mut values = Vec::new();
    for (var, expression) in &point.visible {
        let is_state = locals || matches!(facts.vars[*var].kind, Kind::Field | Kind::Global);
        if is_state && !is_apart && slices.interacts(facts, *var) {
            let name =
                recorded_name(facts, *var, node.filter(|_| is_node).map(|(of, _)| of.as_str()));
            if seen.insert(name.clone()) {
                values.push((name, expression.clone()));
            }
        }
    }
    values.sort();
    let site = format!("{}:{}", function.name, point.line);
    let (file, offset, line) = (point.file, point.offset, point.line);
    Statement { site, file, offset, line, values, node: owner }
}

/// Returns the name under which a variable is recorded: a field of the node itself has its own
/// name, others have that of their type or function before it.
fn recorded_name(facts: &Facts, var: VarId, node: Option<&str>) -> String {
    let var = &facts.vars[var];
    let name = match var.kind {
        Kind::Field if node == Some(var.owner.as_str()) => var.name.clone(),
        Kind::Global => var.name.clone(),
        _ => format!("{}_{}", var.owner, var.name),
    };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = name.chars().map(plain).collect();
    name.replace("__", "_")
}

/// Returns the type whose values look like nodes: it has a field that names it, methods that can be
/// observed, and the most variables that interact with the network.
fn node_type(facts: &Facts, slices: &Slices) -> Option<(String, Option<String>)> {
    let mut fields: BTreeMap<&str, (usize, Option<usize>)> = BTreeMap::new();
    for (number, var) in facts.vars.iter().enumerate().filter(|(_, var)| var.kind == Kind::Field) {
        let (count, identity) = fields.entry(&var.owner).or_default();
        *count += usize::from(slices.interacts(facts, number));
        let rank = IDENTITIES.iter().position(|name| *name == var.name);
        *identity = [*identity, rank].into_iter().flatten().min();
    }
    let receivers: Vec<&str> = facts
        .points
        .iter()
        .filter_map(|point| Some(point.receiver.as_ref()?.of.as_str()))
        .collect();
    let methods = |of: &str| {
        let own = facts.functions.iter().filter(|function| function.owner.as_deref() == Some(of));
        own.count()
    };
    let candidates = fields.iter().filter(|(of, (count, identity))| {
        *count >= 3 && identity.is_some() && receivers.contains(of) && methods(of) >= 3
    });
    let best = candidates.max_by_key(|(of, (count, _))| (count * methods(of), *of))?;
    let (of, (_, identity)) = best;
    let identity = identity.map(|rank| IDENTITIES[rank].to_owned());
    Some(((*of).to_owned(), identity))
}
