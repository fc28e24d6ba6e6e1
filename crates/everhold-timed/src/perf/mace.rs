//! MacePC's own analysis as described in its paper (Killian et al., FSE 2010): a baseline.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rank::pearson;
use super::sample::Sample;

/// The result of phase 1b: the times that count as normal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Training {
    /// The number of executions.
    pub executions: usize,
    /// First quartile, in seconds.
    pub q1: f64,
    /// Third quartile: the limit for a good walk in phase 3a.
    pub q3: f64,
    /// `Q3 + 1.5 (Q3 - Q1)`: an execution beyond it is anomalous.
    pub bound: f64,
}

impl Training {
    /// Computes the quartiles of the times of the training executions.
    #[must_use]
    pub fn new(times: &Sample) -> Training {
        let (q1, q3) = (times.quantile(0.25), times.quantile(0.75));
        Training { executions: times.len(), q1, q3, bound: times.outlier_bound() }
    }
}

/// The result of phase 3a: the event after which no good end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The length in events of the longest prefix with a good walk; zero if there is none.
    pub last_good: usize,
    /// The length of the shortest prefix from which none of the k walks was good.
    pub first_bad: usize,
    /// The number of the good walk from `last_good`: the nearest good execution.
    pub nearest: Option<u32>,
    /// The number of walks.
    pub walks: u64,
}

/// Finds the divergence by exponential search for bounds, then binary search between them. `good`
/// runs up to k walks from a prefix and returns the number of the first good one, and how many it
/// ran.
pub fn divergence(events: usize, mut good: impl FnMut(usize) -> (Option<u32>, u32)) -> Divergence {
    let mut found = Divergence { last_good: 0, first_bad: events, nearest: None, walks: 0 };
    let mut look = |prefix: usize, found: &mut Divergence| {
        let (walk, ran) = good(prefix);
        found.walks += u64::from(ran);
        match walk {
            Some(_) => (found.last_good, found.nearest) = (prefix, walk),
            None => found.first_bad = prefix,
        }
        walk.is_some()
    };
    let mut prefix = 1;
    while prefix < events && look(prefix, &mut found) {
        prefix *= 2;
    }
    while found.first_bad > found.last_good + 1 {
        let middle = found.last_good + (found.first_bad - found.last_good) / 2;
        look(middle, &mut found);
    }
    found
}

/// The result of phase 3b: an event kind whose frequency correlates with the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frequency {
    /// The event kind.
    pub kind: String,
    /// Pearson's correlation of its count with the execution time.
    pub r: f64,
}

/// Correlates the counts of whole executions with their times, the strongest first.
#[must_use]
pub fn frequencies(counts: &[BTreeMap<String, u32>], times: &[f64]) -> Vec<Frequency> {
    let mut kinds: Vec<&String> = counts.iter().flat_map(BTreeMap::keys).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |kind: &String| {
        let count = |c: &BTreeMap<String, u32>| f64::from(c.get(kind).copied().unwrap_or(0));
        let counts: Vec<f64> = counts.iter().map(count).collect();
        Frequency { kind: kind.clone(), r: pearson(&counts, times) }
    };
    let mut found: Vec<Frequency> = kinds.into_iter().map(of).collect();
    found.sort_by(|a, b| b.r.abs().total_cmp(&a.r.abs()).then(a.kind.cmp(&b.kind)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With walks that are good exactly up to some prefix, both searches find that prefix.
    #[test]
    fn the_searches_agree_with_looking_everywhere() {
        for events in [1, 2, 3, 10, 100, 1000] {
            for last_good in [0, 1, 2, 7, 50, 99, 600, 999] {
                if last_good >= events {
                    continue;
                }
                let good = |prefix: usize| ((prefix <= last_good).then_some(3), 4);
                let found = divergence(events, good);
                assert_eq!(found.last_good, last_good, "of {events}");
                assert_eq!(found.first_bad, last_good + 1);
            }
        }
    }

    #[test]
    fn frequencies_are_ranked() {
        let count = |remove: u32, join: u32| {
            BTreeMap::from([("Remove".to_owned(), remove), ("Join".to_owned(), join)])
        };
        let counts = [count(0, 5), count(1, 4), count(2, 6), count(3, 5)];
        let found = frequencies(&counts, &[0.1, 10.0, 20.0, 30.0]);
        assert_eq!(found[0].kind, "Remove");
        assert!(found[0].r > 0.99 && found[1].r < 0.5);
    }
}
