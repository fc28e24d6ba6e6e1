//! The safety properties of Raft's paper (figure 3), and goals that show that they are not vacuous.

use std::collections::BTreeMap;

use everhold::System;
use everhold::prelude::*;

use super::node::{RaftNode, Role};
use super::wire::Msg;

/// The property that at most one leader is elected in a term.
pub const ELECTION_SAFETY: &str = "election safety";
/// The property that two logs with an entry of the same index and term agree up to that entry.
pub const LOG_MATCHING: &str = "log matching";
/// The property that entries committed in a term are in the logs of the leaders of all later terms.
pub const LEADER_COMPLETENESS: &str = "leader completeness";
/// The property that no two peers apply different entries at the same index.
pub const STATE_MACHINE_SAFETY: &str = "state machine safety";

/// The notifications that the specifications receive.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A peer was elected.
    Leads {
        /// The peer.
        node: NodeId,
        /// The term.
        term: u64,
        /// The terms of the entries in its log at that time.
        log: Vec<u64>,
    },
    /// A leader counted a majority for an entry.
    Committed {
        /// The index of the entry in the log, from 1.
        index: u64,
        /// The entry's term.
        term: u64,
        /// The leader's term.
        leader: u64,
    },
    /// A peer applied a command.
    Applied {
        /// The peer.
        node: NodeId,
        /// The index of the entry in the log, from 1.
        index: u64,
        /// The entry's term.
        term: u64,
        /// The command.
        command: u64,
    },
}

/// Adds properties and goals to a system whose first `peers` nodes are the peers.
pub(super) fn add(system: &mut System<Msg>, peers: usize) {
    system.monitor(ELECTION_SAFETY, ElectionSafety::default());
    system.always(LOG_MATCHING, logs_match);
    system.monitor(LEADER_COMPLETENESS, LeaderCompleteness::default());
    system.monitor(STATE_MACHINE_SAFETY, StateMachineSafety::default());
    system.sometimes("a leader is elected", |s| leaders(s).next().is_some());
    system.sometimes("a second leader, in a later term", |s| {
        // Every leader begins its term with an entry of its own.
        leaders(s).any(|leader| leader.log().any(|entry| entry.term < leader.term()))
    });
    system.sometimes("a command is applied on all", move |s| {
        let mut applied = s.all::<RaftNode>().map(|(_, peer)| peer.applied());
        let Some(first) = applied.next() else { return false };
        !first.is_empty()
            && applied.filter(|other| other.first() == first.first()).count() == peers - 1
    });
}

fn leaders<'a>(s: &'a View<'_, Msg>) -> impl Iterator<Item = &'a RaftNode> {
    s.all::<RaftNode>().map(|(_, peer)| peer).filter(|peer| peer.role() == Role::Leader)
}

#[derive(Clone, Default, Serialize)]
struct ElectionSafety {
    leaders: BTreeMap<u64, NodeId>,
}

impl Monitor for ElectionSafety {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        if let Heard::Leads { node, term, .. } = event {
            let first = *self.leaders.entry(*term).or_insert(*node);
            assert!(first == *node, "{first} and {node} both lead term {term}");
        }
    }
}

#[derive(Clone, Default, Serialize)]
struct LeaderCompleteness {
    /// For each index, the term of the entry, and the first leader's term that is known to have
    /// counted a majority for it.
    committed: BTreeMap<u64, (u64, u64)>,
    /// For each term, the log with which its leader began.
    leaders: BTreeMap<u64, Vec<u64>>,
}

impl LeaderCompleteness {
    fn check(&self, index: u64, leader: u64) {
        let (entry, committed_by) = self.committed[&index];
        let log = &self.leaders[&leader];
        let found = log.get(index as usize - 1);
        assert!(
            leader <= committed_by || found == Some(&entry),
            "entry {index} of term {entry} was committed in term {committed_by}, but the leader \
             of term {leader} has a log of the terms {log:?}"
        );
    }
}

impl Monitor for LeaderCompleteness {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        match event {
            Heard::Leads { term, log, .. } => {
                self.leaders.entry(*term).or_insert_with(|| log.clone());
                self.committed.keys().for_each(|index| self.check(*index, *term));
            }
            Heard::Committed { index, term, leader } => {
                self.committed.entry(*index).or_insert((*term, *leader));
                self.leaders.keys().for_each(|leader| self.check(*index, *leader));
            }
            Heard::Applied { .. } => {}
        }
    }
}

#[derive(Clone, Default, Serialize)]
struct StateMachineSafety {
    /// For each index, the first application: the peer, the term and the command.
    applied: BTreeMap<u64, (NodeId, u64, u64)>,
}

impl Monitor for StateMachineSafety {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        if let Heard::Applied { node, index, term, command } = event {
            let first = self.applied.entry(*index).or_insert((*node, *term, *command));
            assert!(
                (first.1, first.2) == (*term, *command),
                "at index {index} {} applied command {} of term {}, {node} command {command} of \
                 term {term}",
                first.0,
                first.2,
                first.1
            );
        }
    }
}

fn logs_match(s: &View<'_, Msg>) -> Result<(), String> {
    let peers: Vec<(NodeId, &RaftNode)> = s.all().collect();
    for (at, (a, one)) in peers.iter().enumerate() {
        for (b, other) in &peers[at + 1..] {
            match_pair(one, other).map_err(|index| {
                format!("the logs of {a} and {b} differ at {index} and agree on a later term")
            })?;
        }
    }
    Ok(())
}

/// Returns the first index at which two logs differ although a later entry has the same term in
/// both.
fn match_pair(one: &RaftNode, other: &RaftNode) -> Result<(), usize> {
    let mut differs = None;
    for (at, (a, b)) in one.log().zip(other.log()).enumerate() {
        if a == b && differs.is_none() {
            continue;
        }
        let first = *differs.get_or_insert(at + 1);
        if a.term == b.term {
            return Err(first);
        }
    }
    Ok(())
}
