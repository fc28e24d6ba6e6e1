//! The physical time of stamps, for the price of reading the processor's counter.
//!
//! A stamp is a reading of the counter, scaled and shifted. The probe's own thread sets the shift
//! every few milliseconds from the system's monotonic clock and from what is known of the clock of a
//! checker, so between two settings the counter must only be right to a few millionths. Where there
//! is no counter that all processors share, the system's monotonic clock is read instead.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everhold_trace::wire::Stamp;

/// How many bits of the rate are behind the point.
const RATE_BITS: u32 = 32;

/// A counter and a monotonic clock that are read further apart than this were interrupted.
const APART: Duration = Duration::from_micros(2);

pub(crate) struct Timer {
    counter: quanta::Clock,
    /// Units of stamps for one tick of the counter.
    rate: u64,
    /// What is added to the scaled counter, modulo 2^64.
    shift: AtomicU64,
    /// Whether a shift was set.
    set: AtomicBool,
    /// Whether it follows a checker's clock.
    synced: AtomicBool,
    /// By how many microseconds the wall clock is taken to be wrong, in tests.
    skew: i64,
    began: Instant,
    began_at: Stamp,
}

impl Timer {
    pub(crate) fn new(skew: i64) -> Timer {
        let counter = quanta::Clock::new();
        let ticks: u64 = 1 << 40;
        let span = Stamp::from_nanos(counter.delta_as_nanos(0, ticks)).0;
        let rate = (u128::from(span) << RATE_BITS) / u128::from(ticks);
        Timer {
            counter,
            rate: u64::try_from(rate).unwrap_or(u64::MAX),
            shift: AtomicU64::new(0),
            set: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            skew,
            began: Instant::now(),
            began_at: wall(skew),
        }
    }

    /// The physical time; of no meaning before the first [`follow`](Timer::follow).
    #[inline]
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.scaled().wrapping_add(self.shift.load(Ordering::Relaxed)))
    }

    #[inline]
    fn scaled(&self) -> u64 {
        ((u128::from(self.counter.raw()) * u128::from(self.rate)) >> RATE_BITS) as u64
    }

    /// Whether [`now`](Timer::now) is a time.
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Whether it follows the clock of a checker.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// The probe's own time: the wall clock when the probe was made, monotonic from there.
    pub(crate) fn own(&self) -> Stamp {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Stamp(self.began_at.0.wrapping_add(Stamp::from_nanos(passed).0))
    }

    /// How far the wall clock is ahead of the probe's own time.
    pub(crate) fn wall_ahead(&self) -> i64 {
        wall(self.skew).0.wrapping_sub(self.own().0).cast_signed()
    }

    /// Sets the time to the probe's own, corrected by so much.
    pub(crate) fn follow(&self, correction: i64, is_checkers: bool) {
        let mut pair = (self.scaled(), self.own());
        for _ in 0..3 {
            let before = Instant::now();
            pair = (self.scaled(), self.own());
            if before.elapsed() < APART {
                break;
            }
        }
        let (scaled, own) = pair;
        let time = own.0.wrapping_add_signed(correction);
        self.shift.store(time.wrapping_sub(scaled), Ordering::Relaxed);
        self.synced.store(is_checkers, Ordering::Release);
        self.set.store(true, Ordering::Release);
    }
}

fn wall(skew: i64) -> Stamp {
    Stamp::from_micros(crate::time::micros().saturating_add_signed(skew))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_counter_follows_the_clock_that_it_is_set_by() {
        let timer = Timer::new(-5_000_000);
        assert!(!timer.is_set());
        let correction = Stamp::from_micros(7_000_000).0.cast_signed();
        timer.follow(correction, true);
        thread::sleep(Duration::from_millis(20));
        // Reads the clock on both sides: however long it takes, the time is between them.
        let slack = Stamp::from_micros(500).0;
        let before = timer.own().0.strict_add_signed(correction);
        let now = timer.now().0;
        let after = timer.own().0.strict_add_signed(correction);
        assert!(before - slack <= now && now <= after + slack, "{before} {now} {after}");
        assert!(timer.wall_ahead().unsigned_abs() < Stamp::from_micros(1_000_000).0);
    }
}
