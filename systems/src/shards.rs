//! Keys that belong to one node at a time, and move.
//!
//! Every key has an owner. Now and then an owner hands a key over to another node: it gives the
//! key up and sends it, again and again until the other confirms. The other takes the key in once,
//! however often it arrives. So no two nodes ever own the same key.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// A node gives a key up when the other has confirmed it, not before sending it.
    KeepsUntilConfirmed,
    /// A node takes in every key that arrives: also one that it had, and has handed on since.
    TakesTwice,
}

/// What is owned.
pub type Key = u8;

/// How many nodes there are, and how many keys for each.
const NODES: usize = 4;
const KEYS_EACH: usize = 3;
/// How many keys each node hands over.
const HANDOVERS: u32 = 4;
/// The time between handovers.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a confirmation may take.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// This key is yours.
    Take {
        /// Counts the handovers of the sender.
        number: u32,
        /// The key.
        key: Key,
    },
    /// I have it.
    Taken(u32),
}

/// A handover that is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Handover {
    to: NodeId,
    key: Key,
}

/// Owns some of the keys.
#[derive(Clone, Debug, Serialize)]
pub struct Owner {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    owned: BTreeSet<Key>,
    handovers: u32,
    unconfirmed: BTreeMap<u32, Handover>,
    /// The handovers that were taken in, by who sent them.
    taken: BTreeMap<NodeId, BTreeSet<u32>>,
}

impl Owner {
    fn new(number: usize, bug: Bug) -> Self {
        let first = (number * KEYS_EACH) as Key;
        Owner {
            bug,
            me: NodeId(number as u32),
            owned: (first..first + KEYS_EACH as Key).collect(),
            handovers: 0,
            unconfirmed: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// Keys that are not on their way to another.
    fn free(&self) -> Vec<Key> {
        let leaves = |key: &Key| self.unconfirmed.values().any(|handover| handover.key == *key);
        self.owned.iter().copied().filter(|key| !leaves(key)).collect()
    }

    fn hand_over(&mut self, cx: &mut Cx<Msg>) {
        let free = self.free();
        if free.is_empty() {
            return;
        }
        let key = free[cx.choose("key", free.len())];
        let step = 1 + cx.choose("new owner", NODES - 1);
        let to = NodeId(((self.me.index() + step) % NODES) as u32);
        if self.bug != Bug::KeepsUntilConfirmed {
            self.owned.remove(&key);
        }
        let number = self.handovers;
        self.handovers += 1;
        self.unconfirmed.insert(number, Handover { to, key });
        self.send(cx, number);
    }

    fn send(&self, cx: &mut Cx<Msg>, number: u32) {
        if let Some(Handover { to, key }) = self.unconfirmed.get(&number) {
            cx.send(*to, Msg::Take { number, key: *key });
            cx.set_timer(Timer::from("send again").with(u64::from(number)), PATIENCE);
        }
    }

    fn take(&mut self, cx: &mut Cx<Msg>, from: NodeId, number: u32, key: Key) {
        let is_new = self.taken.entry(from).or_default().insert(number);
        if is_new || self.bug == Bug::TakesTwice {
            self.owned.insert(key);
        }
        cx.send(from, Msg::Taken(number));
    }

    fn confirmed(&mut self, cx: &mut Cx<Msg>, number: u32) {
        let Some(Handover { key, .. }) = self.unconfirmed.remove(&number) else { return };
        cx.cancel_timer(Timer::from("send again").with(u64::from(number)));
        if self.bug == Bug::KeepsUntilConfirmed {
            self.owned.remove(&key);
        }
    }
}

impl Node for Owner {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("hand over", PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Take { number, key } => self.take(cx, from, number, key),
            Msg::Taken(number) => self.confirmed(cx, number),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "send again" => self.send(cx, timer.id as u32),
            _ => {
                self.hand_over(cx);
                if self.handovers < HANDOVERS {
                    cx.set_timer("hand over", PAUSE);
                }
            }
        }
    }
}

/// The name of the specification (Dinv, table 2: key ownership).
pub const ONE_OWNER: &str = "a key has one owner";

/// The specification in the language.
pub const PROPERTIES: &str = r#"
always "a key has one owner":
  forall a, b in nodes where a != b: a.owned disjoint from b.owned

sometimes "all keys are where they should be, after all handovers":
  sum(n in nodes: len(n.owned)) == 12 and (forall n in nodes: n.handovers == 4)
"#;

/// Four nodes with three keys each, on a network that loses and repeats.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(bug)(system);
        system.property(PROPERTIES);
    }
}

/// The system without properties.
pub fn environment(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("owner", NODES, |number| Owner::new(number, bug));
        system.faults(Faults::none().lose(2).duplicate(2));
    }
}
