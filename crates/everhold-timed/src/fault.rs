//! What goes wrong in a timed execution, and when; and what starts it.

use std::time::Duration;

use everhold_node::{Message, NodeId};
use everhold_sim::{FaultKind, Faults};

use super::draw::{Stream, below, draw};
use super::durations::nanoseconds;

/// Something that goes wrong at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimedFault {
    /// A node loses its memory and what it had not synced, and comes back later.
    Crash {
        /// Which.
        node: NodeId,
        /// How long it is down.
        down: Duration,
    },
    /// A node stops for ever.
    Stop(NodeId),
    /// The network falls into two parts. Streams wait, datagrams are lost.
    Partition {
        /// The nodes of one part.
        cut: Vec<NodeId>,
        /// For how long.
        lasts: Duration,
    },
    /// A node's clock jumps.
    Skew {
        /// Which.
        node: NodeId,
        /// By how many nanoseconds.
        by: i64,
    },
    /// The next message that any node sends never arrives. On a stream the connection breaks
    /// there: nothing after it arrives, and both ends are told.
    Lose,
    /// The next message arrives twice, unless a stream carries it.
    Duplicate,
    /// The next message takes so much longer.
    Delay(Duration),
    /// Nobody else hears these nodes, which hear the others. Streams wait, datagrams are lost.
    OneWay {
        /// The nodes that are not heard.
        mute: Vec<NodeId>,
        /// For how long.
        lasts: Duration,
    },
    /// The connection between two nodes breaks, if there is one: what is under way in it is lost,
    /// and both are told.
    Reset(NodeId, NodeId),
    /// The same for one of the connections that exist then; the number says which.
    ResetAny(u64),
    /// A node's disk is slow for a while; see [`DiskModel`](super::DiskModel).
    SlowDisk {
        /// Whose.
        node: NodeId,
        /// How many times longer everything takes.
        times: u32,
        /// For how long.
        lasts: Duration,
    },
}

impl TimedFault {
    /// The kind of a fault that waits for a message.
    pub(crate) fn kind(&self) -> Option<FaultKind> {
        match self {
            TimedFault::Lose => Some(FaultKind::Lose),
            TimedFault::Duplicate => Some(FaultKind::Duplicate),
            TimedFault::Delay(_) => Some(FaultKind::Delay),
            _ => None,
        }
    }
}

/// How many times longer a disk takes while it is slow, if a budget says that it is.
const SLOW_TIMES: u32 = 20;

/// Starts the system: what happens from outside, and when.
///
/// Without a driver all nodes start at time zero and nothing comes from outside.
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

    /// A message from outside reaches a node at a time; it seems to come from the node itself.
    pub fn input(&mut self, at: Duration, node: NodeId, msg: M) {
        self.inputs.push((nanoseconds(at), node, msg));
    }

    /// A node starts at this time instead of at zero; before, it is down.
    pub fn start(&mut self, node: NodeId, at: Duration) {
        self.starts.push((node, nanoseconds(at)));
    }

    /// Something goes wrong at a time.
    pub fn fault(&mut self, at: Duration, fault: TimedFault) {
        self.faults.push((nanoseconds(at), fault));
    }
}

/// When the faults of the system's budget happen: each once, at a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultTimes {
    /// Not before.
    pub from: Duration,
    /// Not after.
    pub until: Duration,
    /// How long a crashed node is down and a partition lasts, at most.
    pub lasts_max: Duration,
}

impl Default for FaultTimes {
    fn default() -> Self {
        let (from, until) = (Duration::ZERO, Duration::from_secs(1));
        FaultTimes { from, until, lasts_max: Duration::from_secs(1) }
    }
}

/// Random times and targets for a budget of faults. `struck` are the nodes that faults may strike.
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
