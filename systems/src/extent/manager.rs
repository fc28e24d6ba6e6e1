//! The extent manager itself: plain code that does not know who runs it.
//!
//! It is told the time, what extent nodes report and when to run its two loops, and it speaks
//! through a [`NetworkEngine`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Bug;

/// How many extent nodes should have each extent.
pub const REPLICAS: usize = 3;
/// How long an extent node may be silent before it is given up.
pub const EXPIRATION: Duration = Duration::from_millis(300);

/// An extent node (EN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EnId(pub u32);

/// A container of data, several gigabytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtentId(pub u32);

/// What an extent node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Often: it is alive.
    Heartbeat,
    /// Now and then: all the extents it has.
    Sync(Vec<ExtentId>),
}

/// What the manager orders an extent node to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send a sync report now.
    Sync,
    /// Get a copy of `extent` from `source`.
    Repair {
        /// What is missing.
        extent: ExtentId,
        /// Who has it.
        source: EnId,
    },
}

/// How the manager reaches the extent nodes.
pub trait NetworkEngine {
    /// Sends an order.
    fn send(&mut self, to: EnId, order: Order);
}

/// Which extent nodes have which extents.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExtentCenter {
    replicas: BTreeMap<ExtentId, BTreeSet<EnId>>,
}

impl ExtentCenter {
    /// Notes a replica.
    pub fn add(&mut self, node: EnId, extent: ExtentId) {
        self.replicas.entry(extent).or_default().insert(node);
    }

    /// Replaces what is known about a node by what it says itself.
    pub fn update(&mut self, node: EnId, extents: &[ExtentId]) {
        self.remove(node);
        for extent in extents {
            self.add(node, *extent);
        }
    }

    /// Forgets the replicas of a node; the extents stay known.
    pub fn remove(&mut self, node: EnId) {
        for nodes in self.replicas.values_mut() {
            nodes.remove(&node);
        }
    }

    /// True if the node has the extent.
    #[must_use]
    pub fn has(&self, node: EnId, extent: ExtentId) -> bool {
        self.replicas.get(&extent).is_some_and(|nodes| nodes.contains(&node))
    }

    /// The extents of a node, as its sync report lists them.
    #[must_use]
    pub fn sync_report(&self, node: EnId) -> Vec<ExtentId> {
        let has = |(_, nodes): &(&ExtentId, &BTreeSet<EnId>)| nodes.contains(&node);
        self.replicas.iter().filter(has).map(|(extent, _)| *extent).collect()
    }
}

/// The extent nodes that are alive, with the times of their latest heartbeats.
#[derive(Clone, Debug, Default)]
pub struct ExtentNodeMap {
    heartbeats: BTreeMap<EnId, Duration>,
}

impl ExtentNodeMap {
    fn expired(&self, now: Duration) -> Vec<EnId> {
        let silent = |heartbeat: Duration| now.saturating_sub(heartbeat) >= EXPIRATION;
        self.heartbeats.iter().filter(|(_, at)| silent(**at)).map(|(node, _)| *node).collect()
    }
}

/// Keeps every extent of its partition replicated.
#[derive(Clone, Debug)]
pub struct ExtentManager {
    bug: Bug,
    center: ExtentCenter,
    nodes: ExtentNodeMap,
}

impl ExtentManager {
    /// A manager that has not heard of anybody yet.
    #[must_use]
    pub fn new(bug: Bug) -> Self {
        ExtentManager { bug, center: ExtentCenter::default(), nodes: ExtentNodeMap::default() }
    }

    /// A manager that takes over nodes which all have the same extents.
    #[must_use]
    pub fn of_nodes(bug: Bug, nodes: &[EnId], extents: &[ExtentId]) -> Self {
        let mut manager = ExtentManager::new(bug);
        for node in nodes {
            manager.nodes.heartbeats.insert(*node, Duration::ZERO);
            manager.center.update(*node, extents);
        }
        manager
    }

    /// Takes in what an extent node reports.
    pub fn process_message(
        &mut self,
        now: Duration,
        network: &mut impl NetworkEngine,
        from: EnId,
        report: &Report,
    ) {
        match report {
            Report::Heartbeat => {
                let is_new = self.nodes.heartbeats.insert(from, now).is_none();
                if is_new {
                    network.send(from, Order::Sync);
                }
            }
            // A report may be older than its node's expiration. Whoever is not in the map never
            // expires again, so its replicas would count for ever.
            Report::Sync(extents) => {
                if self.is_alive(from) || self.bug == Bug::SyncFromExpired {
                    self.center.update(from, extents);
                }
            }
        }
    }

    /// The expiration loop: removes the nodes that have been silent, with their replicas.
    pub fn expire(&mut self, now: Duration) {
        for node in self.nodes.expired(now) {
            self.nodes.heartbeats.remove(&node);
            self.center.remove(node);
        }
    }

    /// The repair loop: has every missing replica made by a node that lacks it.
    pub fn repair(&self, network: &mut impl NetworkEngine) {
        for (extent, replicas) in &self.center.replicas {
            let Some(source) = replicas.first() else { continue };
            let lacking = self.nodes.heartbeats.keys().filter(|node| !replicas.contains(node));
            for node in lacking.take(REPLICAS.saturating_sub(replicas.len())) {
                network.send(*node, Order::Repair { extent: *extent, source: *source });
            }
        }
    }

    /// Which extent nodes have which extents, as far as the manager knows.
    #[must_use]
    pub fn center(&self) -> &ExtentCenter {
        &self.center
    }

    /// True if the node has not expired.
    #[must_use]
    pub fn is_alive(&self, node: EnId) -> bool {
        self.nodes.heartbeats.contains_key(&node)
    }

    /// The nodes that are alive and how long they have been silent.
    pub fn silences(&self, now: Duration) -> impl Iterator<Item = (EnId, Duration)> {
        self.nodes.heartbeats.iter().map(move |(node, at)| (*node, now.saturating_sub(*at)))
    }
}
