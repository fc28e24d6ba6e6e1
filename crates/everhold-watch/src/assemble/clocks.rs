//! The clocks of the nodes: how exact their stamps are, and which clock disagrees with the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everhold_trace::NodeId;
use everhold_trace::wire::Stamp;

use super::{Assembler, Changing, MemberState, micros_of};
use crate::entry::Origin;

/// The last reading of a node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The lead of its wall clock over the watch's, in microseconds; its stamps are corrected by it.
    pub ahead: i64,
    /// The largest difference of its stamps from the watch's time, either way, in microseconds.
    pub error: u64,
}

/// A wall clock further from the middle one than this, beyond its error, is named.
const STRAY: Duration = Duration::from_millis(25);

/// A wall clock that disagrees with the others, or does no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockNews {
    /// The node whose clock it is; `None` is the clock of the watch itself.
    pub node: Option<NodeId>,
    /// Its lead over the median clock, in microseconds.
    pub ahead: i64,
    /// Whether it disagrees.
    pub strays: bool,
}

/// The wall clocks that disagree with most others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strays {
    pub(super) known: BTreeSet<Option<NodeId>>,
    pub(super) news: Vec<ClockNews>,
}

impl Strays {
    /// Compares all clocks with the one in the middle; the watch's own is one of them.
    fn compare(&mut self, readings: &BTreeMap<Option<NodeId>, ClockReading>) {
        let mut sorted: Vec<i64> = readings.values().map(|reading| reading.ahead).collect();
        sorted.sort_unstable();
        // With an even number the watch's own side is believed.
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let middle = if low.abs() <= high.abs() { low } else { high };
        for (node, reading) in readings {
            let ahead = reading.ahead - middle;
            let strays = ahead.unsigned_abs() > micros_of(STRAY) + reading.error;
            if strays != self.known.contains(node) {
                self.news.push(ClockNews { node: *node, ahead, strays });
            }
            if strays {
                self.known.insert(*node)
            } else {
                self.known.remove(node)
            };
        }
        self.known.retain(|node| readings.contains_key(node));
    }
}

impl Assembler {
    /// A node says how well its stamps are known. If that is not well enough, nothing is known of
    /// it until it is.
    pub(super) fn clock(&mut self, origin: Origin, reading: ClockReading) {
        let max = micros_of(self.timing.clock_error_max);
        let Some(member) = self.speaker(origin) else { return };
        let before = member.clock.map_or(reading.error, |before| before.error);
        member.error = reading.error.max(before);
        member.clock = Some(reading);
        member.vague = reading.error > max;
        if member.vague && !member.missing {
            member.missing = true;
            let error = reading.error / 1_000;
            let reason = format!("its clock is known to {error} ms only, so its order is not");
            let at = member.passed;
            self.leaving.push_back((at, origin.node, Changing::Missing { reason }));
        }
        let told = |(node, member): (&NodeId, &MemberState)| Some((Some(*node), member.clock?));
        let mut readings: BTreeMap<_, _> = self.members.iter().filter_map(told).collect();
        readings.insert(None, ClockReading { ahead: 0, error: 0 });
        self.strays.compare(&readings);
    }

    /// By how much a stamp of the node may differ from the watch's time, in units of stamps. Of a
    /// node that does not say, nothing: its stamps are believed.
    pub(crate) fn error_of(&self, node: NodeId) -> u64 {
        self.members.get(&node).map_or(0, |member| Stamp::from_micros(member.error).0)
    }

    /// Returns the last reading of a node's clock, and whether it disagrees with the others.
    pub(crate) fn clock_of(&self, node: NodeId) -> (Option<ClockReading>, bool) {
        let reading = self.members.get(&node).and_then(|member| member.clock);
        (reading, self.strays.known.contains(&Some(node)))
    }

    /// Whether the watch's own clock disagrees with most nodes.
    pub(crate) fn watch_strays(&self) -> bool {
        self.strays.known.contains(&None)
    }

    /// Clocks that began or ceased to disagree; once.
    pub(crate) fn take_clock_news(&mut self) -> Vec<ClockNews> {
        std::mem::take(&mut self.strays.news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wall clocks ahead of the watch's by so many milliseconds; who strays, the watch as 99.
    #[track_caller]
    fn check(ahead: &[i64], expected: &[u32]) {
        let mut strays = Strays::default();
        let reading = |ahead: &i64| ClockReading { ahead: ahead * 1_000, error: 100 };
        let mut readings: BTreeMap<_, _> =
            (0..).map(|n| Some(NodeId(n))).zip(ahead.iter().map(reading)).collect();
        readings.insert(None, reading(&0));
        strays.compare(&readings);
        let named: BTreeSet<u32> =
            strays.news.iter().map(|news| news.node.map_or(99, |node| node.0)).collect();
        assert_eq!(named, expected.iter().copied().collect());
        strays.news.clear();
        strays.compare(&readings);
        assert_eq!(strays.news, [], "it is told once");
    }

    #[test]
    fn the_clock_that_disagrees_with_most_is_named() {
        check(&[0, 1, -2], &[]);
        check(&[0, 5_000, -2], &[1]);
        check(&[-50, 3, 0], &[0]);
        check(&[300_000, 1, 0], &[0]);
        check(&[5_000, 5_001, 4_999], &[99]);
        check(&[5_000], &[0]);
        check(&[], &[]);
    }
}
