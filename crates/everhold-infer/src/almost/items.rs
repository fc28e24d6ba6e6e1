//! The elements over which a class ranges, and the nodes that they name.

use std::collections::BTreeMap;

use super::domain::Domain;
use super::evaluate::Coded;
use super::timeline::NODES_MAX;
use crate::dictionary::Code;
use crate::states::{StateId, States};

/// The elements of a class, by state.
pub(crate) struct Items {
    /// For each element variable its node, and where the rows of each state start.
    ranges: Vec<(usize, Vec<u32>)>,
    link: Option<Targets>,
}

/// The nodes that are referred to.
struct Targets {
    /// Whether by an element, or by a variable of the state.
    by_element: bool,
    /// By element or state; `NOBODY` where no node is named.
    named: Vec<u32>,
}

const NOBODY: u32 = u32::MAX;

impl Items {
    pub(crate) fn new(domain: &Domain, states: &States, coded: &Coded) -> Items {
        let range = |range: &super::domain::Range| {
            let kind = domain.kinds[range.node];
            let of = &states.variables.kinds[kind];
            (range.node, states.kinds[kind].row_starts(of, range.table))
        };
        let link = domain.link.map(|link| {
            let node: BTreeMap<Code, u32> = coded.nodes().zip(0..).collect();
            let column = states.kinds[domain.kinds[0]].column(link.table, link.variable);
            let named = column.iter().map(|code| node.get(code).copied().unwrap_or(NOBODY));
            Targets { by_element: link.table > 0, named: named.collect() }
        });
        Items { ranges: domain.ranges.iter().map(range).collect(), link }
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    fn range(&self, place: usize, states: &[StateId]) -> std::ops::Range<u32> {
        match self.ranges.get(place) {
            Some((node, starts)) => {
                let state = states[*node] as usize;
                starts[state]..starts[state + 1]
            }
            None => 0..1,
        }
    }

    /// How many combinations of elements this node variable has in this state.
    pub(crate) fn of_node(&self, node: usize, state: StateId) -> u64 {
        let own = self.ranges.iter().filter(|range| range.0 == node);
        own.map(|(_, starts)| u64::from(starts[state as usize + 1] - starts[state as usize]))
            .product()
    }

    /// The nodes that the first one refers to in this state, with repeats.
    pub(crate) fn named(&self, state: StateId) -> &[u32] {
        match &self.link {
            None => &[],
            Some(link) if link.by_element => {
                let own = self.range(0, &[state]);
                &link.named[own.start as usize..own.end as usize]
            }
            Some(link) => &link.named[state as usize..=state as usize],
        }
    }

    /// How many rows a binding of nodes in these states has.
    #[inline]
    pub(crate) fn count(&self, nodes: &[u32], states: &[StateId; NODES_MAX]) -> u32 {
        let count = match self.is_linked() {
            true => self.named(states[0]).iter().filter(|named| **named == nodes[1]).count(),
            false => (0..self.ranges.len()).map(|at| self.range(at, states).len()).product(),
        };
        u32::try_from(count).expect("fewer than 2^32 rows a binding")
    }

    /// Calls `visit` with the elements of each row of a binding of nodes in these states.
    pub(crate) fn each(
        &self,
        nodes: &[u32],
        states: &[StateId; NODES_MAX],
        mut visit: impl FnMut([u32; 2]),
    ) {
        if self.is_linked() {
            let named = self.range(0, states).zip(self.named(states[0]));
            return named
                .filter(|(_, named)| **named == nodes[1])
                .for_each(|(first, _)| visit([first, 0]));
        }
        for first in self.range(0, states) {
            self.range(1, states).for_each(|second| visit([first, second]));
        }
    }
}
