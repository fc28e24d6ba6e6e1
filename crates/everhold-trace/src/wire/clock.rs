//! Hybrid logical clocks (Kulkarni and others, 2014) in one word.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of low bits that count events within a microsecond.
const COUNT_BITS: u32 = 12;

/// A reading of a [`Clock`]: microseconds since 1970 in the upper 52 bits, until the year 2112,
/// and a count in the lower 12. As a number it orders every event after those it depends on; the
/// count overflows into the microseconds, which only makes the clock run a little ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The first stamp of a microsecond.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Stamp {
        Stamp(micros << COUNT_BITS)
    }

    /// The stamp at so many nanoseconds since 1970: the count holds the fraction of the microsecond.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Stamp {
        Stamp(((nanos as u128) << COUNT_BITS).div_ceil(1_000) as u64)
    }

    /// The microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// The nanoseconds since 1970, as traces have them.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        (self.micros() * 1_000).cast_signed()
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0 & ((1 << COUNT_BITS) - 1);
        write!(f, "{}.{:06}s+{count}", self.micros() / 1_000_000, self.micros() % 1_000_000)
    }
}

/// The clock of one node, shared by its threads without a lock.
///
/// It does not read the time itself: whoever owns it calls [`advance`](Clock::advance) now and
/// then, so that a stamp costs one atomic addition.
///
/// ```
/// use everhold_trace::wire::{Clock, Stamp};
/// let clock = Clock::default();
/// clock.advance(1_000);
/// let sent = clock.tick();
/// let other = Clock::default(); // a node whose time is behind
/// other.merge(sent).unwrap();
/// assert!(other.tick() > sent);
/// ```
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The largest lead over this clock that a stamp from elsewhere may have: ten minutes.
    /// Otherwise one clock that jumps would carry every clock of the system with it.
    pub const AHEAD_MAX: u64 = 600_000_000;

    /// A stamp of its own for one event.
    #[inline]
    pub fn tick(&self) -> Stamp {
        Stamp(self.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// A stamp of its own for one event that happens at this physical time: that time, unless the
    /// clock is ahead of it. As cheap as [`tick`](Clock::tick).
    #[inline]
    pub fn tick_at(&self, physical: Stamp) -> Stamp {
        let before = self.0.fetch_max(physical.0, Ordering::AcqRel);
        if before < physical.0 { physical } else { self.tick() }
    }

    /// Stamps given from now on are larger than this one.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Acquire))
    }

    /// Moves the clock on to the physical time, in microseconds since 1970. It never goes back.
    pub fn advance(&self, micros: u64) {
        self.advance_to(Stamp::from_micros(micros));
    }

    /// Moves the clock on to the physical time. It never goes back.
    pub fn advance_to(&self, physical: Stamp) {
        self.0.fetch_max(physical.0, Ordering::AcqRel);
    }

    /// A message with this stamp arrived: later events here are after it.
    ///
    /// # Errors
    ///
    /// If it is more than [`AHEAD_MAX`](Clock::AHEAD_MAX) ahead: the clock stays as it is, and the
    /// order of this message with events here is not known from stamps.
    pub fn merge(&self, stamp: Stamp) -> Result<(), ClockJump> {
        let ahead = stamp.micros().saturating_sub(self.last().micros());
        if ahead > Self::AHEAD_MAX {
            return Err(ClockJump { ahead_micros: ahead });
        }
        self.0.fetch_max(stamp.0, Ordering::AcqRel);
        Ok(())
    }
}

/// A stamp that no sane clock gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// The lead of the stamp, in microseconds.
    pub ahead_micros: u64,
}

impl fmt::Display for ClockJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.ahead_micros / 1_000_000;
        write!(f, "a stamp is {seconds} s ahead of this node's clock; compare the nodes' clocks")
    }
}

impl std::error::Error for ClockJump {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_goes_back_and_passes_what_it_hears() {
        let clock = Clock::default();
        clock.advance(5_000_000);
        let first = clock.tick();
        clock.advance(4_000_000);
        assert!(clock.tick() > first);
        let heard = Stamp::from_micros(6_000_000);
        clock.merge(heard).unwrap();
        assert!(clock.tick() > heard);
    }

    #[test]
    fn stamps_follow_the_physical_time_and_are_never_given_twice() {
        let clock = Clock::default();
        let times = [5_000, 5_001, 5_001, 4_000, 9_000_000].map(Stamp::from_nanos);
        let stamps = times.map(|time| clock.tick_at(time));
        assert!(stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
        assert_eq!((stamps[0], stamps[1], stamps[4]), (times[0], times[1], times[4]));
        assert_eq!(Stamp::from_nanos(9_000_000), Stamp::from_micros(9_000));
    }

    #[test]
    fn an_hour_ahead_is_not_believed() {
        let clock = Clock::default();
        clock.advance(5_000_000);
        let jump = clock.merge(Stamp::from_micros(5_000_000 + 3_600_000_000)).unwrap_err();
        assert!(jump.to_string().contains("3600 s ahead"), "{jump}");
        assert_eq!(clock.last(), Stamp::from_micros(5_000_000));
    }
}
