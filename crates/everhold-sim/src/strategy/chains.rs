//! Priorities over chains of cause and effect (after PCTCP; Ozkan et al., OOPSLA 2018).
//!
//! The first message that a step sends continues the step's chain, and every other one begins a new
//! chain, so that a request, its answer and what follows from that are one chain, whatever nodes it
//! passes. The chain with the highest priority advances. Some chains fall to the bottom after a few of
//! their own steps: then everything else happens before that operation goes on. Priorities over nodes
//! cannot hold back one of several operations of a node, nor the answer to it.
//!
//! The number of steps before a fall is drawn over the chain's own life and not over the whole
//! execution, because an operation is short and an execution long.

use std::collections::BinaryHeap;

use crate::moves::{Move, Moves};
use crate::rng::Rng;
use crate::strategy::{FaultPoints, Habits, Run, Scheduler};

/// One chain in this many falls.
const FALLS_ONE_IN: u32 = 3;
/// A fall comes after up to so many steps, all magnitudes being equally likely.
const MAGNITUDES: u32 = 6;
/// Priorities drawn at the beginning lie above those of chains that fell.
const DRAWN: u64 = 1 << 40;

/// A chain.
#[derive(Clone, Copy, Debug)]
struct Chain {
    priority: u64,
    /// The number of its steps until it falls.
    left: Option<u32>,
}

/// The chains of an execution; what picks from them is a matter of others.
#[derive(Debug, Default)]
pub(crate) struct Links {
    chains: Vec<Chain>,
    /// The chain of each step, until a message continues it.
    of_step: Vec<Option<u32>>,
    /// The chain and the identity of the move in each slot.
    of_slot: Vec<(u64, u32)>,
    /// Priority, slot and identity of a move; may be out of date.
    queue: BinaryHeap<(u64, u32, u64)>,
    /// Counts down, so that each fall is below all before.
    bottom: u64,
}

impl Links {
    /// Begins a new execution.
    pub(crate) fn clear(&mut self) {
        self.chains.clear();
        self.of_slot.clear();
        self.queue.clear();
        self.of_step.clear();
        // What the start sends are chains of their own.
        self.of_step.push(None);
        self.bottom = DRAWN;
    }

    fn begin(&mut self, rng: &mut Rng) -> u32 {
        let left = rng.one_in(FALLS_ONE_IN).then(|| {
            let magnitude = 1 << rng.below(MAGNITUDES);
            magnitude + rng.below(magnitude)
        });
        self.chains.push(Chain { priority: DRAWN + (rng.next() >> 24), left });
        self.chains.len() as u32 - 1
    }

    /// Notes the moves that became possible.
    pub(crate) fn see(&mut self, moves: &Moves, rng: &mut Rng) {
        for (slot, offered) in moves.fresh() {
            self.add(slot, offered, rng);
        }
    }

    fn add(&mut self, slot: u32, offered: &Move, rng: &mut Rng) {
        let continued = self.of_step.get_mut(offered.born as usize).and_then(Option::take);
        let chain = continued.unwrap_or_else(|| self.begin(rng));
        let at = slot as usize;
        if self.of_slot.len() <= at {
            self.of_slot.resize(at + 1, (0, 0));
        }
        self.of_slot[at] = (offered.id, chain);
        self.queue.push((self.chains[chain as usize].priority, slot, offered.id));
    }

    /// The chain of a move; a timer that was set again keeps its slot under a new identity.
    fn chain_of(&self, slot: u32, id: u64) -> Option<u32> {
        self.of_slot.get(slot as usize).filter(|known| known.0 == id).map(|known| known.1)
    }

    /// The next move of the highest chain. Chains whose time has come fall first.
    pub(crate) fn highest(&mut self, moves: &Moves, rng: &mut Rng) -> Option<u32> {
        loop {
            while let Some((priority, slot, id)) = self.queue.pop() {
                let Some(pick) = moves.pick_of(slot, id) else { continue };
                let Some(chain) = self.chain_of(slot, id) else { continue };
                let at = chain as usize;
                if self.chains[at].left == Some(0) {
                    self.fall(chain);
                }
                if self.chains[at].priority != priority {
                    self.queue.push((self.chains[at].priority, slot, id));
                    continue;
                }
                return Some(pick);
            }
            // Timers that were set again were not among the fresh moves.
            let mut found = false;
            for node in moves.iter().map(|offered| offered.node) {
                for (slot, offered) in moves.at_node(node) {
                    found = true;
                    self.add(slot, offered, rng);
                }
            }
            if !found {
                return None;
            }
        }
    }

    fn fall(&mut self, chain: u32) {
        self.bottom -= 1;
        self.chains[chain as usize] = Chain { priority: self.bottom, left: None };
    }

    /// Notes the move that is made, or that a fault is injected instead.
    pub(crate) fn took(&mut self, moves: &Moves, pick: u32) {
        let made = (pick < moves.len()).then(|| *moves.get(pick));
        let slot = made.and_then(|made| self.slot_of(moves, &made));
        let chain = slot.and_then(|(slot, id)| self.chain_of(slot, id));
        self.of_step.push(chain);
        let Some(chain) = chain else { return };
        let left = &mut self.chains[chain as usize].left;
        *left = left.map(|left| left.saturating_sub(1));
        if made.is_some_and(|made| made.what.is_idle()) {
            // A periodic timer on top would never let another chain advance.
            self.fall(chain);
        }
    }

    fn slot_of(&self, moves: &Moves, made: &Move) -> Option<(u32, u64)> {
        let mut there = moves.at_node(made.node);
        there.find(|(_, offered)| offered.id == made.id).map(|(slot, offered)| (slot, offered.id))
    }
}

/// Priorities over chains, some of which fall.
#[derive(Debug)]
pub(crate) struct Chains {
    rng: Rng,
    faults: FaultPoints,
    habits: Habits,
    links: Links,
}

impl Default for Chains {
    fn default() -> Self {
        Chains {
            rng: Rng::new(0),
            faults: FaultPoints::default(),
            habits: Habits::default(),
            links: Links::default(),
        }
    }
}

impl Scheduler for Chains {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.habits = run.habits;
        self.links.clear();
    }

    fn pick(&mut self, moves: &Moves) -> Option<u32> {
        self.links.see(moves, &mut self.rng);
        let pick = match self.faults.due(moves, &mut self.rng) {
            Some(fault) => fault,
            None => self.links.highest(moves, &mut self.rng)?,
        };
        self.links.took(moves, pick);
        Some(pick)
    }

    fn chance(&mut self) -> (&mut FaultPoints, &mut Rng) {
        (&mut self.faults, &mut self.rng)
    }

    fn habits(&self) -> Habits {
        self.habits
    }
}
