//! Strategies that only order moves; chance makes all other decisions in the same way for all of
//! them.

use everhold_node::NodeId;
use everhold_node::disk::{DiskFault, Upset};

use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::{About, FaultPoints, Run, Strategy};

/// Orders moves by their nodes or their messages. Faults come at random points, and the choices of
/// nodes are drawn.
pub(crate) trait Scheduler {
    /// Begins a new execution.
    fn begin(&mut self, run: &Run);

    /// Picks one of the moves, or a fault that is due.
    fn pick(&mut self, moves: &Moves) -> Option<u32>;

    /// The points at which faults come, and the random numbers of the execution.
    fn chance(&mut self) -> (&mut FaultPoints, &mut Rng);
}

impl<T: Scheduler> Strategy for T {
    fn begin(&mut self, run: &Run) {
        Scheduler::begin(self, run);
    }

    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        Scheduler::pick(self, moves)
    }

    fn at_quiet(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        let (faults, rng) = self.chance();
        faults.at_quiet(moves, rng)
    }

    fn upset(&mut self, _: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        let (points, rng) = self.chance();
        points.upset(faults, rng)
    }

    fn disk_used(&mut self, operations: u32, _: &[DiskFault], struck: bool) {
        self.chance().0.disk_used(operations, struck);
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        Some(self.chance().1.below(domain))
    }

    fn tracks_nodes(&self) -> bool {
        true
    }
}
