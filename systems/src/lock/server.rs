//! The lock server: it decides who holds which lock, and for how long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everhold::prelude::*;

use super::{Bug, GRACE, LEASE, Lock, Mode, Msg};

/// Grants locks to clients with a lease.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    bug: Bug,
    leased: BTreeSet<NodeId>,
    locks: BTreeMap<Lock, Entry>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Entry {
    holders: BTreeMap<NodeId, Mode>,
    /// The holders that were asked to return the lock.
    asked: BTreeSet<NodeId>,
    waiting: VecDeque<(NodeId, Mode)>,
}

impl Entry {
    fn forget(&mut self, client: NodeId) {
        self.holders.remove(&client);
        self.asked.remove(&client);
    }

    fn in_the_way(&self, client: NodeId, mode: Mode) -> Vec<NodeId> {
        let others = self.holders.iter().filter(|(holder, _)| **holder != client);
        others.filter(|(_, held)| mode.conflicts_with(**held)).map(|(holder, _)| *holder).collect()
    }
}

impl Server {
    /// A server without any granted locks.
    #[must_use]
    pub fn new(bug: Bug) -> Server {
        Server { bug, leased: BTreeSet::new(), locks: BTreeMap::new() }
    }

    fn acquire(&mut self, cx: &mut Cx<Msg>, client: NodeId, lock: Lock, mode: Mode) {
        // A client without a lease holds nothing, and asks again when it has one.
        if !self.leased.contains(&client) {
            return;
        }
        let entry = self.locks.entry(lock).or_default();
        if !entry.waiting.contains(&(client, mode)) {
            entry.waiting.push_back((client, mode));
        }
        self.serve(cx, lock);
    }

    /// Grants the lock to waiting clients in their order, as long as no holder conflicts.
    fn serve(&mut self, cx: &mut Cx<Msg>, lock: Lock) {
        let Some(entry) = self.locks.get_mut(&lock) else { return };
        while let Some(&(client, mode)) = entry.waiting.front() {
            let in_the_way = entry.in_the_way(client, mode);
            for holder in &in_the_way {
                if entry.asked.insert(*holder) {
                    cx.send(*holder, Msg::Revoke(lock));
                }
            }
            if self.bug == Bug::GrantsBeforeRelease {
                in_the_way.iter().for_each(|holder| entry.forget(*holder));
            } else if !in_the_way.is_empty() {
                return;
            }
            entry.waiting.pop_front();
            entry.holders.insert(client, mode);
            cx.send(client, Msg::Grant(lock, mode));
        }
    }

    fn release(&mut self, cx: &mut Cx<Msg>, client: NodeId, lock: Lock) {
        if let Some(entry) = self.locks.get_mut(&lock) {
            entry.forget(client);
        }
        self.serve(cx, lock);
    }

    fn renew(&mut self, cx: &mut Cx<Msg>, client: NodeId, asked: u64) {
        self.leased.insert(client);
        cx.set_timer(Timer::from("lease").with(u64::from(client.0)), LEASE + GRACE);
        cx.send(client, Msg::Renewed(asked));
    }

    fn expire(&mut self, cx: &mut Cx<Msg>, client: NodeId) {
        self.leased.remove(&client);
        let locks: Vec<Lock> = self.locks.keys().copied().collect();
        for entry in self.locks.values_mut() {
            entry.forget(client);
            entry.waiting.retain(|(waiting, _)| *waiting != client);
        }
        locks.into_iter().for_each(|lock| self.serve(cx, lock));
    }
}

impl Node for Server {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Acquire(lock, mode) => self.acquire(cx, from, lock, mode),
            Msg::Release(lock) => self.release(cx, from, lock),
            Msg::Renew(asked) => self.renew(cx, from, asked),
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        self.expire(cx, NodeId(timer.id as u32));
    }
}
