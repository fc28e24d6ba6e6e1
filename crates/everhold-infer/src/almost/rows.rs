//! The rows of a class: each distinct binding once, weighted by how long it lasted.

use super::domain::Domain;
use super::parallel;
use super::timeline::{Items, NODES_MAX, Shares, Timelines};
use crate::states::StateId;

/// Rows in columns, as many as are looked at together.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) nodes: Vec<Vec<u32>>,
    pub(crate) states: Vec<Vec<StateId>>,
    pub(crate) items: Vec<Vec<u32>>,
    pub(crate) weights: Weights,
    /// For each row its place among the bindings of nodes of its batch.
    pub(crate) binding: Vec<u32>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.binding.len()
    }
}

/// What the rows weigh, in a form in which sets of rows are weighed by counting.
#[derive(Debug)]
pub(crate) enum Weights {
    /// All the same.
    Same(u64),
    /// The rows whose weight has each bit: a set weighs the sum over the bits.
    Bits(Vec<(u32, Vec<u64>)>),
}

/// Some of the bindings of a class.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bindings: Vec<Binding>,
    /// The bindings of each tuple of nodes start here.
    pub(crate) starts: Vec<usize>,
    pub(crate) pieces: Vec<Rows>,
}

/// Nodes in states.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) nodes: [u32; NODES_MAX],
    states: [StateId; NODES_MAX],
    weight: u64,
    /// In how many snapshots it was in place.
    pub(crate) lasted: u64,
}

/// Rows of one piece; more would leave the cache.
const PIECE_MAX: usize = 1 << 15;
/// So many rows of one weight are worth a piece of their own.
const SAME_MIN: usize = 1 << 10;

/// What is needed to find the rows of a class.
pub(crate) struct Source<'a> {
    pub(crate) timelines: &'a Timelines,
    pub(crate) domain: &'a Domain,
    pub(crate) items: &'a Items<'a>,
    pub(crate) shares: &'a Shares,
    pub(crate) threads: usize,
}

impl Source<'_> {
    /// The rows of these tuples of nodes.
    pub(crate) fn batch(&self, tuples: &[Vec<u32>]) -> Batch {
        let found =
            parallel::map(tuples.len(), self.threads, |place| self.bindings(&tuples[place]));
        let mut batch = Batch { bindings: Vec::new(), starts: Vec::new(), pieces: Vec::new() };
        for bindings in found {
            batch.starts.push(batch.bindings.len());
            batch.bindings.extend(bindings);
        }
        batch.pieces = self.pieces(&batch);
        batch
    }

    /// The distinct states in which these nodes are together, in the order of first meeting.
    fn bindings(&self, nodes: &[u32]) -> Vec<Binding> {
        let mut bound = [0; NODES_MAX];
        bound[..nodes.len()].copy_from_slice(nodes);
        let mut bindings: Vec<Binding> = Vec::new();
        self.timelines.each_span(self.domain, nodes, |span, place| {
            if place == bindings.len() {
                let (nodes, states) = (bound, span.states);
                bindings.push(Binding { nodes, states, weight: 0, lasted: 0 });
            }
            bindings[place].weight += self.shares.weight(&span);
            bindings[place].lasted += u64::from(span.end - span.start);
        });
        bindings
    }

    fn pieces(&self, batch: &Batch) -> Vec<Rows> {
        let bindings = 0..u32::try_from(batch.bindings.len()).expect("fewer than 2^32 in a batch");
        let mut order: Vec<(u64, u32)> =
            batch.bindings.iter().map(|binding| binding.weight).zip(bindings).collect();
        order.sort_unstable();
        // The rows of a binding stay together, and come in the order of their elements.
        let mut rows: Vec<(u64, u32, [u32; 2])> = Vec::new();
        for (weight, place) in order {
            let binding = &batch.bindings[place as usize];
            let each = &mut |items| rows.push((weight, place, items));
            self.items.each(&binding.nodes[..self.domain.places()], &binding.states, each);
        }
        let pieces = cut(&rows);
        parallel::map(pieces.len(), self.threads, |piece| {
            self.columns(batch, &rows[pieces[piece].clone()])
        })
    }

    fn columns(&self, batch: &Batch, rows: &[(u64, u32, [u32; 2])]) -> Rows {
        let binding = |row: &(u64, u32, [u32; 2])| &batch.bindings[row.1 as usize];
        let node = |node: usize| rows.iter().map(|row| binding(row).nodes[node]).collect();
        let state = |node: usize| rows.iter().map(|row| binding(row).states[node]).collect();
        let item = |range: usize| rows.iter().map(|row| row.2[range]).collect();
        Rows {
            nodes: (0..self.domain.kinds.len()).map(node).collect(),
            states: (0..self.domain.places()).map(state).collect(),
            items: (0..self.domain.ranges.len()).map(item).collect(),
            weights: Weights::of(rows),
            binding: rows.iter().map(|row| row.1).collect(),
        }
    }
}

/// Pieces of sorted rows: long stretches of one weight alone, the others together.
fn cut(rows: &[(u64, u32, [u32; 2])]) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut push = |from: usize, to: usize| {
        let mut from = from;
        while from < to {
            let end = to.min(from + PIECE_MAX);
            pieces.push(from..end);
            from = end;
        }
    };
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        if same.len() >= SAME_MIN {
            push(start, at);
            push(at, at + same.len());
            start = at + same.len();
        }
        at += same.len();
    }
    push(start, at);
    pieces
}

impl Weights {
    fn of(rows: &[(u64, u32, [u32; 2])]) -> Weights {
        let (first, last) = (rows[0].0, rows[rows.len() - 1].0);
        if first == last {
            return Weights::Same(first);
        }
        let used = rows.iter().fold(0, |bits, row| bits | row.0);
        let bits = (0..u64::BITS).filter(|bit| used >> bit & 1 == 1);
        let set = |bit: u32| crate::bitmap::collect(rows.len(), |row| rows[row].0 >> bit & 1 == 1);
        Weights::Bits(bits.map(|bit| (bit, set(bit))).collect())
    }
}
