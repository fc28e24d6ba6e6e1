//! Episodes: the stretches of time in which a variable keeps its value. A role that a node is in for a
//! thousand events is one case and not a thousand.
//!
//! Each row of a term gets the number of the episode in which it first occurred. An episode ends
//! when the value changes. The value with which a node starts a run continues the episode with which
//! the node started the run before, so a value that is the same at the start of every run is one
//! episode.

use std::collections::BTreeMap;

use super::atoms::{Atoms, NONE};
use crate::variables::KindId;

/// Which rows each node was in, in order, one sequence for each run.
pub(super) struct Sequences<'a> {
    /// The node, as rows are grouped, and its rows.
    pub(super) runs: Vec<(u32, &'a [u32])>,
}

impl<'a> Sequences<'a> {
    /// Those of the nodes of a kind.
    pub(super) fn of(kind: KindId, atoms: &'a Atoms) -> Sequences<'a> {
        let groups = &atoms.kinds[kind].nodes;
        let mut runs = Vec::new();
        for (own, sequence) in atoms.runs.iter().flatten() {
            let first = sequence.iter().find(|atom| **atom != NONE);
            if let (true, Some(first)) = (*own == Some(kind), first) {
                runs.push((groups[*first as usize], sequence.as_slice()));
            }
        }
        Sequences { runs }
    }

    /// Whether the values of a column never fall, in no run and at no node.
    pub(super) fn only_grow(&self, column: &[u32]) -> bool {
        self.runs.iter().all(|(_, rows)| {
            let known = rows.iter().filter(|row| **row != NONE);
            known.map(|row| column[*row as usize]).is_sorted()
        })
    }

    /// How often each value of a column was taken: at the start of a run or by a change.
    pub(super) fn entries(&self, column: &[u32]) -> BTreeMap<u32, u64> {
        let mut found = BTreeMap::new();
        for (_, rows) in &self.runs {
            let mut last = None;
            for row in rows.iter().filter(|row| **row != NONE) {
                let code = column[*row as usize];
                if last.replace(code) != Some(code) {
                    *found.entry(code).or_default() += 1;
                }
            }
        }
        found
    }

    /// Whether this is true of each change of a column within a run.
    pub(super) fn all_steps(&self, column: &[u32], holds: impl Fn(u32, u32) -> bool) -> bool {
        self.runs.iter().all(|(_, rows)| {
            let known = rows.iter().filter(|row| **row != NONE).map(|row| column[*row as usize]);
            let known: Vec<u32> = known.collect();
            known.windows(2).all(|step| step[0] == step[1] || holds(step[0], step[1]))
        })
    }

    /// The episode of each row of a column.
    pub(super) fn number(&self, column: &[u32]) -> Vec<u32> {
        let mut found = vec![u32::MAX; column.len()];
        let groups = self.runs.iter().map(|(group, _)| *group as usize + 1).max().unwrap_or(0);
        // The value and the episode at the start of the last run, by node.
        let mut starts: Vec<Option<(u32, u32)>> = vec![None; groups];
        let mut next = 0;
        for (group, rows) in &self.runs {
            let start = &mut starts[*group as usize];
            let mut last = *start;
            let mut begins = true;
            for row in rows.iter().map(|row| *row as usize).filter(|row| *row != NONE as usize) {
                let (_, episode) = *last.insert(match last {
                    Some((value, episode)) if value == column[row] => (value, episode),
                    _ => {
                        next += 1;
                        (column[row], next)
                    }
                });
                if begins {
                    (*start, begins) = (last, false);
                }
                if found[row] == u32::MAX {
                    found[row] = episode;
                }
            }
        }
        found
    }
}

/// The episode of each row of a table, in which the rows of a node stand in the order of time.
pub(super) fn in_table(groups: &[u32], column: &[u32]) -> Vec<u32> {
    if groups.is_sorted() {
        // Each node by itself: nothing to look up.
        let (mut last, mut episode) = (None, 0);
        let number = |row: (u32, u32)| {
            episode += u32::from(last != Some(row));
            last = Some(row);
            episode
        };
        return groups.iter().copied().zip(column.iter().copied()).map(number).collect();
    }
    let nodes = groups.iter().max().map_or(0, |last| *last as usize + 1);
    let mut last: Vec<Option<(u32, u32)>> = vec![None; nodes];
    let mut next = 0;
    let episode = |(group, value): (&u32, &u32)| {
        let last = &mut last[*group as usize];
        if last.is_none_or(|(before, _)| before != *value) {
            next += 1;
            *last = Some((*value, next));
        }
        last.map_or(next, |(_, episode)| episode)
    };
    groups.iter().zip(column).map(episode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_lasts_until_the_value_changes() {
        // Rows 0 to 3 of one node, 4 and 5 of another; their values.
        let column = [7, 7, 8, 7, 7, 9];
        let check = |runs: &[(u32, &[u32])], expected: [u32; 6]| {
            assert_eq!(Sequences { runs: runs.to_vec() }.number(&column), expected, "{runs:?}");
        };
        const NO: u32 = u32::MAX;
        check(&[(0, &[0, NONE, 1, 2, 3]), (1, &[4])], [1, 1, 2, 3, 4, NO]);
        // A run begins as the one before did, or otherwise; what was met before keeps its episode.
        check(&[(0, &[0, 2]), (0, &[1, 2, 3])], [1, 1, 2, 4, NO, NO]);
        check(&[(0, &[0]), (0, &[2]), (0, &[3])], [1, NO, 2, 3, NO, NO]);
        assert_eq!(in_table(&[0, 1, 0, 1, 0], &[7, 7, 7, 8, 8]), [1, 2, 1, 3, 4]);
        assert_eq!(in_table(&[0, 0, 0, 1, 1], &[7, 7, 8, 8, 8]), [1, 1, 2, 3, 3]);
    }
}
