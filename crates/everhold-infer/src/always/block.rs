//! Judges comparisons on blocks of rows.

use hashbrown::HashTable;
use std::collections::BTreeMap;

use super::comparison::{Comparison, Context};
use super::rows::{Block, Half};
use super::terms::Side;
use crate::bitmap;
use crate::dictionary::hash_of;
use crate::evaluate::{Cell, Truth, TruthBits, Vectors};
use crate::relation::Relation;

/// A comparison that is evaluated; every other comparison is the negation of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Base {
    Equal(usize, usize),
    Less(usize, usize),
    Greater(usize, usize),
    LeftIs(usize, Cell),
    RightIs(usize, Cell),
    Contained(Relation, usize, usize),
}

/// Judges the comparisons of a family, one block of rows at a time.
#[derive(Debug)]
pub(super) struct BlockJudge<'a> {
    context: &'a Context<'a>,
    vectors: Vectors,
    bases: Vec<Base>,
    /// For each comparison its base, and whether it is the negation of the base.
    plan: Vec<(usize, bool)>,
    /// The truth of each base in this block, if it was evaluated.
    truths: Vec<Option<TruthBits>>,
    left: Loaded,
    right: Loaded,
    /// The relations of containers that were decided before.
    known: HashTable<(Key, Truth)>,
}

/// A relation and two values.
type Key = (Relation, Cell, Cell);

/// The columns of one side, as they are in this block.
#[derive(Debug, Default)]
struct Loaded {
    /// For each term its codes, where rows lie apart.
    codes: Vec<Vec<u32>>,
    /// Whether they are of this block.
    fresh: Vec<bool>,
}

impl Loaded {
    fn of(side: &Side) -> Loaded {
        let terms = side.terms.len();
        Loaded { codes: vec![Vec::new(); terms], fresh: vec![false; terms] }
    }

    fn load(&mut self, term: usize, side: &Side, half: Half<'_>) {
        if let Half::Rows(rows) = half
            && !self.fresh[term]
        {
            let column = &side.columns[term];
            self.codes[term].clear();
            self.codes[term].extend(rows.iter().map(|row| column[*row as usize]));
            self.fresh[term] = true;
        }
    }

    fn codes<'s>(&'s self, term: usize, side: &'s Side, half: Half<'_>) -> &'s [u32] {
        match half {
            Half::Range { begin, end } => &side.columns[term][begin..end],
            Half::Rows(_) => &self.codes[term],
        }
    }
}

impl<'a> BlockJudge<'a> {
    pub(super) fn new(context: &'a Context<'a>, comparisons: &[Comparison]) -> BlockJudge<'a> {
        BlockJudge::with(Vectors::widest(), context, comparisons)
    }

    fn with(
        vectors: Vectors,
        context: &'a Context<'a>,
        comparisons: &[Comparison],
    ) -> BlockJudge<'a> {
        let (mut bases, mut places) = (Vec::new(), BTreeMap::new());
        let plan = comparisons.iter().map(|comparison| {
            let (base, opposite) = base_of(*comparison);
            let place = *places.entry(base).or_insert_with(|| {
                bases.push(base);
                bases.len() - 1
            });
            (place, opposite)
        });
        let plan = plan.collect();
        let truths = bases.iter().map(|_| None).collect();
        let (left, right) = (Loaded::of(context.left), Loaded::of(context.right));
        BlockJudge { context, vectors, bases, plan, truths, left, right, known: HashTable::new() }
    }

    /// Starts a new block of rows.
    pub(super) fn begin(&mut self) {
        self.truths.fill_with(|| None);
        self.left.fresh.fill(false);
        self.right.fresh.fill(false);
    }

    /// The rows of the block in which a comparison is true.
    pub(super) fn yes(&mut self, comparison: usize, block: &Block<'_>) -> &[u64] {
        let (base, opposite) = self.plan[comparison];
        let truth = self.truth(base, block);
        if opposite { &truth.no } else { &truth.yes }
    }

    /// The rows of the block in which a comparison is false.
    pub(super) fn no(&mut self, comparison: usize, block: &Block<'_>) -> &[u64] {
        let (base, opposite) = self.plan[comparison];
        let truth = self.truth(base, block);
        if opposite { &truth.yes } else { &truth.no }
    }

    fn truth(&mut self, base: usize, block: &Block<'_>) -> &TruthBits {
        if self.truths[base].is_none() {
            self.truths[base] = Some(self.work_out(self.bases[base], block));
        }
        self.truths[base].as_ref().expect("just worked out")
    }

    fn work_out(&mut self, base: Base, block: &Block<'_>) -> TruthBits {
        let context = self.context;
        let (left, right) = match base {
            Base::Equal(l, r)
            | Base::Less(l, r)
            | Base::Greater(l, r)
            | Base::Contained(_, l, r) => (Some(l), Some(r)),
            Base::LeftIs(l, _) => (Some(l), None),
            Base::RightIs(r, _) => (None, Some(r)),
        };
        left.inspect(|l| self.left.load(*l, context.left, block.left));
        right.inspect(|r| self.right.load(*r, context.right, block.right));
        let l = left.map_or(&[][..], |l| self.left.codes(l, context.left, block.left));
        let r = right.map_or(&[][..], |r| self.right.codes(r, context.right, block.right));
        let vectors = self.vectors;
        let yes = match base {
            Base::Equal(..) => vectors.equal(l, r),
            Base::Less(..) => vectors.less(l, r),
            Base::Greater(..) => vectors.less(r, l),
            Base::LeftIs(_, cell) => vectors.equal_to(l, cell.raw()),
            Base::RightIs(_, cell) => vectors.equal_to(r, cell.raw()),
            Base::Contained(relation, a, b) => {
                let (left, right) = (&context.left.columns[a], &context.right.columns[b]);
                let known = &mut self.known;
                let mut bits = TruthBits::default();
                bits.clear();
                bits.extend(block.len, |row| {
                    contained(known, context, (relation, left.cell(l[row]), right.cell(r[row])))
                });
                return bits;
            }
        };
        let mut truth = TruthBits::known(yes, block.len);
        if let Base::Less(a, b) | Base::Greater(a, b) = base {
            // Null has no place in an order.
            let (a, b) = (&context.left.terms[a], &context.right.terms[b]);
            for (term, codes) in [(a, l), (b, r)] {
                if term.nullable {
                    truth.forget(&vectors.equal_to(codes, 0));
                }
            }
        }
        truth
    }
}

fn base_of(comparison: Comparison) -> (Base, bool) {
    use Relation as R;
    match comparison {
        Comparison::Left(equal, term, cell) => (Base::LeftIs(term, cell), !equal),
        Comparison::Right(equal, term, cell) => (Base::RightIs(term, cell), !equal),
        Comparison::Cross(relation, l, r) => match relation {
            R::Equal => (Base::Equal(l, r), false),
            R::Differ => (Base::Equal(l, r), true),
            R::Less => (Base::Less(l, r), false),
            R::AtLeast => (Base::Less(l, r), true),
            R::Greater => (Base::Greater(l, r), false),
            R::AtMost => (Base::Greater(l, r), true),
            R::NotIn => (Base::Contained(R::In, l, r), true),
            R::Lacks => (Base::Contained(R::Holds, l, r), true),
            other => (Base::Contained(other, l, r), false),
        },
    }
}

/// A relation of two values, looked up if it was decided before.
fn contained(known: &mut HashTable<(Key, Truth)>, context: &Context<'_>, key: Key) -> Truth {
    let hash = |(relation, l, r): &Key| hash_of(&(*relation as u8, *l, *r));
    if let Some((_, truth)) = known.find(hash(&key), |(known, _)| *known == key) {
        return *truth;
    }
    let (relation, l, r) = key;
    let truth = context.relate(relation, l, r);
    known.insert_unique(hash(&key), (key, truth), |(key, _)| hash(key));
    truth
}

/// The set of all rows of a block of this many.
pub(super) fn full(rows: usize) -> Vec<u64> {
    let mut all = Vec::new();
    bitmap::complement(&vec![0; bitmap::words(rows)], rows, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::always::rows::Pairs;
    use crate::always::terms::{Side, Term, What};
    use crate::dictionary::{Code, Dictionary};
    use crate::evaluate::{Column, NumberCode, Numbers};
    use crate::relation::Class;
    use everhold_trace::Value;

    /// A side with a column of each class, some of them null; rows lie in a random order.
    fn side(values: &mut Dictionary, seed: u64) -> (Side, Vec<u32>) {
        let mut state = seed;
        let mut below = move |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
            ((state >> 33) % end) as u32
        };
        let list = |bits: u32| Value::list((0..3_i64).filter(|bit| bits >> bit & 1 == 1));
        let set = |bits: u32| Value::set((0..3_i64).filter(|bit| bits >> bit & 1 == 1));
        let lists: Vec<u32> = (0..8).map(|bits| values.code(&list(bits)).0).collect();
        let sets: Vec<u32> = (0..8).map(|bits| values.code(&set(bits)).0).collect();
        let mut column = |codes: &[u32]| -> Vec<u32> {
            (0..300).map(|_| codes[below(codes.len() as u64) as usize]).collect()
        };
        let nullable: Vec<u32> = lists.iter().copied().chain([0]).collect();
        let columns = vec![
            Column::Numbers(column(&[0, 1, 2, 3])),
            Column::Numbers(column(&[1, 2, 3])),
            Column::Values(column(&nullable)),
            Column::Values(column(&sets)),
        ];
        let rows = (0..300).map(|_| below(300)).collect();
        let classes = [Class::Number, Class::Number, Class::List, Class::Set];
        let term = |(class, column): (Class, &Column)| Term {
            what: What::Node,
            class,
            distinct: 4,
            nullable: column.contains(&0),
            names_nodes: false,
        };
        let terms = classes.into_iter().zip(&columns).map(term).collect();
        (Side { terms, columns, groups: vec![0; 300], ..Side::default() }, rows)
    }

    /// The bits of every relation, by vectors and without, in ranges and in single rows, are what
    /// the relation is of the two values.
    #[test]
    fn bits_are_what_each_row_says() {
        let mut values = Dictionary::default();
        let ((left, l), (right, r)) = (side(&mut values, 1), side(&mut values, 2));
        let numbers = Numbers::From(0);
        let context = Context { left: &left, right: &right, values: &values, numbers: &numbers };
        let mut comparisons = vec![
            Comparison::Left(true, 0, Cell::Number(NumberCode(2))),
            Comparison::Right(false, 3, Cell::Value(Code(3))),
        ];
        for (a, x) in left.terms.iter().enumerate() {
            for (b, y) in right.terms.iter().enumerate() {
                let between = x.class.relations_to(y.class).iter();
                comparisons.extend(between.map(|relation| Comparison::Cross(*relation, a, b)));
            }
        }
        assert!(comparisons.len() > 30);
        let pairs = [Pairs::listed(l, r, 0), Pairs::beside(vec![(0, 7)], 290)];
        for (pairs, comparer) in pairs.iter().flat_map(|pairs| {
            [Vectors::widest(), Vectors::none()].map(|comparer| (pairs, comparer))
        }) {
            let mut judge = BlockJudge::with(comparer, &context, &comparisons);
            let block = pairs.blocks()[0];
            judge.begin();
            for (place, comparison) in comparisons.iter().enumerate() {
                let (yes, no) =
                    (judge.yes(place, &block).to_vec(), judge.no(place, &block).to_vec());
                for (row, (l, r)) in pairs.iter().enumerate() {
                    let bit = |bits: &[u64]| bits[row / 64] >> (row % 64) & 1 == 1;
                    let found = (bit(&yes), bit(&no));
                    let truth = slow(*comparison, &context, l as usize, r as usize);
                    let expected = (truth == Truth::True, truth == Truth::False);
                    assert_eq!(found, expected, "{comparison:?} in row {row}");
                }
            }
        }
    }

    fn slow(comparison: Comparison, context: &Context<'_>, l: usize, r: usize) -> Truth {
        let cell =
            |side: &Side, term: usize, row: usize| side.columns[term].cell(side.columns[term][row]);
        match comparison {
            Comparison::Left(equal, term, of) => {
                ((cell(context.left, term, l) == of) == equal).into()
            }
            Comparison::Right(equal, term, of) => {
                ((cell(context.right, term, r) == of) == equal).into()
            }
            Comparison::Cross(relation, a, b) => {
                context.relate(relation, cell(context.left, a, l), cell(context.right, b, r))
            }
        }
    }
}
