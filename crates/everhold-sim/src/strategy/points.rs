//! When faults happen: a few steps drawn before the execution begins.
//!
//! Drawing a coin at every step would put all faults near the beginning of a long execution and
//! none into a short one. As in PCT, points drawn uniformly over the expected length give every
//! combination of places the same chance.

use crate::fault::FaultKind;
use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::Run;

/// The steps at which to inject faults.
#[derive(Clone, Debug, Default)]
pub struct FaultPoints {
    step: u32,
    /// Sorted, next one last.
    at: Vec<u32>,
}

impl FaultPoints {
    /// Draws how many faults there are, and where.
    pub fn begin(&mut self, run: &Run, rng: &mut Rng) {
        self.step = 0;
        self.at.clear();
        if run.faults > 0 {
            let count = rng.below(run.faults + 1);
            self.at.extend((0..count).map(|_| rng.below(run.steps.max(1))));
            self.at.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// The pick of a fault, if one is due: its kind is drawn first, then its target.
    #[inline]
    pub fn due(&mut self, moves: &Moves, rng: &mut Rng) -> Option<u32> {
        self.step += 1;
        if self.at.last().is_none_or(|at| *at >= self.step) || moves.faults().is_empty() {
            return None;
        }
        self.at.pop();
        let menu = moves.faults();
        let kinds = FaultKind::ALL.into_iter().filter(|kind| menu.of(*kind) > 0);
        let number = rng.below(kinds.clone().count() as u32);
        let kind = kinds.clone().nth(number as usize)?;
        Some(moves.len() + menu.first(kind) + rng.below(menu.of(kind)))
    }

    /// When nothing else can happen, a fault that was due later: a crash or a broken connection,
    /// since only those make something possible again.
    pub fn at_quiet(&mut self, moves: &Moves, rng: &mut Rng) -> Option<u32> {
        let awakening = moves.faults().awakening();
        if awakening == 0 {
            return None;
        }
        self.at.pop()?;
        Some(moves.len() + moves.faults().awaken(rng.below(awakening)))
    }
}
