//! The number of states per second on which a property of two nodes and four literals is judged.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use everhold::property::{
    Changed, Checker, Evaluator, Library, Limits, Member, NodeId, Row, Rule, Snapshot, State,
    Tuples, Value, check_ordered, evaluate, parse,
};
use everhold_trace::Order;

use crate::cuts::traces::ring;
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, Work, race};
use crate::table::{Table, short};

const FOUR_LITERALS: &str = r#"always "one leader per term":
  forall a, b in nodes where a != b:
    not (a.role == "leader" and b.role == "leader" and a.term == b.term)"#;
/// The required number of states per second.
const RATE: f64 = 5e6;
/// The row to which the bar applies.
const EXECUTION: &str = "all cuts of a recorded execution";
const NODES: [u32; 3] = [2, 5, 10];
const STATES: i64 = 64;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let mut table = Table::new(&["states per CPU-second", "2 nodes", "5 nodes", "10 nodes"]);
    let columns = NODES.map(|nodes| race(&contenders(nodes, size), size));
    for at in 0..columns[0].len() {
        let cells = columns.iter().map(|column| short(column[at].units));
        table.row([columns[0][at].name.clone()].into_iter().chain(cells).collect());
    }
    table.print("Evaluation of a property of two nodes and four literals");
    for name in [EXECUTION, PAIRS] {
        let rates = columns[0].iter().find(|rates: &&Rates| rates.name == name);
        let rate = rates.expect("it was measured").units;
        scores.hold(
            format!("{name}, to 5 M states a CPU-second"),
            rate / RATE,
            Bound::AtLeast(1.0),
        );
    }
}

const PAIRS: &str = "compatible pairs, rows made before";

fn contenders(nodes: u32, size: Size) -> Vec<Contender> {
    let property = &parse(FOUR_LITERALS).properties[0];
    let rule = Rule::new(property, &Library::new());
    let cluster = Cluster::new(nodes);
    vec![
        recorded(&rule, nodes, size),
        contender(PAIRS, pairs(&rule, &cluster)),
        contender("incremental evaluator, rows made before", rows(&rule, &cluster)),
        contender("incremental evaluator, from values", values(&rule, &cluster)),
        contender("checker, as during a search", checker(&rule, &cluster)),
        contender("plain evaluator", plain(&rule, &cluster)),
    ]
}

/// A contender that judges one state in each round.
fn contender(name: &str, judge: impl FnMut(u64) + 'static) -> Contender {
    let judge = RefCell::new(judge);
    Contender::new(name, move |turns| {
        let states = turns * 1_000;
        (0..states).for_each(|round| (judge.borrow_mut())(round));
        Work { executions: turns, units: states, steps: states }
    })
}

/// The whole path from an execution to a verdict.
fn recorded(rule: &Rule, nodes: u32, size: Size) -> Contender {
    let rule = rule.clone();
    let (rounds, work) = (size.pick(2, 10), size.pick(10, 1_000 / nodes as usize));
    let execution = ring(nodes, rounds, work, |node, step| Some(state(step, node.0, nodes)));
    let order = Order::of(&execution);
    Contender::new(EXECUTION, move |turns| {
        let mut work = Work { executions: turns, ..Work::default() };
        for _ in 0..turns {
            let outcome = check_ordered(&rule, &execution, &order, Limits::default());
            assert_eq!(outcome.tally.violated, 0, "no two nodes lead in one term");
            work.units += outcome.tally.holds + outcome.tally.unknown;
        }
        work
    })
}

/// Roles and terms such that nothing is violated and no literal decides alone.
fn state(step: usize, node: u32, nodes: u32) -> Value {
    let term = step as i64 * i64::from(nodes) + i64::from(node);
    let role = if step.is_multiple_of(4) { "leader" } else { "follower" };
    Value::record([
        ("role", role.into()),
        ("term", Value::Int(term)),
        ("log", Value::list([1, 2, 3])),
    ])
}

/// Nodes, and the states that each of them repeats.
struct Cluster {
    members: Vec<Member>,
    states: Vec<Vec<Arc<Value>>>,
}

impl Cluster {
    fn new(nodes: u32) -> Cluster {
        let member = |node| Member::new(NodeId(node), &format!("n{node}"), "server");
        let states =
            |node| (0..STATES as usize).map(|at| Arc::new(state(at, node, nodes))).collect();
        Cluster {
            members: (0..nodes).map(member).collect(),
            states: (0..nodes).map(states).collect(),
        }
    }

    fn rows(&self, rule: &Rule) -> Vec<Vec<Arc<Row>>> {
        let row = |state: &Arc<Value>| Arc::new(rule.program().row(state));
        self.states.iter().map(|states| states.iter().map(row).collect()).collect()
    }
}

/// The node that changes in a round, and the index of its new state.
fn pick(round: u64, nodes: usize) -> (usize, usize) {
    let node = round % nodes as u64;
    (node as usize, ((round * 7 + node) % STATES as u64) as usize)
}

fn id(node: usize) -> NodeId {
    NodeId(node as u32)
}

fn pairs(rule: &Rule, cluster: &Cluster) -> impl FnMut(u64) + 'static {
    let rows = cluster.rows(rule);
    let mut tuples = Tuples::new(rule.program(), &cluster.members).expect("a forall over nodes");
    tuples.set(id(0), Some(Arc::clone(&rows[0][0])));
    move |round| {
        let (_, at) = pick(round, rows.len());
        tuples.set(id(1), Some(Arc::clone(&rows[1][at])));
        black_box(tuples.judge(&[id(0), id(1)]));
    }
}

fn rows(rule: &Rule, cluster: &Cluster) -> impl FnMut(u64) + 'static {
    let rows = cluster.rows(rule);
    let mut evaluator = Evaluator::new(rule.program(), &cluster.members);
    move |round| {
        let (node, at) = pick(round, rows.len());
        evaluator.set_row(id(node), Some(Arc::clone(&rows[node][at])));
        black_box(evaluator.verdict());
    }
}

fn values(rule: &Rule, cluster: &Cluster) -> impl FnMut(u64) + 'static {
    let states = cluster.states.clone();
    let mut evaluator = Evaluator::new(rule.program(), &cluster.members);
    move |round| {
        let (node, at) = pick(round, states.len());
        evaluator.set(id(node), &states[node][at]);
        black_box(evaluator.verdict());
    }
}

fn checker(rule: &Rule, cluster: &Cluster) -> impl FnMut(u64) + 'static {
    let states = cluster.states.clone();
    let mut checker = Checker::new(rule);
    let mut snapshot = Snapshot::new(cluster.members.clone());
    move |round| {
        let (node, at) = pick(round, states.len());
        snapshot.set(id(node), Arc::clone(&states[node][at]));
        black_box(checker.step(&snapshot, Changed::Node(id(node)), round));
    }
}

fn plain(rule: &Rule, cluster: &Cluster) -> impl FnMut(u64) + 'static {
    let (rule, states) = (rule.clone(), cluster.states.clone());
    let mut snapshot = Snapshot::new(cluster.members.clone());
    move |round| {
        let (node, at) = pick(round, states.len());
        snapshot.set(id(node), Arc::clone(&states[node][at]));
        let history: [&dyn State; 1] = [&snapshot];
        black_box(evaluate(rule.property(), rule.library(), &history, &[]));
    }
}
