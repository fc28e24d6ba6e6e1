//! Where and when candidates fail: the snapshots, the nodes, how often.

use std::sync::atomic::{AtomicU64, Ordering};

use super::count::{Class, Look};
use super::generate::Candidate;
use super::rows::Source;
use crate::bitmap;
use crate::evaluate::Vectors;
use crate::parallel;

/// The snapshots in which a candidate fails, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing {
    /// One bit a snapshot, the runs one after the other.
    pub(crate) snapshots: Vec<u64>,
    /// Failing bindings over all snapshots.
    pub(crate) exceptions: u64,
    /// Bindings over all snapshots that fail or hold.
    pub(crate) evaluations: u64,
    /// Exceptions by the first node of the binding.
    pub(crate) by_node: Vec<u64>,
}

/// For each binding of a batch the candidates that fail, as a set.
struct Matrix {
    /// Words of a set.
    width: usize,
    words: Vec<u64>,
}

impl Matrix {
    fn of(&self, binding: usize) -> &[u64] {
        &self.words[binding * self.width..][..self.width]
    }
}

/// Where the candidates fail in one piece.
struct Marks {
    /// The bindings with the candidates that fail in them.
    bindings: Vec<u32>,
    sets: Vec<u64>,
    /// For each candidate, over all snapshots: known bindings, and failing ones by first node.
    counts: Vec<(u64, Vec<u64>)>,
}

impl Class<'_> {
    /// Where and when these candidates fail.
    pub(crate) fn failing(&self, candidates: &[Candidate]) -> Vec<Failing> {
        if candidates.is_empty() {
            return Vec::new();
        }
        let offsets = offsets(self.source.timelines.snapshots());
        let words = bitmap::words(offsets[offsets.len() - 1]);
        let mut all = vec![Failing::default(); candidates.len()];
        let empty = || (0..words).map(|_| AtomicU64::new(0)).collect();
        let snapshots: Vec<Vec<AtomicU64>> = candidates.iter().map(|_| empty()).collect();
        let used = self.used(candidates);
        let width = bitmap::words(candidates.len());
        self.each_batch(|tuples, batch, kept| {
            let words = vec![0; batch.bindings.len() * width];
            let mut matrix = Matrix { width, words };
            let marks = |look: &Look<'_>, _| look.marks(candidates, width, self.counter);
            for marks in self.look_at(batch, kept, 0, &used, marks) {
                for (binding, set) in marks.bindings.iter().zip(marks.sets.chunks(width)) {
                    matrix.words[*binding as usize * width..][..width].copy_from_slice(set);
                }
                for (failing, (known, by_node)) in all.iter_mut().zip(marks.counts) {
                    failing.add(known, &by_node);
                }
            }
            parallel::map(tuples.len(), self.source.threads, |place| {
                self.when(&tuples[place], batch.starts[place], &matrix, &offsets, &snapshots);
            });
        });
        for (failing, snapshots) in all.iter_mut().zip(snapshots) {
            failing.snapshots = snapshots.into_iter().map(AtomicU64::into_inner).collect();
        }
        all
    }

    /// Marks the snapshots in which the bindings of one tuple of nodes fail, the first of which
    /// has this place.
    fn when(
        &self,
        nodes: &[u32],
        first: usize,
        matrix: &Matrix,
        offsets: &[usize],
        snapshots: &[Vec<AtomicU64>],
    ) {
        let Source { timelines, domain, items, .. } = self.source;
        timelines.each_span(domain, items, nodes, |span, binding| {
            let offset = offsets[span.run as usize];
            let (from, to) = (offset + span.start as usize, offset + span.end as usize);
            for candidate in bitmap::rows(matrix.of(first + binding)) {
                add(&snapshots[candidate], from, to);
            }
        });
    }
}

impl Failing {
    fn add(&mut self, known: u64, by_node: &[u64]) {
        self.evaluations += known;
        self.by_node.resize(self.by_node.len().max(by_node.len()), 0);
        self.by_node.iter_mut().zip(by_node).for_each(|(sum, count)| *sum += count);
        self.exceptions += by_node.iter().sum::<u64>();
    }
}

/// Where the snapshots of each run start when the runs are laid end to end; the last is the end.
pub(crate) fn offsets(snapshots: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut offsets = vec![0];
    for count in snapshots {
        offsets.push(offsets[offsets.len() - 1] + count as usize);
    }
    offsets
}

impl Look<'_> {
    /// Where these candidates fail.
    fn marks(&self, candidates: &[Candidate], width: usize, counter: Vectors) -> Marks {
        let bindings = self.rows.binding.clone();
        let mut sets = vec![0; bindings.len() * width];
        let each = bindings.iter().enumerate().map(|(place, binding)| {
            let of = &self.batch.bindings[*binding as usize];
            (place, of.nodes[0] as usize, of.lasted)
        });
        // For each row the place of its binding among those of the piece, its node, how long.
        let mut rows: Vec<(usize, usize, u64)> = Vec::with_capacity(self.rows.len());
        self.rows.spread(each, &mut rows);
        let nodes = rows.iter().map(|row| row.1 + 1).max().unwrap_or(0);
        let all = rows.iter().map(|row| row.2).sum();
        let mut kept = Vec::new();
        let mut count = |(at, candidate): (usize, &Candidate)| {
            self.meet(&candidate.literals, counter, &mut kept);
            let mut by_node = vec![0; nodes];
            for (place, node, lasted) in bitmap::rows(&kept).map(|row| rows[row]) {
                sets[place * width + at / 64] |= 1 << (at % 64);
                by_node[node] += lasted;
            }
            if candidate.literals.iter().all(|signed| self.is_total(*signed)) {
                return (all, by_node);
            }
            self.add_holding(&candidate.literals, &mut kept);
            (bitmap::rows(&kept).map(|row| rows[row].2).sum(), by_node)
        };
        let counts = candidates.iter().enumerate().map(&mut count).collect();
        Marks { bindings, sets, counts }
    }
}

/// Adds a stretch to a set.
fn add(set: &[AtomicU64], from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let end = to.min((at / 64 + 1) * 64);
        let stretch = (!0 >> (64 - (end - at))) << (at % 64);
        // Mostly another binding failed there before.
        let word = &set[at / 64];
        if word.load(Ordering::Relaxed) & stretch != stretch {
            word.fetch_or(stretch, Ordering::Relaxed);
        }
        at = end;
    }
}
