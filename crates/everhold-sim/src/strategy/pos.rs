//! Partial order sampling (Yuan, Yang and Gu, CAV 2018), over messages.
//!
//! Every move has a random priority; the highest happens. Then the moves that raced with it,
//! those at the same node, draw again: their order relative to each other is not biased by how
//! they fared against it.

use std::collections::BinaryHeap;

use crate::moves::{Move, Moves};
use crate::rng::Rng;
use crate::strategy::{FaultPoints, Run, Scheduler};

/// Priorities over messages, drawn again where two race.
#[derive(Debug)]
pub(crate) struct Pos {
    rng: Rng,
    faults: FaultPoints,
    /// Priority, slot and identity of a move; may be out of date.
    queue: BinaryHeap<(u64, u32, u64)>,
    /// The priority in force, by slot.
    current: Vec<u64>,
}

impl Default for Pos {
    fn default() -> Self {
        let (rng, faults) = (Rng::new(0), FaultPoints::default());
        Pos { rng, faults, queue: BinaryHeap::new(), current: Vec::new() }
    }
}

impl Pos {
    fn draw(&mut self, slot: u32, offered: &Move) {
        // Timers draw from the lowest eighth: they fire when chosen, not all the time.
        let priority = self.rng.next() >> if offered.what.is_idle() { 4 } else { 1 };
        if self.current.len() <= slot as usize {
            self.current.resize(slot as usize + 1, 0);
        }
        self.current[slot as usize] = priority;
        self.queue.push((priority, slot, offered.id));
    }
}

impl Scheduler for Pos {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.queue.clear();
        self.current.clear();
    }

    fn pick(&mut self, moves: &Moves) -> Option<u32> {
        for (slot, offered) in moves.fresh() {
            self.draw(slot, offered);
        }
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        while let Some((priority, slot, id)) = self.queue.pop() {
            let valid = self.current[slot as usize] == priority;
            let Some(pick) = moves.pick_of(slot, id).filter(|_| valid) else { continue };
            let node = moves.get(pick).node;
            for (other, offered) in moves.at_node(node) {
                if other != slot {
                    self.draw(other, offered);
                }
            }
            return Some(pick);
        }
        // A timer that was set again keeps its slot under a new identity, unseen by `fresh`.
        for slot_and_move in moves.iter().map(|offered| offered.node).flat_map(|n| moves.at_node(n))
        {
            self.draw(slot_and_move.0, slot_and_move.1);
        }
        self.queue.peek().and_then(|(_, slot, id)| moves.pick_of(*slot, *id))
    }

    fn chance(&mut self) -> (&mut FaultPoints, &mut Rng) {
        (&mut self.faults, &mut self.rng)
    }
}
