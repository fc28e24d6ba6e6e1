//! The times of faults: a few steps drawn before the execution begins.
//!
//! Drawing a coin at every step would put all faults near the beginning of a long execution and
//! none into a short one. As in PCT, points drawn uniformly over the expected length give every
//! combination of places the same chance.

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::fingerprint::mix;

use crate::fault::FaultKind;
use crate::moves::Moves;
use crate::rng::Rng;
use crate::strategy::Run;

/// The steps at which to inject faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPoints {
    step: u32,
    /// Sorted, next one last.
    at: Vec<u32>,
    /// A fault that is due within the next event that uses a disk.
    inside: Option<FaultKind>,
    /// Whether a fault may be due when nodes start.
    early: bool,
    /// The largest number of disk operations of an event so far.
    operations: u32,
}

/// If disks are used, one in this many of the crashes that are due falls within an event instead of
/// between two.
const INSIDE_ONE_IN: u32 = 2;
/// One in this many of the events that use a disk is left alone although a fault is due.
const PASS_ONE_IN: u32 = 4;
/// The largest number of splits of which each is as likely as any other.
const FEW_SPLITS: u32 = 63;
/// One in this many executions may have its first fault while nodes start.
const EARLY_ONE_IN: u64 = 8;

impl FaultPoints {
    /// Draws the number of faults, and their places.
    pub(crate) fn begin(&mut self, run: &Run, rng: &mut Rng) {
        self.step = 0;
        self.at.clear();
        self.inside = None;
        self.operations = 0;
        self.early = mix(run.seed, 0xEA71).is_multiple_of(EARLY_ONE_IN);
        if run.faults > 0 {
            let count = rng.below(run.faults + 1);
            self.at.extend((0..count).map(|_| rng.below(run.steps.max(1))));
            self.at.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// The pick of a fault, if one is due: its kind is drawn first, then its target.
    #[inline]
    pub(crate) fn due(&mut self, moves: &Moves, rng: &mut Rng) -> Option<u32> {
        self.step += 1;
        if self.at.last().is_none_or(|at| *at >= self.step) || moves.faults().is_over() {
            return None;
        }
        self.at.pop();
        let menu = moves.faults();
        let mut kinds: Vec<FaultKind> =
            FaultKind::ALL.into_iter().filter(|kind| menu.of(*kind) > 0).collect();
        let disk = menu.disk();
        kinds.extend(disk.fails.then_some(FaultKind::DiskError));
        kinds.extend(disk.full.then_some(FaultKind::FullDisk));
        let kind = *kinds.get(rng.below(kinds.len() as u32) as usize)?;
        let within = match kind {
            FaultKind::Crash => disk.crash && rng.one_in(INSIDE_ONE_IN),
            kind => menu.of(kind) == 0,
        };
        if within {
            self.inside = Some(kind);
            return None;
        }
        let number = match kind {
            FaultKind::Partition => split(menu.of(kind), rng),
            FaultKind::OneWay => 2 * split(menu.of(kind) / 2, rng) + rng.below(2),
            _ => rng.below(menu.of(kind)),
        };
        Some(moves.len() + menu.first(kind) + number)
    }

    /// See [`Strategy::upset`](crate::strategy::Strategy::upset).
    pub(crate) fn upset(&mut self, faults: &[DiskFault], rng: &mut Rng) -> Option<Upset> {
        if self.step == 0 && self.early && self.inside.is_none() && self.at.pop().is_some() {
            let kind = faults[rng.below(faults.len() as u32) as usize];
            self.inside = Some(kind_of(kind));
        }
        let wanted = self.inside?;
        let fitting: Vec<DiskFault> =
            faults.iter().copied().filter(|fault| kind_of(*fault) == wanted).collect();
        if fitting.is_empty() || (self.step > 0 && rng.one_in(PASS_ONE_IN)) {
            return None;
        }
        // The number of operations to come is unknown: it is taken to be the same as before, or any
        // power of two.
        let span =
            if self.operations > 0 && rng.one_in(2) { self.operations } else { 1 << rng.below(6) };
        let fault = fitting[rng.below(fitting.len() as u32) as usize];
        Some(Upset::At(rng.below(span), fault))
    }

    /// See [`Strategy::disk_used`](crate::strategy::Strategy::disk_used).
    pub(crate) fn disk_used(&mut self, operations: u32, struck: bool) {
        self.operations = self.operations.max(operations);
        if struck {
            self.inside = None;
        }
    }

    /// The pick of a fault that was due later, when nothing else can happen: a crash or a broken
    /// connection, since only those make something possible again.
    pub(crate) fn at_quiet(&mut self, moves: &Moves, rng: &mut Rng) -> Option<u32> {
        let awakening = moves.faults().awakening();
        if awakening == 0 {
            return None;
        }
        if self.inside.take() != Some(FaultKind::Crash) {
            self.at.pop()?;
        }
        Some(moves.len() + moves.faults().awaken(rng.below(awakening)))
    }
}

/// The number of a split. If there are many, the size of the side is drawn first: nearly all of them
/// cut the network into halves, and it matters as much that one node is cut off.
fn split(count: u32, rng: &mut Rng) -> u32 {
    if count <= FEW_SPLITS || !(count + 1).is_power_of_two() {
        return rng.below(count);
    }
    let nodes = count.count_ones();
    let mut left = 1 + rng.below(nodes);
    let mut bits = 0_u32;
    for node in 0..nodes {
        if rng.below(nodes - node) < left {
            bits |= 1 << node;
            left -= 1;
        }
    }
    bits - 1
}

fn kind_of(fault: DiskFault) -> FaultKind {
    match fault {
        DiskFault::CrashBefore | DiskFault::CrashAfter => FaultKind::Crash,
        DiskFault::Fails => FaultKind::DiskError,
        DiskFault::Full => FaultKind::FullDisk,
    }
}
