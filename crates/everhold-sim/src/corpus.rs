//! The executions to which a guided search goes back: those that reached rare [places](crate::places).
//!
//! As in Go-Explore (Ecoffet et al., Nature 2021), a search first returns to a place that few executions
//! have reached, and explores from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::places::Place;
use crate::rng::Rng;
use crate::strategy::{Habits, Parent};

/// The largest number of places that are remembered; the most frequent ones are forgotten.
const PLACES_MAX: usize = 2_048;
/// The number of parents for each epoch.
const SELECTED: usize = 64;

/// Places, and how to return to each.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    places: BTreeMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    /// The number of executions that reached it.
    reached: u32,
    /// The number of epochs in which it was returned to.
    chosen: u32,
    /// The shortest way to it.
    way: Parent,
}

impl Known {
    /// Rare places come first, and those that were not returned to.
    fn weight(&self) -> f64 {
        1.0 / (f64::from(self.reached) * f64::from(self.chosen + 1))
    }
}

impl Corpus {
    /// Learns from an execution.
    pub(crate) fn learn(&mut self, log: &Arc<[u32]>, habits: Habits, places: &[Place]) {
        for Place { hash, choices } in places {
            let until = (*choices as usize).min(log.len());
            let way = || Parent { log: Arc::clone(log), until: Some(until), habits };
            let known = self.places.entry(*hash);
            let known = known.or_insert_with(|| Known { reached: 0, chosen: 0, way: way() });
            known.reached = known.reached.saturating_add(1);
            if known.way.until.is_none_or(|before| until < before) {
                known.way = way();
            }
        }
    }

    /// Forgets the most frequent places if there are too many.
    pub(crate) fn forget(&mut self) {
        if self.places.len() <= PLACES_MAX {
            return;
        }
        let order = |known: &Known| u64::from(known.reached) * u64::from(known.chosen + 1);
        let mut all: Vec<(u64, u64)> =
            self.places.iter().map(|(hash, known)| (order(known), *hash)).collect();
        all.sort_unstable();
        for (_, hash) in &all[PLACES_MAX..] {
            self.places.remove(hash);
        }
    }

    /// The ways to some places, for the next epoch.
    pub(crate) fn select(&mut self, rng: &mut Rng) -> Vec<Parent> {
        let total: f64 = self.places.values().map(Known::weight).sum();
        let mut points: Vec<f64> = (0..SELECTED)
            .map(|_| total * f64::from(rng.below(1 << 24)) / f64::from(1 << 24))
            .collect();
        points.sort_unstable_by(|a, b| b.total_cmp(a));
        let (mut passed, mut selected) = (0.0, Vec::new());
        for known in self.places.values_mut() {
            passed += known.weight();
            let before = selected.len();
            while points.pop_if(|point| *point < passed).is_some() {
                selected.push(known.way.clone());
            }
            known.chosen = known.chosen.saturating_add((selected.len() - before) as u32);
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_places_are_returned_to_by_the_shortest_way() {
        let mut corpus = Corpus::default();
        let log: Arc<[u32]> = vec![0; 9].into();
        for _ in 0..1_000 {
            corpus.learn(&log, Habits::default(), &[Place { hash: 1, choices: 4 }]);
        }
        corpus.learn(&log, Habits::default(), &[Place { hash: 2, choices: 8 }]);
        corpus.learn(&log, Habits::default(), &[Place { hash: 2, choices: 7 }]);
        let selected = corpus.select(&mut Rng::new(1));
        let rare = selected.iter().filter(|parent| parent.until == Some(7)).count();
        assert_eq!(selected.len(), SELECTED);
        // Each is the frequent one with a probability of 0.2 %.
        assert!(rare > SELECTED - 4, "{rare} of {SELECTED}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut corpus = Corpus::default();
        let log: Arc<[u32]> = vec![0; 9].into();
        for hash in 0..3 * PLACES_MAX as u64 {
            corpus.learn(&log, Habits::default(), &[Place { hash, choices: 1 }]);
        }
        corpus.forget();
        assert_eq!(corpus.places.len(), PLACES_MAX);
    }
}
