//! The normal distribution, and shares with confidence intervals.

use serde::Serialize;

/// The two-sided 95 % quantile of the standard normal distribution.
const Z95: f64 = 1.959_964;
/// The one-sided 99 % quantile of the standard normal distribution.
const Z99: f64 = 2.326_348;

/// Returns the probability that a standard normal variable is at least as far from 0.
#[must_use]
pub(super) fn two_sided(z: f64) -> f64 {
    (2.0 * upper(z.abs())).clamp(0.0, 1.0)
}

/// Returns the probability that a standard normal variable exceeds `z >= 0`, by the continued
/// fraction where it converges, and by the series elsewhere.
fn upper(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for k in 1..100 {
            term *= z * z / f64::from(2 * k + 1);
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..60).rev().fold(z, |below, k| z + f64::from(k) / below);
    density / fraction
}

/// A number of successes among a number of tries, with a 95 % Wilson interval (Wilson, 1927).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The number of successes.
    pub hits: u32,
    /// The number of tries.
    pub tries: u32,
}

impl Share {
    /// Returns the observed share; 0 without tries.
    #[must_use]
    pub fn rate(self) -> f64 {
        if self.tries == 0 { 0.0 } else { f64::from(self.hits) / f64::from(self.tries) }
    }

    /// Returns the 95 % Wilson interval of the true share.
    ///
    /// ```
    /// use everhold_timed::perf::Share;
    /// let (low, high) = Share { hits: 0, tries: 20 }.band();
    /// assert!(low == 0.0 && high > 0.15, "20 failures do not mean never");
    /// ```
    #[must_use]
    pub fn band(self) -> (f64, f64) {
        if self.tries == 0 {
            return (0.0, 1.0);
        }
        let (n, p, z2) = (f64::from(self.tries), self.rate(), Z95 * Z95);
        let center = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        let low = if self.hits == 0 { 0.0 } else { (center - half).max(0.0) };
        let high = if self.hits == self.tries { 1.0 } else { (center + half).min(1.0) };
        (low, high)
    }

    /// Returns true if this share is significantly larger than the other: for equal true shares,
    /// this is wrong in one of a hundred comparisons.
    #[must_use]
    pub fn exceeds(self, other: Share) -> bool {
        let both = self.plus(other).rate();
        let (n, m) = (f64::from(self.tries.max(1)), f64::from(other.tries.max(1)));
        let deviation = (both * (1.0 - both) * (1.0 / n + 1.0 / m)).sqrt();
        deviation > 0.0 && (self.rate() - other.rate()) / deviation > Z99
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Share) -> Share {
        Share { hits: self.hits + other.hits, tries: self.tries + other.tries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: the shares from which the observed one deviates by exactly 1.96 standard
    /// deviations.
    fn twin(share: Share) -> (f64, f64) {
        let n = f64::from(share.tries);
        let fits = |p: f64| (share.rate() - p).powi(2) <= Z95 * Z95 * p * (1.0 - p) / n + 1e-12;
        let grid = || (0..=100_000).map(|i| f64::from(i) / 100_000.0).filter(|p| fits(*p));
        (grid().fold(1.0, f64::min), grid().fold(0.0, f64::max))
    }

    #[test]
    fn bands_are_wilsons() {
        for (hits, tries) in [(0, 8), (1, 8), (4, 8), (8, 8), (30, 100)] {
            let share = Share { hits, tries };
            let ((low, high), (slow_low, slow_high)) = (share.band(), twin(share));
            assert!((low - slow_low).abs() < 1e-4 && (high - slow_high).abs() < 1e-4, "{share:?}");
        }
    }

    #[test]
    fn tails_of_the_normal_distribution() {
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (4.0, 6.334_2e-5)] {
            assert!((two_sided(z) - p).abs() < 1e-6, "{z}");
        }
        assert!(two_sided(10.0) > 0.0 && two_sided(10.0) < 1e-20);
    }
}
