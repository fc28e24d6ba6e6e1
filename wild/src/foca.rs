//! foca: members that join through the first of them, suspect one another and come back.
//!
//! The crate promises SWIM with suspicion: an update with an older incarnation changes nothing, a
//! member that is down "can't join the cluster with the same identity" while it is remembered, and
//! of two identities with one address the one that wins the conflict stays. Messages are datagrams:
//! they are lost, repeated and reordered. A member that crashes comes back with a new identity.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use everhold::System;
use everhold::prelude::*;
use foca::{AccumulatingRuntime, Config, Error, Foca, Identity, PostcardCodec, State};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serializer;

/// The number of members.
const MEMBERS: u32 = 3;

/// The first property: an identity that was down is never up again.
pub const DOWN: &str = "down is final";
/// The second: what is known of an identity that is up does not become older.
pub const INCARNATIONS: &str = "incarnations do not go back";
/// The third: an identity that lost a conflict does not come back.
pub const CONFLICTS: &str = "the newer identity stays";

/// The identity of a member: its address, and how often it has had another identity before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id {
    address: u32,
    generation: u32,
}

impl Identity for Id {
    type Addr = u32;

    fn renew(&self) -> Option<Self> {
        Some(Id { generation: self.generation + 1, ..*self })
    }

    fn addr(&self) -> u32 {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.generation > adversary.generation
    }
}

/// A datagram of the crate.
#[derive(Clone, Debug, Serialize)]
pub struct Datagram(Vec<u8>);

/// A member.
pub struct Member {
    foca: Foca<Id, PostcardCodec, SmallRng, foca::NoCustomBroadcast>,
    timers: BTreeMap<u64, foca::Timer<Id>>,
    set: u64,
    /// What was known of each identity, by its incarnation.
    known: BTreeMap<Id, u16>,
    down: BTreeSet<Id>,
    /// The newest generation of each address.
    newest: BTreeMap<u32, u32>,
}

/// The part of a member's state that traces show.
#[derive(Serialize)]
struct Shown {
    generation: u32,
    members: BTreeMap<String, String>,
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.foca.iter_membership_state().map(|member| {
            let Id { address, generation } = member.id();
            let state = format!("{:?} {}", member.state(), member.incarnation());
            (format!("{address}.{generation}"), state)
        });
        let shown =
            Shown { generation: self.foca.identity().generation, members: members.collect() };
        shown.serialize(serializer)
    }
}

impl Member {
    fn new(id: Id) -> Self {
        let mut config = Config::new_lan(NonZeroU32::new(MEMBERS).expect("there are members"));
        config.remove_down_after = Duration::from_secs(1_000_000).into();
        let rng = SmallRng::seed_from_u64(id.address.into());
        Member {
            foca: Foca::new(id, config, rng, PostcardCodec),
            timers: BTreeMap::new(),
            set: 0,
            known: BTreeMap::new(),
            down: BTreeSet::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Joins through the first member, under a generation that was never used before.
    fn join(&mut self, cx: &mut Cx<Datagram>) {
        let address = cx.id().0;
        let last: u32 = cx.disk().load("generation").expect("it was saved").unwrap_or_default();
        *self = Member::new(Id { address, generation: last + 1_000 });
        cx.disk().save("generation", &(last + 1_000));
        cx.disk().sync();
        if address != 0 {
            self.announce(cx);
        }
    }

    fn announce(&mut self, cx: &mut Cx<Datagram>) {
        // An identity of which nobody has heard loses every conflict, so this is only an address.
        let first = Id { address: 0, generation: 0 };
        self.drive(cx, |foca, runtime| foca.announce(first, runtime));
        cx.set_timer("announce", Duration::from_secs(5));
    }

    /// Calls the crate and does what it asks for.
    fn drive(
        &mut self,
        cx: &mut Cx<Datagram>,
        call: impl FnOnce(
            &mut Foca<Id, PostcardCodec, SmallRng, foca::NoCustomBroadcast>,
            &mut AccumulatingRuntime<Id>,
        ) -> Result<(), Error>,
    ) {
        let mut runtime = AccumulatingRuntime::new();
        // Datagrams for another identity and probes that time upset are refused, and that is all.
        let refused = call(&mut self.foca, &mut runtime).err();
        if let Some(error) = refused {
            cx.note(|| error.to_string());
        }
        while let Some((to, datagram)) = runtime.to_send() {
            cx.send(NodeId(to.address), Datagram(datagram.to_vec()));
        }
        while let Some((after, timer)) = runtime.to_schedule() {
            self.set += 1;
            self.timers.insert(self.set, timer);
            cx.set_timer(Timer::from("foca").with(self.set), after);
        }
        self.check(cx);
    }

    fn check(&mut self, cx: &mut Cx<Datagram>) {
        for member in self.foca.iter_membership_state() {
            let (id, incarnation) = (*member.id(), member.incarnation());
            let newest = self.newest.entry(id.address).or_default();
            cx.check(*newest <= id.generation, CONFLICTS, || format!("{id:?} replaced {newest}"));
            *newest = id.generation;
            if member.state() == State::Down {
                self.down.insert(id);
                continue;
            }
            cx.check(!self.down.contains(&id), DOWN, || format!("{id:?} is up again"));
            let before = self.known.insert(id, incarnation).unwrap_or_default();
            cx.check(before <= incarnation, INCARNATIONS, || {
                format!("{id:?} had incarnation {before} and now has {incarnation}")
            });
        }
    }
}

impl Node for Member {
    type Msg = Datagram;

    fn start(&mut self, cx: &mut Cx<Datagram>) {
        self.join(cx);
    }

    fn message(&mut self, cx: &mut Cx<Datagram>, _: NodeId, Datagram(bytes): Datagram) {
        self.drive(cx, |foca, runtime| foca.handle_data(&bytes, runtime));
    }

    fn timer(&mut self, cx: &mut Cx<Datagram>, timer: Timer) {
        if timer == Timer::from("announce") {
            if self.foca.num_members() == 0 {
                self.announce(cx);
            }
        } else if let Some(timer) = self.timers.remove(&timer.id) {
            self.drive(cx, |foca, runtime| foca.handle_timer(timer, runtime));
        }
    }
}

/// Three members, which crash and are cut off from one another.
pub fn system(system: &mut System<Datagram>) {
    for address in 0..MEMBERS {
        system.node_with("member", move || Member::new(Id { address, generation: 0 }));
    }
    system.faults(Faults::none().crash(1).lose(4).duplicate(2).partition(1));
    system.sometimes("everybody knows everybody", |s| {
        s.all::<Member>().all(|(_, member)| member.foca.num_members() == MEMBERS as usize - 1)
    });
    system.sometimes("somebody is down", |s| {
        s.all::<Member>().any(|(_, member)| !member.down.is_empty())
    });
}
