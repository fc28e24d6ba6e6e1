//! The share of each strategy in the executions, by the number of new orders that it finds.

use std::sync::Arc;

use everhold_node::fingerprint::mix;

use crate::rng::Rng;
use crate::strategy::Search;
use crate::worker::Ran;

/// The share that the random strategy always keeps: it is a hard baseline, and the others'
/// guarantees hold for shallow bugs only.
const RANDOM_FLOOR: f64 = 0.2;
/// The smallest share of a strategy.
const FLOOR: f64 = 0.05;
/// The number of interesting executions that are kept as parents.
const PARENTS_MAX: usize = 64;

/// Plans executions and learns from them, between epochs only, so that the plan does not depend on
/// how fast the workers are.
#[derive(Debug)]
pub(crate) struct Portfolio {
    pub(crate) searches: Vec<Search>,
    shares: Vec<f64>,
    seen: Seen,
    pub(crate) parents: Vec<Arc<[u32]>>,
    next_parent: usize,
    /// Executions and new orders of each search, for the report.
    pub(crate) tally: Vec<StrategyTally>,
}

/// The contribution of one strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyTally {
    /// The strategy's name.
    pub search: String,
    /// The number of its executions.
    pub executions: u64,
    /// The number of those that showed an order of events that was new at the time.
    pub new_orders: u64,
    /// The number of those that failed.
    pub failures: u64,
}

impl Portfolio {
    pub(crate) fn new(search: &Search) -> Self {
        let searches = match search {
            Search::Portfolio => vec![
                Search::Random,
                Search::Pct { depth: 2 },
                Search::Pct { depth: 3 },
                Search::Pct { depth: 10 },
                Search::Pos,
                Search::Delay { delays: 2 },
                Search::Guided,
            ],
            single => vec![single.clone()],
        };
        let even = 1.0 / searches.len() as f64;
        let tally = searches
            .iter()
            .map(|s| StrategyTally { search: s.to_string(), ..StrategyTally::default() });
        Portfolio {
            shares: vec![even; searches.len()],
            tally: tally.collect(),
            seen: Seen::default(),
            parents: Vec::new(),
            next_parent: 0,
            searches,
        }
    }

    /// The search of each of the next `count` executions.
    pub(crate) fn plan(&self, seed: u64, first: u64, count: usize) -> Vec<u8> {
        if self.searches.len() == 1 {
            return vec![0; count];
        }
        let mut rng = Rng::new(mix(seed, first));
        let draw = |_| {
            let mut left = f64::from(rng.below(1 << 20)) / f64::from(1 << 20);
            let at = self.shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            at.unwrap_or(0) as u8
        };
        (0..count).map(draw).collect()
    }

    /// Learns from an epoch's executions, given in their order.
    pub(crate) fn learn(&mut self, ran: &[Ran]) {
        let mut epoch = vec![(0u64, 0u64); self.searches.len()];
        for execution in ran {
            let new = self.seen.add(execution.order);
            let at = execution.search as usize;
            epoch[at].0 += 1;
            epoch[at].1 += u64::from(new);
            let tally = &mut self.tally[at];
            tally.executions += 1;
            tally.new_orders += u64::from(new);
            tally.failures += u64::from(execution.failed.is_some());
            if let (true, Some(log)) = (new, &execution.log) {
                self.keep(log);
            }
        }
        self.reweigh(&epoch);
    }

    fn keep(&mut self, log: &Arc<[u32]>) {
        if self.parents.len() < PARENTS_MAX {
            self.parents.push(Arc::clone(log));
        } else {
            self.parents[self.next_parent] = Arc::clone(log);
            self.next_parent = (self.next_parent + 1) % PARENTS_MAX;
        }
    }

    fn reweigh(&mut self, epoch: &[(u64, u64)]) {
        if self.searches.len() == 1 {
            return;
        }
        let rates: Vec<f64> =
            epoch.iter().map(|(ran, new)| (*new as f64 + 1.0) / (*ran as f64 + 2.0)).collect();
        let sum: f64 = rates.iter().sum();
        for (share, rate) in self.shares.iter_mut().zip(&rates) {
            *share = (*share + rate / sum) / 2.0;
        }
        let floor =
            |at: usize| if self.searches[at] == Search::Random { RANDOM_FLOOR } else { FLOOR };
        let floors: f64 = (0..self.shares.len()).map(floor).sum();
        let total: f64 = self.shares.iter().sum();
        let shares = self.shares.iter().enumerate();
        self.shares =
            shares.map(|(at, share)| floor(at) + (1.0 - floors) * share / total).collect();
    }
}

/// Remembers hashes in constant memory; it may take a new hash for a known one, never the reverse.
#[derive(Debug)]
struct Seen(Vec<u64>);

impl Default for Seen {
    fn default() -> Self {
        Seen(vec![0; 1 << 14])
    }
}

impl Seen {
    /// True if the hash was certainly not added before.
    fn add(&mut self, hash: u64) -> bool {
        let mut new = false;
        for bits in [hash, mix(hash, 1)] {
            let word = &mut self.0[(bits >> 6) as usize & ((1 << 14) - 1)];
            let bit = 1 << (bits & 63);
            new |= *word & bit == 0;
            *word |= bit;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keeps_its_floor() {
        let mut portfolio = Portfolio::new(&Search::Portfolio);
        for _ in 0..50 {
            // Only the second strategy ever finds anything new.
            let mut epoch = vec![(100, 0); portfolio.searches.len()];
            epoch[1].1 = 100;
            portfolio.reweigh(&epoch);
        }
        assert!(portfolio.shares[0] >= RANDOM_FLOOR);
        assert!(portfolio.shares[1] > 0.35, "{:?}", portfolio.shares);
        assert!((portfolio.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
