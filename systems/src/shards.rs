//! Keys that each belong to one node at a time, and that move between nodes.
//!
//! Every key has an owner. From time to time an owner hands a key over to another node: it gives
//! the key up and sends it, again and again until the other node confirms. The receiver accepts a
//! handover once, however often it arrives. So no two nodes ever own the same key.

use std::collections::{BTreeMap, BTreeSet};

use everhold::System;
use everhold::prelude::*;

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A node gives a key up when the receiver has confirmed it, not before sending it.
    KeepsUntilConfirmed,
    /// A node accepts every key that arrives, even one that it had and has handed on in the
    /// meantime.
    TakesTwice,
}

/// A key.
pub type Key = u8;

/// The number of nodes, and the number of keys of each.
const NODES: usize = 4;
const KEYS_EACH: usize = 3;
/// The number of keys that each node hands over.
const HANDOVERS: u32 = 4;
/// The interval between handovers.
const PAUSE: Duration = Duration::from_millis(500);
/// The time that a confirmation may take.
const PATIENCE: Duration = Duration::from_millis(100);

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// This key is yours.
    Take {
        /// The number of the handover, counted by the sender.
        number: u32,
        /// The key.
        key: Key,
    },
    /// The handover of this number was accepted.
    Taken(u32),
}

/// An unconfirmed handover.
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
    /// The accepted handovers, by sender.
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

    /// The keys that are not being handed over.
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

/// The specification (Dinv, table 2: key ownership).
pub const ONE_OWNER: &str = "a key has one owner";

/// The specification in the property language.
pub const PROPERTIES: &str = r#"
always "a key has one owner":
  forall a, b in nodes where a != b: a.owned disjoint from b.owned

sometimes "all keys are where they should be, after all handovers":
  sum(n in nodes: len(n.owned)) == 12 and (forall n in nodes: n.handovers == 4)
"#;

/// Four nodes with three keys each, on a network that loses and duplicates messages.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(bug)(system);
        system.property(PROPERTIES);
    }
}

/// The system without its properties.
pub fn environment(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("owner", NODES, |number| Owner::new(number, bug));
        system.faults(Faults::none().lose(2).duplicate(2));
    }
}
