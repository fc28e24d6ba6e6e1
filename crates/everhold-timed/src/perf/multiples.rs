//! Times that follow the multiples of a timer's period, which indicate a bug that a timer repairs.

use serde::Serialize;

use super::sample::Sample;

/// A timer of the system with its period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimerPeriod {
    /// The name that the node gives it.
    pub name: String,
    /// The period in seconds.
    pub period: f64,
}

/// Executions that end just after a multiple of a timer's period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Multiples {
    /// The timer.
    pub timer: TimerPeriod,
    /// The number of slow executions that end within a tenth of a period after one of its
    /// multiples.
    pub hits: usize,
    /// The number of slow executions.
    pub slow: usize,
    /// The p-value for uniformly distributed ends, with a Bonferroni correction for the number of
    /// timers.
    pub p_value: f64,
}

/// The share of a period after a multiple within which an execution counts as ended by the timer.
pub(super) const WINDOW: f64 = 0.1;
/// The share of the slow executions that a timer must explain.
const EXPLAINS: f64 = 0.8;
const SIGNIFICANT: f64 = 0.01;
/// A longer period is preferred to a shorter one if it explains at least this share of its
/// executions.
const AS_GOOD: f64 = 0.9;
/// The largest number of rounds of a timer that counts as repair. With more, the timer sets the
/// pace of the system.
pub(super) const ROUNDS_MAX: u32 = 10;

/// Finds the timer whose multiples the slow executions follow.
///
/// Multiples of a period are multiples of its divisors as well, so several timers may fit. The
/// timer that is waited for is the one with the longest period among those that explain nearly as
/// many executions as any other: with a shorter one, executions would also end in between, and not
/// only occasionally. A timer that usually fires more than ten times before the end sets the pace
/// of the system; its multiples are everywhere, and mean nothing.
#[must_use]
pub fn multiples(done: &[f64], timers: &[TimerPeriod]) -> Option<Multiples> {
    let fits = timers.iter().filter(|timer| timer.period > 0.0).map(|timer| {
        let hits = done.iter().filter(|time| after_multiple(**time, timer.period).is_some());
        let hits = hits.count();
        let p_value = (at_least(hits, done.len(), WINDOW) * timers.len() as f64).min(1.0);
        Multiples { timer: timer.clone(), hits, slow: done.len(), p_value }
    });
    let usual = Sample::new(done.iter().copied()).quantile(0.5);
    let repairs = |fit: &Multiples| usual / fit.timer.period < f64::from(ROUNDS_MAX + 1);
    let fits = fits.filter(|fit| {
        let explains = fit.hits as f64 >= EXPLAINS * fit.slow as f64;
        fit.p_value < SIGNIFICANT && explains && repairs(fit)
    });
    let fits: Vec<Multiples> = fits.collect();
    let most = fits.iter().map(|fit| fit.hits).max()?;
    let as_good = |fit: &&Multiples| fit.hits as f64 >= AS_GOOD * most as f64;
    // Of timers with equal periods the first declared one is chosen.
    let longest = |best: Multiples, fit: Multiples| {
        if fit.timer.period > best.timer.period { fit } else { best }
    };
    fits.iter().filter(as_good).cloned().reduce(longest)
}

/// Returns the multiple of the period shortly after which the time lies.
#[must_use]
pub(super) fn after_multiple(time: f64, period: f64) -> Option<u32> {
    let count = (time / period + 1e-9).floor();
    (count >= 1.0 && time - count * period <= WINDOW * period).then_some(count as u32)
}

/// Returns the upper tail of the binomial distribution: the probability of `hits` or more successes
/// in `n` trials, each with probability `p`.
fn at_least(hits: usize, n: usize, p: f64) -> f64 {
    let mut log_choose = 0.0;
    let mut sum = 0.0;
    for k in 0..=n {
        if k > 0 {
            log_choose += ((n - k + 1) as f64).ln() - (k as f64).ln();
        }
        if k >= hits {
            let rest = (n - k) as f64 * (1.0 - p).ln();
            sum += (log_choose + k as f64 * p.ln() + rest).exp();
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(name: &str, period: f64) -> TimerPeriod {
        TimerPeriod { name: name.to_owned(), period }
    }

    fn check(done: &[f64], timers: &[TimerPeriod], named: Option<&str>) {
        let found = multiples(done, timers).map(|fit| fit.timer.name);
        assert_eq!(found.as_deref(), named, "{done:?}");
    }

    #[test]
    fn the_timer_is_named() {
        let timers = [timer("join", 5.0), timer("recovery", 10.0), timer("table", 60.0)];
        check(&[10.004, 20.003, 10.002, 30.01], &timers, Some("recovery"));
        check(&[5.004, 20.003, 15.002, 30.01], &timers, Some("join"));
        check(&[60.004, 60.003, 120.002, 60.01], &timers, Some("table"));
        let mostly_recovery = [10.004; 19].into_iter().chain([5.003]).collect::<Vec<_>>();
        check(&mostly_recovery, &timers, Some("recovery"));
        check(&[3.0, 7.5, 12.3, 18.1], &timers, None);
        check(&[95.1, 130.2, 115.3, 150.1], &timers, None);
        check(&[], &timers, None);
        check(&[10.0], &[], None);
        check(&[10.0, 10.0, 10.0], &[timer("never", 0.0)], None);
    }

    #[test]
    fn binomial_tail_adds_up() {
        // Enumerates all outcomes of four coins.
        let heads = |bits: u32| bits.count_ones() as usize;
        for hits in 0..=4 {
            let counted = (0..16).filter(|bits| heads(*bits) >= hits).count() as f64 / 16.0;
            assert!((at_least(hits, 4, 0.5) - counted).abs() < 1e-12);
        }
    }
}
