//! Primary/backup storage like PacificA's, with the bug that D³S found in it (NSDI 2008, section
//! 5.1).
//!
//! A slice of data is kept by a group of replicas. The primary takes writes and has the others
//! prepare them. It leads under leases that the others grant by answering its beacons; a replica
//! that misses the beacons for longer than a lease asks the metadata server to become the primary
//! of a new group. The metadata server decides: it accepts the first change of a group and refuses
//! the second, so there is one primary at any time.
//!
//! The bug: the metadata server answers before its log is flushed in the background. A crash in
//! between restores the old group, the next replica that asks is accepted too, and there are two
//! primaries.

mod meta;
mod replica;

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::System;
use everhold::prelude::*;

pub use meta::Meta;
pub use replica::{Replica, Role};

/// The primary invariant, which the explorer and `watch` read.
pub const RULES: &str = include_str!("primary_backup/primary_backup.prop");
/// The name of the invariant.
pub const ONE_PRIMARY: &str = "one primary";

/// The metadata server.
pub const META: NodeId = NodeId(0);
/// The number of replicas of the slice; their numbers start at 1.
pub const REPLICAS: u32 = 3;

/// The interval between a primary's beacons.
const BEACON: Duration = Duration::from_millis(800);
/// The time for which the primary leads after it asked, if all others answered.
const LEASE: Duration = Duration::from_secs(2);
/// The time for which the others wait for a beacon before they ask for another primary: longer than
/// any lease that they granted. Each replica waits a little longer than the one before it.
const GRACE: Duration = Duration::from_millis(2_500);
const STAGGER: Duration = Duration::from_millis(300);
/// The interval at which a question to the metadata server is repeated.
const RETRY: Duration = Duration::from_millis(100);
/// The time for which the buggy metadata server collects entries of its log before it flushes them.
const FLUSH: Duration = Duration::from_secs(2);

/// The known bugs of the metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It answers before the accepted change is flushed.
    AnswersBeforeFlush,
}

/// A group of replicas that keeps the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of changes so far.
    pub version: u64,
    /// The replica that takes writes.
    pub primary: NodeId,
    /// All members, including the primary.
    pub members: BTreeSet<NodeId>,
}

impl Group {
    fn first() -> Group {
        let members: BTreeSet<_> = (1..=REPLICAS).map(NodeId).collect();
        Group { version: 1, primary: NodeId(1), members }
    }

    /// The next group, led by `primary`, without the members in `gone`.
    fn without(&self, gone: &[NodeId], primary: NodeId) -> Group {
        let stays = |member: &NodeId| *member == primary || !gone.contains(member);
        let members = self.members.iter().copied().filter(stays);
        Group { version: self.version + 1, primary, members: members.collect() }
    }

    fn secondaries(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied().filter(|member| *member != self.primary)
    }
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to replica: store this.
    Write(u64),
    /// Replica to client: every member has the write; the number of writes now.
    Written(u64),
    /// Replica to client: ask this replica.
    Elsewhere(NodeId),
    /// Client to replica: show your role.
    Show,
    /// Replica to client: my role, in the group of this version.
    Shown(Role, u64),
    /// Primary to secondary: I am alive, in this group, at this time of my clock.
    Beacon(Group, u64),
    /// Secondary to primary: I received your beacon of that version and time.
    Heard(u64, u64),
    /// Primary to secondary: in the group of this version, these are the writes.
    Prepare(u64, Vec<u64>),
    /// Secondary to primary: in the group of this version, I have this many of the writes.
    Prepared(u64, u64),
    /// Replica to metadata server: a request to make this the group.
    Change(Group),
    /// The present group, from any node that knows a newer one than the receiver.
    Changed(Group),
}

/// A modelled client: it writes until one write is stored.
#[derive(Clone, Debug, Serialize)]
struct Writer {
    stored: u64,
}

impl Node for Writer {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(NodeId(1), Msg::Write(1));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Written(_) => {
                self.stored += 1;
                if self.stored < 2 {
                    cx.send(from, Msg::Write(2));
                }
            }
            // A replica that waits for its group names itself; asking it again at once would cause
            // a loop.
            Msg::Elsewhere(primary) if primary == from => {}
            Msg::Elsewhere(primary) => cx.send(primary, Msg::Write(1)),
            other => cx.unexpected(other),
        }
    }
}

/// The metadata server, three replicas and a client. The metadata server may crash, and a replica
/// may stop for ever.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        assert_eq!(system.node("meta", Meta::new(bug)), META);
        for number in 1..=REPLICAS {
            system.node("replica", Replica::new(NodeId(number)));
        }
        let writer = system.node("writer", Writer { stored: 0 });
        // Leases depend on synchronised clocks.
        system.clocks(Clocks::Shared);
        system.faults(Faults::none().crash(1).stop(1).only(["meta", "replica"]));
        system.property(RULES);
        system.sometimes("a write is stored", move |s| {
            s.get::<Writer>(writer).is_some_and(|writer| writer.stored > 0)
        });
        system.sometimes("another replica leads", |s| {
            (2..=REPLICAS).any(|number| {
                s.get::<Replica>(NodeId(number)).is_some_and(|r| r.role() == Role::Primary)
            })
        });
    }
}
