//! Judges literals on blocks of rows.

use hashbrown::HashTable;
use std::collections::BTreeMap;

use super::compare::{Bits, Comparer};
use super::literal::{Context, Literal, Relation};
use super::rows::{Block, Half};
use super::terms::{Class, Side};
use crate::dictionary::hash_of;

/// What has to be compared; other literals are the opposite of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Base {
    Equal(usize, usize),
    Less(usize, usize),
    Greater(usize, usize),
    LeftIs(usize, u32),
    RightIs(usize, u32),
    Contained(Relation, usize, usize),
}

/// The rows in which something is true, and those in which it is false; unknown is neither.
#[derive(Debug)]
struct Truth {
    yes: Bits,
    no: Bits,
}

/// Judges the literals of a family, one block of rows at a time.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    context: &'a Context<'a>,
    comparer: Comparer,
    bases: Vec<Base>,
    /// For each literal its base, and whether it is the opposite of it.
    plan: Vec<(usize, bool)>,
    /// What is known of the bases in this block.
    truths: Vec<Option<Truth>>,
    left: Loaded,
    right: Loaded,
    /// Container relations that were worked out before.
    known: HashTable<(Key, Option<bool>)>,
}

/// A relation, whether it is of a number, and two codes.
type Key = (Relation, bool, u32, u32);

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

impl<'a> Judge<'a> {
    pub(super) fn new(context: &'a Context<'a>, literals: &[Literal]) -> Judge<'a> {
        Judge::with(Comparer::widest(), context, literals)
    }

    fn with(comparer: Comparer, context: &'a Context<'a>, literals: &[Literal]) -> Judge<'a> {
        let (mut bases, mut places) = (Vec::new(), BTreeMap::new());
        let plan = literals.iter().map(|literal| {
            let (base, opposite) = base_of(*literal);
            let place = *places.entry(base).or_insert_with(|| {
                bases.push(base);
                bases.len() - 1
            });
            (place, opposite)
        });
        let plan = plan.collect();
        let truths = bases.iter().map(|_| None).collect();
        let (left, right) = (Loaded::of(context.left), Loaded::of(context.right));
        Judge { context, comparer, bases, plan, truths, left, right, known: HashTable::new() }
    }

    /// Turns to other rows.
    pub(super) fn begin(&mut self) {
        self.truths.fill_with(|| None);
        self.left.fresh.fill(false);
        self.right.fresh.fill(false);
    }

    /// The rows of the block in which a literal is true.
    pub(super) fn yes(&mut self, literal: usize, block: &Block<'_>) -> &[u64] {
        let (base, opposite) = self.plan[literal];
        let truth = self.truth(base, block);
        if opposite { &truth.no } else { &truth.yes }
    }

    /// The rows of the block in which a literal is false.
    pub(super) fn no(&mut self, literal: usize, block: &Block<'_>) -> &[u64] {
        let (base, opposite) = self.plan[literal];
        let truth = self.truth(base, block);
        if opposite { &truth.yes } else { &truth.no }
    }

    fn truth(&mut self, base: usize, block: &Block<'_>) -> &Truth {
        if self.truths[base].is_none() {
            self.truths[base] = Some(self.work_out(self.bases[base], block));
        }
        self.truths[base].as_ref().expect("just worked out")
    }

    fn work_out(&mut self, base: Base, block: &Block<'_>) -> Truth {
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
        let compare = self.comparer;
        let yes = match base {
            Base::Equal(..) => compare.equal(l, r),
            Base::Less(..) => compare.less(l, r),
            Base::Greater(..) => compare.less(r, l),
            Base::LeftIs(_, code) => compare.equal_to(l, code),
            Base::RightIs(_, code) => compare.equal_to(r, code),
            Base::Contained(relation, a, b) => {
                let classes = (context.left.terms[a].class, context.right.terms[b].class);
                let known = &mut self.known;
                let truth =
                    |(l, r): (&u32, &u32)| contained(known, context, relation, classes, (*l, *r));
                return split(block.len, l.iter().zip(r).map(truth));
            }
        };
        let mut truth = Truth { no: opposite(&yes, block.len), yes };
        if let Base::Less(a, b) | Base::Greater(a, b) = base {
            // Null has no place in an order.
            let (a, b) = (&context.left.terms[a], &context.right.terms[b]);
            for (term, codes) in [(a, l), (b, r)] {
                if term.nullable {
                    let null = compare.equal_to(codes, 0);
                    truth.yes.iter_mut().zip(&null).for_each(|(word, null)| *word &= !null);
                    truth.no.iter_mut().zip(&null).for_each(|(word, null)| *word &= !null);
                }
            }
        }
        truth
    }
}

fn base_of(literal: Literal) -> (Base, bool) {
    use Relation as R;
    match literal {
        Literal::Left(equal, term, code) => (Base::LeftIs(term, code), !equal),
        Literal::Right(equal, term, code) => (Base::RightIs(term, code), !equal),
        Literal::Cross(relation, l, r) => match relation {
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

fn contained(
    known: &mut HashTable<(Key, Option<bool>)>,
    context: &Context<'_>,
    relation: Relation,
    classes: (Class, Class),
    (l, r): (u32, u32),
) -> Option<bool> {
    // Codes of numbers and of other values overlap, so the class of the item is part of the key.
    let number = classes.0 == Class::Number || classes.1 == Class::Number;
    let key = (relation, number, l, r);
    let hash = |(relation, number, l, r): &Key| hash_of(&(*relation as u8, *number, *l, *r));
    if let Some((_, truth)) = known.find(hash(&key), |(known, _)| *known == key) {
        return *truth;
    }
    let truth = context.relate(relation, classes, l, r);
    known.insert_unique(hash(&key), (key, truth), |(key, _)| hash(key));
    truth
}

/// Bits of the true and of the false ones.
fn split(rows: usize, truths: impl Iterator<Item = Option<bool>>) -> Truth {
    let words = rows.div_ceil(64);
    let mut truth = Truth { yes: vec![0; words], no: vec![0; words] };
    for (row, known) in truths.enumerate() {
        truth.yes[row / 64] |= u64::from(known == Some(true)) << (row % 64);
        truth.no[row / 64] |= u64::from(known == Some(false)) << (row % 64);
    }
    truth
}

/// All rows of so many.
pub(super) fn full(rows: usize) -> Bits {
    opposite(&vec![0; rows.div_ceil(64)], rows)
}

fn opposite(bits: &[u64], rows: usize) -> Bits {
    let mut bits: Bits = bits.iter().map(|word| !word).collect();
    if let Some(last) = bits.last_mut()
        && !rows.is_multiple_of(64)
    {
        *last &= (1 << (rows % 64)) - 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::always::literal::Context;
    use crate::always::rows::Pairs;
    use crate::always::terms::{Numbers, Side, Term, What};
    use crate::dictionary::Dictionary;
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
        let lists: Vec<u32> = (0..8).map(|bits| values.code(&list(bits))).collect();
        let sets: Vec<u32> = (0..8).map(|bits| values.code(&set(bits))).collect();
        let mut column = |codes: &[u32]| -> Vec<u32> {
            (0..300).map(|_| codes[below(codes.len() as u64) as usize]).collect()
        };
        let nullable: Vec<u32> = lists.iter().copied().chain([0]).collect();
        let columns =
            vec![column(&[0, 1, 2, 3]), column(&[1, 2, 3]), column(&nullable), column(&sets)];
        let rows = (0..300).map(|_| below(300)).collect();
        let classes = [Class::Number, Class::Number, Class::List, Class::Set];
        let term = |(class, column): (Class, &Vec<u32>)| Term {
            what: What::Node,
            class,
            distinct: 4,
            nullable: column.contains(&0),
            names_nodes: false,
        };
        let terms = classes.into_iter().zip(&columns).map(term).collect();
        (Side { terms, columns, groups: vec![0; 300], episodes: Vec::new() }, rows)
    }

    /// The bits of every relation, by vectors and without, in ranges and in single rows, are what
    /// the relation is of the two values.
    #[test]
    fn bits_are_what_each_row_says() {
        let mut values = Dictionary::default();
        let ((left, l), (right, r)) = (side(&mut values, 1), side(&mut values, 2));
        let numbers = Numbers::From(0);
        let context = Context { left: &left, right: &right, values: &values, numbers: &numbers };
        let mut literals = vec![Literal::Left(true, 0, 2), Literal::Right(false, 1, 3)];
        for (a, x) in left.terms.iter().enumerate() {
            for (b, y) in right.terms.iter().enumerate() {
                let between = Relation::between(x.class, y.class).iter();
                literals.extend(between.map(|relation| Literal::Cross(*relation, a, b)));
            }
        }
        assert!(literals.len() > 30);
        let pairs = [Pairs::listed(l, r, 0), Pairs::beside(vec![(0, 7)], 290)];
        for (pairs, comparer) in pairs.iter().flat_map(|pairs| {
            [Comparer::widest(), Comparer::plain()].map(|comparer| (pairs, comparer))
        }) {
            let mut judge = Judge::with(comparer, &context, &literals);
            let block = pairs.blocks()[0];
            judge.begin();
            for (place, literal) in literals.iter().enumerate() {
                let (yes, no) =
                    (judge.yes(place, &block).to_vec(), judge.no(place, &block).to_vec());
                for (row, (l, r)) in pairs.iter().enumerate() {
                    let bit = |bits: &[u64]| bits[row / 64] >> (row % 64) & 1 == 1;
                    let found = (bit(&yes), bit(&no));
                    let truth = slow(*literal, &context, l as usize, r as usize);
                    let expected = (truth == Some(true), truth == Some(false));
                    assert_eq!(found, expected, "{literal:?} in row {row}");
                }
            }
        }
    }

    fn slow(literal: Literal, context: &Context<'_>, l: usize, r: usize) -> Option<bool> {
        let (left, right) = (context.left, context.right);
        match literal {
            Literal::Left(equal, term, code) => Some((left.columns[term][l] == code) == equal),
            Literal::Right(equal, term, code) => Some((right.columns[term][r] == code) == equal),
            Literal::Cross(relation, a, b) => {
                let classes = (left.terms[a].class, right.terms[b].class);
                context.relate(relation, classes, left.columns[a][l], right.columns[b][r])
            }
        }
    }
}
