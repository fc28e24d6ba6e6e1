//! A ring of which most members die at once, on a virtual clock.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;
use everhold::timed::{Timed, TimedFault};

use super::survivor::LiveChord;
use super::{Bug, Msg};

/// The time at which members die; the ring is whole long before.
pub const LOSS: Duration = Duration::from_secs(60);
/// The time at which an execution is given up.
const LIMIT: Duration = Duration::from_secs(180);

/// The rings that the nodes form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// The number of rings: cycles of nodes each of which takes the one before it for its predecessor.
    pub count: usize,
    /// The share of the keys that the nodes hold, in thousandths; keys that several hold count several
    /// times.
    pub covered: u64,
}

/// Whether a node survives: three of ten do.
fn survives(node: u32) -> bool {
    matches!(node % 10, 0 | 3 | 6)
}

/// The rings of the nodes that are up.
#[must_use]
pub fn rings(s: &View<'_, Msg>) -> Rings {
    let ranges: BTreeMap<u32, u32> =
        s.all::<LiveChord>().map(|(_, node)| node.range()).map(|(pred, own)| (own, pred)).collect();
    let (mut count, mut seen) = (0, BTreeSet::new());
    for start in ranges.keys() {
        let (mut at, mut path) = (*start, BTreeSet::new());
        while seen.insert(at) {
            path.insert(at);
            let Some(pred) = ranges.get(&at) else { break };
            at = *pred;
        }
        count += usize::from(path.contains(&at));
    }
    let held = |(own, pred): (&u32, &u32)| match own.wrapping_sub(*pred) {
        0 => 1 << 32,
        keys => u64::from(keys),
    };
    let sum: u64 = ranges.iter().map(held).sum();
    Rings { count, covered: (sum * 1_000 + (1 << 31)) >> 32 }
}

/// A ring of `nodes` nodes that remember `reach` others on each side. After a minute, 70 % of them die;
/// the execution ends when the survivors form one ring. Half of the survivors do not hear the other half
/// for `stall` after the loss, as processes do not on a machine that has too much to do.
#[must_use]
pub fn loses_most(nodes: u32, reach: usize, stall: Duration, bug: Bug) -> Timed<Msg> {
    let setup = move |system: &mut everhold::System<Msg>| {
        system.nodes("chord", nodes as usize, |at| LiveChord::new(NodeId(at as u32), reach, bug));
    };
    let survivors = (0..nodes).filter(|node| survives(*node)).count();
    let is_whole = move |s: &View<'_, Msg>| {
        s.all::<LiveChord>().count() == survivors && rings(s) == Rings { count: 1, covered: 1_000 }
    };
    Timed::new(setup)
        .durations(crate::timed::handlers())
        .driver(move |driver| {
            for node in (0..nodes).filter(|node| !survives(*node)) {
                driver.fault(LOSS, TimedFault::Stop(NodeId(node)));
            }
            if !stall.is_zero() {
                let half = (0..nodes).filter(|node| survives(*node)).step_by(2).map(NodeId);
                driver.fault(LOSS, TimedFault::Partition { cut: half.collect(), lasts: stall });
            }
        })
        .stop_when(is_whole)
        .time_max(LIMIT)
        .unchecked()
}
