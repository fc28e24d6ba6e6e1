//! The faults of a timed execution with their times, and the driver that starts it.

use std::time::Duration;

use everhold_node::{Message, NodeId};
use everhold_sim::{FaultKind, Faults};

use super::draw::{Stream, below, draw};
use super::durations::nanoseconds;

/// A fault at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimedFault {
    /// A node loses its memory and its unsynced writes, and restarts later.
    Crash {
        /// The node.
        node: NodeId,
        /// The time until it restarts.
        down: Duration,
    },
    /// A node stops forever.
    Stop(NodeId),
    /// The network splits into two parts. Streams wait, datagrams are lost.
    Partition {
        /// The nodes of one part.
        cut: Vec<NodeId>,
        /// The duration.
        lasts: Duration,
    },
    /// A node's clock jumps.
    Skew {
        /// The node.
        node: NodeId,
        /// The jump in nanoseconds.
        by: i64,
    },
    /// The next message that any node sends is lost. On a stream the connection breaks there:
    /// nothing after it arrives, and both ends are notified.
    Lose,
    /// The next message arrives twice, unless a stream carries it.
    Duplicate,
    /// The next message takes this much longer.
    Delay(Duration),
    /// The other nodes do not hear these nodes, which still hear the others. Streams wait,
    /// datagrams are lost.
    OneWay {
        /// The nodes that are not heard.
        mute: Vec<NodeId>,
        /// The duration.
        lasts: Duration,
    },
    /// The connection between two nodes breaks, if there is one: messages under way in it are lost,
    /// and both ends are notified.
    Reset(NodeId, NodeId),
    /// One of the existing connections breaks; the number selects it.
    ResetAny(u64),
    /// A node's disk is slow for a while; see [`DiskModel`](super::DiskModel).
    SlowDisk {
        /// The node.
        node: NodeId,
        /// The factor by which all its operations are slower.
        times: u32,
        /// The duration.
        lasts: Duration,
    },
}

impl TimedFault {
    /// Returns the kind of a fault that waits for a message.
    pub(crate) fn kind(&self) -> Option<FaultKind> {
        match self {
            TimedFault::Lose => Some(FaultKind::Lose),
            TimedFault::Duplicate => Some(FaultKind::Duplicate),
            TimedFault::Delay(_) => Some(FaultKind::Delay),
            _ => None,
        }
    }
}

/// The factor by which a disk is slower under a slow-disk fault of the budget.
const SLOW_TIMES: u32 = 20;

/// The external part of an execution: inputs, late starts and faults, with their times.
///
/// Without a driver all nodes start at time zero and there are no inputs.
#[derive(Debug)]
pub struct Driver<M> {
    pub(crate) inputs: Vec<(u64, NodeId, M)>,
    pub(crate) faults: Vec<(u64, TimedFault)>,
    pub(crate) starts: Vec<(NodeId, u64)>,
}

impl<M: Message> Driver<M> {
    pub(crate) fn new() -> Self {
        Driver { inputs: Vec::new(), faults: Vec::new(), starts: Vec::new() }
    }

    /// Delivers an external message to a node at a time; its sender is the node itself.
    pub fn input(&mut self, at: Duration, node: NodeId, msg: M) {
        self.inputs.push((nanoseconds(at), node, msg));
    }

    /// Starts a node at this time instead of at zero; before, it is down.
    pub fn start(&mut self, node: NodeId, at: Duration) {
        self.starts.push((node, nanoseconds(at)));
    }

    /// Injects a fault at a time.
    pub fn fault(&mut self, at: Duration, fault: TimedFault) {
        self.faults.push((nanoseconds(at), fault));
    }
}

/// The period in which the faults of the system's budget happen, each once at a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultTimes {
    /// The earliest time.
    pub from: Duration,
    /// The latest time.
    pub until: Duration,
    /// The longest time for which a crashed node is down or a partition lasts.
    pub lasts_max: Duration,
}

impl Default for FaultTimes {
    fn default() -> Self {
        let (from, until) = (Duration::ZERO, Duration::from_secs(1));
        FaultTimes { from, until, lasts_max: Duration::from_secs(1) }
    }
}

/// Draws times and targets for a budget of faults. `struck` are the nodes that faults may strike.
pub(crate) fn at_random(
    budget: &Faults,
    times: FaultTimes,
    struck: &[NodeId],
    seed: u64,
) -> Vec<(u64, TimedFault)> {
    let mut drawn = 0;
    let mut number = |bound: u64| {
        drawn += 1;
        below(draw(seed, Stream::Faults, drawn), bound.max(1))
    };
    let mut planned = Vec::new();
    let (from, until) = (nanoseconds(times.from), nanoseconds(times.until));
    let lasts_max = nanoseconds(times.lasts_max);
    let mut plan = |count: u32, make: &mut dyn FnMut(&mut dyn FnMut(u64) -> u64) -> TimedFault| {
        for _ in 0..count {
            let at = from + number(until.saturating_sub(from));
            planned.push((at, make(&mut number)));
        }
    };
    let lasts = |number: &mut dyn FnMut(u64) -> u64| {
        Duration::from_nanos(lasts_max / 10 + number(lasts_max - lasts_max / 10))
    };
    if !struck.is_empty() {
        let any = |number: &mut dyn FnMut(u64) -> u64| struck[number(struck.len() as u64) as usize];
        plan(budget.crashes, &mut |n| TimedFault::Crash { node: any(n), down: lasts(n) });
        plan(budget.stops, &mut |n| TimedFault::Stop(any(n)));
        plan(budget.partitions, &mut |n| TimedFault::Partition {
            cut: struck.iter().copied().filter(|_| n(2) == 0).collect(),
            lasts: lasts(n),
        });
        let skew = nanoseconds(budget.skew_max) / 4;
        plan(budget.skews, &mut |n| {
            let quarters = [-4, -2, 2, 4][n(4) as usize];
            let by = i64::try_from(skew).unwrap_or(i64::MAX).saturating_mul(quarters);
            TimedFault::Skew { node: any(n), by }
        });
    }
    plan(budget.losses, &mut |_| TimedFault::Lose);
    plan(budget.duplicates, &mut |_| TimedFault::Duplicate);
    plan(budget.delays, &mut |n| TimedFault::Delay(lasts(n)));
    if !struck.is_empty() {
        plan(budget.one_way_partitions, &mut |n| TimedFault::OneWay {
            mute: struck.iter().copied().filter(|_| n(2) == 0).collect(),
            lasts: lasts(n),
        });
    }
    plan(budget.resets, &mut |n| TimedFault::ResetAny(n(u64::MAX)));
    if !struck.is_empty() {
        plan(budget.slow_disks, &mut |n| TimedFault::SlowDisk {
            node: struck[n(struck.len() as u64) as usize],
            times: SLOW_TIMES,
            lasts: lasts(n),
        });
    }
    planned
}
