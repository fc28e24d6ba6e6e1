//! Delay bounding (Emmi, Qadeer and Rakamaric, POPL 2011), randomised.
//!
//! A deterministic scheduler runs one node as long as it can, then the next one; at a few random
//! steps it is made to skip ahead. Few delays find many bugs, and the schedules read well.

use everhold_node::NodeId;

use crate::moves::{Move, Moves};
use crate::rng::Rng;
use crate::strategy::{FaultPoints, Run, Scheduler};

/// Round robin without preemption, with a few deviations.
#[derive(Debug)]
pub(crate) struct Delay {
    delays: u32,
    rng: Rng,
    faults: FaultPoints,
    at: Vec<u32>,
    step: u32,
    node: u32,
    nodes: u32,
}

impl Delay {
    /// A strategy with this many deviations.
    #[must_use]
    pub(crate) fn new(delays: u32) -> Self {
        let (rng, faults) = (Rng::new(0), FaultPoints::default());
        Delay { delays, rng, faults, at: Vec::new(), step: 0, node: 0, nodes: 0 }
    }

    fn oldest(&self, moves: &Moves, node: u32, idle: bool) -> Option<u32> {
        let mine = moves.at_node(NodeId(node)).filter(|(_, m)| m.what.is_idle() == idle);
        let key = |(_, offered): &(u32, &Move)| (offered.born, offered.id);
        let (slot, offered) = mine.min_by_key(key)?;
        moves.pick_of(slot, offered.id)
    }

    /// The first node from the present one on that has a move of this sort.
    fn next(&mut self, moves: &Moves, idle: bool) -> Option<u32> {
        for offset in 0..self.nodes {
            let node = (self.node + offset) % self.nodes;
            if let Some(pick) = self.oldest(moves, node, idle) {
                self.node = node;
                return Some(pick);
            }
        }
        None
    }

    /// Deviates in one of three ways: the node waits, its oldest message waits, or a timer fires
    /// before the messages that would cancel it.
    fn deviate(&mut self, moves: &Moves) -> Option<u32> {
        match self.rng.below(3) {
            0 => {
                self.node = (self.node + 1) % self.nodes.max(1);
                None
            }
            1 => {
                let oldest = self.next(moves, false)?;
                let others = moves.at_node(moves.get(oldest).node);
                let others = others.filter_map(|(slot, m)| moves.pick_of(slot, m.id));
                let others: Vec<u32> = others.filter(|pick| *pick != oldest).collect();
                let number = self.rng.below(others.len().max(1) as u32);
                others.get(number as usize).copied()
            }
            _ => self.next(moves, true),
        }
    }
}

impl Scheduler for Delay {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.at.clear();
        let (rng, steps) = (&mut self.rng, run.steps.max(1));
        self.at.extend((0..self.delays).map(|_| rng.below(steps) + 1));
        self.at.sort_unstable_by(|a, b| b.cmp(a));
        (self.step, self.nodes) = (0, 0);
        self.node = self.rng.below(64);
    }

    fn pick(&mut self, moves: &Moves) -> Option<u32> {
        self.step += 1;
        let highest = moves.fresh().map(|(_, offered)| offered.node.0 + 1).max();
        self.nodes = self.nodes.max(highest.unwrap_or(0));
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        if self.at.pop_if(|at| *at <= self.step).is_some()
            && let Some(pick) = self.deviate(moves)
        {
            return Some(pick);
        }
        let ready = self.next(moves, false);
        ready.or_else(|| {
            self.node = (self.node + 1) % self.nodes.max(1);
            self.next(moves, true)
        })
    }

    fn chance(&mut self) -> (&mut FaultPoints, &mut Rng) {
        (&mut self.faults, &mut self.rng)
    }
}
