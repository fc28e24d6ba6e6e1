//! The choice of the steps that are shown if not all can be.

use std::collections::BTreeSet;

/// The number of steps at the beginning, which show how the failure came about.
const FIRST: usize = 3;

/// The number of steps at the end, which matter more than any fault.
const LAST: usize = 4;

/// Chooses positions so that they and a row for each gap fit into `rows`: the end and the
/// beginning first, then faults, then as much of the end as there is room for.
pub(super) fn select(faults: &[bool], rows: usize) -> BTreeSet<usize> {
    let count = faults.len();
    let last = (0..count).rev().take(LAST);
    let first = 0..FIRST.min(count);
    let struck = (0..count).rev().filter(|at| faults[*at]);
    let mut shown = BTreeSet::new();
    for at in last.chain(first).chain(struck).chain((0..count).rev()) {
        if shown.insert(at) && shown.len() + gaps(&shown, count) > rows {
            shown.remove(&at);
        }
    }
    // The end is the point of the picture, so it is shown however little room there is.
    shown.insert(count - 1);
    shown
}

fn gaps(shown: &BTreeSet<usize>, count: usize) -> usize {
    let mut next = 0;
    let mut gaps = 0;
    for at in shown {
        gaps += usize::from(*at != next);
        next = at + 1;
    }
    gaps + usize::from(next != count)
}
