//! The rows of a class: each distinct binding once, weighted by how long it lasted.

use std::ops::Range;

use super::domain::Domain;
use super::items::Items;
use super::shares::Shares;
use super::timeline::{NODES_MAX, Timelines};
use crate::bitmap;
use crate::parallel;
use crate::states::StateId;

/// Rows in columns, as many as are looked at together: those of some bindings.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// For each binding its place among those of its batch, and how many rows it has; they lie
    /// together.
    pub(crate) binding: Vec<u32>,
    pub(crate) times: Vec<u32>,
    /// The nodes and states of each binding, and the elements of each row.
    pub(crate) nodes: Vec<Vec<u32>>,
    pub(crate) states: Vec<Vec<StateId>>,
    pub(crate) items: Vec<Vec<u32>>,
    pub(crate) weights: Weights,
    len: usize,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are few rows a binding, so that it is not worth to look at bindings first.
    pub(crate) fn is_thin(&self) -> bool {
        self.len < FEW * self.binding.len()
    }

    /// Repeats the value of each binding for each of its rows.
    pub(crate) fn spread<T: Copy>(&self, of: impl IntoIterator<Item = T>, into: &mut Vec<T>) {
        if self.len == self.binding.len() {
            return into.extend(of);
        }
        for (value, times) in of.into_iter().zip(&self.times) {
            into.resize(into.len() + *times as usize, value);
        }
    }

    /// A copy without what only the evaluation of literals reads.
    pub(crate) fn weighed(&mut self) -> Rows {
        Rows {
            binding: self.binding.clone(),
            times: self.times.clone(),
            weights: std::mem::take(&mut self.weights),
            len: self.len,
            ..Rows::default()
        }
    }
}

/// The weights of rows, in a form in which sets of rows are weighed by counting bits.
#[derive(Debug)]
pub(crate) enum Weights {
    /// All the same.
    Same(u64),
    /// The rows whose weight has each bit: a set weighs the sum over the bits.
    Bits(Vec<(u32, Vec<u64>)>),
}

impl Default for Weights {
    fn default() -> Weights {
        Weights::Same(0)
    }
}

/// Some of the bindings of a class.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bindings: Vec<Binding>,
    /// The bindings of each tuple of nodes start here.
    pub(crate) starts: Vec<usize>,
    /// The bindings by weight.
    order: Vec<u32>,
    /// Stretches of that order.
    pub(crate) pieces: Vec<Range<usize>>,
    /// How many rows the bindings have together.
    pub(crate) rows: u64,
}

/// Nodes in states.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) nodes: [u32; NODES_MAX],
    states: [StateId; NODES_MAX],
    weight: u64,
    /// In how many snapshots it was in place.
    pub(crate) lasted: u64,
    rows: u32,
}

/// About how many bytes a binding takes.
pub(crate) const BINDING: usize = size_of::<Binding>() + 32;
/// Rows of one piece; more would leave the cache.
const PIECE_MAX: usize = 1 << 14;
/// Rows a binding that are few.
pub(crate) const FEW: usize = 3;
/// The fewest rows of one weight that make a piece of their own.
const SAME_MIN: usize = 1 << 10;

/// The source of the rows of a class.
pub(crate) struct Source<'a> {
    pub(crate) timelines: &'a Timelines,
    pub(crate) domain: &'a Domain,
    pub(crate) items: &'a Items,
    pub(crate) shares: &'a Shares,
    pub(crate) threads: usize,
}

impl Source<'_> {
    /// The bindings of these tuples of nodes.
    pub(crate) fn batch(&self, tuples: &[Vec<u32>]) -> Batch {
        let found =
            parallel::map(tuples.len(), self.threads, |place| self.bindings(&tuples[place]));
        let mut batch = Batch::default();
        for bindings in found {
            batch.starts.push(batch.bindings.len());
            batch.bindings.extend(bindings);
        }
        batch.rows = batch.bindings.iter().map(|binding| u64::from(binding.rows)).sum();
        batch.sort();
        batch
    }

    /// The distinct states in which these nodes are together, in the order of first meeting.
    fn bindings(&self, nodes: &[u32]) -> Vec<Binding> {
        let mut bound = [0; NODES_MAX];
        bound[..nodes.len()].copy_from_slice(nodes);
        let mut bindings: Vec<Binding> = Vec::new();
        self.timelines.each_span(self.domain, self.items, nodes, |span, place| {
            if place == bindings.len() {
                let (nodes, states) = (bound, span.states);
                let rows = self.items.count(&nodes, &states);
                bindings.push(Binding { nodes, states, weight: 0, lasted: 0, rows });
            }
            bindings[place].weight += self.shares.weight(&span);
            bindings[place].lasted += u64::from(span.end - span.start);
        });
        bindings
    }

    /// Writes the rows of a piece over others.
    pub(crate) fn rows(&self, batch: &Batch, piece: usize, rows: &mut Rows) {
        let order = &batch.order[batch.pieces[piece].clone()];
        let Domain { kinds, ranges, .. } = self.domain;
        rows.binding.clear();
        rows.times.clear();
        rows.len = 0;
        let (nodes, states) = (kinds.len(), self.domain.places());
        for (columns, count) in
            [(&mut rows.nodes, nodes), (&mut rows.states, states), (&mut rows.items, ranges.len())]
        {
            columns.resize_with(count, Vec::new);
            columns.iter_mut().for_each(Vec::clear);
        }
        for place in order {
            let binding = &batch.bindings[*place as usize];
            self.items.each(&binding.nodes, &binding.states, |items| {
                rows.items.iter_mut().zip(items).for_each(|(column, item)| column.push(item));
            });
            rows.binding.push(*place);
            rows.times.push(binding.rows);
            rows.len += binding.rows as usize;
            rows.nodes.iter_mut().zip(binding.nodes).for_each(|(column, node)| column.push(node));
            rows.states.iter_mut().zip(binding.states).for_each(|(column, of)| column.push(of));
        }
        rows.weights = batch.weights(rows);
    }
}

impl Batch {
    /// Puts the bindings in the order of their weight, and cuts that into pieces: long stretches
    /// of one weight alone, the others together.
    fn sort(&mut self) {
        let places = 0..u32::try_from(self.bindings.len()).expect("fewer than 2^32 in a batch");
        let with_rows = places.filter(|place| self.bindings[*place as usize].rows > 0);
        let mut order: Vec<(u64, u32)> =
            with_rows.map(|place| (self.bindings[place as usize].weight, place)).collect();
        order.sort_unstable();
        self.order = order.iter().map(|(_, place)| *place).collect();
        let rows = |of: &[(u64, u32)]| -> usize {
            of.iter().map(|(_, place)| self.bindings[*place as usize].rows as usize).sum()
        };
        let (mut start, mut at) = (0, 0);
        let mut stretches = Vec::new();
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            let end = at + same.len();
            if rows(same) >= SAME_MIN {
                stretches.extend([start..at, at..end]);
                start = end;
            }
            at = end;
        }
        stretches.push(start..at);
        self.pieces = stretches.into_iter().flat_map(|stretch| self.cut(stretch)).collect();
    }

    /// A stretch in pieces of not too many rows.
    fn cut(&self, stretch: Range<usize>) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let (mut start, mut rows) = (stretch.start, 0);
        for at in stretch.clone() {
            let own = self.bindings[self.order[at] as usize].rows as usize;
            if rows + own > PIECE_MAX && start < at {
                pieces.push(start..at);
                (start, rows) = (at, 0);
            }
            rows += own;
        }
        pieces.extend((start < stretch.end).then_some(start..stretch.end));
        pieces
    }

    fn weights(&self, rows: &Rows) -> Weights {
        let weight = |place: &u32| self.bindings[*place as usize].weight;
        let weights: Vec<u64> = rows.binding.iter().map(weight).collect();
        let (first, last) = (weights[0], weights[weights.len() - 1]);
        if first == last {
            return Weights::Same(first);
        }
        let used = weights.iter().fold(0, |bits, weight| bits | weight);
        let bits = (0..u64::BITS).filter(|bit| used >> bit & 1 == 1);
        let set = |bit: u32| {
            let of = bitmap::collect(weights.len(), |row| weights[row] >> bit & 1 == 1);
            let mut set = Vec::new();
            bitmap::spread(&of, &rows.times, &mut set);
            (bit, set)
        };
        Weights::Bits(bits.map(set).collect())
    }
}
