//! Feedback: the search goes back into an execution that showed something new, and continues
//! differently.
//!
//! The corpus is kept by the explorer, which hands one parent to each execution. If the parent reached
//! a rare place, the choices up to there are repeated; otherwise, a prefix of its choices is repeated, and
//! a few of them are changed on the way. The rest is random, or goes on by chains; the choices of nodes
//! follow the parent's habits in half of the executions.

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::{NodeId, Weights};

use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::random::random_pick;
use crate::strategy::{About, FaultPoints, Habits, Links, Parent, Run, Strategy, upset_of};

/// One choice in this many is changed while a prefix is repeated.
const CHANGE_ONE_IN: u32 = 16;

/// Repeats the beginning of an interesting execution and continues at random.
#[derive(Debug)]
pub(crate) struct Guided {
    rng: Rng,
    faults: FaultPoints,
    habits: Habits,
    parent: Option<Parent>,
    /// For the executions that go on by chains instead of at random.
    links: Links,
    by_chains: bool,
    at: usize,
    until: usize,
}

impl Default for Guided {
    fn default() -> Self {
        Guided {
            rng: Rng::new(0),
            faults: FaultPoints::default(),
            habits: Habits::default(),
            parent: None,
            links: Links::default(),
            by_chains: false,
            at: 0,
            until: 0,
        }
    }
}

impl Guided {
    /// The parent's next choice, unless the prefix is over or this is a place to differ.
    fn inherited(&mut self, domain: u32) -> Option<u32> {
        let parent = self.parent.as_ref()?;
        let choice = *parent.log.get(self.at).filter(|_| self.at < self.until)?;
        self.at += 1;
        let is_kept = parent.until.is_some() || !self.rng.one_in(CHANGE_ONE_IN);
        (choice < domain && is_kept).then_some(choice)
    }

    fn next(&mut self, moves: &Moves) -> Option<u32> {
        if let Some(choice) = self.inherited(moves.picks()) {
            return Some(choice);
        }
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        match self.by_chains {
            true => self.links.highest(moves, &mut self.rng),
            false => Some(random_pick(&mut self.rng, moves)),
        }
    }
}

impl Strategy for Guided {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.habits = run.habits;
        self.links.clear();
        self.by_chains = self.rng.one_in(2);
        self.parent.clone_from(&run.parent);
        self.at = 0;
        let length = self.parent.as_ref().map_or(0, |parent| parent.log.len());
        let anywhere = self.rng.below(length as u32 + 1) as usize;
        self.until = self.parent.as_ref().and_then(|parent| parent.until).unwrap_or(anywhere);
    }

    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        if self.by_chains {
            self.links.see(moves, &mut self.rng);
        }
        let pick = self.next(moves)?;
        if self.by_chains {
            self.links.took(moves, pick);
        }
        Some(pick)
    }

    fn tracks_nodes(&self) -> bool {
        true
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

    fn choose(&mut self, node: NodeId, label: &str, domain: u32) -> Option<u32> {
        let inherited = self.inherited(domain);
        let habits = self.habits;
        Some(inherited.unwrap_or_else(|| habits.choose(&mut self.rng, node, label, domain)))
    }

    fn choose_weighted(&mut self, _: NodeId, _: &str, weights: Weights<'_>) -> Option<u32> {
        let inherited = self.inherited(weights.options()).map(|option| weights.nearest(option));
        Some(inherited.unwrap_or_else(|| weights.option_with(self.rng.below(weights.total()))))
    }
}
