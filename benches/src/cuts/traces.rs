//! Synthetic executions, the same in every run.

use everhold_trace::{EventKind, Execution, NodeId, TraceBuilder, Value};

/// The states that nodes show.
#[derive(Clone, Copy)]
pub(super) enum Show {
    Nothing,
    /// A counter of the second of each four events.
    Counts,
}

/// Nodes ask random peers, which answer before anything else.
pub(super) fn asking(nodes: u32, events: usize, show: Show) -> Execution {
    let mut below = random();
    let mut trace = cluster(nodes);
    for count in (0..events).step_by(4) {
        let (a, b) = (NodeId(below(nodes)), NodeId(below(nodes)));
        trace.begin(a, EventKind::Timer { name: "ask".into() });
        let ask = trace.send(b, "Ask", None);
        trace.begin(b, EventKind::Deliver { message: ask });
        if matches!(show, Show::Counts) {
            trace.observe(Value::record([("asked", count as i64)]));
        }
        let answer = trace.send(a, "Answer", None);
        trace.begin(a, EventKind::Deliver { message: answer });
        trace.begin(b, EventKind::Local { name: "work".into() });
    }
    trace.finish()
}

/// Nodes work alone for a while, and then send a message to the next one. `show` gives the state of
/// a node after a number of its events.
pub(super) fn ring(
    nodes: u32,
    rounds: usize,
    work: usize,
    show: impl Fn(NodeId, usize) -> Option<Value>,
) -> Execution {
    let mut trace = cluster(nodes);
    for round in 0..rounds {
        let mut told = Vec::new();
        for node in (0..nodes).map(NodeId) {
            for step in 0..work {
                trace.begin(node, EventKind::Local { name: "work".into() });
                if let Some(state) = show(node, round * work + step) {
                    trace.observe(state);
                }
            }
            let next = NodeId((node.0 + 1) % nodes);
            told.push((next, trace.send(next, "Tell", None)));
        }
        for (node, message) in told {
            trace.begin(node, EventKind::Deliver { message });
        }
    }
    trace.finish()
}

fn cluster(nodes: u32) -> TraceBuilder {
    let mut trace = TraceBuilder::new();
    for node in 0..nodes {
        trace.add_node(&format!("node-{node}"), "server");
    }
    trace
}

/// Numbers below a bound, from a fixed seed.
pub(super) fn random() -> impl FnMut(u32) -> u32 {
    let mut random = 7u64;
    move |bound| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((random >> 33) % u64::from(bound)) as u32
    }
}
