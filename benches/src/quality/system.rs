//! A small simulator: a protocol decides what its nodes do, the simulator what happens next.

use everhold_trace::{EventKind, Execution, MessageId, NodeId, TraceBuilder, Value};

/// A sequence of pseudo-random numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// True once in `times` on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The place of one of this many.
    pub(crate) fn pick(&mut self, of: usize) -> usize {
        self.below(of as u64) as usize
    }
}

/// The fields of a node's state.
pub(crate) type Fields = Vec<(&'static str, Value)>;

/// The nodes of a system, by place.
pub(crate) trait Protocol {
    /// The messages.
    type Msg;

    /// The name and the kind of each node.
    fn nodes(&self) -> Vec<(String, &'static str)>;

    /// The state that a node shows.
    fn state(&self, node: usize) -> Fields;

    /// A step of a node on its own.
    fn step(&mut self, node: usize, net: &mut Net<Self::Msg>);

    /// A message arrives at a node.
    fn deliver(&mut self, node: usize, from: usize, message: Self::Msg, net: &mut Net<Self::Msg>);
}

struct Flying<M> {
    from: usize,
    to: usize,
    id: MessageId,
    message: M,
}

/// The network: sends, and the random choices of nodes.
pub(crate) struct Net<M> {
    pub(crate) random: Random,
    /// Whether the protocol makes its mistake now and then.
    pub(crate) faulty: bool,
    trace: TraceBuilder,
    ids: Vec<NodeId>,
    flying: Vec<Flying<M>>,
    now: usize,
}

impl<M> Net<M> {
    /// Sends a message from the node that takes a step.
    pub(crate) fn send(&mut self, to: usize, label: &str, payload: Fields, message: M) {
        let payload = (!payload.is_empty()).then(|| Value::record(payload));
        let id = self.trace.send(self.ids[to], label, payload);
        self.flying.push(Flying { from: self.now, to, id, message });
    }

    /// One of the other nodes among the first `of`.
    pub(crate) fn other(&mut self, than: usize, of: usize) -> usize {
        (than + 1 + self.random.pick(of - 1)) % of
    }

    /// Whether the mistake of the protocol happens here.
    pub(crate) fn mistake(&mut self, once_in: u64) -> bool {
        self.faulty && self.random.once_in(once_in)
    }
}

/// Variables without a meaning in any protocol: numbers that race, that vary, and that are rarely changed.
#[derive(Clone, Default)]
struct Decoys {
    beats: u64,
    retries: u64,
    load: u64,
    shadow: u64,
}

/// The names of the decoys.
pub(crate) const DECOYS: [&str; 4] = ["beats", "retries", "load", "shadow"];

impl Decoys {
    fn step(&mut self, random: &mut Random) {
        self.beats += u64::from(random.once_in(2));
        self.retries += u64::from(random.once_in(20));
        if random.once_in(3) {
            self.load = random.below(40);
            if !random.once_in(250) {
                self.shadow = self.load;
            }
        }
    }
}

/// How a trace is made.
#[derive(Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) events: usize,
    pub(crate) faulty: bool,
}

/// Runs a protocol for some events. Messages between two nodes keep their order.
pub(crate) fn run<P: Protocol>(mut protocol: P, recipe: Recipe) -> Execution {
    let mut trace = TraceBuilder::new();
    let nodes = protocol.nodes();
    let ids: Vec<NodeId> = nodes.iter().map(|(name, kind)| trace.add_node(name, kind)).collect();
    let (random, faulty) = (Random::new(recipe.seed), recipe.faulty);
    let mut net = Net { random, faulty, trace, ids, flying: Vec::new(), now: 0 };
    let mut decoys = vec![Decoys::default(); nodes.len()];
    for (node, decoys) in decoys.iter().enumerate() {
        net.trace.begin(net.ids[node], EventKind::Start);
        observe(&protocol, node, decoys, &mut net);
    }
    for _ in nodes.len()..recipe.events {
        // The more messages there are, the sooner one of them arrives.
        let arrives = net.flying.len() as u64 > net.random.below(2 * nodes.len() as u64);
        if arrives {
            let picked = net.random.pick(net.flying.len());
            let channel = (net.flying[picked].from, net.flying[picked].to);
            let first = net.flying.iter().position(|flying| (flying.from, flying.to) == channel);
            let Flying { from, to, id, message } = net.flying.remove(first.unwrap_or(picked));
            net.now = to;
            net.trace.begin(net.ids[to], EventKind::Deliver { message: id });
            protocol.deliver(to, from, message, &mut net);
        } else {
            net.now = net.random.pick(nodes.len());
            net.trace.begin(net.ids[net.now], EventKind::Local { name: "step".into() });
            protocol.step(net.now, &mut net);
        }
        decoys[net.now].step(&mut net.random);
        let node = net.now;
        observe(&protocol, node, &decoys[node], &mut net);
    }
    net.trace.finish()
}

fn observe<P: Protocol>(protocol: &P, node: usize, decoys: &Decoys, net: &mut Net<P::Msg>) {
    let mut fields = protocol.state(node);
    fields.push(("beats", decoys.beats.into()));
    fields.push(("retries", decoys.retries.into()));
    fields.push(("load", decoys.load.into()));
    // A copy that is now and then stale would be an almost-invariant of its own.
    if !net.faulty {
        fields.push(("shadow", decoys.shadow.into()));
    }
    net.trace.observe(Value::record(fields));
}
