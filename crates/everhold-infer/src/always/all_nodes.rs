//! The states of all nodes of a kind, moment by moment. A moment is a point of the recorded order or a
//! snapshot of a table.

use std::collections::BTreeSet;

use super::atoms::{Atoms, NONE};
use crate::states::States;
use crate::variables::KindId;

/// Where the all_nodes are from.
#[derive(Clone, Copy)]
pub(super) enum AllNodes<'a> {
    /// The states of the nodes of a kind, in the order in which they were recorded.
    Recorded { kind: KindId, states: &'a States, atoms: &'a Atoms },
    /// A table that has all `each` rows of the first of `nodes` nodes, then all of the second, and so
    /// on.
    ByNode { nodes: usize, each: usize },
    /// A table that has its snapshots one after the other: the first row of each, and the end.
    BySnapshot { begins: &'a [u32] },
}

impl AllNodes<'_> {
    /// The number of nodes, if it is the same at all moments.
    pub(super) fn nodes(self) -> Option<usize> {
        let counts: BTreeSet<usize> = match self {
            AllNodes::Recorded { kind, atoms, .. } => {
                let own = |run: &Vec<(Option<KindId>, Vec<u32>)>| {
                    run.iter().filter(|(own, _)| *own == Some(kind)).count()
                };
                atoms.runs.iter().map(own).collect()
            }
            AllNodes::ByNode { nodes, .. } => [nodes].into(),
            AllNodes::BySnapshot { begins } => {
                begins.windows(2).map(|snapshot| (snapshot[1] - snapshot[0]) as usize).collect()
            }
        };
        counts.first().copied().filter(|_| counts.len() == 1)
    }

    /// The step with which to visit moments so that at most `max` of them are visited.
    pub(super) fn step(self, max: usize) -> usize {
        let all = match self {
            // A recording has few moments compared with a table.
            AllNodes::Recorded { .. } => return 1,
            AllNodes::ByNode { each, .. } => each,
            AllNodes::BySnapshot { begins } => begins.len() - 1,
        };
        all.div_ceil(max).max(1)
    }

    /// Visits the moments at which all nodes show a state, every `step`-th of a table, and gives
    /// `see` one row for each node. Stops when `see` returns false, and returns whether it never did.
    pub(super) fn each(self, step: usize, mut see: impl FnMut(&[u32]) -> bool) -> bool {
        match self {
            AllNodes::Recorded { kind, states, atoms } => {
                (0..states.runs.len()).all(|run| replay(kind, states, atoms, run, &mut see))
            }
            AllNodes::ByNode { nodes, each } => (0..each).step_by(step).all(|snapshot| {
                let row = |node: usize| u32::try_from(node * each + snapshot);
                let rows: Result<Vec<u32>, _> = (0..nodes).map(row).collect();
                see(&rows.expect("rows are numbered by 32 bits"))
            }),
            AllNodes::BySnapshot { begins } => begins
                .windows(2)
                .step_by(step)
                .all(|snapshot| see(&(snapshot[0]..snapshot[1]).collect::<Vec<u32>>())),
        }
    }
}

/// Visits the moments of a recorded run.
fn replay(
    kind: KindId,
    states: &States,
    atoms: &Atoms,
    run: usize,
    see: &mut impl FnMut(&[u32]) -> bool,
) -> bool {
    let nodes = &atoms.runs[run];
    let own: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].0 == Some(kind)).collect();
    let mut now = vec![NONE; nodes.len()];
    states.runs[run].steps.iter().all(|step| {
        let at = step.node.index();
        let before = std::mem::replace(&mut now[at], nodes[at].1[step.count as usize]);
        // A node that shows no state is no evidence against a claim, so such moments are skipped.
        if before == now[at] || own.iter().any(|node| now[*node] == NONE) {
            return true;
        }
        see(&own.iter().map(|node| now[*node]).collect::<Vec<u32>>())
    })
}
