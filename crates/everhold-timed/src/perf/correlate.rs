//! Correlations of event counts with the execution time, counted before the first recovery timer.
//!
//! Over a whole execution every count correlates with its length, most of all that of the recurring
//! timer. Counts up to the moment when the execution begins to wait show what made it wait.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rank::{believable, spearman, spearman_p};

/// The counts of one execution, up to the chosen moment.
pub type Features = BTreeMap<String, f64>;

/// A count that correlates with the execution time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// The name of the count.
    pub what: String,
    /// Spearman's correlation with the execution time.
    pub r: f64,
    /// The p-value.
    pub p_value: f64,
    /// The counts, one per execution, for a scatter plot.
    pub counts: Vec<f64>,
}

/// The false discovery rate of the correlations that are shown.
const FALSE_DISCOVERIES: f64 = 0.01;

/// Returns the counts that correlate significantly with the time, the strongest first.
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

    /// One count among fifty correlates with the time; the others are noise. At a false discovery
    /// rate of 1 %, a noise column survives in about one of a hundred samples; in the sample of
    /// this seed none does.
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
