//! The weight of a binding: its share of the snapshots in which it is in place.

use super::domain::Domain;
use super::items::Items;
use super::timeline::{RunTimeline, Span, Timelines, Turn};
use crate::states::{StateId, States};

/// One whole, as a weight: that of a snapshot. Bindings of a snapshot share it.
pub(crate) const WHOLE: u64 = 1 << 32;

/// For each run, the weight of one binding in the snapshots up to each.
///
/// With spatial accounting a snapshot weighs the same however many bindings it has; one without
/// bindings has no weight, so that empty containers are no evidence.
pub(crate) struct Shares {
    /// For each run.
    sums: Vec<Vec<u64>>,
    /// Where a class follows a reference, for each node whether it refers to each.
    linked: Vec<Vec<bool>>,
}

impl Shares {
    pub(crate) fn of(timelines: &Timelines, domain: &Domain, items: &Items) -> Shares {
        let mut linked = Vec::new();
        let sums = timelines.runs.iter().map(|run| {
            let mut bound = Bound::new(run, domain, items, &mut linked);
            let mut sums = vec![0];
            let (mut sum, mut each) = (0, 0);
            for together in run.turns.chunk_by(|a, b| a.at == b.at) {
                while sums.len() <= together[0].at.min(run.snapshots) as usize {
                    sum += each;
                    sums.push(sum);
                }
                bound.take(together);
                each = WHOLE.checked_div(bound.rows()).unwrap_or(0);
            }
            while sums.len() <= run.snapshots as usize {
                sum += each;
                sums.push(sum);
            }
            sums
        });
        Shares { sums: sums.collect(), linked }
    }

    /// The nodes that refer, each with one referred to, in order.
    pub(crate) fn linked(&self) -> Vec<Vec<u32>> {
        let of = |(first, named): (u32, &Vec<bool>)| {
            let named = (0..).zip(named).filter(|(_, is)| **is);
            named.map(|(named, _)| vec![first, named]).collect::<Vec<_>>()
        };
        (0..).zip(&self.linked).flat_map(of).collect()
    }

    pub(crate) fn weight(&self, span: &Span) -> u64 {
        let sums = &self.sums[span.run as usize];
        sums[span.end as usize] - sums[span.start as usize]
    }
}

/// How many rows a class has in the snapshot at hand, without looking at each tuple of nodes.
struct Bound<'a> {
    run: &'a RunTimeline,
    domain: &'a Domain,
    items: &'a Items,
    now: Vec<StateId>,
    /// For each node variable the sum over the nodes that it can be bound to.
    sums: [u64; 2],
    /// The rows to subtract: the first two variables bound to the same node.
    twice: u64,
    /// With a link, the rows of each referring node.
    own: Vec<u64>,
    linked: &'a mut Vec<Vec<bool>>,
}

impl<'a> Bound<'a> {
    fn new(
        run: &'a RunTimeline,
        domain: &'a Domain,
        items: &'a Items,
        linked: &'a mut Vec<Vec<bool>>,
    ) -> Bound<'a> {
        let (now, own) = (vec![States::ABSENT; run.nodes.len()], vec![0; run.nodes.len()]);
        linked.resize(linked.len().max(run.nodes.len()), Vec::new());
        Bound { run, domain, items, now, sums: [0; 2], twice: 0, own, linked }
    }

    fn take(&mut self, turns: &[Turn]) {
        for turn in turns {
            let node = turn.node as usize;
            let (old, new) = (self.parts(node, self.now[node]), self.parts(node, turn.state));
            for (sum, (old, new)) in self.sums.iter_mut().zip(old.into_iter().zip(new)) {
                *sum = *sum + new - old;
            }
            self.twice = self.twice + new[0] * new[1] - old[0] * old[1];
            let silent = |state: StateId| state == States::ABSENT;
            let others = silent(self.now[node]) != silent(turn.state);
            self.now[node] = turn.state;
            if self.items.is_linked() {
                let nodes = if others { 0..self.now.len() } else { node..node + 1 };
                nodes.for_each(|node| self.own[node] = self.referring(node));
            }
        }
    }

    /// The rows that a node adds to each variable alone.
    fn parts(&self, node: usize, state: StateId) -> [u64; 2] {
        let part = |variable: usize| match self.domain.kinds.get(variable) {
            Some(kind) if state != States::ABSENT && self.run.nodes[node].0 == Some(*kind) => {
                self.items.of_node(variable, state)
            }
            _ => 0,
        };
        [part(0), part(1)]
    }

    /// The rows of a node that refers to others.
    fn referring(&mut self, node: usize) -> u64 {
        let (state, kinds) = (self.now[node], &self.domain.kinds);
        if state == States::ABSENT || self.run.nodes[node].0 != Some(kinds[0]) {
            return 0;
        }
        let shows = |named: &&u32| {
            let place = **named as usize;
            self.now.get(place).is_some_and(|state| *state != States::ABSENT)
                && self.run.nodes[place].0 == Some(kinds[1])
        };
        let linked = &mut self.linked[node];
        linked.resize(linked.len().max(self.now.len()), false);
        let found = self.items.named(state).iter().filter(shows);
        found.map(|named| linked[*named as usize] = true).count() as u64
    }

    fn rows(&self) -> u64 {
        match self.domain.kinds.len() {
            _ if self.items.is_linked() => self.own.iter().sum(),
            1 => self.sums[0],
            2 => self.sums[0] * self.sums[1] - self.twice,
            // More than two are of one kind, and have no elements.
            more => (0..more as u64).map(|bound| self.sums[0].saturating_sub(bound)).product(),
        }
    }
}
