//! Round trips to a checker, and the estimates of its clock that follow from them.

use std::collections::VecDeque;
use std::time::Duration;

use everhold_trace::wire::Stamp;

/// The number of latest round trips that are kept.
const KEPT: usize = 16;

/// The reciprocal of the largest drift between two clocks: about 60 millionths.
const DRIFT: u64 = 1 << 14;

/// The lead of a checker's clock over the probe's own time, and its error, in units of stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) ahead: i64,
    pub(super) error: u64,
}

#[derive(Clone, Copy, Debug)]
struct Trip {
    taken: Stamp,
    ahead: i64,
    error: u64,
}

impl Trip {
    /// Returns the estimate at a later time, with an error that grows since clocks drift.
    fn estimate(&self, now: Stamp) -> Estimate {
        let age = now.0.saturating_sub(self.taken.0);
        Estimate { ahead: self.ahead, error: self.error + age / DRIFT }
    }
}

/// The error that an estimate gains while it ages, in units of stamps.
pub(super) fn drift(age: Duration) -> u64 {
    Stamp::from_nanos(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)).0 / DRIFT
}

/// The latest round trips.
#[derive(Debug, Default)]
pub(super) struct Trips(VecDeque<Trip>);

impl Trips {
    /// Records a round trip: the question was sent at `sent` and answered at `now` by the probe's
    /// own time, and the checker's clock was `at` in between. So the lead is `at` minus the middle
    /// of the two, with an error of half the round trip.
    pub(super) fn heard(&mut self, sent: Stamp, at: Stamp, now: Stamp) {
        let took = now.0.saturating_sub(sent.0);
        let ahead = at.0.wrapping_sub(sent.0 + took / 2).cast_signed();
        let trip = Trip { taken: now, ahead, error: took / 2 + 1 };
        if let Some(known) = self.best(now)
            && ahead.abs_diff(known.ahead) > trip.error + known.error
        {
            // The checker's clock was set, so earlier measurements are invalid.
            self.0.clear();
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(trip);
    }

    /// Returns the estimate with the smallest error.
    pub(super) fn best(&self, now: Stamp) -> Option<Estimate> {
        self.0.iter().map(|trip| trip.estimate(now)).min_by_key(|estimate| estimate.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = Stamp::from_micros(1_000_000).0;

    /// Checks the estimate after round trips given as (sent, answered, checker's clock).
    #[track_caller]
    fn check(trips: &[(u64, u64, u64)], ahead: i64, error: u64) {
        let mut kept = Trips::default();
        for (sent, answered, at) in trips {
            kept.heard(Stamp(*sent), Stamp(*at), Stamp(*answered));
        }
        let now = Stamp(trips.last().unwrap().1);
        assert_eq!(kept.best(now), Some(Estimate { ahead, error }));
    }

    #[test]
    fn the_fastest_round_trip_says_most_and_age_counts() {
        check(&[(1_000, 1_200, 5_100)], 4_000, 101);
        check(&[(1_000, 1_200, 5_100), (2_000, 2_020, 6_020)], 4_010, 11);
        check(&[(1_000, 1_200, 5_100), (2_000, 4_000, 7_500)], 4_000, 101);
        // After a second, a fast round trip may be off by another 61 microseconds.
        let (end, slow) = (SECOND + 1_200, SECOND - 1_000_000);
        check(&[(1_000, 1_200, 5_100), (slow, end, slow + 504_600)], 4_000, 101 + SECOND / DRIFT);
        check(&[(1_000, 1_200, 5_100), (SECOND, end, SECOND + 4_610)], 4_010, 601);
    }

    #[test]
    fn a_checker_whose_clock_is_set_is_measured_anew() {
        let later = SECOND / 100;
        let set = later + 200 + SECOND;
        check(&[(1_000, 1_020, 5_010), (later, later + 400, set)], SECOND.cast_signed(), 201);
    }
}
