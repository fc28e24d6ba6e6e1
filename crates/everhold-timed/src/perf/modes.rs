//! Modes: groups of executions with similar times, separated by wide gaps.

use serde::Serialize;

use super::sample::Sample;

/// Neighbours in different modes have times that differ by this factor or more.
pub(super) const FACTOR_MIN: f64 = 1.5;
/// To separate modes, a gap must also exceed the usual gap of the sample by this factor.
const STANDS_OUT: f64 = 5.0;
/// The normal mode is the fastest one with at least this share of the executions.
pub(super) const NORMAL_SHARE: f64 = 0.05;
/// Times below a microsecond would be noise on a logarithmic scale.
const FLOOR: f64 = 1e-6;

/// A group of executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mode {
    /// The number of executions in it.
    pub count: usize,
    /// The smallest time in seconds.
    pub low: f64,
    /// The median time.
    pub median: f64,
    /// The largest time.
    pub high: f64,
    /// The multiple of the named timer after which it lies, if a timer explains the slow modes.
    pub multiple: Option<u32>,
}

/// Splits a sample at the wide gaps on a logarithmic scale.
///
/// ```
/// use everhold_timed::perf::{Sample, modes};
/// let fast = (0..20).map(|n| 0.004 + f64::from(n) * 0.000_1);
/// let sample = Sample::new(fast.chain([10.0, 10.001, 20.0]));
/// let found: Vec<usize> = modes(&sample).iter().map(|mode| mode.count).collect();
/// assert_eq!(found, [20, 2, 1]);
/// ```
#[must_use]
pub fn modes(sample: &Sample) -> Vec<Mode> {
    let times = sample.sorted();
    let gaps: Vec<f64> = times.windows(2).map(|pair| log(pair[1]) - log(pair[0])).collect();
    let wide = FACTOR_MIN.ln().max(STANDS_OUT * usual_gap(&gaps));
    let cuts = gaps.iter().enumerate().filter(|(_, gap)| **gap > wide).map(|(at, _)| at + 1);
    let mut modes = Vec::new();
    let mut from = 0;
    for cut in cuts.chain([times.len()]) {
        if cut > from {
            modes.push(mode(&times[from..cut]));
        }
        from = cut;
    }
    modes
}

/// Returns the fastest mode with a sufficient share; the largest one if all are small.
#[must_use]
pub fn normal(modes: &[Mode]) -> Option<Mode> {
    let all: usize = modes.iter().map(|mode| mode.count).sum();
    let common = |mode: &&Mode| mode.count as f64 >= NORMAL_SHARE * all as f64;
    let largest = || modes.iter().max_by_key(|mode| mode.count);
    modes.iter().find(common).or_else(largest).copied()
}

fn log(time: f64) -> f64 {
    time.max(FLOOR).ln()
}

fn mode(times: &[f64]) -> Mode {
    let median = times[times.len() / 2];
    let (low, high) = (times[0], times[times.len() - 1]);
    Mode { count: times.len(), low, median, high, multiple: None }
}

/// Returns the median of the lower nine tenths of the gaps, so that the slow tail has no influence.
fn usual_gap(gaps: &[f64]) -> f64 {
    let lower = gaps.len() * 9 / 10;
    Sample::new(gaps[..lower].iter().copied()).quantile(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    fn check(times: &[f64], counts: &[usize], normal_median: f64) {
        let found = modes(&Sample::new(times.iter().copied()));
        assert_eq!(found.iter().map(|mode| mode.count).collect::<Vec<_>>(), counts);
        let normal = normal(&found).map_or(f64::NAN, |mode| mode.median);
        assert!((normal - normal_median).abs() < 1e-9, "normal is {normal}");
    }

    #[test]
    fn gaps_split_modes() {
        let spread = |center: f64, n: u32| (0..n).map(move |i| center + f64::from(i) * 1e-5);
        let three: Vec<f64> =
            spread(0.005, 20).chain(spread(10.0, 60)).chain(spread(20.0, 30)).collect();
        check(&three, &[20, 60, 30], 0.0051);
        // One lucky execution in a hundred does not define what is normal.
        let lucky: Vec<f64> = spread(0.005, 1).chain(spread(10.0, 99)).collect();
        check(&lucky, &[1, 99], 10.00049);
        check(&[1.0], &[1], 1.0);
        check(&[0.0, 0.0, 0.0], &[3], 0.0);
    }

    /// A heavy-tailed sample without a second mode: 1,000 draws of Pareto(1 ms, 3). Its widest gap
    /// is at the end. In one of a few hundred samples, the largest draw is 1.5 times its neighbour;
    /// it may then form a mode of its own, but the normal mode does not change.
    #[test]
    fn a_heavy_tail_is_one_mode() {
        let mut rng = Rng::new(5);
        let mut uniform = || (f64::from(rng.below(1 << 30)) + 1.0) / f64::from(1 << 30);
        let sample = Sample::new((0..1000).map(|_| 0.001 / uniform().cbrt()));
        let found = modes(&sample);
        assert!(found[0].count >= 990, "{found:?}");
    }
}
