//! The definition of normal, and the detection of slow executions.
//!
//! MacePC's quartile rule is blind where a quarter of the executions or more is slow, and flags
//! some executions of every healthy sample. So several tests look for suspects here, each of which
//! gives a reason; whether a suspect is a finding depends on what it waited for (see `judge`).

use everhold_sim::rng::Rng;
use serde::Serialize;

use super::dip::{Dip, dip_test};
use super::modes::{FACTOR_MIN, Mode, NORMAL_SHARE, modes, normal};
use super::multiples::{Multiples, TimerPeriod, after_multiple, multiples};
use super::sample::{Sample, TailRatio};

/// The figures of one execution that detection uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The simulated seconds until the stopping condition was true.
    pub time: f64,
    /// Whether the stopping condition became true; false if the time limit came first.
    pub reached: bool,
}

/// The classification of the times of many executions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Detection {
    /// All times, those that reached the limit included.
    pub times: Sample,
    /// The number of executions that did not reach the stopping condition.
    pub unfinished: usize,
    /// The modes: groups of times separated by wide gaps, the fastest first.
    pub modes: Vec<Mode>,
    /// The fastest mode with at least 5 % of the executions.
    pub normal: Option<Mode>,
    /// The bound beyond which an execution is a suspect: the quartile rule within the normal mode,
    /// or half the period of the timer for which even the normal mode waits.
    pub slow_limit: f64,
    /// The share of suspects.
    pub slow_share: f64,
    /// The number of suspects that belong to the normal mode. Any sample with a long tail has some,
    /// so they are examined, but by themselves they do not indicate a problem.
    pub outliers: usize,
    /// The timer whose multiples the slow modes follow, or the suspects if there are no slow modes.
    pub multiples: Option<Multiples>,
    /// The dip test for more than one mode, on a logarithmic scale. Modes closer to each other than
    /// a factor of 1.5 count as one.
    pub dip: Option<Dip>,
    /// The 99th percentile as a multiple of the median.
    pub tail: TailRatio,
    /// The result of MacePC's rule: the bound, and the share of executions above it.
    pub mace: (f64, f64),
    /// The tests that fired.
    pub fired: Vec<Fired>,
}

/// A test that found something in the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fired {
    /// A wide gap on a logarithmic scale, below a slow mode that is not rare, or that is far away.
    /// (One or two separate executions may be the tail of the network.)
    Gap,
    /// The dip test.
    Dip,
    /// The times of suspects follow the multiples of a timer.
    Multiples,
    /// Even the normal mode ends after multiples of a timer.
    CommonPath,
    /// The slowest executions are far slower than the median.
    Tail,
    /// The stopping condition was not reached in time.
    Unfinished,
}

const DIP_SIGNIFICANT: f64 = 0.01;
const TAIL_LONG: f64 = 3.0;
/// A rare slow mode must be slower than the median of the normal mode by this factor.
const FAR: f64 = 3.0;
/// The smallest number of executions in a slow mode: one or two may be the tail of the network.
const FEW: usize = 3;

impl Detection {
    /// Analyses the times of all executions of a uniform sample.
    #[must_use]
    pub fn new(measured: &[Measured], timers: &[TimerPeriod]) -> Detection {
        let times = Sample::new(measured.iter().map(|m| m.time));
        let mut modes = modes(&times);
        let normal = normal(&modes);
        let common = common_path(measured, timers);
        let bound = normal.map_or(0.0, |mode| bound_within(&times, mode));
        let slow_limit = common.as_ref().map_or(bound, |fit| fit.timer.period / 2.0);
        let slow = |m: &&Measured| m.time > slow_limit || !m.reached;
        let ends: Vec<f64> = measured.iter().filter(slow).map(|m| m.time).collect();
        let multiples = common.clone().or_else(|| {
            // Executions just outside the normal mode would hide the pattern of the slow modes.
            let apart = in_slow_modes(&ends, &modes, slow_limit);
            multiples(&apart, timers).or_else(|| multiples(&ends, timers))
        });
        mark(&mut modes, multiples.as_ref());
        let mut detection = Detection {
            unfinished: measured.iter().filter(|m| !m.reached).count(),
            slow_share: ends.len() as f64 / measured.len().max(1) as f64,
            outliers: ends.len() - in_slow_modes(&ends, &modes, slow_limit).len(),
            dip: dip_test(&blurred(&times)),
            tail: times.tail_ratio(0.99),
            mace: (times.outlier_bound(), times.share_above(times.outlier_bound())),
            fired: Vec::new(),
            times,
            modes,
            normal,
            slow_limit,
            multiples,
        };
        detection.fired = detection.fire(common.is_some());
        detection
    }

    fn fire(&self, common: bool) -> Vec<Fired> {
        let gap = self.modes.len() > 1 && self.slow_modes().any(|mode| self.stands_out(mode));
        let dip = self.dip.is_some_and(|dip| dip.p_value < DIP_SIGNIFICANT);
        let tests = [
            (Fired::Gap, gap),
            (Fired::Dip, dip),
            (Fired::Multiples, self.multiples.is_some()),
            (Fired::CommonPath, common),
            (Fired::Tail, self.tail.ratio > TAIL_LONG),
            (Fired::Unfinished, self.unfinished > 0),
        ];
        tests.into_iter().filter(|(_, fired)| *fired).map(|(test, _)| test).collect()
    }

    /// Returns the timer whose multiples the slow executions follow, if this time does as well.
    #[must_use]
    pub fn follows(&self, time: f64) -> Option<&Multiples> {
        self.multiples.as_ref().filter(|fit| after_multiple(time, fit.timer.period).is_some())
    }

    /// Returns true if the time is beyond the normal mode by at least the factor that separates
    /// modes. If no execution is known to be fast, every time beyond the limit is.
    #[must_use]
    pub fn is_apart(&self, time: f64) -> bool {
        let far = |normal: Mode| time >= FACTOR_MIN * normal.high;
        time > self.slow_limit && (self.common_path() || self.normal.is_none_or(far))
    }

    fn stands_out(&self, mode: &Mode) -> bool {
        let far = |normal: Mode| mode.count >= FEW && mode.low >= FAR * normal.median;
        self.is_common(mode) || self.normal.is_some_and(far)
    }

    /// Returns true if a mode is not rare; one or two executions of a small sample are not a mode.
    pub(super) fn is_common(&self, mode: &Mode) -> bool {
        mode.count >= FEW && mode.count as f64 >= NORMAL_SHARE * self.times.len() as f64
    }

    /// Returns true if even the normal mode waits for a timer: no execution is known to be fast.
    #[must_use]
    pub fn common_path(&self) -> bool {
        self.fired.contains(&Fired::CommonPath)
    }

    /// Returns the slow modes: those beyond the limit.
    pub fn slow_modes(&self) -> impl Iterator<Item = &Mode> {
        self.modes.iter().filter(|mode| mode.low > self.slow_limit)
    }
}

/// Returns the times that belong to a mode beyond the limit.
fn in_slow_modes(ends: &[f64], modes: &[Mode], slow_limit: f64) -> Vec<f64> {
    let slow = modes.iter().filter(|mode| mode.low > slow_limit);
    let from = slow.map(|mode| mode.low).fold(f64::INFINITY, f64::min);
    ends.iter().copied().filter(|end| *end >= from).collect()
}

/// Returns the logarithms of the times, each shifted by up to the distance that separates modes.
/// Times closer together than that merge, so a difference of a few percent is not a second mode.
fn blurred(times: &Sample) -> Sample {
    let mut rng = Rng::new(0xB1);
    let mut part = || (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
    Sample::new(times.sorted().iter().map(|time| time.max(1e-6).ln() + FACTOR_MIN.ln() * part()))
}

/// Applies the quartile rule to the logarithms within one mode, where it is sound.
fn bound_within(times: &Sample, mode: Mode) -> f64 {
    let inside = times.sorted().iter().filter(|t| **t >= mode.low && **t <= mode.high);
    let bound = Sample::new(inside.map(|time| time.max(1e-9).ln())).outlier_bound().exp();
    // In a mode without spread, deviations are rounding errors rather than outliers.
    bound.max(mode.median * 1.01)
}

/// Returns the timer for which all but a few executions wait.
fn common_path(measured: &[Measured], timers: &[TimerPeriod]) -> Option<Multiples> {
    let ends: Vec<f64> = measured.iter().map(|m| m.time).collect();
    let fit = multiples(&ends, timers)?;
    (fit.hits as f64 >= 0.95 * ends.len() as f64).then_some(fit)
}

fn mark(modes: &mut [Mode], fit: Option<&Multiples>) {
    let Some(fit) = fit else { return };
    for mode in modes {
        mode.multiple = after_multiple(mode.low, fit.timer.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    fn timers() -> Vec<TimerPeriod> {
        [("join", 5.0), ("recovery", 10.0)]
            .map(|(name, period)| TimerPeriod { name: name.to_owned(), period })
            .to_vec()
    }

    /// Makes `count` executions that end shortly after each time.
    fn measured(groups: &[(f64, usize)]) -> Vec<Measured> {
        let mut rng = Rng::new(1);
        let mut all = Vec::new();
        for (time, count) in groups {
            for _ in 0..*count {
                let time = time + 0.001 + f64::from(rng.below(1000)) * 1e-6;
                all.push(Measured { time, reached: true });
            }
        }
        all
    }

    fn check(groups: &[(f64, usize)], fired: &[Fired], silent: &[Fired]) -> Detection {
        let found = Detection::new(&measured(groups), &timers());
        for test in fired {
            assert!(found.fired.contains(test), "{test:?} is silent on {groups:?}: {found:?}");
        }
        for test in silent {
            assert!(!found.fired.contains(test), "{test:?} fires on {groups:?}: {found:?}");
        }
        found
    }

    /// The distributions of the case studies, as measured in prototypes.
    #[test]
    fn shapes_of_the_case_studies() {
        use Fired::{CommonPath, Dip, Gap, Multiples};
        let randtree = check(&[(0.003, 11), (10.0, 319), (20.0, 170)], &[Gap, Multiples, Dip], &[]);
        assert_eq!(randtree.multiples.expect("fired").timer.name, "recovery");
        assert_eq!(randtree.mace.1, 0.0, "MacePC's rule flags none of them");
        let all_slow =
            check(&[(30.0, 100), (40.0, 200), (50.0, 150), (60.0, 30)], &[CommonPath], &[]);
        assert!((all_slow.slow_limit - 5.0).abs() < 1e-9);
        check(&[(0.15, 88), (1.0, 12)], &[Gap], &[Multiples, CommonPath]);
        let one = check(&[(0.15, 500)], &[], &[Gap, Dip, Multiples, CommonPath, Fired::Tail]);
        assert!(one.fired.is_empty(), "{one:?}");
    }

    /// A rare slow mode determines the timer by itself, whatever lies just beyond the limit.
    #[test]
    fn outliers_do_not_hide_the_timer() {
        let groups = [(0.15, 390), (0.19, 12), (10.0, 4), (20.0, 3)];
        let found = check(&groups, &[Fired::Gap, Fired::Multiples], &[Fired::CommonPath]);
        let fit = found.multiples.as_ref().expect("fired");
        assert_eq!((fit.timer.name.as_str(), fit.slow, found.outliers), ("recovery", 7, 12));
    }

    /// Two groups a few percent apart are one mode; two groups a factor of two apart are two.
    #[test]
    fn small_differences_are_no_modes() {
        check(&[(0.150, 200), (0.158, 200)], &[], &[Fired::Dip, Fired::Gap]);
        check(&[(0.150, 200), (0.300, 200)], &[Fired::Dip, Fired::Gap], &[]);
        // One execution shortly beyond the others is not a mode.
        check(&[(0.150, 300), (0.260, 1)], &[], &[Fired::Gap]);
        check(&[(0.150, 300), (0.900, 2)], &[], &[Fired::Gap]);
        check(&[(0.150, 300), (0.900, 3)], &[Fired::Gap], &[]);
    }

    #[test]
    fn nothing_at_all() {
        let found = Detection::new(&[], &timers());
        assert!(found.fired.is_empty() && found.normal.is_none());
    }
}
