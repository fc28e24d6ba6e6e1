//! The candidates of a family and the streaming search that drops those that are false.

use super::block::{BlockJudge, full};
use super::comparison::{Comparison, Context};
use super::differences::Difference;
use super::family::Form;
use super::propose;
use super::rows::{Block, Pairs};
use crate::dictionary::hash_of;
use crate::parallel;

/// Blocks of the first look, spread over all rows.
const FIRST_BLOCKS: usize = 16;
/// A thread is started for this many blocks; fewer are not worth one.
const BLOCKS_EACH: usize = 4;
/// Candidates over the rows of one family.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) comparisons: Vec<Comparison>,
    /// Literals that must all be true, by place; the weaker before the stronger.
    pub(super) conditions: Vec<Vec<usize>>,
    /// For each condition, the comparisons that are not refuted under it.
    pub(super) live: Vec<Vec<usize>>,
    /// For each condition the number of rows in which it is true.
    pub(super) support: Vec<u64>,
    /// For each condition, a hash of those rows: equal hashes stand for equal sets of rows.
    pub(super) rows_hash: Vec<u64>,
    /// How many were tried.
    pub(super) tried: u64,
    /// How many of them were simple.
    pub(super) simple: u64,
    /// The number of the family.
    pub(super) family: usize,
    /// The pairs of numbers of the two sides that differ by a constant.
    pub(super) differences: Vec<Difference>,
}

impl Candidates {
    /// All candidates that the terms of the two sides give rise to.
    pub(super) fn of(form: &Form, context: &Context<'_>) -> Candidates {
        let (comparisons, conditions) = propose::all(form, context);
        let mut candidates = Candidates {
            support: vec![0; conditions.len()],
            rows_hash: vec![0; conditions.len()],
            live: Vec::new(),
            comparisons,
            conditions,
            tried: 0,
            simple: 0,
            family: 0,
            differences: Vec::new(),
        };
        candidates.live = (0..candidates.conditions.len())
            .map(|condition| propose::consequents(&candidates, form, condition, context))
            .collect();
        candidates.tried = candidates.live.iter().map(|live| live.len() as u64).sum();
        let all = candidates.live.iter().enumerate().flat_map(|(condition, live)| {
            live.iter().map(move |comparison| Candidate { condition, comparison: *comparison })
        });
        candidates.simple = all.filter(|own| candidates.is_simple(form, *own)).count() as u64;
        candidates
    }

    /// Whether a candidate is one of the few that are looked for in every protocol: a relation
    /// without a condition, an implication of flags within a node, or that two nodes are not in one
    /// role. These are weighed among themselves, so that the many others do not drown them.
    pub(super) fn is_simple(&self, form: &Form, own: Candidate) -> bool {
        let condition = self.conditions[own.condition].iter().map(|c| self.comparisons[*c]);
        match self.comparisons[own.comparison] {
            Comparison::Cross(..) => condition.count() == 0,
            Comparison::Right(_, term, _) => match form {
                Form::One => true,
                Form::Two => condition
                    .into_iter()
                    .any(|part| matches!(part, Comparison::Left(true, own, _) if own == term)),
                _ => false,
            },
            Comparison::Left(..) => false,
        }
    }

    /// Drops the candidates that are false in one of these rows. The rows are no evidence for the rest.
    pub(super) fn refute(&mut self, pairs: &Pairs, context: &Context<'_>, threads: usize) {
        self.pass(&blocks(pairs, false), false, context, threads);
    }

    /// Drops the candidates that are false in one of these rows. A first pass over a sample of the
    /// rows drops most of them.
    pub(super) fn judge(
        &mut self,
        pairs: &Pairs,
        both_ways: bool,
        context: &Context<'_>,
        threads: usize,
    ) {
        let all = blocks(pairs, both_ways);
        if all.len() > FIRST_BLOCKS {
            // Blocks alternate between the two orders of the sides; an odd step meets both.
            let step = (all.len() / FIRST_BLOCKS) | 1;
            let some: Vec<_> = all.iter().copied().step_by(step).collect();
            self.pass(&some, false, context, threads);
        }
        self.pass(&all, true, context, threads);
    }

    /// Judges these blocks on all cores, and counts the rows of the conditions if asked to.
    fn pass(
        &mut self,
        blocks: &[(usize, Block<'_>)],
        counting: bool,
        context: &Context<'_>,
        threads: usize,
    ) {
        let stripes = threads.min(blocks.len().div_ceil(BLOCKS_EACH)).max(1);
        // Neither the survivors nor the counts depend on how the blocks are distributed.
        let all_survivors = parallel::map(stripes, threads, |stripe| {
            let mut judge = BlockJudge::new(context, &self.comparisons);
            let mut survivors = Survivors {
                live: self.live.clone(),
                support: vec![0; self.conditions.len()],
                rows_hash: vec![0; self.conditions.len()],
            };
            // Conditions without survivors need no further evaluation.
            let open: Vec<bool> = self.live.iter().map(|live| !live.is_empty()).collect();
            for (number, block) in blocks.iter().skip(stripe).step_by(stripes) {
                self.judge_block((*number, block), &mut judge, (&open, counting), &mut survivors);
            }
            survivors
        });
        for survivors in all_survivors {
            for condition in 0..self.conditions.len() {
                let live = &survivors.live[condition];
                self.live[condition].retain(|place| live.binary_search(place).is_ok());
                self.support[condition] += survivors.support[condition];
                let hash = &mut self.rows_hash[condition];
                *hash = hash.wrapping_add(survivors.rows_hash[condition]);
            }
        }
    }

    fn judge_block(
        &self,
        (number, block): (usize, &Block<'_>),
        judge: &mut BlockJudge<'_>,
        (open, counting): (&[bool], bool),
        survivors: &mut Survivors,
    ) {
        judge.begin();
        let all = full(block.len);
        for (condition, comparisons) in self.conditions.iter().enumerate() {
            if !open[condition] || survivors.live[condition].is_empty() && !counting {
                continue;
            }
            let mut mask = all.clone();
            for comparison in comparisons {
                let yes = judge.yes(*comparison, block);
                mask.iter_mut().zip(yes).for_each(|(word, yes)| *word &= yes);
            }
            if mask.iter().all(|word| *word == 0) {
                continue;
            }
            if counting {
                let count: u64 = mask.iter().map(|word| u64::from(word.count_ones())).sum();
                survivors.support[condition] += count;
                let hash = &mut survivors.rows_hash[condition];
                *hash = hash.wrapping_add(hash_of(&(number, &mask)));
            }
            survivors.live[condition]
                .retain(|comparison| !meet(&mask, judge.no(*comparison, block)));
        }
    }
}

/// The candidates that survive some blocks, and the rows of their conditions there.
#[derive(Debug)]
struct Survivors {
    live: Vec<Vec<usize>>,
    support: Vec<u64>,
    rows_hash: Vec<u64>,
}

/// A comparison under a condition, both by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) condition: usize,
    pub(super) comparison: usize,
}

/// Whether two sets of rows have one in common.
fn meet(a: &[u64], b: &[u64]) -> bool {
    let common = |(a, b): (&[u64], &[u64])| a.iter().zip(b).fold(0, |all, (a, b)| all | a & b);
    a.chunks(32).zip(b.chunks(32)).any(|parts| common(parts) != 0)
}

/// The blocks with their numbers, if wanted in both orders of the sides.
fn blocks(pairs: &Pairs, both_ways: bool) -> Vec<(usize, Block<'_>)> {
    let mut found = Vec::new();
    for block in pairs.blocks() {
        found.push((found.len(), block));
        if both_ways {
            found.push((found.len(), block.swapped()));
        }
    }
    found
}
