//! Primary/backup storage after PacificA, with the bug that D³S found in it (NSDI 2008, section
//! 5.1).
//!
//! A slice of data is kept by a group of replicas. The primary takes writes and has the others
//! prepare them. It leads under leases that the others grant by answering its beacons; one that
//! misses the beacons for longer than a lease asks the metadata server to be the primary of a new
//! group. The metadata server has the say: it accepts the first change of a group and refuses the
//! second, so there is one primary at any time.
//!
//! Unless it forgets what it accepted. It answers and lets its log be flushed in the background; a
//! crash in between brings the old group back, the next replica that asks is accepted too, and
//! there are two primaries.

mod meta;
mod replica;

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::prelude::*;

pub use meta::Meta;
pub use replica::{Replica, Role};

/// The primary invariant, as the explorer and `watch` read it.
pub const RULES: &str = include_str!("primary_backup/primary_backup.prop");
/// Its name.
pub const ONE_PRIMARY: &str = "one primary";

/// The metadata server.
pub const META: NodeId = NodeId(0);
/// How many replicas the slice has, numbered from 1.
pub const REPLICAS: u32 = 3;

/// How often a primary asks whether the others are there.
const BEACON: Duration = Duration::from_millis(800);
/// How long it leads after it asked, if all answered.
const LEASE: Duration = Duration::from_secs(2);
/// How long the others wait for a beacon before they ask for another primary: longer than any
/// lease that they granted. Each waits a little longer than the one before it.
const GRACE: Duration = Duration::from_millis(2_500);
const STAGGER: Duration = Duration::from_millis(300);
/// How long until a question to the metadata server is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// How long the buggy metadata server collects entries of its log before it flushes them.
const FLUSH: Duration = Duration::from_secs(2);

/// What is wrong with the metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// It answers before what it accepted is flushed.
    AnswersBeforeFlush,
}

/// Who keeps the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Counts the changes.
    pub version: u64,
    /// Who takes writes.
    pub primary: NodeId,
    /// Everybody, the primary included.
    pub members: BTreeSet<NodeId>,
}

impl Group {
    fn first() -> Group {
        let members: BTreeSet<_> = (1..=REPLICAS).map(NodeId).collect();
        Group { version: 1, primary: NodeId(1), members }
    }

    /// The next group, led by `primary`, without some others.
    fn without(&self, gone: &[NodeId], primary: NodeId) -> Group {
        let stays = |member: &NodeId| *member == primary || !gone.contains(member);
        let members = self.members.iter().copied().filter(stays);
        Group { version: self.version + 1, primary, members: members.collect() }
    }

    fn secondaries(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied().filter(|member| *member != self.primary)
    }
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to replica: store this.
    Write(u64),
    /// Replica to client: every member has it; this many there are now.
    Written(u64),
    /// Replica to client: ask that one.
    Elsewhere(NodeId),
    /// Client to replica: who are you?
    Show,
    /// Replica to client: this, in the group of this version.
    Shown(Role, u64),
    /// Primary to secondary: I am here, in this group, at this time of mine.
    Beacon(Group, u64),
    /// Secondary to primary: I heard your beacon of that version and time.
    Heard(u64, u64),
    /// Primary to secondary: in the group of this version, these are the writes.
    Prepare(u64, Vec<u64>),
    /// Secondary to primary: I have this many of them.
    Prepared(u64, u64),
    /// Replica to metadata server: let this be the group.
    Change(Group),
    /// The group as it is now, from whoever knows better.
    Changed(Group),
}

/// A client, modelled: writes until one is stored.
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
            // A replica that waits for its group names itself; asking it at once would go round.
            Msg::Elsewhere(primary) if primary == from => {}
            Msg::Elsewhere(primary) => cx.send(primary, Msg::Write(1)),
            other => cx.unexpected(other),
        }
    }
}

/// Metadata server, three replicas and a client. The metadata server crashes, and a replica may
/// stop for ever.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        assert_eq!(system.node("meta", Meta::new(bug)), META);
        for number in 1..=REPLICAS {
            system.node("replica", Replica::new(NodeId(number)));
        }
        let writer = system.node("writer", Writer { stored: 0 });
        // Leases rely on clocks that run alike.
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
