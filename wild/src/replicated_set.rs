//! `crdts`: replicas of an `Orswot`, a set in which adding wins over removing, that send each other
//! their states.
//!
//! The promises are those of the crate's README, as for `replicated_map`: `merge` is idempotent, and
//! merging a stale state again has no effect. Messages are lost, repeated and reordered.

use std::collections::{BTreeMap, BTreeSet};

use crdts::{CmRDT, CvRDT};
use everhold::System;
use everhold::prelude::*;

/// The number of replicas.
const REPLICAS: u32 = 3;
/// The number of changes of each replica.
const CHANGES: u32 = 4;
/// The number of elements that are added and removed.
const ELEMENTS: usize = 2;

/// The first property: merging a state that a replica has already merged changes nothing.
pub const STALE: &str = "merging a stale state has no effect";
/// The second: in the end, all replicas have the same elements.
pub const CONVERGENCE: &str = "replicas converge";

/// The replicated set.
type Set = crdts::Orswot<u8, u32>;

/// A replica's state, sent to another.
#[derive(Clone, Serialize)]
pub struct State(#[serde(serialize_with = "shown")] Set);

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(&self.0))
    }
}

fn shown<S: serde::Serializer>(set: &Set, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(set))
}

/// A set as text, in an order that does not depend on its table of hashes.
fn text(set: &Set) -> String {
    let elements: BTreeMap<_, _> =
        set.iter().map(|element| (*element.val, format!("{:?}", element.rm_clock))).collect();
    format!("{elements:?} at {:?}", set.clock())
}

fn read(set: &Set) -> BTreeSet<u8> {
    set.read().val.into_iter().collect()
}

/// A replica.
#[derive(Clone, Serialize)]
pub struct Replica {
    #[serde(serialize_with = "shown")]
    set: Set,
    /// All states that this replica had or merged.
    #[serde(skip)]
    known: BTreeMap<String, Set>,
    changes: u32,
}

impl Replica {
    const CHANGE: Duration = Duration::from_millis(100);
    const GOSSIP: Duration = Duration::from_millis(100);

    fn change(&mut self, cx: &mut Cx<State>) {
        let element = cx.choose("element", ELEMENTS) as u8;
        let context = self.set.contains(&element);
        let op = if cx.flip("remove") {
            self.set.rm(element, context.derive_rm_ctx())
        } else {
            self.set.add(element, context.derive_add_ctx(cx.id().0))
        };
        self.set.apply(op);
        self.changes += 1;
    }

    /// Takes note of states that are part of this replica's by now, and merges every one of them
    /// into a copy.
    fn check(&mut self, cx: &mut Cx<State>, merged: Option<Set>) {
        let states = merged.into_iter().chain([self.set.clone()]);
        self.known.extend(states.map(|set| (text(&set), set)));
        let now = read(&self.set);
        for known in self.known.values() {
            let mut merged = self.set.clone();
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

    fn message(&mut self, cx: &mut Cx<State>, _: NodeId, State(set): State) {
        self.set.merge(set.clone());
        self.check(cx, Some(set));
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
                cx.send(NodeId(other), State(self.set.clone()));
            }
            cx.set_timer("gossip", Self::GOSSIP);
        }
    }
}

/// Three replicas of a set.
pub fn system(system: &mut System<State>) {
    system.nodes("replica", REPLICAS as usize, |_| Replica {
        set: Set::new(),
        known: BTreeMap::new(),
        changes: 0,
    });
    system.faults(Faults::none().lose(3).duplicate(2).partition(1));
    system.finally(CONVERGENCE, |s| {
        let read: BTreeSet<_> = s.all::<Replica>().map(|(_, replica)| read(&replica.set)).collect();
        read.len() == 1
    });
    system.sometimes("all changes are made", |s| {
        s.all::<Replica>().all(|(_, replica)| replica.changes == CHANGES)
    });
}
