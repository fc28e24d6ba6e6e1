//! Seeded random values and executions. SplitMix64: three lines, and the same on every machine.

use std::collections::BTreeMap;

use everhold_trace::{EventKind, Execution, MessageId, NodeId, Time, TraceBuilder, Value};

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn value(&mut self, depth: usize) -> Value {
        let kinds = if depth == 0 { 7 } else { 12 };
        let size = self.below(4);
        match self.below(kinds) {
            0 => Value::Null,
            1 => Value::Bool(self.chance(50)),
            2 => Value::Int(self.next().cast_signed() >> self.below(64)),
            3 => self.float(),
            4 => Value::Text(self.text()),
            5 => Value::Bytes((0..size).map(|_| self.next().to_le_bytes()[0]).collect()),
            6 => Value::Node(NodeId(u32::try_from(self.below(9)).unwrap())),
            7 => Value::List((0..size).map(|_| self.value(depth - 1)).collect()),
            8 => Value::Set((0..size).map(|_| self.value(depth - 1)).collect()),
            9 => Value::Map(
                (0..size).map(|_| (self.value(depth - 1), self.value(depth - 1))).collect(),
            ),
            10 => Value::Record((0..size).map(|_| (self.text(), self.value(depth - 1))).collect()),
            _ => {
                let payload = Box::new(self.value(depth - 1));
                Value::Variant { name: self.text(), payload }
            }
        }
    }

    fn float(&mut self) -> Value {
        let bits = self.next();
        let odd = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, 1e300, 5e-324];
        Value::Float(if self.chance(50) { odd[self.below(8)] } else { f64::from_bits(bits) })
    }

    fn text(&mut self) -> String {
        let words = ["", "a", "b", "$set", "$record", "key", "new\nline", "\"q\"", "größe", "\0"];
        words[self.below(words.len())].to_owned()
    }
}

/// The kinds of events and faults that a random execution may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) steps: usize,
    pub(crate) fifo: bool,
    pub(crate) loss_percent: usize,
    pub(crate) duplicate_percent: usize,
    pub(crate) crash_percent: usize,
    pub(crate) broadcast_percent: usize,
    /// Deliver everything at the end.
    pub(crate) drain: bool,
    pub(crate) states: bool,
}

impl Shape {
    /// Small, without crashes and states, for comparison with brute force.
    pub(crate) fn small(random: &mut Random) -> Shape {
        Shape {
            nodes: 2 + random.below(3),
            steps: 3 + random.below(7),
            fifo: random.chance(30),
            loss_percent: if random.chance(30) { 30 } else { 0 },
            duplicate_percent: if random.chance(20) { 30 } else { 0 },
            crash_percent: 0,
            broadcast_percent: if random.chance(20) { 30 } else { 0 },
            drain: random.chance(50),
            states: false,
        }
    }

    /// With everything, for round trips.
    pub(crate) fn full(random: &mut Random) -> Shape {
        Shape { crash_percent: 10, states: true, steps: 30, ..Shape::small(random) }
    }
}

pub(crate) fn execution(random: &mut Random, shape: Shape) -> Execution {
    let mut trace = TraceBuilder::new();
    let nodes: Vec<NodeId> = (0..shape.nodes)
        .map(|i| trace.add_node(&format!("node {i}"), ["server", "client", ""][i % 3]))
        .collect();
    let mut sim = Sim {
        random,
        shape,
        trace,
        nodes,
        flying: Vec::new(),
        down: BTreeMap::new(),
        draining: false,
    };
    for _ in 0..shape.steps {
        sim.step();
    }
    // No more sends from here on, so that the end is reached.
    sim.draining = true;
    while shape.drain && !sim.flying.is_empty() {
        sim.deliver();
    }
    sim.trace.finish()
}

struct Sim<'a> {
    random: &'a mut Random,
    shape: Shape,
    trace: TraceBuilder,
    nodes: Vec<NodeId>,
    flying: Vec<(NodeId, MessageId)>,
    down: BTreeMap<NodeId, bool>,
    draining: bool,
}

impl Sim<'_> {
    fn step(&mut self) {
        let node = self.nodes[self.random.below(self.nodes.len())];
        if self.random.chance(self.shape.crash_percent) {
            return self.crash(node);
        }
        if !self.flying.is_empty() && self.random.chance(50) {
            return self.deliver();
        }
        if self.down.contains_key(&node) {
            return;
        }
        let kind = match self.random.below(3) {
            0 => EventKind::Timer { name: "tick".into() },
            1 => EventKind::Input { name: "go".into() },
            _ => EventKind::Local { name: String::new() },
        };
        self.trace.begin(node, kind);
        self.fill();
    }

    fn crash(&mut self, node: NodeId) {
        if self.down.remove(&node).is_some() {
            self.trace.begin(node, EventKind::Restart);
            self.fill();
        } else {
            self.down.insert(node, true);
            self.trace.begin(node, EventKind::Crash);
        }
    }

    fn deliver(&mut self) {
        let at = if self.shape.fifo { 0 } else { self.random.below(self.flying.len()) };
        let (to, message) = self.flying.remove(at);
        if self.random.chance(self.shape.loss_percent) || self.down.contains_key(&to) {
            return self.trace.lost(message);
        }
        if self.random.chance(self.shape.duplicate_percent) {
            self.trace.duplicated(message);
            self.flying.push((to, message));
        }
        self.trace.begin(to, EventKind::Deliver { message });
        if !self.draining && self.random.chance(30) {
            self.fill();
        }
    }

    /// Sends, state, time and text of the open event.
    fn fill(&mut self) {
        let sends = [0, 1, 1, 2][self.random.below(4)];
        for _ in 0..sends {
            let payload = if self.shape.states { Some(self.random.value(2)) } else { None };
            if self.random.chance(self.shape.broadcast_percent) {
                let message = self.trace.broadcast("all", payload);
                self.flying.extend(self.nodes.iter().map(|node| (*node, message)));
            } else {
                let to = self.nodes[self.random.below(self.nodes.len())];
                self.flying.push((to, self.trace.send(to, "one", payload)));
            }
        }
        if self.shape.states && self.random.chance(70) {
            let state = self.random.value(3);
            self.trace.observe(state);
            self.trace.time(Time::logical(self.random.next() >> 1));
            self.trace.text("some text");
        }
    }
}
