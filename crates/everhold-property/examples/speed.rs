//! How many states a second are judged. Run with `cargo run --release --example speed`.

use std::hint::black_box;
use std::sync::Arc;

use everhold_property::{
    Changed, Checker, Evaluator, Library, Member, NodeId, Program, Row, Rule, Snapshot, State,
    Tuples, Value, Verdict, parse,
};

const FOUR_LITERALS: &str = r#"always "one leader per term":
  forall a, b in nodes where a != b:
    not (a.role == "leader" and b.role == "leader" and a.term == b.term)"#;

fn main() {
    let property = &parse(FOUR_LITERALS).properties[0];
    let rule = Rule::new(property, &Library::new());
    for n in [2, 5, 10] {
        let members: Vec<Member> =
            (0..n).map(|i| Member::new(NodeId(i), &format!("n{i}"), "server")).collect();
        let states: Vec<Value> = (0..64).map(state).collect();
        measure(
            &format!("{n} nodes, compatible pairs, rows made before"),
            tuples(&rule, &members, &states),
        );
        measure(&format!("{n} nodes, evaluator, rows made before"), rows(&rule, &members, &states));
        measure(&format!("{n} nodes, evaluator, from values"), values(&rule, &members, &states));
        measure(&format!("{n} nodes, checker"), checker(&rule, &members, &states));
        measure(&format!("{n} nodes, plain evaluator"), plain(&rule, &members, &states));
    }
}

/// Roles and terms such that nothing is violated and no literal decides alone.
fn state(i: i64) -> Value {
    let role = if i % 4 == 0 { "leader" } else { "follower" };
    let fields = [("role", role.into()), ("term", Value::Int(i)), ("log", Value::list([1, 2, 3]))];
    Value::record(fields)
}

/// Prints the best of several runs: on a shared machine the others measure the neighbours.
fn measure(name: &str, mut run: impl FnMut(u64) -> u64) {
    let mut best: f64 = 0.0;
    let mut rounds = 20_000;
    for _ in 0..16 {
        let start = cpu_seconds();
        let states = run(rounds);
        let seconds = cpu_seconds() - start;
        // The kernel counts in ticks of some milliseconds.
        if seconds < 0.05 {
            rounds *= 2;
        } else {
            best = best.max(states as f64 / seconds / 1e6);
        }
    }
    println!("{name}: {best:.2} M states/s");
}

/// The time that this process had a core, so that a busy machine matters less.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()) {
        Some(nanos) => nanos / 1e9,
        None => wall_seconds(),
    }
}

fn wall_seconds() -> f64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.expect("the epoch is in the past").as_secs_f64()
}

/// The state of node `node` at step `i`, such that no two nodes lead in one term.
fn pick(i: u64, node: u64) -> usize {
    ((i * 7 + node) % 64) as usize
}

fn tuples(rule: &Rule, members: &[Member], states: &[Value]) -> impl FnMut(u64) -> u64 {
    let program: &Program = rule.program();
    let rows: Vec<Arc<Row>> = states.iter().map(|state| Arc::new(program.row(state))).collect();
    let mut tuples = Tuples::new(program, members).expect("a forall over nodes");
    let (a, b) = (members[0].id, members[1].id);
    tuples.set(a, Some(Arc::clone(&rows[0])));
    move |rounds| {
        for i in 0..rounds {
            tuples.set(b, Some(Arc::clone(&rows[pick(i, 1)])));
            black_box(tuples.judge(&[a, b]));
        }
        rounds
    }
}

fn rows(rule: &Rule, members: &[Member], states: &[Value]) -> impl FnMut(u64) -> u64 {
    let program = rule.program();
    let rows: Vec<Arc<Row>> = states.iter().map(|state| Arc::new(program.row(state))).collect();
    let mut evaluator = Evaluator::new(program, members);
    let n = members.len() as u64;
    move |rounds| {
        for i in 0..rounds {
            let node = NodeId((i % n) as u32);
            evaluator.set_row(node, Some(Arc::clone(&rows[pick(i, i % n)])));
            black_box(evaluator.verdict());
        }
        rounds
    }
}

fn values(rule: &Rule, members: &[Member], states: &[Value]) -> impl FnMut(u64) -> u64 {
    let mut evaluator = Evaluator::new(rule.program(), members);
    let n = members.len() as u64;
    move |rounds| {
        for i in 0..rounds {
            let node = NodeId((i % n) as u32);
            evaluator.set(node, &states[pick(i, i % n)]);
            black_box(evaluator.verdict());
        }
        rounds
    }
}

fn checker(rule: &Rule, members: &[Member], states: &[Value]) -> impl FnMut(u64) -> u64 {
    let states: Vec<Arc<Value>> = states.iter().cloned().map(Arc::new).collect();
    let mut checker = Checker::new(rule);
    let mut snapshot = Snapshot::new(members.to_vec());
    let n = members.len() as u64;
    move |rounds| {
        for i in 0..rounds {
            let node = NodeId((i % n) as u32);
            snapshot.set(node, Arc::clone(&states[pick(i, i % n)]));
            black_box(checker.step(&snapshot, Changed::Node(node), i));
        }
        rounds
    }
}

fn plain(rule: &Rule, members: &[Member], states: &[Value]) -> impl FnMut(u64) -> u64 {
    let states: Vec<Arc<Value>> = states.iter().cloned().map(Arc::new).collect();
    let mut snapshot = Snapshot::new(members.to_vec());
    let n = members.len() as u64;
    move |rounds| {
        for i in 0..rounds {
            let node = NodeId((i % n) as u32);
            snapshot.set(node, Arc::clone(&states[pick(i, i % n)]));
            let history: [&dyn State; 1] = [&snapshot];
            let verdict: Option<Verdict> =
                everhold_property::evaluate(rule.property(), rule.library(), &history, &[]);
            black_box(verdict);
        }
        rounds
    }
}
