//! Uniform choice: a baseline that is hard to beat.

use everhold_node::NodeId;
use everhold_node::disk::{DiskFault, Upset};

use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::{About, FaultPoints, Run, Strategy};

/// One idle move (a timer) is picked for this many ready ones; otherwise timers would eat the step
/// budget.
const IDLE_ONE_IN: u32 = 8;

/// Picks uniformly among the possible moves; timers one time in eight.
#[derive(Debug)]
pub(crate) struct Random {
    rng: Rng,
    faults: FaultPoints,
}

impl Default for Random {
    fn default() -> Self {
        Random { rng: Rng::new(0), faults: FaultPoints::default() }
    }
}

impl Strategy for Random {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
    }

    #[inline]
    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        Some(random_pick(&mut self.rng, moves))
    }

    fn at_quiet(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        self.faults.at_quiet(moves, &mut self.rng)
    }

    fn upset(&mut self, _: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        self.faults.upset(faults, &mut self.rng)
    }

    fn disk_used(&mut self, operations: u32, _: &[DiskFault], struck: bool) {
        self.faults.disk_used(operations, struck);
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        Some(self.rng.below(domain))
    }
}

/// A random move, never a fault.
#[inline]
pub(crate) fn random_pick(rng: &mut Rng, moves: &Moves) -> u32 {
    let (ready, idle) = (moves.ready(), moves.idle());
    if idle > 0 && (ready == 0 || rng.one_in(IDLE_ONE_IN)) {
        ready + rng.below(idle)
    } else if ready == 1 {
        0
    } else {
        rng.below(ready)
    }
}
