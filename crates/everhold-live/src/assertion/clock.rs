//! Round trips, and clocks kept together by the Berkeley method (Gusella and Zatti, 1989).

use std::collections::{BTreeMap, VecDeque};

use everhold_trace::NodeId;

/// How many round trips count.
const WINDOW: usize = 16;

/// Clocks further than this from the middle one do not take part in the average, in
/// microseconds: one that jumps an hour is corrected, and moves nobody else.
const FAULTY: u64 = 500_000;

/// What is known of one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    rtts: VecDeque<u64>,
    /// How far its clock was ahead of ours.
    pub(super) ahead: Option<i64>,
}

impl Peer {
    /// An answer came: asked and answered by our clock, its clock in between.
    pub(super) fn heard(&mut self, asked: u64, answered: u64, clock: u64) {
        let rtt = answered.saturating_sub(asked);
        if self.rtts.len() == WINDOW {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
        // Of several answers the fastest says most of its clock.
        if self.rtts.iter().all(|other| rtt <= *other) || self.rtts.len() == 1 {
            self.ahead = Some(clock.cast_signed() - (asked + rtt / 2).cast_signed());
        }
    }

    /// The largest of the last round trips.
    pub(super) fn largest(&self) -> u64 {
        self.rtts.iter().copied().max().unwrap_or(0)
    }

    /// Clocks were moved: what was measured before says nothing any more.
    pub(super) fn forget_clock(&mut self) {
        self.ahead = None;
        self.rtts.clear();
    }
}

/// By how much each clock should be corrected, ours included: to the average of those that are
/// not faulty.
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

    /// Clocks ahead of ours by so much; what each is told, ours first.
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
