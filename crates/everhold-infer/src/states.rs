//! Each distinct local state once, its variables in columns, and where it occurred.

use std::collections::BTreeSet;

use everhold_property::Schema;
use everhold_trace::{EventId, EventKind, Execution, NodeId, Value};

use crate::dictionary::{Code, Dictionary};
use crate::outcome::Bound;
use crate::variables::{Access, Kind, KindId, Origin, Table, TableId, Variables};

/// The number of a distinct state among those of its kind of node.
pub type StateId = u32;

/// How many rows the table of a container may have, over all distinct states.
const ROWS_MAX: usize = 20_000_000;

/// The local states of several runs: the distinct ones, coded, and their sequences.
///
/// ```
/// use everhold_infer::States;
/// use everhold_trace::{EventKind, TraceBuilder, Value};
///
/// let mut trace = TraceBuilder::new();
/// let node = trace.add_node("a", "server");
/// for term in [1, 2, 1] {
///     trace.begin(node, EventKind::Local { name: "step".into() });
///     trace.observe(Value::record([("term", term)]));
/// }
/// let states = States::of(&[trace.finish()]);
/// let server = &states.kinds[0];
/// assert_eq!(server.times, [2, 1]); // `term: 1` occurred twice
/// assert_eq!(states.runs[0].nodes[0].states, [States::ABSENT, 0, 1, 0]);
/// let terms: Vec<_> = server.column(0, 0).iter().map(|c| states.values.value(*c)).collect();
/// assert_eq!(terms, [&Value::Int(1), &Value::Int(2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct States {
    /// The distinct values.
    pub values: Dictionary,
    /// The variables of each kind.
    pub variables: Variables,
    /// The distinct states of each kind, in the order of [`Variables::kinds`].
    pub kinds: Vec<KindStates>,
    /// The runs, in the order given.
    pub runs: Vec<Run>,
    /// Limits that were reached.
    pub bounds: Vec<Bound>,
}

/// The distinct states of one kind of node.
#[derive(Clone, Debug, Default)]
pub struct KindStates {
    /// The whole state, by [`StateId`].
    pub whole: Vec<Code>,
    /// How many local states of all nodes and runs are this one.
    pub times: Vec<u64>,
    /// For each [`Table`] its rows and columns.
    tables: Vec<Columns>,
}

/// The rows of a table in columns.
#[derive(Clone, Debug, Default)]
struct Columns {
    /// For each row the row of the parent table that it belongs to, ascending; of the table of
    /// states, the row itself.
    owner: Vec<u32>,
    /// For each variable its code in each row.
    codes: Vec<Vec<Code>>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// Its nodes, by [`NodeId`].
    pub nodes: Vec<NodeRun>,
    /// The changes of each event of the recorded order: together with a vector of
    /// [`States::ABSENT`] to start from, the sequence of global snapshots.
    pub steps: Vec<Step>,
}

/// One node in one run.
#[derive(Clone, Debug)]
pub struct NodeRun {
    /// Its name.
    pub name: String,
    /// Its kind; `None` if no node of its kind ever shows a state.
    pub kind: Option<KindId>,
    /// Its state after each number of events, from 0, or [`States::ABSENT`]: before its first
    /// observation, and from a crash to the next.
    pub states: Vec<StateId>,
    /// Whether it is up, for the same.
    pub up: Vec<bool>,
    /// How often it had been restarted, for the same.
    pub incarnation: Vec<u32>,
}

/// One event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub event: EventId,
    /// Whose it is.
    pub node: NodeId,
    /// How many events of the node have happened.
    pub count: u32,
    /// The state of the node after it, or [`States::ABSENT`].
    pub state: StateId,
}

impl States {
    /// A node that shows no state.
    pub const ABSENT: StateId = StateId::MAX;

    /// Codes the states of these runs.
    #[must_use]
    pub fn of(executions: &[Execution]) -> States {
        States::of_all(&executions.iter().collect::<Vec<_>>())
    }

    /// Like [`States::of`], for runs that lie apart.
    #[must_use]
    pub fn of_all(executions: &[&Execution]) -> States {
        States::within(executions, ROWS_MAX)
    }

    /// Like [`States::of_all`], with at most `rows_max` elements of each container.
    #[must_use]
    pub fn within(executions: &[&Execution], rows_max: usize) -> States {
        let mut states = States::default();
        let names: BTreeSet<&str> = executions
            .iter()
            .flat_map(|execution| execution.nodes().iter().map(|node| node.kind.as_str()))
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        states.kinds = names.iter().map(|_| KindStates::default()).collect();
        states.number(executions, &names);
        let mut schema = Schema::default();
        for (name, kind) in names.iter().zip(&states.kinds) {
            for code in &kind.whole {
                schema.observe(name, states.values.value(*code));
            }
        }
        states.drop_silent_kinds();
        states.variables = Variables::of(&schema);
        states.fill(rows_max);
        states
    }

    /// Gives each distinct state its number, and each run its sequences.
    fn number(&mut self, executions: &[&Execution], kinds: &[&str]) {
        // By kind and code.
        let mut ids = vec![Vec::new(); kinds.len()];
        for execution in executions {
            let local = execution.local_states();
            let mut nodes = Vec::new();
            for node in execution.node_ids() {
                let info = execution.node(node);
                let kind = kinds.binary_search(&info.kind.as_str()).expect("all kinds are listed");
                let mut states: Vec<StateId> = Vec::new();
                for count in 0..=execution.events_of(node).len() {
                    let same =
                        count > 0 && local.version(node, count) == local.version(node, count - 1);
                    let state = match local.at(node, count) {
                        _ if same => states[count - 1],
                        Some(state) => self.state_id(kind, state, &mut ids[kind]),
                        None => States::ABSENT,
                    };
                    if state != States::ABSENT {
                        self.kinds[kind].times[state as usize] += 1;
                    }
                    states.push(state);
                }
                let (up, incarnation) = lives(execution, node);
                let (name, kind) = (info.name.clone(), Some(kind));
                nodes.push(NodeRun { name, kind, states, up, incarnation });
            }
            let steps = steps(execution, &nodes);
            self.runs.push(Run { name: execution.name().to_owned(), nodes, steps });
        }
    }

    fn state_id(&mut self, kind: KindId, state: &Value, ids: &mut Vec<StateId>) -> StateId {
        let code = self.values.code(state);
        if ids.len() <= code.index() {
            ids.resize(code.index() + 1, States::ABSENT);
        }
        let id = &mut ids[code.index()];
        if *id == States::ABSENT {
            let known = &mut self.kinds[kind];
            *id = StateId::try_from(known.whole.len()).expect("fewer than 2^32 states");
            known.whole.push(code);
            known.times.push(0);
        }
        *id
    }

    /// Kinds whose nodes never show a state have no place among the kinds.
    fn drop_silent_kinds(&mut self) {
        let mut place = 0;
        let places: Vec<Option<KindId>> = self
            .kinds
            .iter()
            .map(|kind| {
                place += usize::from(!kind.is_empty());
                (!kind.is_empty()).then(|| place - 1)
            })
            .collect();
        self.kinds.retain(|kind| !kind.is_empty());
        for node in self.runs.iter_mut().flat_map(|run| &mut run.nodes) {
            node.kind = node.kind.and_then(|kind| places[kind]);
        }
    }

    /// Fills the columns of all tables.
    fn fill(&mut self, rows_max: usize) {
        for (kind, states) in self.variables.kinds.iter().zip(&mut self.kinds) {
            for table in &kind.tables {
                let columns = match table.origin {
                    Origin::State => {
                        let rows = StateId::try_from(states.whole.len()).expect("fewer than 2^32");
                        let row = |code: &Code| vec![*code];
                        let roots: Vec<Vec<Code>> = states.whole.iter().map(row).collect();
                        columns(table, (0..rows).collect(), &roots, &mut self.values)
                    }
                    Origin::Elements { table: parent, variable }
                    | Origin::Entries { table: parent, variable } => {
                        let containers = &states.tables[parent].codes[variable];
                        let (owner, roots, all) = rows_of(containers, rows_max, &mut self.values);
                        if roots.len() < all {
                            let name = &kind.tables[parent].variables[variable];
                            let name = name.to_string().replacen("x.", "", 1);
                            let (looked_at, all) = (roots.len() as u64, all as u64);
                            self.bounds.push(Bound::Elements { of: Some(name), looked_at, all });
                        }
                        columns(table, owner, &roots, &mut self.values)
                    }
                };
                states.tables.push(columns);
            }
        }
    }

    /// The value of a whole state.
    #[must_use]
    pub fn value(&self, kind: KindId, state: StateId) -> &Value {
        self.values.value(self.kinds[kind].whole[state as usize])
    }

    /// Calls `visit` with each global snapshot of a run in the recorded order: the state of every
    /// node after the step, the first before any.
    pub fn snapshots(&self, run: usize, mut visit: impl FnMut(Option<Step>, &[StateId])) {
        let run = &self.runs[run];
        let mut now: Vec<StateId> = run.nodes.iter().map(|node| node.states[0]).collect();
        visit(None, &now);
        for step in &run.steps {
            now[step.node.index()] = step.state;
            visit(Some(*step), &now);
        }
    }
}

impl KindStates {
    /// How many distinct states there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.whole.len()
    }

    /// Whether no node of the kind showed a state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The codes of a variable, one for each row of its table; rows of table 0 are states.
    #[must_use]
    pub fn column(&self, table: usize, variable: usize) -> &[Code] {
        &self.tables[table].codes[variable]
    }

    /// For each row of a table the row of the parent table that it belongs to, ascending.
    #[must_use]
    pub fn owners(&self, table: usize) -> &[u32] {
        &self.tables[table].owner
    }

    /// Where the rows of each distinct state start in a table, and the end of the last.
    ///
    /// The table may lie below others, whose rows then lead to the state.
    pub(crate) fn row_starts(&self, kind: &Kind, table: TableId) -> Vec<u32> {
        let mut counts = vec![0_u32; self.len() + 1];
        for row in 0..self.owners(table).len() {
            let (mut at, mut row) = (table, row);
            while at != 0 {
                row = self.owners(at)[row] as usize;
                at = kind.tables[at].origin.container().map_or(0, |(parent, _)| parent);
            }
            counts[row + 1] += 1;
        }
        for place in 1..counts.len() {
            counts[place] += counts[place - 1];
        }
        counts
    }
}

/// Whether a node is up and in which life, after each number of its events.
fn lives(execution: &Execution, node: NodeId) -> (Vec<bool>, Vec<u32>) {
    let (mut up, mut incarnation) = (vec![true], vec![0]);
    for event in execution.events_of(node) {
        let kind = &execution.event(*event).kind;
        let (was_up, life) = (up[up.len() - 1], incarnation[incarnation.len() - 1]);
        up.push(match kind {
            EventKind::Crash => false,
            EventKind::Start | EventKind::Restart => true,
            _ => was_up,
        });
        incarnation.push(life + u32::from(*kind == EventKind::Restart));
    }
    (up, incarnation)
}

fn steps(execution: &Execution, nodes: &[NodeRun]) -> Vec<Step> {
    let step = |place: usize| {
        let event = EventId(u32::try_from(place).expect("event ids are 32 bits"));
        let node = execution.event(event).node;
        let count = execution.index_in_node(event) + 1;
        let state = nodes[node.index()].states[count];
        Step { event, node, count: u32::try_from(count).expect("event ids are 32 bits"), state }
    };
    (0..execution.events().len()).map(step).collect()
}

/// The columns of a table, given the roots of each row: the element, or key and value.
fn columns(
    table: &Table,
    owner: Vec<u32>,
    roots: &[Vec<Code>],
    values: &mut Dictionary,
) -> Columns {
    let codes = table.variables.iter().map(|variable| {
        // Equal roots have equal parts.
        let place = usize::from(variable.path.first() == Some(&Access::Entry));
        let mut known: Vec<Option<Code>> = vec![None; values.len()];
        roots
            .iter()
            .map(|roots| {
                let root = roots[place];
                *known[root.index()].get_or_insert_with(|| {
                    let value = variable.of(values.value(root));
                    values.code(&value)
                })
            })
            .collect()
    });
    let codes = codes.collect();
    Columns { owner, codes }
}

/// The elements of containers: for each the row of its container, and its roots.
/// Containers that do not fit are left out, and only counted: the last number is that of all
/// elements.
fn rows_of(
    containers: &[Code],
    rows_max: usize,
    values: &mut Dictionary,
) -> (Vec<u32>, Vec<Vec<Code>>, usize) {
    let mut known: Vec<Option<Vec<Vec<Code>>>> = vec![None; values.len()];
    let (mut owner, mut roots, mut all) = (Vec::new(), Vec::new(), 0);
    for (row, container) in containers.iter().enumerate() {
        if known[container.index()].is_none() {
            let value = values.value(*container).clone();
            known[container.index()] = Some(elements(&value, values));
        }
        let elements = known[container.index()].as_ref().expect("just made");
        all += elements.len();
        if all > rows_max {
            continue;
        }
        let row = u32::try_from(row).expect("fewer than 2^32 states");
        owner.extend(std::iter::repeat_n(row, elements.len()));
        roots.extend(elements.iter().cloned());
    }
    (owner, roots, all)
}

fn elements(container: &Value, values: &mut Dictionary) -> Vec<Vec<Code>> {
    match container {
        Value::List(items) => items.iter().map(|item| vec![values.code(item)]).collect(),
        Value::Set(items) => items.iter().map(|item| vec![values.code(item)]).collect(),
        Value::Map(entries) => {
            entries.iter().map(|(k, v)| vec![values.code(k), values.code(v)]).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_trace::TraceBuilder;

    fn state(term: i64, log: &[i64]) -> Value {
        Value::record([("log", Value::list(log.iter().copied())), ("term", term.into())])
    }

    /// Two kinds, a crash and a restart.
    fn execution() -> Execution {
        let mut trace = TraceBuilder::new();
        let (s, c) = (trace.add_node("s", "server"), trace.add_node("c", "client"));
        let silent = trace.add_node("q", "quiet");
        trace.begin(s, EventKind::Start);
        trace.observe(state(1, &[7, 8]));
        trace.begin(c, EventKind::Start);
        trace.observe(Value::record([("waiting", true)]));
        trace.begin(silent, EventKind::Start);
        trace.begin(s, EventKind::Crash);
        trace.begin(s, EventKind::Restart);
        trace.observe(state(1, &[]));
        trace.begin(s, EventKind::Local { name: "again".into() });
        trace.observe(state(1, &[7, 8]));
        trace.finish()
    }

    #[test]
    fn states_are_numbered_by_kind_and_absent_while_crashed() {
        let states = States::of(&[execution(), execution()]);
        let absent = States::ABSENT;
        let [s, c, q] = &states.runs[1].nodes[..] else { panic!("three nodes") };
        assert_eq!(s.states, [absent, 0, absent, 1, 0]);
        assert_eq!(s.up, [true, true, false, true, true]);
        assert_eq!(s.incarnation, [0, 0, 0, 1, 1]);
        assert_eq!((c.kind, c.states.as_slice()), (Some(0), [absent, 0].as_slice()));
        assert_eq!((q.kind, q.states.as_slice()), (None, [absent, absent].as_slice()));
        assert_eq!(states.kinds[s.kind.expect("it shows states")].times, [4, 2]);
    }

    #[test]
    fn elements_have_rows_of_their_own() {
        let states = States::of(&[execution()]);
        let server = &states.kinds[1];
        let table = &states.variables.kinds[1].tables[1];
        assert_eq!(table.origin, Origin::Elements { table: 0, variable: 0 });
        assert_eq!(server.owners(1), [0, 0]);
        let shown: Vec<_> = server.column(1, 0).iter().map(|c| states.values.value(*c)).collect();
        assert_eq!(shown, [&Value::Int(7), &Value::Int(8)]);
        let sizes: Vec<_> = server.column(0, 1).iter().map(|c| states.values.value(*c)).collect();
        assert_eq!(sizes, [&Value::Int(2), &Value::Int(0)]);
    }

    #[test]
    fn snapshots_change_one_node_at_a_time() {
        let states = States::of(&[execution()]);
        let mut seen = Vec::new();
        states.snapshots(0, |_, now| seen.push(now.to_vec()));
        let absent = States::ABSENT;
        assert_eq!(seen.len(), 7);
        assert_eq!(seen[2], [0, 0, absent]);
        assert_eq!(seen[4], [absent, 0, absent]);
        assert_eq!(seen[6], [0, 0, absent]);
    }
}
