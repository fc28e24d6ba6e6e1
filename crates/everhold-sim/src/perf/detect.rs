//! What is normal, and which executions are slow.
//!
//! MacePC's quartile rule is blind where a quarter of the executions or more is slow, and flags
//! some of every healthy sample. So several tests look for suspects here, each of which says why;
//! whether a suspect is a finding is decided by what it waited for (see `judge`).

use serde::Serialize;

use super::dip::{Dip, dip_test};
use super::modes::{Mode, modes, normal};
use super::multiples::{Multiples, TimerPeriod, after_multiple, multiples};
use super::sample::{Sample, TailRatio};

/// One execution, as far as detection looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Simulated seconds until the stopping condition was true.
    pub time: f64,
    /// False if the time limit came first.
    pub reached: bool,
}

/// What the times of many executions say.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Detection {
    /// All times, those that reached the limit included.
    pub times: Sample,
    /// Executions that did not reach the stopping condition.
    pub unfinished: usize,
    /// Groups far from each other, the fastest first.
    pub modes: Vec<Mode>,
    /// The fastest mode with at least 5 % of the executions.
    pub normal: Option<Mode>,
    /// An execution beyond this is a suspect: the quartile rule within the normal mode, or half the
    /// period of the timer that even the normal mode waits for.
    pub slow_limit: f64,
    /// The share of suspects.
    pub slow_share: f64,
    /// The timer whose multiples the suspects follow.
    pub multiples: Option<Multiples>,
    /// More than one mode by the dip test, on a logarithmic scale.
    pub dip: Option<Dip>,
    /// The 99th percentile as a multiple of the median.
    pub tail: TailRatio,
    /// What MacePC's rule would flag: the bound, and the share above it.
    pub mace: (f64, f64),
    /// Which tests fired.
    pub fired: Vec<Fired>,
}

/// A test that looked at the times and found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fired {
    /// A wide gap on a logarithmic scale: a slow mode.
    Gap,
    /// The dip test.
    Dip,
    /// Ends follow the multiples of a timer.
    Multiples,
    /// Even the normal mode follows several multiples of a timer.
    CommonPath,
    /// The slowest are far slower than the median.
    Tail,
    /// Outliers within the normal mode.
    Outliers,
    /// The stopping condition was not reached in time.
    Unfinished,
}

const DIP_SIGNIFICANT: f64 = 0.01;
const TAIL_LONG: f64 = 3.0;
/// A system that needs more rounds of a timer than this works by that timer; it does not wait for
/// it to repair something.
pub(super) const ROUNDS_MAX: u32 = 10;

impl Detection {
    /// Looks at the times of all executions of a uniform sample.
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
        let multiples = common.clone().or_else(|| multiples(&ends, timers));
        mark(&mut modes, multiples.as_ref());
        let mut detection = Detection {
            unfinished: measured.iter().filter(|m| !m.reached).count(),
            slow_share: ends.len() as f64 / measured.len().max(1) as f64,
            dip: dip_test(&Sample::new(times.sorted().iter().map(|t| t.max(1e-6).ln()))),
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
        let slow_modes = self.modes.iter().any(|m| m.low > self.slow_limit);
        let dip = self.dip.is_some_and(|dip| dip.p_value < DIP_SIGNIFICANT);
        let tests = [
            (Fired::Gap, slow_modes && self.modes.len() > 1),
            (Fired::Dip, dip),
            (Fired::Multiples, self.multiples.is_some()),
            (Fired::CommonPath, common),
            (Fired::Tail, self.tail.ratio > TAIL_LONG),
            (Fired::Outliers, self.slow_share > 0.0),
            (Fired::Unfinished, self.unfinished > 0),
        ];
        tests.into_iter().filter(|(_, fired)| *fired).map(|(test, _)| test).collect()
    }

    /// True if even the normal mode waits for a timer: no execution is known to be fast.
    #[must_use]
    pub fn common_path(&self) -> bool {
        self.fired.contains(&Fired::CommonPath)
    }

    /// The slow modes: those that lie beyond the limit.
    pub fn slow_modes(&self) -> impl Iterator<Item = &Mode> {
        self.modes.iter().filter(|mode| mode.low > self.slow_limit)
    }
}

/// The quartile rule on the logarithm, inside one mode, where it is sound.
fn bound_within(times: &Sample, mode: Mode) -> f64 {
    let inside = times.sorted().iter().filter(|t| **t >= mode.low && **t <= mode.high);
    let bound = Sample::new(inside.map(|time| time.max(1e-9).ln())).outlier_bound().exp();
    // A mode without width has no outliers, only rounding.
    bound.max(mode.median * 1.01)
}

/// The timer that all but a few executions wait for, several times over.
fn common_path(measured: &[Measured], timers: &[TimerPeriod]) -> Option<Multiples> {
    let ends: Vec<f64> = measured.iter().map(|m| m.time).collect();
    let fit = multiples(&ends, timers)?;
    if (fit.hits as f64) < 0.95 * ends.len() as f64 {
        return None;
    }
    let rounds = Sample::new(
        ends.iter().filter_map(|end| after_multiple(*end, fit.timer.period)).map(f64::from),
    );
    let differ = rounds.quantile(0.95) > rounds.quantile(0.05);
    (differ && rounds.quantile(0.5) <= f64::from(ROUNDS_MAX)).then_some(fit)
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
    use crate::rng::Rng;

    fn timers() -> Vec<TimerPeriod> {
        [("join", 5.0), ("recovery", 10.0)]
            .map(|(name, period)| TimerPeriod { name: name.to_owned(), period })
            .to_vec()
    }

    /// `count` executions a little after each time.
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

    /// The shapes of the case studies, as they were measured in prototypes.
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
        check(&[(0.15, 500)], &[], &[Gap, Dip, Multiples, CommonPath, Fired::Tail]);
    }

    #[test]
    fn nothing_at_all() {
        let found = Detection::new(&[], &timers());
        assert!(found.fired.is_empty() && found.normal.is_none());
    }
}
