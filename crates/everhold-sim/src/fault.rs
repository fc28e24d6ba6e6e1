//! The faults that may occur, and how often in one execution.

use std::fmt;
use std::time::Duration;

use everhold_node::{CrashModel, NodeId};

/// A budget of faults for one execution. Within it every fault is a choice of the strategy, so
/// faults replay and shrink like everything else.
///
/// ```
/// use everhold_sim::Faults;
/// let faults = Faults::none().crash(1).lose(2).only(["server"]);
/// assert_eq!((faults.crashes, faults.losses, faults.partitions), (1, 2, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nodes that crash and come back with what their disk kept.
    pub crashes: u32,
    /// Nodes that stop for ever.
    pub stops: u32,
    /// Messages that never arrive.
    pub losses: u32,
    /// Messages that arrive twice.
    pub duplicates: u32,
    /// Messages held back until nothing else can happen.
    pub delays: u32,
    /// Times that the network falls into two parts; each heals again.
    pub partitions: u32,
    /// Partitions in which one side still hears the other; each heals again.
    pub one_way_partitions: u32,
    /// Connections that break, on a network of streams.
    pub resets: u32,
    /// Times that a node's clock jumps by at most `skew_max` in either direction.
    pub skews: u32,
    /// The largest jump of a clock.
    pub skew_max: Duration,
    /// Crashes that keep one half of a record or an entry that they do not keep whole.
    pub torn_writes: u32,
    /// The damage that a crash can do to writes that were not synced.
    pub crash_model: CrashModel,
    /// Operations of a disk that fail with `EIO`.
    pub disk_errors: u32,
    /// Events in which a disk is full (`ENOSPC`).
    pub full_disks: u32,
    /// Times that a disk is slow, on a virtual clock.
    pub slow_disks: u32,
    /// Kinds of node that crash, stop, skew and are cut off; every kind if empty.
    pub kinds: Vec<String>,
}

impl Faults {
    /// No faults; the network may still reorder messages.
    #[must_use]
    pub fn none() -> Self {
        Faults::default()
    }

    /// Allows up to `n` crashes; a crashed node restarts sooner or later. A crash falls between two
    /// events of the node, or before or after any operation of its [disk](everhold_node::Disk)
    /// within one: the effects of the handler before that point have happened, the later ones do
    /// not.
    #[must_use]
    pub fn crash(self, n: u32) -> Self {
        Faults { crashes: n, ..self }
    }

    /// Allows up to `n` nodes to stop for ever.
    #[must_use]
    pub fn stop(self, n: u32) -> Self {
        Faults { stops: n, ..self }
    }

    /// Allows up to `n` messages to be lost. On [streams](crate::Network::Streams) the connection
    /// breaks at such a message: the messages sent before it arrive, those after it do not, and
    /// both ends are [told](everhold_node::Node::disconnected).
    #[must_use]
    pub fn lose(self, n: u32) -> Self {
        Faults { losses: n, ..self }
    }

    /// Allows up to `n` messages to be delivered twice. A stream never does that.
    #[must_use]
    pub fn duplicate(self, n: u32) -> Self {
        Faults { duplicates: n, ..self }
    }

    /// Allows up to `n` messages to be held back until nothing else can happen. Where timers never
    /// stop, that is not before the fair tail.
    #[must_use]
    pub fn delay(self, n: u32) -> Self {
        Faults { delays: n, ..self }
    }

    /// Allows up to `n` partitions, one at a time. Up to 31 nodes are parted in every way (up to 30
    /// if faults are restricted to some [kinds](Self::only), whose nodes are cut off from each other
    /// and from the rest); of more, one is cut off at a time.
    #[must_use]
    pub fn partition(self, n: u32) -> Self {
        Faults { partitions: n, ..self }
    }

    /// Allows up to `n` partitions in which one side hears the other and is not heard, one at a
    /// time.
    ///
    /// ```
    /// use everhold_sim::Faults;
    /// let faults = Faults::none().one_way_partition(1).only(["server"]);
    /// assert_eq!(faults.one_way_partitions, 1);
    /// ```
    #[must_use]
    pub fn one_way_partition(self, n: u32) -> Self {
        Faults { one_way_partitions: n, ..self }
    }

    /// Allows up to `n` connections to break. On [streams](crate::Network::Streams) two nodes are
    /// connected from their first message on. When their connection breaks, a prefix of the
    /// messages under way in each direction still arrives, then each end is
    /// [told](everhold_node::Node::disconnected). Messages that an end sends before it is told are
    /// lost; after that, its next message opens a new connection.
    #[must_use]
    pub fn reset(self, n: u32) -> Self {
        Faults { resets: n, ..self }
    }

    /// Allows up to `n` clock jumps of at most `max`.
    #[must_use]
    pub fn clock_skew(self, n: u32, max: Duration) -> Self {
        Faults { skews: n, skew_max: max, ..self }
    }

    /// Allows up to `n` of the crashes to tear a write: they keep one half of a record or of an
    /// entry of a log. Files of bytes are torn by every crash, sector by sector.
    #[must_use]
    pub fn torn_write(self, n: u32) -> Self {
        Faults { torn_writes: n, ..self }
    }

    /// Sets the damage that a crash can do to writes that were not synced; [`CrashModel::Ext4`] by
    /// default.
    ///
    /// ```
    /// use everhold_sim::{CrashModel, Faults};
    /// let faults = Faults::none().crash(1).crash_model(CrashModel::Any);
    /// assert_eq!(faults.crash_model, CrashModel::Any);
    /// ```
    #[must_use]
    pub fn crash_model(self, crash_model: CrashModel) -> Self {
        Faults { crash_model, ..self }
    }

    /// Allows up to `n` operations of a disk to fail with `EIO`. A node that calls `try_sync` and
    /// the like sees the error; any other dies of it, like a process that panics, and restarts.
    /// Data that a failed sync should have written is never written by a later one, as on Linux.
    #[must_use]
    pub fn disk_error(self, n: u32) -> Self {
        Faults { disk_errors: n, ..self }
    }

    /// Allows a disk to be full (`ENOSPC`) up to `n` times, each for the rest of an event. A node
    /// that calls `try_put` and the like sees the error; any other dies of it and restarts.
    #[must_use]
    pub fn full_disk(self, n: u32) -> Self {
        Faults { full_disks: n, ..self }
    }

    /// Allows a disk to be slow for a while, up to `n` times. This takes effect on a virtual clock
    /// with a `DiskModel`, which states the usual cost of disk operations.
    #[must_use]
    pub fn slow_disk(self, n: u32) -> Self {
        Faults { slow_disks: n, ..self }
    }

    /// Restricts faults of nodes to these kinds.
    #[must_use]
    pub fn only<K: Into<String>>(self, kinds: impl IntoIterator<Item = K>) -> Self {
        Faults { kinds: kinds.into_iter().map(Into::into).collect(), ..self }
    }

    /// The kinds to which faults are restricted; empty if they strike all.
    pub(crate) fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// Whether crashes and the like strike nodes of a kind.
    #[must_use]
    pub fn strikes(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|name| name == kind)
    }

    /// The largest number of faults of one execution. Torn writes are not counted: each is part of
    /// a crash.
    pub(crate) fn total(&self) -> u32 {
        let apart = [
            self.stops,
            self.losses,
            self.duplicates,
            self.delays,
            self.skews,
            self.one_way_partitions,
            self.resets,
            self.disk_errors,
            self.full_disks,
        ];
        apart
            .iter()
            .fold(self.crashes.saturating_add(self.partitions), |sum, n| sum.saturating_add(*n))
    }
}

/// A fault of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A node lost its memory and what it had not synced.
    Crash(NodeId),
    /// A node stopped for ever.
    Stop(NodeId),
    /// A message never arrives.
    Lose(MessageName),
    /// A message will arrive twice.
    Duplicate(MessageName),
    /// A message waits until nothing else can happen.
    Delay(MessageName),
    /// The network fell into two parts: these nodes, and the others.
    Partition(Side),
    /// A node's clock jumped by this many quarters of the configured maximum.
    Skew(NodeId, i8),
    /// The others no longer hear these nodes, which still hear them.
    Mute(Side),
    /// These nodes no longer hear the others, which still hear them.
    Deafen(Side),
    /// The connection between two nodes broke; both will be told.
    Reset(NodeId, NodeId),
}

/// The kinds of [`Fault`], for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// See [`Fault::Crash`].
    Crash,
    /// See [`Fault::Stop`].
    Stop,
    /// See [`Fault::Lose`].
    Lose,
    /// See [`Fault::Duplicate`].
    Duplicate,
    /// See [`Fault::Delay`].
    Delay,
    /// See [`Fault::Partition`].
    Partition,
    /// See [`Fault::Skew`].
    Skew,
    /// See [`Fault::Mute`] and [`Fault::Deafen`].
    OneWay,
    /// See [`Fault::Reset`].
    Reset,
    /// An operation of a disk that failed.
    DiskError,
    /// A disk that was full.
    FullDisk,
}

impl FaultKind {
    /// Every kind, in the order in which they are offered.
    pub const ALL: [FaultKind; 11] = [
        FaultKind::Crash,
        FaultKind::Stop,
        FaultKind::Lose,
        FaultKind::Duplicate,
        FaultKind::Delay,
        FaultKind::Partition,
        FaultKind::Skew,
        FaultKind::OneWay,
        FaultKind::Reset,
        FaultKind::DiskError,
        FaultKind::FullDisk,
    ];

    /// A word for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::Stop => "stop",
            FaultKind::Lose => "lose",
            FaultKind::Duplicate => "duplicate",
            FaultKind::Delay => "delay",
            FaultKind::Partition => "partition",
            FaultKind::Skew => "skew",
            FaultKind::OneWay => "one-way partition",
            FaultKind::Reset => "reset",
            FaultKind::DiskError => "disk error",
            FaultKind::FullDisk => "full disk",
        }
    }
}

/// The nodes on one side of a partition. Where every node can be parted from every other, it is the
/// smaller side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Side {
    /// In order; the places from `len` on are [`NOBODY`].
    nodes: [NodeId; Side::MAX],
    len: u8,
}

const NOBODY: NodeId = NodeId(u32::MAX);

impl Side {
    /// The largest number of nodes that are cut off together.
    pub const MAX: usize = 30;

    /// The side with these nodes; `None` if there are none or more than [`MAX`](Side::MAX).
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Option<Side> {
        let mut side = Side { nodes: [NOBODY; Side::MAX], len: 0 };
        for node in nodes {
            *side.nodes.get_mut(usize::from(side.len))? = node;
            side.len += 1;
        }
        side.nodes.sort_unstable();
        (side.len > 0).then_some(side)
    }

    /// The nodes, in order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes[..usize::from(self.len)]
    }

    /// Whether a node is on this side.
    #[must_use]
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes().contains(&node)
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

/// A message, identified by its sender and its number among the messages of that sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageName {
    /// The sender.
    pub from: NodeId,
    /// The number, counted from zero in order of sending.
    pub sequence: u32,
}

impl fmt::Display for MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.from, self.sequence)
    }
}
