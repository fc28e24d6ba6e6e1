//! The counts of bitmaps against the plain evaluator, binding by binding and snapshot by snapshot.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{
    Domain as Over, Expr, ExprKind, Library, Member, Pattern, Property, Scope, Snapshot, State,
    Type, evaluate_expr,
};
use everhold_trace::{Event, EventId, EventKind, Execution, NodeId, TraceBuilder, Value};

use super::count::FailureCount;
use super::explain::snapshot;
use super::search::{Finalist, classes};
use super::{Accounting, Almost, Predicate};
use crate::states::States;

/// The counts of the plain evaluator.
#[derive(Debug, Default, PartialEq)]
struct Plain {
    exceptions: u64,
    evaluations: u64,
    failing_snapshots: Vec<bool>,
    holds: f64,
    known: f64,
}

type Bindings = Vec<(String, Value)>;

/// A snapshot, and whether a message is in flight.
type Seen = (Snapshot, bool);

fn count(property: &Property, snapshots: &[Seen], library: &Library) -> Plain {
    let ExprKind::Quantified { over, body, .. } = &property.body.kind else {
        panic!("an inferred property is quantified")
    };
    let mut plain = Plain::default();
    for (state, flying) in snapshots {
        if property.scope == Scope::AllQuiet && *flying {
            plain.failing_snapshots.push(false);
            continue;
        }
        let mut bindings = vec![Bindings::new()];
        for binder in &over.binders {
            bindings = bindings
                .iter()
                .flat_map(|bound| extend(bound, &binder.pattern, &binder.domain, state, library))
                .collect();
        }
        let guard = |bound: &Bindings| match &over.guard {
            Some(guard) => evaluate_expr(guard, library, &[state], bound) == Ok(Value::Bool(true)),
            None => true,
        };
        bindings.retain(|bound| guard(bound) && refers_to_reported(body, bound, state, library));
        let verdicts: Vec<Option<bool>> = bindings
            .iter()
            .map(|bound| match evaluate_expr(body, library, &[state], bound) {
                Ok(Value::Bool(truth)) => Some(truth),
                _ => None,
            })
            .collect();
        let share = 1.0 / verdicts.len() as f64;
        for truth in verdicts.iter().flatten() {
            plain.evaluations += 1;
            plain.exceptions += u64::from(!truth);
            plain.known += share;
            plain.holds += if *truth { share } else { 0.0 };
        }
        plain.failing_snapshots.push(verdicts.contains(&Some(false)));
    }
    plain
}

fn extend(
    bound: &Bindings,
    pattern: &Pattern,
    domain: &Over,
    state: &Snapshot,
    library: &Library,
) -> Vec<Bindings> {
    match (pattern, domain) {
        (Pattern::Names(names), Over::Nodes { kind, .. }) => {
            let fits = |member: &&Member| {
                let kind = kind.as_ref().is_none_or(|kind| *kind == member.kind);
                kind && member.up && state.state(member.id).is_some()
            };
            let mut all = vec![bound.clone()];
            for name in names {
                let with = |bound: &Bindings, member: &Member| {
                    [&bound[..], &[(name.name.clone(), Value::Node(member.id))]].concat()
                };
                let members: Vec<&Member> = state.members().iter().filter(fits).collect();
                all = all.iter().flat_map(|b| members.iter().map(|m| with(b, m))).collect();
            }
            all
        }
        (pattern, Over::Values(container)) => {
            let value = evaluate_expr(container, library, &[state], bound).expect("it is known");
            let items: Vec<(Value, Value)> = match value {
                Value::List(items) => items.into_iter().map(|v| (Value::Null, v)).collect(),
                Value::Set(items) => items.into_iter().map(|v| (Value::Null, v)).collect(),
                Value::Map(entries) => entries.into_iter().collect(),
                _ => Vec::new(),
            };
            let with = |(key, value): (Value, Value)| match pattern {
                Pattern::Names(names) => [&bound[..], &[(names[0].name.clone(), value)]].concat(),
                Pattern::Entry(k, v) => {
                    [&bound[..], &[(k.name.clone(), key), (v.name.clone(), value)]].concat()
                }
            };
            items.into_iter().map(with).collect()
        }
        other => panic!("no property has {other:?}"),
    }
}

/// Whether each node whose fields are read has reported; a binding without it is no row.
fn refers_to_reported(body: &Expr, bound: &Bindings, state: &Snapshot, library: &Library) -> bool {
    let silent = body.any(&mut |expr| match &expr.kind {
        ExprKind::Field(base, _) => match evaluate_expr(base, library, &[state], bound) {
            Ok(Value::Node(node)) => state.state(node).is_none(),
            _ => false,
        },
        _ => false,
    });
    !silent
}

/// Nodes that join, elect, store, tell each other and crash at random, from a fixed seed.
pub(crate) fn execution(seed: u64, steps: usize) -> Execution {
    let mut state = seed;
    let mut below = move |n: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)) % n
    };
    let mut trace = TraceBuilder::new();
    let nodes: Vec<NodeId> = (0..3).map(|i| trace.add_node(&format!("s{i}"), "server")).collect();
    let client = trace.add_node("c", "client");
    let mut told = None;
    for _ in 0..steps {
        if below(8) == 0 {
            trace.begin(client, EventKind::Local { name: "ask".into() });
            let asked = i64::try_from(below(3)).expect("small");
            trace.observe(Value::record([("asked", Value::Int(asked))]));
            continue;
        }
        let node = nodes[below(3) as usize];
        if below(12) == 0 {
            trace.begin(node, EventKind::Crash);
            trace.begin(node, EventKind::Restart);
            continue;
        }
        match told.take_if(|_| below(3) == 0) {
            Some(message) => drop(trace.begin(node, EventKind::Deliver { message })),
            None => drop(trace.begin(node, EventKind::Local { name: "step".into() })),
        }
        if told.is_none() && below(4) == 0 {
            told = Some(trace.broadcast("told", None));
        }
        let mut some = |n: u64| i64::try_from(below(n)).expect("small");
        let node_or_null = |n: i64| match u32::try_from(n) {
            Ok(id) if id < 3 => Value::Node(NodeId(id)),
            _ => Value::Null,
        };
        let parent = node_or_null(some(4));
        let children: Vec<Value> = (0..some(3)).map(|_| node_or_null(some(3))).collect();
        let log: Vec<Value> = (0..some(3)).map(|_| Value::Int(some(2))).collect();
        let stored = (0..some(3)).map(|k| (Value::Int(k), Value::Int(some(2)))).collect();
        let role = ["leader", "follower"][usize::from(some(4) > 0)];
        let load = if some(3) == 0 { Value::Null } else { Value::Int(some(4)) };
        let fields: [(&str, Value); 7] = [
            ("parent", parent),
            ("children", Value::set(children)),
            ("log", Value::List(log)),
            ("stored", Value::Map(stored)),
            ("role", role.into()),
            ("load", load),
            ("term", Value::Int(some(4))),
        ];
        trace.observe(Value::record(fields));
    }
    trace.finish()
}

fn library() -> Library {
    Library::new().with_function("near", [Type::Int, Type::Int], Type::Bool, |args| match args {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Bool((a - b).abs() <= 1)),
        _ => Err("near takes two integers".into()),
    })
}

fn predicates() -> Vec<Predicate> {
    let node = Type::Node(None);
    let told = "count(m in server nodes where m.parent == who and m.term == term) > 0";
    let two = Predicate::new("two", [("who", node.clone()), ("term", Type::Int)], told);
    let one = Predicate::new("one", [("who", node)], "exists m in server nodes: m.parent == who");
    [one, two].map(|predicate| predicate.expect("it is right")).to_vec()
}

/// The snapshots of a run. A message that never arrives is in flight to the end.
fn seen(execution: &Execution) -> Vec<Seen> {
    let mut flying = BTreeSet::new();
    let after = |(event, of): (u32, &Event)| {
        of.received().for_each(|message| _ = flying.remove(&message));
        flying.extend(of.sent());
        (snapshot(execution, EventId(event)), !flying.is_empty())
    };
    (0..).zip(execution.events()).map(after).collect()
}

/// All of it but the signature, which is for one search.
fn told(finalist: &Finalist) -> String {
    let tally = FailureCount { signature: 0, ..finalist.tally };
    format!("{:?}", Finalist { tally, ..finalist.clone() })
}

fn check(finalist: &Finalist, states: &States, snapshots: &[Seen]) {
    let property = finalist.property(states);
    let plain = count(&property, snapshots, &library());
    let text = everhold_property::print(&property);
    assert_eq!(finalist.failing.exceptions, plain.exceptions, "exceptions of {text}");
    assert_eq!(finalist.failing.evaluations, plain.evaluations, "evaluations of {text}");
    let rate = if plain.known > 0.0 { plain.holds / plain.known } else { 0.0 };
    assert!((finalist.tally.rate() - rate).abs() < 1e-6, "rate of {text}: {rate}");
    let failing: Vec<bool> = (0..plain.failing_snapshots.len())
        .map(|place| finalist.failing.snapshots[place / 64] >> (place % 64) & 1 == 1)
        .collect();
    assert_eq!(failing, plain.failing_snapshots, "snapshots of {text}");
    let read = everhold_property::parse(&text).into_result().expect("it prints as it reads");
    assert_eq!(read[0], property, "{text}");
}

#[test]
fn bitmaps_count_as_the_plain_evaluator_does() {
    let executions = [execution(1, 40), execution(2, 25)];
    let states = States::of(&executions);
    let snapshots: Vec<Seen> = executions.iter().flat_map(seen).collect();
    let mut checked = BTreeMap::new();
    let mut first = None;
    // Everything kept from one look to the next, some tuples of nodes at a time, each alone.
    for (threads, memory_max) in [(1, usize::MAX), (2, 1 << 15), (3, 1)] {
        let options = Almost {
            rate_min: 0.0,
            evaluations_min: 0,
            literals_max: 3,
            properties_max: 3000,
            accounting: Accounting::Spatial,
            threads,
            memory_max,
            predicates: predicates(),
            ..Almost::default()
        };
        let runs: Vec<&Execution> = executions.iter().collect();
        let search = classes(&options, &states, &runs, &library(), &|| false);
        let search = search.expect("nothing stops it");
        let all: Vec<String> = search.almost.iter().map(told).collect();
        assert!(*first.get_or_insert_with(|| all.clone()) == all, "with {threads} threads");
        // Some are enough: the twin is slow.
        for finalist in search.almost.iter().skip(threads).step_by(5) {
            check(finalist, &states, &snapshots);
            *checked.entry((finalist.scope, finalist.domain.global)).or_insert(0) += 1;
        }
    }
    assert!(checked.len() == 4 && checked.values().all(|count| *count > 40), "{checked:?}");
}
