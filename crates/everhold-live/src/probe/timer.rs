//! The physical time of stamps, at the cost of reading the processor's counter.
//!
//! A stamp is a reading of the counter, scaled and shifted. The probe's own thread sets the shift
//! every few milliseconds from the system's monotonic clock and from the measurements of a
//! checker's clock, so between two settings the counter need only be accurate to a few millionths.
//! If the processors share no counter, the system's monotonic clock is read instead.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everhold_trace::wire::Stamp;

/// The number of fractional bits of the rate.
const RATE_BITS: u32 = 32;

/// If more time passes between the readings of the counter and of the clock, they were interrupted.
const APART: Duration = Duration::from_micros(2);

#[derive(Debug)]
pub(crate) struct Timer {
    counter: quanta::Clock,
    /// The units of stamps per tick of the counter.
    rate: u64,
    /// The term added to the scaled counter, modulo 2^64.
    shift: AtomicU64,
    /// Whether a shift was set.
    set: AtomicBool,
    /// Whether the shift follows a checker's clock.
    synced: AtomicBool,
    /// The error of the wall clock in microseconds that tests assume.
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

    /// Returns the physical time; meaningless before the first [`follow`](Timer::follow).
    #[inline]
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.scaled().wrapping_add(self.shift.load(Ordering::Relaxed)))
    }

    #[inline]
    fn scaled(&self) -> u64 {
        ((u128::from(self.counter.raw()) * u128::from(self.rate)) >> RATE_BITS) as u64
    }

    /// Returns whether [`now`](Timer::now) is meaningful.
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Returns whether it follows the clock of a checker.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the probe's own time: the wall clock when the probe was made, monotonic from there.
    pub(crate) fn own(&self) -> Stamp {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Stamp(self.began_at.0.wrapping_add(Stamp::from_nanos(passed).0))
    }

    /// Returns the probe's own time at an instant, which may be before the timer was made.
    pub(crate) fn own_at(&self, at: Instant) -> Stamp {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let after = Stamp::from_nanos(nanos(at.saturating_duration_since(self.began)));
        let before = Stamp::from_nanos(nanos(self.began.saturating_duration_since(at)));
        Stamp(self.began_at.0.wrapping_add(after.0).wrapping_sub(before.0))
    }

    /// Returns the lead of the wall clock over the probe's own time.
    pub(crate) fn wall_ahead(&self) -> i64 {
        wall(self.skew).0.wrapping_sub(self.own().0).cast_signed()
    }

    /// Sets the time to the probe's own, plus this correction.
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
        // The clock is read on both sides, so the time lies between the readings however long this
        // takes.
        let slack = Stamp::from_micros(500).0;
        let before = timer.own().0.strict_add_signed(correction);
        let now = timer.now().0;
        let after = timer.own().0.strict_add_signed(correction);
        assert!(before - slack <= now && now <= after + slack, "{before} {now} {after}");
        assert!(timer.wall_ahead().unsigned_abs() < Stamp::from_micros(1_000_000).0);
    }
}
