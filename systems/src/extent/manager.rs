//! The extent manager itself: plain code that is independent of its environment.
//!
//! The caller supplies the time and the reports of extent nodes, and decides when to run the two
//! loops. Orders are sent through a [`NetworkEngine`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Bug;

/// The required number of replicas of each extent.
pub const REPLICAS: usize = 3;
/// The time of silence after which an extent node expires.
pub const EXPIRATION: Duration = Duration::from_millis(300);

/// An extent node (EN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EnId(pub u32);

/// A container of several gigabytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtentId(pub u32);

/// The reports of an extent node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Frequent: the node is alive.
    Heartbeat,
    /// Less frequent: all extents of the node.
    Sync(Vec<ExtentId>),
}

/// The orders to an extent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send a sync report now.
    Sync,
    /// Copy `extent` from `source`.
    Repair {
        /// The missing extent.
        extent: ExtentId,
        /// A node that has it.
        source: EnId,
    },
}

/// The connection from the manager to the extent nodes.
pub trait NetworkEngine {
    /// Sends an order.
    fn send(&mut self, to: EnId, order: Order);
}

/// The extents of each extent node.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExtentCenter {
    replicas: BTreeMap<ExtentId, BTreeSet<EnId>>,
}

impl ExtentCenter {
    /// Records a replica.
    pub fn add(&mut self, node: EnId, extent: ExtentId) {
        self.replicas.entry(extent).or_default().insert(node);
    }

    /// Replaces the known extents of a node by those in its own report.
    pub fn update(&mut self, node: EnId, extents: &[ExtentId]) {
        self.remove(node);
        for extent in extents {
            self.add(node, *extent);
        }
    }

    /// Removes the replicas of a node; the extents stay known.
    pub fn remove(&mut self, node: EnId) {
        for nodes in self.replicas.values_mut() {
            nodes.remove(&node);
        }
    }

    /// Whether the node has the extent.
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
    /// A manager that has not received any report yet.
    #[must_use]
    pub fn new(bug: Bug) -> Self {
        ExtentManager { bug, center: ExtentCenter::default(), nodes: ExtentNodeMap::default() }
    }

    /// A manager that takes over nodes with the same extents.
    #[must_use]
    pub fn of_nodes(bug: Bug, nodes: &[EnId], extents: &[ExtentId]) -> Self {
        let mut manager = ExtentManager::new(bug);
        for node in nodes {
            manager.nodes.heartbeats.insert(*node, Duration::ZERO);
            manager.center.update(*node, extents);
        }
        manager
    }

    /// Handles a report of an extent node.
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
            // A report may be older than its node's expiration. A node that is not in the map never
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

    /// The repair loop: for every missing replica, orders a node without it to copy it from one
    /// that has it.
    pub fn repair(&self, network: &mut impl NetworkEngine) {
        for (extent, replicas) in &self.center.replicas {
            let Some(source) = replicas.first() else { continue };
            let lacking = self.nodes.heartbeats.keys().filter(|node| !replicas.contains(node));
            for node in lacking.take(REPLICAS.saturating_sub(replicas.len())) {
                network.send(*node, Order::Repair { extent: *extent, source: *source });
            }
        }
    }

    /// The extents of each extent node, as far as the manager knows.
    #[must_use]
    pub fn center(&self) -> &ExtentCenter {
        &self.center
    }

    /// Whether the node has not expired.
    #[must_use]
    pub fn is_alive(&self, node: EnId) -> bool {
        self.nodes.heartbeats.contains_key(&node)
    }

    /// The nodes that are alive, with the time for which each has been silent.
    pub fn silences(&self, now: Duration) -> impl Iterator<Item = (EnId, Duration)> {
        self.nodes.heartbeats.iter().map(move |(node, at)| (*node, now.saturating_sub(*at)))
    }
}
