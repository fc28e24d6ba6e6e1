//! Small random executions, the same for the same seed.

use everhold_trace::{EventKind, Execution, MessageId, NodeId, TraceBuilder, Value};

/// A sequence of numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A node of the random system.
#[derive(Clone, Default)]
struct Node {
    clock: i64,
    leader: bool,
    log: Vec<i64>,
    parent: Option<NodeId>,
    seen: Vec<NodeId>,
}

impl Node {
    fn value(&self, noise: u64) -> Value {
        let role = if self.leader { "leader" } else { "follower" };
        Value::record([
            ("clock", Value::Int(self.clock)),
            ("role", role.into()),
            ("log", Value::list(self.log.iter().copied())),
            ("size", Value::Int(self.log.len() as i64)),
            ("parent", self.parent.map_or(Value::Null, Value::Node)),
            ("seen", Value::set(self.seen.iter().copied())),
            ("noise", Value::Int(noise as i64)),
        ])
    }
}

/// Nodes with Lamport clocks and logs that grow, messages that may be lost, crashes.
pub(crate) fn execution(seed: u64, nodes: u64, events: u64) -> Execution {
    let mut random = Random(seed);
    let mut trace = TraceBuilder::new();
    let ids: Vec<NodeId> = (0..nodes).map(|i| trace.add_node(&format!("s{i}"), "")).collect();
    let mut all = vec![Node::default(); ids.len()];
    let mut flying: Vec<(usize, MessageId, i64, NodeId)> = Vec::new();
    for step in 0..events {
        let mut node = random.below(nodes) as usize;
        let arrives = !flying.is_empty() && random.below(2) == 0;
        if arrives {
            let (to, message, clock, from) =
                flying.remove(random.below(flying.len() as u64) as usize);
            node = to;
            trace.begin(ids[node], EventKind::Deliver { message });
            all[node].clock = all[node].clock.max(clock) + 1;
            all[node].parent = Some(from);
            if !all[node].seen.contains(&from) {
                all[node].seen.push(from);
            }
        } else if step % 29 == 28 {
            trace.begin(ids[node], EventKind::Crash);
            trace.begin(ids[node], EventKind::Restart);
            all[node] = Node { clock: all[node].clock, ..Node::default() };
        } else {
            trace.begin(ids[node], EventKind::Local { name: "step".into() });
            all[node].clock += 1;
            all[node].log.push(random.below(3) as i64);
            all[node].leader = node == 0 && random.below(2) == 0;
            let to = random.below(nodes) as usize;
            if to != node && random.below(3) > 0 {
                let message = trace.send(ids[to], "m", None);
                if random.below(4) > 0 {
                    flying.push((to, message, all[node].clock, ids[node]));
                }
            }
        }
        trace.observe(all[node].value(random.below(50)));
    }
    trace.finish()
}
