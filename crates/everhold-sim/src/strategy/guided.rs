//! Feedback: the search goes back into an execution that showed something new, and continues
//! differently.
//!
//! The corpus is kept by the explorer, which hands one parent to each execution. A prefix of the
//! parent's choices is repeated, a few of them are changed on the way, and the rest is random.

use std::sync::Arc;

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::{NodeId, Weights};

use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::random::random_pick;
use crate::strategy::{About, FaultPoints, Run, Strategy, upset_of};

/// One choice in this many is changed while a prefix is repeated.
const CHANGE_ONE_IN: u32 = 16;

/// Repeats the beginning of an interesting execution and continues at random.
#[derive(Debug)]
pub(crate) struct Guided {
    rng: Rng,
    faults: FaultPoints,
    parent: Option<Arc<[u32]>>,
    at: usize,
    until: usize,
}

impl Default for Guided {
    fn default() -> Self {
        let (rng, faults) = (Rng::new(0), FaultPoints::default());
        Guided { rng, faults, parent: None, at: 0, until: 0 }
    }
}

impl Guided {
    /// The parent's next choice, unless the prefix is over or this is a place to differ.
    fn inherited(&mut self, domain: u32) -> Option<u32> {
        let parent = self.parent.as_ref()?;
        let choice = *parent.get(self.at).filter(|_| self.at < self.until)?;
        self.at += 1;
        (choice < domain && !self.rng.one_in(CHANGE_ONE_IN)).then_some(choice)
    }
}

impl Strategy for Guided {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.parent.clone_from(&run.parent);
        self.at = 0;
        let length = self.parent.as_ref().map_or(0, |parent| parent.len());
        self.until = self.rng.below(length as u32 + 1) as usize;
    }

    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        if let Some(choice) = self.inherited(moves.picks()) {
            return Some(choice);
        }
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        Some(random_pick(&mut self.rng, moves))
    }

    fn at_quiet(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        let inherited = self.inherited(moves.picks());
        inherited.or_else(|| self.faults.at_quiet(moves, &mut self.rng))
    }

    fn upset(&mut self, _: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        match self.inherited(u32::MAX) {
            Some(inherited) => upset_of(inherited, faults),
            None => self.faults.upset(faults, &mut self.rng),
        }
    }

    fn disk_used(&mut self, operations: u32, _: &[DiskFault], struck: bool) {
        self.faults.disk_used(operations, struck);
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        let inherited = self.inherited(domain);
        Some(inherited.unwrap_or_else(|| self.rng.below(domain)))
    }

    fn choose_weighted(&mut self, _: NodeId, _: &str, weights: Weights<'_>) -> Option<u32> {
        let inherited = self.inherited(weights.options()).map(|option| weights.nearest(option));
        Some(inherited.unwrap_or_else(|| weights.option_with(self.rng.below(weights.total()))))
    }
}
