//! How often each candidate fails: complements met, counted and weighed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::evaluate::{Bench, Plan};
use super::generate::{Candidate, Signed};
use super::moments::Moments;
use super::rows::{Batch, Rows, Source, Weights};
use crate::bitmap;
use crate::evaluate::{TruthBits, Vectors};
use crate::parallel;

/// How many rows of a class fail, and how many are known to fail or hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureCount {
    /// The weight of the rows that fail.
    pub(crate) fails: u64,
    /// The weight of the rows that fail or hold; the others are unknown.
    pub(crate) known: u64,
    /// Distinct rows that fail.
    pub(crate) rows_failing: u64,
    /// Distinct rows that fail or hold.
    pub(crate) rows_known: u64,
    /// Candidates with the same signature fail in the same rows.
    pub(crate) signature: u64,
}

impl FailureCount {
    fn add(&mut self, other: FailureCount) {
        self.fails += other.fails;
        self.known += other.known;
        self.rows_failing += other.rows_failing;
        self.rows_known += other.rows_known;
        self.signature = self.signature.wrapping_add(other.signature);
    }

    /// The share of the weight that holds.
    #[expect(clippy::cast_precision_loss, reason = "a rate is for people")]
    pub(crate) fn rate(&self) -> f64 {
        if self.known == 0 { 0.0 } else { 1.0 - self.fails as f64 / self.known as f64 }
    }
}

/// The failures of a literal, counted in the first pass over the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// Of the literal, and of its negation.
    pub(crate) tallies: [FailureCount; 2],
}

/// One class with everything that is needed to look at its rows.
pub(crate) struct Class<'a> {
    pub(crate) plan: Plan<'a>,
    pub(crate) source: Source<'a>,
    pub(crate) moments: &'a Moments,
    pub(crate) counter: Vectors,
    /// The tuples of nodes, as many together as memory allows.
    pub(crate) batches: Vec<Vec<Vec<u32>>>,
    /// About how many bytes may be used.
    pub(crate) memory_max: usize,
    /// If that is all of them: what is known of them.
    pub(crate) kept: OnceLock<Kept>,
}

/// The rows and truths that are kept from one pass to the next.
pub(crate) struct Kept {
    batch: Batch,
    /// If there is memory for it: the rows of each piece, and where the literals fail in them.
    pieces: Option<Vec<Piece>>,
}

type Piece = (Rows, Vec<TruthBits>);

/// The rows of a piece and where each literal fails in them.
pub(crate) struct Look<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) rows: &'a Rows,
    plan: &'a Plan<'a>,
    /// Where the literals fail, and again by row where that is told by binding.
    fails: &'a [TruthBits],
    spread: &'a [TruthBits],
    /// The weight of all rows.
    weight: u64,
}

impl Look<'_> {
    fn fails(&self, signed: Signed) -> &[u64] {
        let literal = usize::from(signed / 2);
        let by_row = self.plan.is_by_row(literal, self.rows);
        let of = if by_row { &self.fails[literal] } else { &self.spread[literal] };
        if signed.is_multiple_of(2) { &of.no } else { &of.yes }
    }

    /// The rows where all these literals fail, and how many they are.
    pub(crate) fn meet(&self, literals: &[Signed], counter: Vectors, kept: &mut Vec<u64>) -> u64 {
        let mut sets = [&[][..]; super::generate::LITERALS_IN_MAX];
        for (set, signed) in sets.iter_mut().zip(literals) {
            *set = self.fails(*signed);
        }
        counter.meet(&sets[..literals.len()], kept)
    }

    fn weigh(&self, set: &[u64], count: u64, counter: Vectors) -> u64 {
        match &self.rows.weights {
            Weights::Same(weight) => weight * count,
            Weights::Bits(bits) => {
                bits.iter().map(|(bit, rows)| counter.common(set, rows) << bit).sum()
            }
        }
    }

    fn tally(
        &self,
        literals: &[Signed],
        counter: Vectors,
        piece: u64,
        kept: &mut Vec<u64>,
    ) -> FailureCount {
        let rows_failing = self.meet(literals, counter, kept);
        let (fails, signature) = match rows_failing {
            0 => (0, 0),
            _ => (self.weigh(kept, rows_failing, counter), signature(kept, piece)),
        };
        if literals.iter().all(|signed| self.is_total(*signed)) {
            let (known, rows_known) = (self.weight, self.rows.len() as u64);
            return FailureCount { fails, known, rows_failing, rows_known, signature };
        }
        self.add_holding(literals, kept);
        let rows_known = kept.iter().map(|word| u64::from(word.count_ones())).sum();
        let known = self.weigh(kept, rows_known, counter);
        FailureCount { fails, known, rows_failing, rows_known, signature }
    }

    /// Adds the rows where one of the literals holds: a disjunction is known there and where all
    /// of them fail.
    pub(crate) fn add_holding(&self, literals: &[Signed], known: &mut [u64]) {
        for signed in literals {
            let holds = self.fails(signed ^ 1);
            known.iter_mut().zip(holds).for_each(|(known, holds)| *known |= holds);
        }
    }

    pub(crate) fn is_total(&self, signed: Signed) -> bool {
        self.fails[usize::from(signed / 2)].total
    }
}

impl Class<'_> {
    /// Looks at all rows piece by piece with the literals of which `used` is true.
    fn look<T: Send>(&self, used: &[bool], work: impl Fn(&Look<'_>, u64) -> T + Sync) -> Vec<T> {
        let mut done = Vec::new();
        let mut before = 0;
        self.each_batch(|_, batch, kept| {
            done.extend(self.look_at(batch, kept, before, used, &work));
            before += batch.pieces.len() as u64;
        });
        done
    }

    /// Calls `visit` with each batch, and with its pieces if they are kept.
    pub(crate) fn each_batch(&self, mut visit: impl FnMut(&[Vec<u32>], &Batch, Option<&[Piece]>)) {
        match &self.batches[..] {
            [all] => {
                let kept = self.kept.get_or_init(|| self.keep(all));
                visit(all, &kept.batch, kept.pieces.as_deref());
            }
            several => several.iter().for_each(|tuples| {
                visit(tuples, &self.source.batch(tuples), None);
            }),
        }
    }

    fn keep(&self, tuples: &[Vec<u32>]) -> Kept {
        let batch = self.source.batch(tuples);
        let all = vec![true; self.literals()];
        let bytes = self.plan.bytes(batch.rows, batch.bindings.len() as u64);
        let work = |bench: &mut Bench<'_>, place: usize| {
            self.source.rows(&batch, place, &mut bench.rows);
            bench.evaluate(&all);
            (bench.rows.weighed(), bench.fails.clone())
        };
        let pieces = (bytes <= self.memory_max as u64).then(|| {
            let bench = || Bench::new(&self.plan);
            parallel::map_with(batch.pieces.len(), self.source.threads, bench, work)
        });
        Kept { batch, pieces }
    }

    fn literals(&self) -> usize {
        self.plan.decider.literals.len()
    }

    /// Looks at the rows of one batch; the first of its pieces has the number `before`.
    pub(crate) fn look_at<T: Send>(
        &self,
        batch: &Batch,
        kept: Option<&[Piece]>,
        before: u64,
        used: &[bool],
        work: impl Fn(&Look<'_>, u64) -> T + Sync,
    ) -> Vec<T> {
        let here = |bench: &mut Bench<'_>, place: usize| {
            let (rows, fails) = match kept {
                Some(kept) => (&kept[place].0, &kept[place].1),
                None => {
                    self.source.rows(batch, place, &mut bench.rows);
                    bench.evaluate(used);
                    (&bench.rows, &bench.fails)
                }
            };
            self.plan.spread(rows, fails, used, &mut bench.spread);
            let (plan, spread) = (&self.plan, &bench.spread);
            let mut look = Look { batch, rows, plan, fails, spread, weight: 0 };
            let all = bitmap::collect(rows.len(), |_| true);
            look.weight = look.weigh(&all, rows.len() as u64, self.counter);
            work(&look, before + place as u64)
        };
        let bench = || Bench::new(&self.plan);
        parallel::map_with(batch.pieces.len(), self.source.threads, bench, here)
    }

    /// The failures of each literal and of its negation, and the weight of all rows.
    pub(crate) fn scan(&self) -> (Vec<Scanned>, u64) {
        let literals = self.literals();
        let pieces = self.look(&vec![true; literals], |look, piece| {
            let mut kept = Vec::new();
            let one = |place: usize| {
                let signed = Signed::try_from(2 * place).expect("literals of a class are few");
                let mut tally = |signed| look.tally(&[signed], self.counter, piece, &mut kept);
                Scanned { tallies: [tally(signed), tally(signed + 1)] }
            };
            ((0..literals).map(one).collect::<Vec<_>>(), look.weight)
        });
        let mut all = vec![Scanned::default(); literals];
        let mut whole = 0;
        for (scanned, weight) in pieces {
            whole += weight;
            for (sum, part) in all.iter_mut().zip(scanned) {
                for sign in 0..2 {
                    sum.tallies[sign].add(part.tallies[sign]);
                }
            }
        }
        (all, whole)
    }

    /// The failures of the candidates; `None` for those that certainly hold less often than `rate`.
    ///
    /// A candidate that has failed too often to recover is not looked at again. The candidates that
    /// are dropped do not depend on the order of the pieces: each of them would be below the rate at
    /// the end.
    pub(crate) fn count(
        &self,
        candidates: &[Candidate],
        whole: u64,
        rate: f64,
    ) -> Vec<Option<FailureCount>> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of the whole, rounded up"
        )]
        let allowed = (whole as f64 * (1.0 - rate)).ceil() as u64;
        let zero = || candidates.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (fails, failing, signatures) = (zero(), zero(), zero());
        // The unknown rows are counted, because there are mostly none.
        let (unknown, rows_unknown) = (zero(), zero());
        let rows = self.look(&self.used(candidates), |look, piece| {
            let mut kept = Vec::new();
            for (place, candidate) in candidates.iter().enumerate() {
                if fails[place].load(Ordering::Relaxed) > allowed {
                    continue;
                }
                let tally = look.tally(&candidate.literals, self.counter, piece, &mut kept);
                let left = look.rows.len() as u64 - tally.rows_known;
                if left > 0 {
                    unknown[place].fetch_add(look.weight - tally.known, Ordering::Relaxed);
                    rows_unknown[place].fetch_add(left, Ordering::Relaxed);
                }
                if tally.rows_failing > 0 {
                    fails[place].fetch_add(tally.fails, Ordering::Relaxed);
                    failing[place].fetch_add(tally.rows_failing, Ordering::Relaxed);
                    signatures[place].fetch_add(tally.signature, Ordering::Relaxed);
                }
            }
            look.rows.len() as u64
        });
        let rows: u64 = rows.into_iter().sum();
        let read = |all: &[AtomicU64], place: usize| all[place].load(Ordering::Relaxed);
        let tally = |place: usize| FailureCount {
            fails: read(&fails, place),
            known: whole - read(&unknown, place),
            rows_failing: read(&failing, place),
            rows_known: rows - read(&rows_unknown, place),
            signature: read(&signatures, place),
        };
        let kept = |tally: &FailureCount| tally.fails <= allowed && tally.rate() >= rate;
        (0..candidates.len()).map(|place| Some(tally(place)).filter(kept)).collect()
    }

    /// Which literals some candidate has.
    pub(crate) fn used(&self, candidates: &[Candidate]) -> Vec<bool> {
        let mut used = vec![false; self.literals()];
        for signed in candidates.iter().flat_map(|candidate| &candidate.literals) {
            used[usize::from(signed / 2)] = true;
        }
        used
    }
}

/// A number that tells sets apart; those of pieces are added.
fn signature(set: &[u64], piece: u64) -> u64 {
    let start = (piece + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    set.iter().enumerate().filter(|(_, word)| **word != 0).fold(0, |sum: u64, (place, word)| {
        let mixed = (word ^ start).wrapping_add(place as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum.wrapping_add((mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53 | 1))
    })
}
