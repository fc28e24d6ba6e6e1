//! Round trips, and clock synchronisation by the Berkeley method (Gusella and Zatti, 1989).

use std::collections::{BTreeMap, VecDeque};

use everhold_trace::NodeId;

/// The number of latest round trips that are kept.
const WINDOW: usize = 16;

/// Clocks further than this from the median, in microseconds, are left out of the average: a clock
/// that jumps by an hour is corrected without affecting the others.
const FAULTY: u64 = 500_000;

/// The measurements of one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    rtts: VecDeque<u64>,
    /// The difference of its clock to ours; positive if its clock is ahead.
    pub(super) ahead: Option<i64>,
}

impl Peer {
    /// Records a round trip: question and answer by our clock, and the peer's clock in between.
    pub(super) fn heard(&mut self, asked: u64, answered: u64, clock: u64) {
        let rtt = answered.saturating_sub(asked);
        if self.rtts.len() == WINDOW {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
        // The fastest round trip gives the most exact measurement of the peer's clock.
        if self.rtts.iter().all(|other| rtt <= *other) || self.rtts.len() == 1 {
            self.ahead = Some(clock.cast_signed() - (asked + rtt / 2).cast_signed());
        }
    }

    /// Returns the largest of the latest round trips.
    pub(super) fn largest(&self) -> u64 {
        self.rtts.iter().copied().max().unwrap_or(0)
    }

    /// Forgets the measurements, which are invalid after clocks were corrected.
    pub(super) fn forget_clock(&mut self) {
        self.ahead = None;
        self.rtts.clear();
    }
}

/// Returns the correction of each clock, including ours, to the average of those that are not
/// faulty.
pub(super) fn corrections(me: NodeId, peers: &BTreeMap<NodeId, Peer>) -> BTreeMap<NodeId, i64> {
    let measured = peers.iter().filter_map(|(node, peer)| Some((*node, peer.ahead?)));
    let ahead: BTreeMap<NodeId, i64> = measured.chain([(me, 0)]).collect();
    let mut sorted: Vec<i64> = ahead.values().copied().collect();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    sorted.retain(|clock| clock.abs_diff(middle) <= FAULTY);
    let average = sorted.iter().sum::<i64>() / sorted.len() as i64;
    ahead.into_iter().map(|(node, clock)| (node, average - clock)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(ahead: i64) -> Peer {
        let mut peer = Peer::default();
        let (asked, rtt) = (1_000_000_000_000, 100);
        peer.heard(asked, asked + rtt, (asked + rtt / 2).strict_add_signed(ahead));
        peer
    }

    /// Checks the corrections, ours first, for clocks that are ahead of ours by these amounts.
    #[track_caller]
    fn check(ahead: &[i64], expected: &[i64]) {
        let peers = (1..).map(NodeId).zip(ahead.iter().map(|ahead| peer(*ahead))).collect();
        let told: Vec<_> = corrections(NodeId(0), &peers).into_values().collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn clocks_meet_in_the_middle_and_a_mad_one_moves_nobody() {
        check(&[], &[0]);
        check(&[300, -600], &[-100, -400, 500]);
        check(&[200, 3_600_000_000], &[100, -100, 100 - 3_600_000_000]);
    }

    #[test]
    fn the_largest_of_the_last_round_trips_counts() {
        let mut peer = Peer::default();
        peer.heard(0, 9_000, 0);
        (0..WINDOW as u64).for_each(|n| peer.heard(n, n + 50, 0));
        assert_eq!(peer.largest(), 50);
    }
}
