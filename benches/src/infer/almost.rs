//! Avenger's workloads: Chord's 51,752 properties over 860,000 states of 15 nodes, and RandTree's
//! 13,096 over 20,000 states.
//!
//! Avenger took about 3.5 hours on 40 cores for the first, of which 318 s were evaluation, and 75 s
//! of evaluation for the second (figures of its paper).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::time::Instant;

use everhold_infer::Almost;
use everhold_property::Library;
use everhold_trace::format::{ReadOptions, Writer, read_all};
use everhold_trace::{EventKind, Execution, NodeId, TraceBuilder, Value};

use super::Random;
use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::table::Table;

const NODES: u32 = 15;
/// The number of different states of one node.
const STATES: u64 = 100;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let mut table = Table::new(&[
        "workload",
        "states",
        "generated",
        "evaluated",
        "read s",
        "infer s",
        "wall s",
        "CPU s",
    ]);
    let all = [
        ("Chord", size.pick(2_000, 860_000), size.pick(0.0, 51_752.0), 30.0),
        ("RandTree", size.pick(500, 20_000), size.pick(0.0, 13_096.0), 1.0),
    ];
    for (name, states, properties, seconds) in all {
        let path = std::env::temp_dir()
            .join(format!("everhold-bench-{name}-{}.jsonl", std::process::id()));
        let execution = if name == "Chord" { chord(states) } else { tree(states) };
        let file = BufWriter::new(File::create(&path).expect("a temporary file"));
        let mut writer = Writer::new(file);
        writer.execution(&execution).expect("the trace is written");
        writer.finish().expect("the trace is written");
        drop(execution);
        let (begin, before) = (Instant::now(), cpu_seconds());
        let file = BufReader::new(File::open(&path).expect("just written"));
        let read = read_all(file, &ReadOptions::strict()).expect("just written");
        let reading = begin.elapsed().as_secs_f64();
        let executions: Vec<&Execution> = read.executions.iter().collect();
        let report = Almost::default().infer(&executions, &Library::new());
        let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - before);
        fs::remove_file(&path).expect("just written");
        table.row(vec![
            name.to_owned(),
            report.snapshots.to_string(),
            report.generated.to_string(),
            report.properties.to_string(),
            format!("{reading:.2}"),
            format!("{:.2}", wall - reading),
            format!("{wall:.2}"),
            format!("{cpu:.2}"),
        ]);
        scores.hold(
            format!("{name}: properties generated"),
            report.generated as f64,
            Bound::AtLeast(properties),
        );
        scores.hold(format!("{name}: seconds, from a file"), wall, Bound::AtMost(seconds));
    }
    table.print("Almost-invariants: end to end from a trace file, all cores");
    println!(
        "Generated: disjunctions of up to two literals, over all classes, as Avenger counts them.\n\
         Evaluated: those left when constant and equal literals are merged, which decides the rest."
    );
}

/// A changing ring: successors, predecessors and fingers of one node at a time. Each node returns
/// to earlier states, as nodes of a ring do.
fn chord(states: u32) -> Execution {
    let mut random = Random(11);
    let mut trace = TraceBuilder::new();
    let ids: Vec<NodeId> = (0..NODES).map(|i| trace.add_node(&format!("c{i}"), "chord")).collect();
    let pools: Vec<Vec<Value>> =
        (0..NODES).map(|me| (0..STATES).map(|_| ring_state(me, &mut random)).collect()).collect();
    for step in 0..states {
        let me = (step % NODES) as usize;
        trace.begin(ids[me], EventKind::Timer { name: "stabilise".into() });
        // Some states occur far more often than others.
        let place = random.below(STATES).min(random.below(STATES)) as usize;
        trace.observe(pools[me][place].clone());
    }
    trace.finish()
}

fn ring_state(me: u32, random: &mut Random) -> Value {
    let mut near = |most: u64| {
        let by = u32::try_from(random.below(most)).expect("small");
        Value::Node(NodeId((me + by) % NODES))
    };
    let successors: Vec<Value> = (0..4).map(|_| near(4)).collect();
    let fingers: BTreeMap<Value, Value> = (0..2).map(|i| (Value::Int(i), near(6))).collect();
    let pred = near(4);
    Value::record([
        ("me", Value::Node(NodeId(me))),
        ("pred", pred),
        ("succ", successors[0].clone()),
        ("max_succ", successors[3].clone()),
        ("successors", Value::List(successors)),
        ("fingers", Value::Map(fingers)),
        ("joined", Value::Bool(random.below(20) > 0)),
    ])
}

/// A tree whose nodes join and leave; occasionally a parent is also a child.
fn tree(states: u32) -> Execution {
    let mut random = Random(7);
    let mut trace = TraceBuilder::new();
    let ids: Vec<NodeId> = (0..NODES).map(|i| trace.add_node(&format!("t{i}"), "tree")).collect();
    for step in 0..states {
        let me = step % NODES;
        trace.begin(ids[me as usize], EventKind::Timer { name: "recovery".into() });
        let up =
            |random: &mut Random| u32::try_from(random.below(u64::from(me.max(1)))).expect("small");
        let parent = up(&mut random);
        let mut children: BTreeSet<Value> = (me + 1..NODES)
            .filter(|_| random.below(6) == 0)
            .map(|child| Value::Node(NodeId(child)))
            .collect();
        if random.below(2_000) == 0 {
            children.insert(Value::Node(NodeId(parent)));
        }
        let status = ["joining", "joined", "root"][random.below(3) as usize];
        trace.observe(Value::record([
            ("parent", Value::Node(NodeId(parent))),
            ("root", Value::Node(NodeId(up(&mut random)))),
            ("children", Value::Set(children)),
            ("status", status.into()),
        ]));
    }
    trace.finish()
}
