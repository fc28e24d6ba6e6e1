//! Estimates of the number of distinct values, in constant memory.

use std::collections::BTreeMap;

/// The number of hashes that are kept; the relative error of an estimate is about `1 / sqrt(KEPT)`.
const KEPT: usize = 4096;

/// Estimates the number of different hashes that were added, and the probability that the next one
/// is new.
///
/// Keeps the smallest hashes with their counts (a bottom-k sketch), so two sketches merge into
/// exactly the sketch of both inputs, however these were divided.
///
/// ```
/// use everhold_sim::sketch::Sketch;
/// let mut seen = Sketch::default();
/// for hash in [7, 7, 9] { seen.add(hash); }
/// assert_eq!((seen.added(), seen.distinct()), (3, 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    counts: BTreeMap<u64, u64>,
    added: u64,
}

impl Sketch {
    /// Adds one observation.
    pub fn add(&mut self, hash: u64) {
        self.add_many(hash, 1);
        self.added += 1;
    }

    fn add_many(&mut self, hash: u64, count: u64) {
        let full = self.counts.len() >= KEPT;
        if full && self.counts.last_key_value().is_some_and(|(largest, _)| hash > *largest) {
            return;
        }
        *self.counts.entry(hash).or_default() += count;
        if self.counts.len() > KEPT {
            self.counts.pop_last();
        }
    }

    /// Adds all observations of another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        for (hash, count) in &other.counts {
            self.add_many(*hash, *count);
        }
        self.added += other.added;
    }

    /// The number of observations that were added.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// The number of different hashes: exact up to 4,096, then an estimate.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        match self.counts.last_key_value() {
            Some((largest, _)) if self.counts.len() >= KEPT => {
                let share = (*largest as f64 + 1.0) / (u64::MAX as f64);
                ((KEPT as f64 - 1.0) / share).round() as u64
            }
            _ => self.counts.len() as u64,
        }
    }

    /// True if [`distinct`](Sketch::distinct) is an estimate.
    #[must_use]
    pub fn is_estimate(&self) -> bool {
        self.counts.len() >= KEPT
    }

    /// The Good-Turing estimate of the probability that the next observation is new: the share of
    /// observations whose hash was seen exactly once.
    #[must_use]
    pub fn unseen(&self) -> f64 {
        let once = self.counts.values().filter(|count| **count == 1).count() as f64;
        let all: u64 = self.counts.values().sum();
        if all == 0 { 1.0 } else { once / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn merging_is_seeing_both() {
        let mut rng = Rng::new(5);
        let (mut left, mut right, mut both) =
            (Sketch::default(), Sketch::default(), Sketch::default());
        for i in 0..40_000 {
            let hash = everhold_node::fingerprint::mix(1, u64::from(rng.below(20_000)));
            if i % 3 == 0 {
                left.add(hash);
            } else {
                right.add(hash);
            }
            both.add(hash);
        }
        left.merge(&right);
        assert_eq!(left.counts, both.counts);
        assert_eq!(left.distinct(), both.distinct());
    }

    /// The standard error is 1/sqrt(4096) = 1.6 %; an estimate is off by five of them once in 1.7
    /// million.
    #[test]
    fn estimates_are_close() {
        let mut sketch = Sketch::default();
        for i in 0..100_000 {
            sketch.add(everhold_node::fingerprint::mix(2, i));
        }
        let error = sketch.distinct() as f64 / 100_000.0 - 1.0;
        assert!(error.abs() < 0.08, "off by {error}");
        assert!(sketch.unseen() > 0.99, "everything was seen once");
    }
}
