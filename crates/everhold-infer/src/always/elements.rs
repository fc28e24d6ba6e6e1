//! Rows that are elements of containers: with their node, and with those of another node.

use std::ops::Range;

use crate::states::{StateId, States};
use crate::variables::{KindId, TableId};

use super::atoms::Atoms;
use super::rows::Pairs;
use super::terms::Side;

/// The rows of a table, by the state they belong to; only of containers in the state itself.
#[derive(Debug)]
pub(super) struct Elements {
    /// Where the rows of each state start, and the end of the last.
    starts: Vec<u32>,
    /// For each row the first row with the same values.
    first: Vec<u32>,
}

impl Elements {
    pub(super) fn of(kind: KindId, table: TableId, states: &States, side: &Side) -> Elements {
        let own = &states.kinds[kind];
        let kind_variables = &states.variables.kinds[kind];
        let starts = own.row_starts(kind_variables, table);
        let row = |place: usize| u32::try_from(place).expect("rows are fewer than 2^32");
        let mut known = std::collections::BTreeMap::new();
        let first = (0..own.owners(table).len())
            .map(|place| {
                let key: Vec<u32> = side.columns.iter().map(|column| column[place]).collect();
                *known.entry(key).or_insert(row(place))
            })
            .collect();
        Elements { starts, first }
    }

    /// The rows of a state.
    fn rows(&self, state: StateId) -> Range<u32> {
        self.starts[state as usize]..self.starts[state as usize + 1]
    }

    /// Each element with the node that has it, at most `max` pairs; and the number of all pairs.
    pub(super) fn with_node(&self, kind: KindId, atoms: &Atoms, max: usize) -> (Pairs, u64) {
        let mut found = Vec::new();
        let (mut samples, mut all) = (0, 0);
        for (atom, state) in (0..).zip(&atoms.kinds[kind].states) {
            let own = self.rows(*state);
            if found.len() < max {
                samples += own.len() as u64;
                found.extend(own.clone().map(|row| (self.first[row as usize], atom)));
            }
            all += own.len() as u64;
        }
        (distinct(found, samples), all)
    }

    /// The elements of one node with those of another that some cut shows beside it, in both
    /// orders; `None` if they are too many.
    pub(super) fn with_elements(
        &self,
        kind: KindId,
        atoms: &Atoms,
        nodes: &Pairs,
        max: usize,
    ) -> Option<Pairs> {
        let states = &atoms.kinds[kind].states;
        // Many states have equal containers, so pairs of distinct containers are formed first.
        let content = |atom: &u32| {
            let rows = self.rows(states[*atom as usize]).map(|row| self.first[row as usize]);
            rows.collect::<std::collections::BTreeSet<u32>>()
        };
        let mut numbers = std::collections::BTreeMap::new();
        let mut contents = Vec::new();
        let number: Vec<u32> = (0..u32::try_from(states.len()).ok()?)
            .map(|atom| {
                let content = content(&atom);
                let next = u32::try_from(contents.len()).expect("fewer than 2^32");
                *numbers.entry(content.clone()).or_insert_with(|| {
                    contents.push(content);
                    next
                })
            })
            .collect();
        let both = nodes.iter().map(|(l, r)| (number[l as usize], number[r as usize]));
        let both = sorted(both.collect());
        let mut found = Vec::new();
        let mut samples = 0;
        for (l, r) in both {
            if contents[l as usize].len() * contents[r as usize].len() > max / 2 {
                return None;
            }
            for x in &contents[l as usize] {
                for y in &contents[r as usize] {
                    found.push((*x, *y));
                    found.push((*y, *x));
                    samples += 2;
                }
            }
            if found.len() > max {
                found = sorted(found);
                if found.len() > max / 2 {
                    return None;
                }
            }
        }
        Some(distinct(found, samples))
    }
}

fn distinct(found: Vec<(u32, u32)>, samples: u64) -> Pairs {
    let (left, right) = sorted(found).into_iter().unzip();
    Pairs::listed(left, right, samples)
}

fn sorted(mut found: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    found.sort_unstable();
    found.dedup();
    found
}
