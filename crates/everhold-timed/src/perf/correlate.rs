//! What goes together with slowness, counted before the first recovery timer.
//!
//! Over a whole execution everything goes with its length: the recurring timer most of all.
//! Counted only up to the moment when the execution begins to wait, what remains is what made it
//! wait.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rank::{believable, spearman, spearman_p};

/// What was counted in one execution, up to the moment that matters.
pub type Features = BTreeMap<String, f64>;

/// A count that goes with the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// What was counted.
    pub what: String,
    /// Spearman's correlation with the execution time.
    pub r: f64,
    /// How likely it is by chance.
    pub p_value: f64,
    /// Its counts, one an execution, for a scatter plot.
    pub counts: Vec<f64>,
}

/// At most this share of what is shown is expected to be chance.
const FALSE_DISCOVERIES: f64 = 0.01;

/// The counts that go with the time, those by chance left out, the strongest first.
#[must_use]
pub fn correlate(features: &[Features], times: &[f64]) -> Vec<Correlation> {
    let mut names: Vec<&String> = features.iter().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &String| {
        let count = |f: &Features| f.get(name).copied().unwrap_or(0.0);
        let counts: Vec<f64> = features.iter().map(count).collect();
        let r = spearman(&counts, times);
        Correlation { what: name.clone(), r, p_value: spearman_p(r, times.len()), counts }
    };
    let all: Vec<Correlation> = names.into_iter().map(of).collect();
    let p_values: Vec<f64> = all.iter().map(|c| c.p_value).collect();
    let kept = believable(&p_values, FALSE_DISCOVERIES);
    let mut found: Vec<Correlation> =
        all.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(c, _)| c).collect();
    found.sort_by(|a, b| b.r.abs().total_cmp(&a.r.abs()).then(a.what.cmp(&b.what)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    /// One count among fifty goes with the time; the others are noise. At 1 % false discoveries a
    /// noise column survives in one of about a hundred samples; the seed is one where none does.
    #[test]
    fn noise_is_left_out() {
        let mut rng = Rng::new(4);
        let times: Vec<f64> = (0..200).map(|_| f64::from(rng.below(1000))).collect();
        let features: Vec<Features> = times
            .iter()
            .map(|time| {
                let noise = (0..50).map(|i| (format!("noise {i}"), f64::from(rng.below(20))));
                let mut all: Features = noise.collect();
                let jitter = f64::from(rng.below(200));
                all.insert(
                    "JoinReply that sends Remove".to_owned(),
                    ((time + jitter) / 100.0).floor(),
                );
                all
            })
            .collect();
        let found = correlate(&features, &times);
        assert_eq!(found.len(), 1, "{:?}", found.iter().map(|c| &c.what).collect::<Vec<_>>());
        assert_eq!(found[0].what, "JoinReply that sends Remove");
    }
}
