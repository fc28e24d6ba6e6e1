//! How often each candidate fails: complements met, counted and weighed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use everhold_property::Library;

use super::domain::Domain;
use super::evaluate::{Bench, Coded, Column, Fails};
use super::generate::{Candidate, Signed};
use super::literal::{Literal, Operand};
use super::moments::Moments;
use super::parallel;
use super::rows::{Batch, Binding, Rows, Source, Weights};
use crate::bitmap::{self, Counter};
use crate::states::States;

/// How much of what was looked at failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
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

impl Tally {
    fn add(&mut self, other: Tally) {
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

/// What the first look at the rows tells of each literal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// Of the literal, and of its negation.
    pub(crate) tallies: [Tally; 2],
}

/// One class with everything that is needed to look at its rows.
pub(crate) struct Class<'a> {
    pub(crate) states: &'a States,
    pub(crate) domain: &'a Domain,
    pub(crate) library: &'a Library,
    pub(crate) coded: &'a Coded,
    pub(crate) source: Source<'a>,
    pub(crate) moments: &'a Moments,
    pub(crate) counter: Counter,
    /// The tuples of nodes, as many together as memory allows.
    pub(crate) batches: Vec<Vec<Vec<u32>>>,
    /// If that is all of them: their rows, and where each literal fails in each piece.
    pub(crate) kept: OnceLock<(Batch, Vec<Vec<Option<Fails>>>)>,
    /// Whether there is memory for that.
    pub(crate) keeps: bool,
}

/// The rows of a piece and where each literal fails in them.
pub(crate) struct Look<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) rows: &'a Rows,
    fails: &'a [Option<Fails>],
    /// What all rows weigh together.
    weight: u64,
}

impl Look<'_> {
    fn fails(&self, signed: Signed) -> &[u64] {
        let of = self.fails[usize::from(signed / 2)].as_ref().expect("only used literals are met");
        if signed.is_multiple_of(2) { &of.plain } else { &of.negated }
    }

    /// The rows where all these literals fail, and how many they are.
    pub(crate) fn meet(&self, literals: &[Signed], counter: Counter, kept: &mut Vec<u64>) -> u64 {
        let mut sets = [&[][..]; super::generate::LITERALS_IN_MAX];
        for (set, signed) in sets.iter_mut().zip(literals) {
            *set = self.fails(*signed);
        }
        counter.meet(&sets[..literals.len()], kept)
    }

    fn weigh(&self, set: &[u64], count: u64, counter: Counter) -> u64 {
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
        counter: Counter,
        piece: u64,
        kept: &mut Vec<u64>,
    ) -> Tally {
        let rows_failing = self.meet(literals, counter, kept);
        let (fails, signature) = match rows_failing {
            0 => (0, 0),
            _ => (self.weigh(kept, rows_failing, counter), signature(kept, piece)),
        };
        if literals.iter().all(|signed| self.is_total(*signed)) {
            let (known, rows_known) = (self.weight, self.rows.len() as u64);
            return Tally { fails, known, rows_failing, rows_known, signature };
        }
        self.add_holding(literals, kept);
        let rows_known = kept.iter().map(|word| u64::from(word.count_ones())).sum();
        let known = self.weigh(kept, rows_known, counter);
        Tally { fails, known, rows_failing, rows_known, signature }
    }

    /// Adds the rows where one of the literals holds: a disjunction is known there and where all
    /// of them fail.
    fn add_holding(&self, literals: &[Signed], known: &mut [u64]) {
        for signed in literals {
            let holds = self.fails(signed ^ 1);
            known.iter_mut().zip(holds).for_each(|(known, holds)| *known |= holds);
        }
    }

    fn is_total(&self, signed: Signed) -> bool {
        self.fails[usize::from(signed / 2)].as_ref().is_some_and(|fails| fails.total)
    }
}

impl Class<'_> {
    /// Looks at all rows piece by piece with the literals of which `used` is true.
    pub(crate) fn look<T: Send>(
        &self,
        literals: &[Literal],
        used: &[bool],
        work: impl Fn(&Look<'_>, u64) -> T + Sync,
    ) -> Vec<T> {
        let mut done = Vec::new();
        let mut before = 0;
        self.each_batch(literals, |_, batch, kept| {
            done.extend(self.look_at(batch, kept, before, literals, used, &work));
            before += batch.pieces.len() as u64;
        });
        done
    }

    /// Calls `visit` with each batch, and with where the literals fail if that is kept.
    fn each_batch(
        &self,
        literals: &[Literal],
        mut visit: impl FnMut(&[Vec<u32>], &Batch, Option<&[Vec<Option<Fails>>]>),
    ) {
        match &self.batches[..] {
            [all] if self.keeps => {
                let (batch, fails) = self.kept.get_or_init(|| self.keep(all, literals));
                visit(all, batch, Some(fails));
            }
            several => several.iter().for_each(|tuples| {
                visit(tuples, &self.source.batch(tuples), None);
            }),
        }
    }

    fn keep(&self, tuples: &[Vec<u32>], literals: &[Literal]) -> (Batch, Vec<Vec<Option<Fails>>>) {
        let batch = self.source.batch(tuples);
        let all = vec![true; literals.len()];
        let kept = parallel::map_with(
            batch.pieces.len(),
            self.source.threads,
            || self.bench(literals),
            |bench, place| fails(bench, &batch.pieces[place], literals, &all),
        );
        (batch, kept)
    }

    fn bench<'a>(&'a self, literals: &'a [Literal]) -> Bench<'a> {
        Bench::new(self.states, self.domain, literals, self.library, self.coded)
    }

    /// Looks at the rows of one batch; the first of its pieces has the number `before`.
    fn look_at<T: Send>(
        &self,
        batch: &Batch,
        kept: Option<&[Vec<Option<Fails>>]>,
        before: u64,
        literals: &[Literal],
        used: &[bool],
        work: impl Fn(&Look<'_>, u64) -> T + Sync,
    ) -> Vec<T> {
        let here = |bench: &mut Bench<'_>, place: usize| {
            let rows = &batch.pieces[place];
            let made;
            let fails = match kept {
                Some(kept) => &kept[place],
                None => {
                    made = fails(bench, rows, literals, used);
                    &made
                }
            };
            let mut look = Look { batch, rows, fails, weight: 0 };
            let all = bitmap::collect(rows.len(), |_| true);
            look.weight = look.weigh(&all, rows.len() as u64, self.counter);
            work(&look, before + place as u64)
        };
        let bench = || self.bench(literals);
        parallel::map_with(batch.pieces.len(), self.source.threads, bench, here)
    }

    /// How often each literal and its negation fail, and what all rows weigh.
    pub(crate) fn scan(&self, literals: &[Literal]) -> (Vec<Scanned>, u64) {
        let used = vec![true; literals.len()];
        let pieces = self.look(literals, &used, |look, piece| {
            let mut kept = Vec::new();
            let one = |place: usize| {
                let signed = Signed::try_from(2 * place).expect("literals of a class are few");
                let mut tally = |signed| look.tally(&[signed], self.counter, piece, &mut kept);
                Scanned { tallies: [tally(signed), tally(signed + 1)] }
            };
            ((0..literals.len()).map(one).collect::<Vec<_>>(), look.weight)
        });
        let mut all = vec![Scanned::default(); literals.len()];
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

    /// The tallies of the candidates; `None` for those that surely hold less often than `rate`.
    ///
    /// A candidate that has failed too often to recover is not looked at again. What is dropped
    /// does not depend on the order in which the pieces are looked at: each dropped one would be
    /// below the rate at the end.
    pub(crate) fn count(
        &self,
        literals: &[Literal],
        candidates: &[Candidate],
        whole: u64,
        rate: f64,
    ) -> Vec<Option<Tally>> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of the whole, rounded up"
        )]
        let allowed = (whole as f64 * (1.0 - rate)).ceil() as u64;
        let zero = || candidates.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (fails, known, failing, rows, signatures) = (zero(), zero(), zero(), zero(), zero());
        let used = used(literals.len(), candidates);
        self.look(literals, &used, |look, piece| {
            let mut kept = Vec::new();
            for (place, candidate) in candidates.iter().enumerate() {
                if fails[place].load(Ordering::Relaxed) > allowed {
                    continue;
                }
                let tally = look.tally(&candidate.literals, self.counter, piece, &mut kept);
                fails[place].fetch_add(tally.fails, Ordering::Relaxed);
                known[place].fetch_add(tally.known, Ordering::Relaxed);
                failing[place].fetch_add(tally.rows_failing, Ordering::Relaxed);
                rows[place].fetch_add(tally.rows_known, Ordering::Relaxed);
                signatures[place].fetch_add(tally.signature, Ordering::Relaxed);
            }
        });
        let read = |all: &[AtomicU64], place: usize| all[place].load(Ordering::Relaxed);
        let tally = |place: usize| Tally {
            fails: read(&fails, place),
            known: read(&known, place),
            rows_failing: read(&failing, place),
            rows_known: read(&rows, place),
            signature: read(&signatures, place),
        };
        let kept = |tally: &Tally| tally.fails <= allowed && tally.rate() >= rate;
        (0..candidates.len()).map(|place| Some(tally(place)).filter(kept)).collect()
    }
}

/// Which literals some candidate has.
pub(crate) fn used(literals: usize, candidates: &[Candidate]) -> Vec<bool> {
    let mut used = vec![false; literals];
    for signed in candidates.iter().flat_map(|candidate| &candidate.literals) {
        used[usize::from(signed / 2)] = true;
    }
    used
}

fn fails(
    bench: &mut Bench<'_>,
    rows: &Rows,
    literals: &[Literal],
    used: &[bool],
) -> Vec<Option<Fails>> {
    let mut columns: Vec<(Operand, Column)> = Vec::new();
    let of_used = literals.iter().zip(used).filter(|(_, used)| **used);
    for operand in of_used.flat_map(|(literal, _)| &literal.operands) {
        if let Err(place) = columns.binary_search_by_key(operand, |(operand, _)| *operand) {
            columns.insert(place, (*operand, bench.column(*operand, rows)));
        }
    }
    let column = |operand: &Operand| {
        let place = columns.binary_search_by_key(operand, |(operand, _)| *operand);
        &columns[place.expect("each operand has its column")].1
    };
    let one = |(place, literal): (usize, &Literal)| {
        used[place].then(|| {
            let columns: Vec<&Column> = literal.operands.iter().map(column).collect();
            bench.fails(place, &columns)
        })
    };
    literals.iter().enumerate().map(one).collect()
}

/// A number that tells sets apart; those of pieces are added.
fn signature(set: &[u64], piece: u64) -> u64 {
    let start = (piece + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    set.iter().enumerate().filter(|(_, word)| **word != 0).fold(0, |sum: u64, (place, word)| {
        let mixed = (word ^ start).wrapping_add(place as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum.wrapping_add((mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53 | 1))
    })
}

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

/// Where some candidates fail, by binding.
#[derive(Debug, Default)]
struct Marks {
    /// Binding, candidate, and how many rows of the binding fail.
    fails: Vec<(u32, u32, u32)>,
    /// For each candidate how many bindings it is known of, over all snapshots.
    known: Vec<u64>,
}

impl Class<'_> {
    /// Where and when these candidates fail.
    pub(crate) fn failing(&self, literals: &[Literal], candidates: &[Candidate]) -> Vec<Failing> {
        let offsets = offsets(self.source.timelines.snapshots());
        let used = used(literals.len(), candidates);
        let words = bitmap::words(offsets[offsets.len() - 1]);
        let empty = || Failing { snapshots: vec![0; words], ..Failing::default() };
        let all: Vec<Mutex<Failing>> = candidates.iter().map(|_| Mutex::new(empty())).collect();
        self.each_batch(literals, |tuples, batch, kept| {
            let marks = |look: &Look<'_>, _| look.marks(candidates, self.counter);
            let mut fails = Vec::new();
            for marks in self.look_at(batch, kept, 0, literals, &used, marks) {
                fails.extend(marks.fails);
                for (failing, known) in all.iter().zip(marks.known) {
                    failing.lock().expect("no other thread failed").evaluations += known;
                }
            }
            fails.sort_unstable();
            parallel::map(tuples.len(), self.source.threads, |place| {
                let own = batch.of_tuple(place, &fails);
                self.when(batch, &tuples[place], own, &offsets, &all);
            });
        });
        all.into_iter().map(|failing| failing.into_inner().expect("no thread failed")).collect()
    }

    /// Marks the snapshots in which the bindings of one tuple of nodes fail: the first binding,
    /// how many there are, and where they fail.
    fn when(
        &self,
        batch: &Batch,
        nodes: &[u32],
        (first, bindings, fails): (usize, usize, &[(u32, u32, u32)]),
        offsets: &[usize],
        all: &[Mutex<Failing>],
    ) {
        if fails.is_empty() {
            return;
        }
        let mut starts = vec![0; bindings + 1];
        fails.iter().for_each(|fail| starts[fail.0 as usize - first + 1] += 1);
        for binding in 1..starts.len() {
            starts[binding] += starts[binding - 1];
        }
        let mut spans: Vec<Vec<(usize, usize)>> = vec![Vec::new(); all.len()];
        self.source.timelines.each_span(self.domain, nodes, |span, binding| {
            let offset = offsets[span.run as usize];
            let (from, to) = (offset + span.start as usize, offset + span.end as usize);
            for (_, candidate, _) in &fails[starts[binding]..starts[binding + 1]] {
                spans[*candidate as usize].push((from, to));
            }
        });
        let failing = |of: usize| all[of].lock().expect("no other thread failed");
        for (candidate, spans) in spans.iter().enumerate().filter(|(_, spans)| !spans.is_empty()) {
            let mut failing = failing(candidate);
            spans.iter().for_each(|(from, to)| set(&mut failing.snapshots, *from, *to));
        }
        for (binding, candidate, rows) in fails {
            let count = batch.bindings[*binding as usize].lasted * u64::from(*rows);
            failing(*candidate as usize).add(nodes[0] as usize, count);
        }
    }
}

impl Failing {
    fn add(&mut self, node: usize, exceptions: u64) {
        if self.by_node.len() <= node {
            self.by_node.resize(node + 1, 0);
        }
        self.by_node[node] += exceptions;
        self.exceptions += exceptions;
    }
}

impl Batch {
    /// The first binding of a tuple of nodes, how many it has, and which of the sorted marks are
    /// theirs.
    fn of_tuple<'a>(
        &self,
        place: usize,
        marks: &'a [(u32, u32, u32)],
    ) -> (usize, usize, &'a [(u32, u32, u32)]) {
        let first = self.starts[place];
        let end = self.starts.get(place + 1).copied().unwrap_or(self.bindings.len());
        let at = |binding: usize| marks.partition_point(|mark| (mark.0 as usize) < binding);
        (first, end - first, &marks[at(first)..at(end)])
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
    fn marks(&self, candidates: &[Candidate], counter: Counter) -> Marks {
        let lasted: Vec<u64> =
            self.rows.binding.iter().map(|of| self.binding(*of).lasted).collect();
        let mut marks = Marks::default();
        let mut kept = Vec::new();
        for (candidate, place) in candidates.iter().zip(0..) {
            let count = self.meet(&candidate.literals, counter, &mut kept);
            marks.known.push(self.known(&candidate.literals, &kept, &lasted));
            if count > 0 {
                // The rows of a binding lie together.
                let failing: Vec<u32> =
                    bitmap::rows(&kept).map(|row| self.rows.binding[row]).collect();
                let rows = |rows: &[u32]| u32::try_from(rows.len()).expect("a piece has few rows");
                let same = failing.chunk_by(|a, b| a == b);
                marks.fails.extend(same.map(|same| (same[0], place, rows(same))));
            }
        }
        marks
    }

    fn binding(&self, place: u32) -> &Binding {
        &self.batch.bindings[place as usize]
    }

    /// In how many snapshots, over all rows, the disjunction is known; `kept` is where it fails.
    fn known(&self, literals: &[Signed], kept: &[u64], lasted: &[u64]) -> u64 {
        let all: u64 = lasted.iter().sum();
        if literals.iter().all(|signed| self.is_total(*signed)) {
            return all;
        }
        let mut known = kept.to_vec();
        self.add_holding(literals, &mut known);
        bitmap::rows(&known).map(|row| lasted[row]).sum()
    }
}

/// Adds a stretch to a set.
fn set(words: &mut [u64], from: usize, to: usize) {
    let (first, last) = (from / 64, (to - 1) / 64);
    let head = !0 << (from % 64);
    let tail = !0 >> (63 - (to - 1) % 64);
    if first == last {
        words[first] |= head & tail;
        return;
    }
    words[first] |= head;
    words[first + 1..last].fill(!0);
    words[last] |= tail;
}
