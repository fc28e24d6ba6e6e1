//! The comparison of two versions on the same seeds: which is faster, and by how much.

use serde::Serialize;

use super::detect::Measured;
use super::normal::two_sided;
use super::rank::ranks;
use super::sample::Sample;
use super::verdict::{VersionsVerdict, median_at_most};

/// The result of comparing two versions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The number of seeds on which both reached the stopping condition.
    pub pairs: usize,
    /// The number of seeds on which the second version is slower.
    pub slower: usize,
    /// The number of seeds on which the second version is faster.
    pub faster: usize,
    /// The median of the ratios of the second version's time to the first's.
    pub ratio: f64,
    /// An upper bound on the true median of the ratios, with 95 % confidence (by order statistics).
    pub ratio_max: f64,
    /// The two-sided p-value of Wilcoxon's signed-rank test.
    pub p_value: f64,
}

/// The relative difference below which times count as equal: a nanosecond is not a change.
const EQUAL: f64 = 1e-9;
/// The significance level: a difference with a larger p-value is attributed to chance.
const SIGNIFICANT: f64 = 0.01;
/// The smallest ratio of times that counts as slower.
const WORTH_A_WORD: f64 = 1.05;
/// The smallest number of pairs for which a difference can be significant.
const PAIRS_MIN: usize = 8;

/// A version and a reference, on the same seeds. Only such a comparison shows slowness that is the
/// same in every execution: in a distribution with one mode nothing stands out.
#[derive(Clone, Debug, Serialize)]
pub struct Versions {
    /// The times of the version, on seeds on which both reached the stopping condition.
    pub version: Sample,
    /// The times of the reference on the same seeds.
    pub reference: Sample,
    /// The comparison seed by seed, from the reference to the version.
    pub comparison: Comparison,
    /// The number of seeds on which the version did not reach the stopping condition.
    pub unfinished: usize,
    /// The number of seeds on which the reference did not.
    pub reference_unfinished: usize,
    /// The index of the seed on which the version is slowest in comparison.
    pub widest: Option<usize>,
    verdict: VersionsVerdict,
}

impl Versions {
    /// Compares executions of both, which must be in the order of their seeds.
    #[must_use]
    pub fn new(version: &[Measured], reference: &[Measured]) -> Versions {
        let pairs = || version.iter().zip(reference).enumerate();
        let both = || pairs().filter(|(_, (a, b))| a.reached && b.reached);
        let (first, second): (Vec<f64>, Vec<f64>) =
            both().map(|(_, (a, b))| (a.time, b.time)).unzip();
        let slower = |(_, (a, b)): &(usize, (&Measured, &Measured))| a.time / b.time.max(1e-9);
        let widest = both().max_by(|a, b| slower(a).total_cmp(&slower(b)).then(b.0.cmp(&a.0)));
        let unfinished = |all: &[Measured]| all.iter().filter(|m| !m.reached).count();
        let comparison = compare(&second, &first);
        let (unfinished, reference_unfinished) = (unfinished(version), unfinished(reference));
        Versions {
            verdict: if unfinished > reference_unfinished {
                VersionsVerdict::Slower
            } else {
                comparison.verdict()
            },
            comparison,
            widest: widest.map(|(at, _)| at),
            unfinished,
            reference_unfinished,
            version: Sample::new(first),
            reference: Sample::new(second),
        }
    }

    /// Returns the verdict: slower if the version takes longer than the reference by 5 % or more
    /// and the difference is significant at the 1 % level, or if it does not end where the
    /// reference does; not slower if with 95 % confidence its median execution takes less than 5 %
    /// longer. It is unknown otherwise, and with fewer than 8 pairs.
    #[must_use]
    pub fn verdict(&self) -> VersionsVerdict {
        self.verdict
    }
}

impl Comparison {
    /// Returns the verdict on the second version.
    fn verdict(&self) -> VersionsVerdict {
        match () {
            () if self.pairs < PAIRS_MIN => VersionsVerdict::Unknown,
            () if self.ratio >= WORTH_A_WORD && self.p_value < SIGNIFICANT => {
                VersionsVerdict::Slower
            }
            () if self.ratio_max < WORTH_A_WORD => VersionsVerdict::NotSlower,
            () => VersionsVerdict::Unknown,
        }
    }
}

/// Compares the times of two versions, seed by seed.
///
/// ```
/// use everhold_timed::perf::compare;
/// let before = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// let after = before.map(|time| time * 2.0);
/// let found = compare(&before, &after);
/// assert_eq!(found.slower, 8);
/// assert!((found.ratio - 2.0).abs() < 1e-9 && found.p_value < 0.02);
/// ```
#[must_use]
pub fn compare(first: &[f64], second: &[f64]) -> Comparison {
    let log = |time: &f64| time.max(1e-9).ln();
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| log(b) - log(a)).collect();
    let moved: Vec<f64> = differences.iter().copied().filter(|d| d.abs() > EQUAL).collect();
    let sample = Sample::new(differences.iter().copied());
    Comparison {
        pairs: differences.len(),
        slower: moved.iter().filter(|d| **d > 0.0).count(),
        faster: moved.iter().filter(|d| **d < 0.0).count(),
        ratio: sample.quantile(0.5).exp(),
        ratio_max: median_at_most(sample.sorted()).exp(),
        p_value: signed_ranks(&moved),
    }
}

/// Computes the p-value of Wilcoxon's signed-rank test by its normal approximation, with the
/// correction for ties.
fn signed_ranks(differences: &[f64]) -> f64 {
    let n = differences.len() as f64;
    if differences.is_empty() {
        return 1.0;
    }
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = ranks(&sizes);
    let positive: f64 =
        differences.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let variance: f64 = ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0;
    let mean = n * (n + 1.0) / 4.0;
    let off = (positive - mean).abs() - 0.5;
    two_sided(off.max(0.0) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enumerates all combinations of signs of the ranks.
    fn twin(differences: &[f64]) -> f64 {
        let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
        let ranks = ranks(&sizes);
        let mean = ranks.iter().sum::<f64>() / 2.0;
        let sum = |signs: u32| -> f64 {
            let set = |at: &usize| (signs >> at) & 1 == 1;
            (0..ranks.len()).filter(set).map(|at| ranks[at]).sum()
        };
        let seen: f64 =
            differences.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
        let all = 1u32 << ranks.len();
        let far = (0..all).filter(|s| (sum(*s) - mean).abs() >= (seen - mean).abs() - 1e-9);
        far.count() as f64 / f64::from(all)
    }

    #[test]
    fn close_to_the_exact_test() {
        for differences in [
            &[0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, 0.9, 1.0][..],
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
            &[0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0.4, -0.4],
        ] {
            let (fast, slow) = (signed_ranks(differences), twin(differences));
            assert!((fast - slow).abs() < 0.03, "{differences:?}: {fast} but {slow}");
        }
        assert_eq!(compare(&[1.0, 2.0], &[1.0, 2.0]).p_value, 1.0);
    }

    #[test]
    fn a_version_is_judged_by_its_reference() {
        let check = |version: f64, pairs: usize, unfinished: usize, expected: VersionsVerdict| {
            let times = |factor: f64, ends: usize| -> Vec<Measured> {
                let time = |at: usize| factor * (1.0 + at as f64 / 10.0);
                (0..pairs).map(|at| Measured { time: time(at), reached: at < ends }).collect()
            };
            let found = Versions::new(&times(version, pairs - unfinished), &times(1.0, pairs));
            assert_eq!(found.verdict(), expected, "{version} {pairs}: {found:?}");
            assert_eq!(found.comparison.pairs, pairs - unfinished);
        };
        check(2.0, 20, 0, VersionsVerdict::Slower);
        check(1.02, 20, 0, VersionsVerdict::NotSlower);
        check(0.5, 20, 0, VersionsVerdict::NotSlower);
        check(2.0, 4, 0, VersionsVerdict::Unknown);
        check(1.0, 20, 1, VersionsVerdict::Slower);
    }

    /// A difference that may be due to chance gives no verdict, in either direction.
    #[test]
    fn too_much_noise_is_unknown() {
        let (before, after) =
            ([1.0; 12], [2.0, 0.5, 3.0, 0.4, 2.5, 0.3, 2.0, 0.6, 1.5, 1.2, 0.9, 1.1]);
        let found = compare(&before, &after);
        assert_eq!(found.verdict(), VersionsVerdict::Unknown, "{found:?}");
        assert!(found.ratio_max > 1.05 && found.p_value > 0.01, "{found:?}");
    }
}
