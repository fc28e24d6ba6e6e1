//! The conclusions that a sample allows, and their confidence.

use serde::Serialize;

/// The verdict of a [performance analysis](super::Perf). It is about a sample: if no slow execution
/// was found, there may still be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PerfVerdict {
    /// Slow executions were found.
    Slow,
    /// No slow execution was found, and with 95 % confidence their share is below the limit that
    /// [`Perf::at_most`](super::Perf::at_most) sets.
    NoneSlow,
    /// Too few executions were drawn for a verdict, one execution was replayed and is not slow, or
    /// no execution reached the stopping condition.
    Unknown,
}

/// The verdict of a [comparison of two versions](super::Versions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionsVerdict {
    /// The version takes longer by 5 % or more, and the difference is significant (Wilcoxon's
    /// signed-rank test at the 1 % level); or it does not end where the reference does.
    Slower,
    /// With 95 % confidence the median execution of the version takes less than 5 % longer.
    NotSlower,
    /// The sample is too small or varies too much for either verdict.
    Unknown,
}

/// All bounds here have a confidence of one minus this error.
const ERROR: f64 = 0.05;
/// The number of bisections of the unit interval: more digits than are ever printed.
const BISECTIONS: usize = 50;

/// Returns the Clopper-Pearson upper bound (1934) on a share with 95 % confidence: the largest
/// share that is compatible with `hits` of `tries`. Without hits it is about `3 / tries`, the rule
/// of three.
pub(super) fn share_at_most(hits: usize, tries: usize) -> f64 {
    if hits >= tries {
        return 1.0;
    }
    let (mut fits, mut too_large) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(fits, too_large);
        if binomial_at_most(hits, tries, middle) > ERROR {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    too_large
}

/// Returns an upper bound on the median of the distribution behind a sample, with 95 % confidence:
/// an order statistic, whatever the distribution is. It is infinite for fewer than five numbers.
pub(super) fn median_at_most(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    let above = (0..n).take_while(|above| binomial_at_most(*above, n, 0.5) <= ERROR).last();
    above.map_or(f64::INFINITY, |above| sorted[n - 1 - above])
}

/// Returns the binomial probability of at most `hits` in `tries`, each with probability `p` between
/// 0 and 1.
fn binomial_at_most(hits: usize, tries: usize, p: f64) -> f64 {
    let n = tries as f64;
    // The terms are summed by their logarithms, since the first ones may underflow.
    let mut term = n * (1.0 - p).ln();
    let mut sum = term.exp();
    for i in 0..hits {
        let i = i as f64;
        term += ((n - i) / (i + 1.0)).ln() + (p / (1.0 - p)).ln();
        sum += term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from tables of the beta distribution: the bound is its 95th percentile with the
    /// parameters `hits + 1` and `tries - hits`.
    #[test]
    fn shares_are_those_of_the_tables() {
        for (hits, tries, expected) in [
            (0, 1, 0.95),
            (0, 10, 0.258_866),
            (0, 400, 0.007_461),
            (1, 10, 0.394_163),
            (5, 10, 0.777_559),
            (10, 10, 1.0),
            (0, 0, 1.0),
        ] {
            let found = share_at_most(hits, tries);
            assert!((found - expected).abs() < 1e-5, "{hits} of {tries}: {found}");
        }
        // Terms that underflow do not distort the sum.
        let many = share_at_most(2_000, 10_000);
        assert!((0.2..0.21).contains(&many), "{many}");
    }

    #[test]
    fn the_median_is_bounded_by_a_number_of_the_sample() {
        let numbers: Vec<f64> = (1..=20).map(f64::from).collect();
        // P(at most 5 of 20) = 0.0207 and P(at most 6) = 0.0577: five numbers may lie above.
        assert_eq!(median_at_most(&numbers), 15.0);
        assert_eq!(median_at_most(&numbers[..4]), f64::INFINITY);
        assert_eq!(median_at_most(&numbers[..5]), 5.0);
    }
}
