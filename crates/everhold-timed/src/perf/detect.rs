//! What is normal, and which executions are slow.
//!
//! MacePC's quartile rule is blind where a quarter of the executions or more is slow, and flags
//! some of every healthy sample. So several tests look for suspects here, each of which says why;
//! whether a suspect is a finding is decided by what it waited for (see `judge`).

use everhold_sim::rng::Rng;
use serde::Serialize;

use super::dip::{Dip, dip_test};
use super::modes::{FACTOR_MIN, Mode, NORMAL_SHARE, modes, normal};
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
    /// Suspects that belong to the normal mode. Any sample with a long tail has some, so they are
    /// looked at, but by themselves they are no sign of anything.
    pub outliers: usize,
    /// The timer whose multiples the slow modes follow, or the suspects if there are none.
    pub multiples: Option<Multiples>,
    /// More than one mode by the dip test, on a logarithmic scale. Modes closer to each other than a
    /// factor of 1.5 count as one.
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
    /// A wide gap on a logarithmic scale: a slow mode that is not rare, or that is far away. (One or
    /// two executions apart from the others may be the tail of the network.)
    Gap,
    /// The dip test.
    Dip,
    /// Ends follow the multiples of a timer.
    Multiples,
    /// Even the normal mode ends after multiples of a timer.
    CommonPath,
    /// The slowest are far slower than the median.
    Tail,
    /// The stopping condition was not reached in time.
    Unfinished,
}

const DIP_SIGNIFICANT: f64 = 0.01;
const TAIL_LONG: f64 = 3.0;
/// A rare slow mode must be so many times slower than the median of the normal one...
const FAR: f64 = 3.0;
/// ... and every slow mode must have so many executions: one or two may have met the tail of the
/// network.
const FEW: usize = 3;

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
        let multiples = common.clone().or_else(|| {
            // What is just outside the normal mode would hide what the slow modes have in common.
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

    /// The timer whose multiples the slow ones follow, if this time does.
    #[must_use]
    pub fn follows(&self, time: f64) -> Option<&Multiples> {
        self.multiples.as_ref().filter(|fit| after_multiple(time, fit.timer.period).is_some())
    }

    /// True if the time lies beyond the normal mode, far enough for another mode. If no execution
    /// is known to be fast, everything beyond the limit does.
    #[must_use]
    pub fn is_apart(&self, time: f64) -> bool {
        let far = |normal: Mode| time >= FACTOR_MIN * normal.high;
        time > self.slow_limit && (self.common_path() || self.normal.is_none_or(far))
    }

    fn stands_out(&self, mode: &Mode) -> bool {
        let far = |normal: Mode| mode.count >= FEW && mode.low >= FAR * normal.median;
        self.is_common(mode) || self.normal.is_some_and(far)
    }

    /// True if a mode is not rare: one or two of a few executions are no mode.
    pub(super) fn is_common(&self, mode: &Mode) -> bool {
        mode.count >= FEW && mode.count as f64 >= NORMAL_SHARE * self.times.len() as f64
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

/// Those of the ends that belong to a mode beyond the limit.
fn in_slow_modes(ends: &[f64], modes: &[Mode], slow_limit: f64) -> Vec<f64> {
    let slow = modes.iter().filter(|mode| mode.low > slow_limit);
    let from = slow.map(|mode| mode.low).fold(f64::INFINITY, f64::min);
    ends.iter().copied().filter(|end| *end >= from).collect()
}

/// Logarithms, each moved by up to what separates modes: what lies closer together than that runs
/// together, and a difference of a few percent is no second mode.
fn blurred(times: &Sample) -> Sample {
    let mut rng = Rng::new(0xB1);
    let mut part = || (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
    Sample::new(times.sorted().iter().map(|time| time.max(1e-6).ln() + FACTOR_MIN.ln() * part()))
}

/// The quartile rule on the logarithm, inside one mode, where it is sound.
fn bound_within(times: &Sample, mode: Mode) -> f64 {
    let inside = times.sorted().iter().filter(|t| **t >= mode.low && **t <= mode.high);
    let bound = Sample::new(inside.map(|time| time.max(1e-9).ln())).outlier_bound().exp();
    // A mode without width has no outliers, only rounding.
    bound.max(mode.median * 1.01)
}

/// The timer that all but a few executions wait for.
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
        let one = check(&[(0.15, 500)], &[], &[Gap, Dip, Multiples, CommonPath, Fired::Tail]);
        assert!(one.fired.is_empty(), "{one:?}");
    }

    /// A rare slow mode is asked for its timer by itself, whatever is just beyond the limit.
    #[test]
    fn outliers_do_not_hide_the_timer() {
        let groups = [(0.15, 390), (0.19, 12), (10.0, 4), (20.0, 3)];
        let found = check(&groups, &[Fired::Gap, Fired::Multiples], &[Fired::CommonPath]);
        let fit = found.multiples.as_ref().expect("fired");
        assert_eq!((fit.timer.name.as_str(), fit.slow, found.outliers), ("recovery", 7, 12));
    }

    /// Two groups a few percent apart are one mode; a factor of two apart they are two.
    #[test]
    fn small_differences_are_no_modes() {
        check(&[(0.150, 200), (0.158, 200)], &[], &[Fired::Dip, Fired::Gap]);
        check(&[(0.150, 200), (0.300, 200)], &[Fired::Dip, Fired::Gap], &[]);
        // One execution a little beyond the others is no mode either.
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
