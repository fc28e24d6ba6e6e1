//! Three silent bugs (Dinv, section 7): nothing crashes, and clients are served.
//!
//! The peers are those of [`host`](super::host). After a while the last one begins to misbehave, as
//! long as it follows. The observed state is bounded, so that a property of the log can be asserted
//! after every event of a long run: it contains the last entries, not all.

use std::collections::BTreeMap;
use std::error::Error;

use everhold::Time;
use everhold::prelude::*;
use serde::Serializer;
use serde::ser::SerializeStruct;

use super::node::RaftNode;
use super::wire::Msg;
use super::{Bug, Role};

/// The silent bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// A follower appends entries to its log that no leader sent; the leader's next entries replace
    /// them.
    AppendsUnled,
    /// A follower chooses another peer as its leader.
    PicksLeader,
    /// A follower damages a committed entry.
    DamagesLog,
}

impl Silent {
    /// All bugs.
    pub const ALL: [Silent; 3] = [Silent::AppendsUnled, Silent::PicksLeader, Silent::DamagesLog];

    /// Dinv's name for the violated invariant.
    #[must_use]
    pub fn invariant(self) -> &'static str {
        match self {
            Silent::AppendsUnled => "strong leadership",
            Silent::PicksLeader => "leadership agreement",
            Silent::DamagesLog => "log matching",
        }
    }

    /// The asserted property, as text in the property language.
    #[must_use]
    pub fn assertion(self) -> &'static str {
        match self {
            Silent::AppendsUnled => {
                r#"always "strong leadership": forall a, b in nodes where a != b:
                     a.role == "Leader" and a.term == b.term and a.committed_term == a.term
                     implies b.length <= a.length"#
            }
            Silent::PicksLeader => {
                r#"always "leadership agreement": forall a, b in nodes where a != b:
                     a.term == b.term and a.leader != 0 and b.leader != 0
                     implies a.leader == b.leader"#
            }
            Silent::DamagesLog => {
                r#"always "log matching": forall a, b in nodes where a != b:
                     forall i -> entry in a.tail where b.tail[i] != null and b.tail[i] != entry:
                       forall j -> later in a.tail where j >= i and b.tail[j] != null:
                         later[0] != b.tail[j][0]"#
            }
        }
    }

    /// The bug of this name.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub fn named(name: &str) -> Result<Silent, Box<dyn Error>> {
        let found = Silent::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
        found.ok_or_else(|| format!("{name} is none of {:?}", Silent::ALL).into())
    }
}

/// The number of entries of its log in a peer's observed state.
const TAIL: usize = 128;

/// The number of entries that are appended without a leader at a time.
const UNLED: u64 = 50;

/// A peer that may begin to misbehave.
#[derive(Debug)]
pub struct SilentPeer {
    raft: RaftNode,
    bug: Option<Silent>,
    /// The number of ticks until it misbehaves.
    wait: u32,
    /// The time at which it began, by its own clock.
    begun: Option<Time>,
}

impl SilentPeer {
    pub(super) fn new(raft: RaftNode, bug: Option<Silent>, wait: u32) -> SilentPeer {
        SilentPeer { raft, bug, wait, begun: None }
    }

    fn misbehave(&mut self, cx: &mut Cx<Msg>) {
        let Some(bug) = self.bug.filter(|_| self.wait == 0) else { return };
        let commit = self.raft.committed();
        if self.raft.role() != Role::Follower || commit < 2 {
            return;
        }
        self.begun = self.begun.or(Some(cx.now()));
        match bug {
            // Without clients no leader replaces the entries; the earlier ones are still there.
            Silent::AppendsUnled if self.raft.log().len() as u64 > commit + UNLED => {}
            Silent::AppendsUnled => self.raft.append_unled(UNLED),
            Silent::PicksLeader => {
                let peers = self.raft.peers();
                // Any peer except the actual leader.
                let other = cx.choose("leader to believe in", peers - 1) as u64 + 1;
                let leader = self.raft.leader();
                self.raft.believe_in(if other >= leader { other + 1 } else { other });
            }
            Silent::DamagesLog => {
                let recent = commit.min(TAIL as u64 / 2) as usize;
                let index = commit - cx.choose("entry to damage", recent) as u64;
                self.raft.damage(index);
            }
        }
    }

    fn tail(&self) -> BTreeMap<u64, (u64, Option<u64>)> {
        self.raft.tail(TAIL).map(|(index, entry)| (index, (entry.term, entry.command))).collect()
    }
}

impl Node for SilentPeer {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.raft.start(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        self.raft.message(cx, from, msg);
        // A heartbeat corrects the leader; the bug must set it wrong again.
        if self.bug == Some(Silent::PicksLeader) {
            self.misbehave(cx);
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        self.raft.timer(cx, timer);
        self.wait = self.wait.saturating_sub(1);
        self.misbehave(cx);
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        self.raft.restart(cx);
    }
}

impl Serialize for SilentPeer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raft = &self.raft;
        let mut shown = serializer.serialize_struct("SilentPeer", 8)?;
        shown.serialize_field("role", &raft.role())?;
        shown.serialize_field("term", &raft.term())?;
        shown.serialize_field("leader", &raft.leader())?;
        shown.serialize_field("commit", &raft.committed())?;
        shown.serialize_field("committed_term", &raft.committed_term())?;
        shown.serialize_field("length", &raft.log().len())?;
        shown.serialize_field("tail", &self.tail())?;
        shown.serialize_field("begun", &self.begun)?;
        shown.end()
    }
}

/// A peer that may begin to misbehave after `wait` ticks.
pub(super) fn peer(number: usize, peers: usize, bug: Option<Silent>, wait: u32) -> SilentPeer {
    let bug = bug.filter(|_| number + 1 == peers);
    SilentPeer::new(RaftNode::new(number, peers, Bug::None, 5 + 2 * number), bug, wait)
}
