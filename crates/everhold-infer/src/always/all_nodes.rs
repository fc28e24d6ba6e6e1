//! What all nodes of a kind show at one time, moment by moment.

use std::collections::BTreeSet;

use super::atoms::{Atoms, NONE};
use crate::states::States;
use crate::variables::KindId;

/// Where the all_nodes are from.
#[derive(Clone, Copy)]
pub(super) enum AllNodes<'a> {
    /// The states of the nodes of a kind, in the order in which they were recorded.
    Recorded { kind: KindId, states: &'a States, atoms: &'a Atoms },
    /// A table that has the rows of so many nodes one after the other, so many each.
    ByNode { nodes: usize, each: usize },
    /// A table that has its snapshots one after the other: where they begin, and the end.
    BySnapshot { begins: &'a [u32] },
}

impl AllNodes<'_> {
    /// How many nodes there are, if always the same.
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

    /// How many all_nodes may be left out for one that is seen, so that it is not more than these.
    pub(super) fn step(self, max: usize) -> usize {
        let all = match self {
            // What follows from what was seen is seen anyway.
            AllNodes::Recorded { .. } => return 1,
            AllNodes::ByNode { each, .. } => each,
            AllNodes::BySnapshot { begins } => begins.len() - 1,
        };
        all.div_ceil(max).max(1)
    }

    /// Every so manieth moment in which all nodes show a state: one row a node. Ends when it is
    /// told to, and says whether it was not.
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

/// The recorded states of a run.
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
        // What is missing is no vote against anything: all have to show a state.
        if before == now[at] || own.iter().any(|node| now[*node] == NONE) {
            return true;
        }
        see(&own.iter().map(|node| now[*node]).collect::<Vec<u32>>())
    })
}
