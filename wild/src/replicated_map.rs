//! `crdts`: replicas of a `Map` of `MVReg` that write, remove and send each other their states.
//!
//! The crate's README promises of `merge` that it is idempotent, and that merging a stale state
//! again has no effect. State-based replication needs no order and no delivery, so messages are
//! lost, duplicated and reordered. Each replica is an actor of its own, and each change uses the
//! context of a read of the same key just before it, as the README asks for.

use std::collections::{BTreeMap, BTreeSet};

use crdts::{CmRDT, CvRDT, MVReg};
use everhold::System;
use everhold::prelude::*;

/// The number of replicas.
const REPLICAS: u32 = 3;
/// The number of changes of each replica.
const CHANGES: u32 = 3;

/// The first property: merging a state that a replica has already merged changes nothing.
pub const STALE: &str = "merging a stale state has no effect";
/// The second: in the end, all replicas read the same.
pub const CONVERGENCE: &str = "replicas converge";

/// The replicated state.
pub type Map = crdts::Map<u8, MVReg<u32, u32>, u32>;

/// The values under each key.
type Values = BTreeMap<u8, BTreeSet<u32>>;

/// A replica's state, sent to another.
#[derive(Clone, Debug, Serialize)]
pub struct State(#[serde(serialize_with = "shown")] Map);

fn shown<S: serde::Serializer>(map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{map:?}"))
}

/// A replica.
#[derive(Clone, Serialize)]
pub struct Replica {
    keys: usize,
    removes: bool,
    #[serde(serialize_with = "shown")]
    map: Map,
    /// All states that this replica had or merged.
    #[serde(skip)]
    known: BTreeMap<String, Map>,
    changes: u32,
}

/// The values that a map shows.
fn read(map: &Map) -> Values {
    let keys = map.keys().map(|key| *key.val);
    let values = keys.filter_map(|key| Some((key, map.get(&key).val?.read().val)));
    values.map(|(key, values)| (key, values.into_iter().collect())).collect()
}

impl Replica {
    const CHANGE: Duration = Duration::from_millis(100);
    const GOSSIP: Duration = Duration::from_millis(100);

    fn change(&mut self, cx: &mut Cx<State>) {
        let key = cx.choose("key", self.keys) as u8;
        let context = self.map.get(&key);
        let op = if self.removes && cx.flip("remove") {
            self.map.rm(key, context.derive_rm_ctx())
        } else {
            let value = cx.id().0 * 10 + self.changes;
            let context = context.derive_add_ctx(cx.id().0);
            self.map.update(key, context, |register, context| register.write(value, context))
        };
        self.map.apply(op);
        self.changes += 1;
    }

    /// Takes note of states that are part of this replica's by now, and merges every one of them
    /// into a copy.
    fn check(&mut self, cx: &mut Cx<State>, merged: Option<Map>) {
        let states = merged.into_iter().chain([self.map.clone()]);
        let before = self.known.len();
        self.known.extend(states.map(|map| (format!("{map:?}"), map)));
        if self.known.len() == before {
            return;
        }
        let now = read(&self.map);
        for known in self.known.values() {
            let mut merged = self.map.clone();
            merged.merge(known.clone());
            cx.check(read(&merged) == now, STALE, || {
                format!("{now:?} became {:?} by merging {:?} again", read(&merged), read(known))
            });
        }
    }
}

impl Node for Replica {
    type Msg = State;

    fn start(&mut self, cx: &mut Cx<State>) {
        cx.set_timer("change", Self::CHANGE);
        cx.set_timer("gossip", Self::GOSSIP);
    }

    fn message(&mut self, cx: &mut Cx<State>, _: NodeId, State(map): State) {
        self.map.merge(map.clone());
        self.check(cx, Some(map));
    }

    fn timer(&mut self, cx: &mut Cx<State>, timer: Timer) {
        if timer == Timer::from("change") {
            self.change(cx);
            self.check(cx, None);
            if self.changes < CHANGES {
                cx.set_timer("change", Self::CHANGE);
            }
        } else {
            let own = cx.id().0;
            for other in (0..REPLICAS).filter(|other| *other != own) {
                cx.send(NodeId(other), State(self.map.clone()));
            }
            cx.set_timer("gossip", Self::GOSSIP);
        }
    }
}

/// Three replicas of a map with so many keys, which also remove entries if `removes`.
pub fn system(keys: usize, removes: bool) -> Setup<State> {
    Box::new(move |system| describe(system, keys, removes))
}

fn describe(system: &mut System<State>, keys: usize, removes: bool) {
    system.nodes("replica", REPLICAS as usize, |_| Replica {
        keys,
        removes,
        map: Map::new(),
        known: BTreeMap::new(),
        changes: 0,
    });
    system.faults(Faults::none().lose(3).duplicate(2).partition(1));
    system.finally(CONVERGENCE, |s| {
        let read: BTreeSet<_> = s.all::<Replica>().map(|(_, replica)| read(&replica.map)).collect();
        read.len() == 1
    });
    system.sometimes("all changes are made", |s| {
        s.all::<Replica>().all(|(_, replica)| replica.changes == CHANGES)
    });
}
