//! Quantiles of a sample, and MacePC's rule for outliers.

use everhold_sim::rng::Rng;
use serde::Serialize;

/// Times in ascending order, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts the times; values that are not a number are left out.
    #[must_use]
    pub fn new(times: impl IntoIterator<Item = f64>) -> Sample {
        let mut sorted: Vec<f64> = times.into_iter().filter(|time| time.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Sample(sorted)
    }

    /// Returns the number of times.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the times in ascending order.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// Returns the quantile at `q`, interpolated between neighbours (type 7 of Hyndman and Fan, the
    /// most common definition); 0 for an empty sample.
    ///
    /// ```
    /// use everhold_timed::perf::Sample;
    /// let sample = Sample::new([4.0, 1.0, 3.0, 2.0]);
    /// assert_eq!(sample.quantile(0.5), 2.5);
    /// assert_eq!(sample.quantile(1.0), 4.0);
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0.0 };
        let place = q.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        self.0[below] + (self.0[above] - self.0[below]) * (place - below as f64)
    }

    /// Returns MacePC's bound: a value above `Q3 + 1.5 (Q3 - Q1)` is a mild outlier.
    #[must_use]
    pub fn outlier_bound(&self) -> f64 {
        let (q1, q3) = (self.quantile(0.25), self.quantile(0.75));
        q3 + 1.5 * (q3 - q1)
    }

    /// Returns the share of values above a limit.
    #[must_use]
    pub fn share_above(&self, limit: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let upto = self.0.partition_point(|time| *time <= limit);
        (self.0.len() - upto) as f64 / self.0.len() as f64
    }

    /// Returns the ratio of the quantile at `q` to the median, with a 95 % bootstrap interval.
    #[must_use]
    pub fn tail_ratio(&self, q: f64) -> TailRatio {
        let ratio = |sample: &Sample| sample.quantile(q) / sample.quantile(0.5).max(1e-12);
        let mut rng = Rng::new(0x7A11);
        let draws = (0..if self.0.is_empty() { 0 } else { RESAMPLES }).map(|_| {
            let n = self.0.len();
            ratio(&Sample::new((0..n).map(|_| self.0[rng.below(n as u32) as usize])))
        });
        let draws = Sample::new(draws);
        TailRatio { ratio: ratio(self), low: draws.quantile(0.025), high: draws.quantile(0.975) }
    }
}

const RESAMPLES: usize = 200;

/// The ratio of a high quantile to the median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TailRatio {
    /// The observed ratio.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end of its 95 % interval.
    pub high: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: the two neighbouring order statistics between which the quantile lies.
    fn twin(sample: &Sample, q: f64) -> (f64, f64) {
        let n = sample.len();
        let at = |rank: usize| sample.sorted()[rank.min(n - 1)];
        let place = q * (n - 1) as f64;
        (at(place as usize), at(place as usize + 1))
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let mut rng = Rng::new(3);
        for n in 1..40 {
            let sample = Sample::new((0..n).map(|_| f64::from(rng.below(10))));
            for q in [0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0] {
                let (low, high) = twin(&sample, q);
                let value = sample.quantile(q);
                assert!(low <= value && value <= high, "{n} {q}: {low} {value} {high}");
            }
        }
    }

    #[test]
    fn bounds_and_shares() {
        let sample = Sample::new((1..=100).map(f64::from));
        assert!((sample.outlier_bound() - (75.25 + 1.5 * 49.5)).abs() < 1e-9);
        assert_eq!(sample.share_above(90.0), 0.1);
        assert_eq!(Sample::new([]).quantile(0.5), 0.0);
        let ratio = sample.tail_ratio(0.99);
        assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high, "{ratio:?}");
    }
}
