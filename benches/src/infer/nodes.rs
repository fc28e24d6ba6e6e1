//! The same number of events over an increasing number of nodes. Dinv took 25, 75 and 725 s at 4, 5
//! and 6 nodes.

use everhold_infer::{Settings, always};
use everhold_trace::{EventKind, Execution, TraceBuilder, Value};

use super::{Random, timed};
use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

const NODES: [u64; 4] = [4, 10, 30, 100];

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let events = size.pick(400, 10_000);
    let mut table = Table::new(&["nodes", "events", "seconds", "lines", "tried"]);
    let mut seconds = Vec::new();
    for nodes in NODES {
        let execution = execution(nodes, events);
        let (found, took) = timed(|| always(&[&execution], &Settings::default().threads(1)));
        seconds.push(took);
        table.row(vec![
            nodes.to_string(),
            events.to_string(),
            format!("{took:.2}"),
            found.lines.len().to_string(),
            found.tried.to_string(),
        ]);
    }
    table.print("Nodes: analysis time at the same number of events, all scopes, one core");
    let growth = seconds[seconds.len() - 1] / seconds[0].max(1e-3);
    let square = (NODES[NODES.len() - 1] as f64 / NODES[0] as f64).powi(2);
    scores.hold("growth from 4 to 100 nodes over its square", growth / square, Bound::AtMost(1.0));
}

/// Lamport clocks, a log that the leader distributes, and noise.
fn execution(nodes: u64, events: u64) -> Execution {
    let mut random = Random(3);
    let mut trace = TraceBuilder::new();
    let ids: Vec<_> = (0..nodes).map(|node| trace.add_node(&format!("n{node}"), "")).collect();
    let mut clocks = vec![0_u64; ids.len()];
    let mut lens = vec![0_u64; ids.len()];
    let mut flying: Vec<(usize, _, u64, u64)> = Vec::new();
    for _ in 0..events {
        let arrives = flying.len() as u64 > random.below(2 * nodes);
        let node = if arrives {
            let at = random.below(flying.len() as u64) as usize;
            let (to, message, clock, len) = flying.swap_remove(at);
            trace.begin(ids[to], EventKind::Deliver { message });
            clocks[to] = clocks[to].max(clock) + 1;
            lens[to] = lens[to].max(len);
            to
        } else {
            let node = random.below(nodes) as usize;
            trace.begin(ids[node], EventKind::Local { name: "step".into() });
            clocks[node] += 1;
            lens[node] += u64::from(node == 0);
            let to = random.below(nodes) as usize;
            if to != node {
                flying.push((to, trace.send(ids[to], "m", None), clocks[node], lens[node]));
            }
            node
        };
        let role = if node == 0 { "leader" } else { "follower" };
        trace.observe(Value::record([
            ("clock", Value::from(clocks[node])),
            ("len", lens[node].into()),
            ("noise", random.below(100).into()),
            ("role", role.into()),
        ]));
    }
    trace.finish()
}
