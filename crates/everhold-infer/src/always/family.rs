//! Rows, what may be claimed of them, and the streaming search that drops what is false.

use crate::dictionary::{Dictionary, hash_of};

use super::differences::Difference;
use super::findings::Claim;
use super::judge::{Judge, full};
use super::literal::{Context, Literal, Relation, Rows};
use super::rows::{Block, Pairs};
use super::terms::{Class, Term};
use crate::almost::parallel;

/// Blocks of the first look, spread over all rows.
const FIRST_BLOCKS: usize = 16;
/// Fewer blocks than this are not worth a thread of their own.
const BLOCKS_EACH: usize = 4;
/// How many conditions are tried in one family.
const CONDITIONS_MAX: usize = 600;

/// How the rows of a family are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `forall n in nodes`.
    One,
    /// `forall a, b in nodes where a != b`.
    Two,
    /// `forall n in nodes`, the state before and the state now.
    Steps,
    /// `on delivery`.
    Delivery,
    /// `forall n in nodes, x in n.items`; the place of the items among the terms of the node.
    Elements(Option<usize>),
    /// `forall a, b in nodes, x in a.items, y in b.items`.
    TwoElements,
}

/// Candidates over the rows of one family.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) literals: Vec<Literal>,
    /// Literals that must all be true, by place; the weaker before the stronger.
    pub(super) conditions: Vec<Vec<usize>>,
    /// For each condition the literals that follow from it as far as is known.
    pub(super) live: Vec<Vec<usize>>,
    /// For each condition the number of rows in which it is true.
    pub(super) support: Vec<u64>,
    /// For each condition a hash of these rows.
    rows_hash: Vec<u64>,
    /// How many were tried.
    pub(super) tried: u64,
    /// The number of the family.
    pub(super) family: usize,
    /// The numbers of the two sides that differ by a constant.
    pub(super) differences: Vec<Difference>,
}

impl Candidates {
    /// All that the terms of the two sides give rise to.
    pub(super) fn of(form: &Form, context: &Context<'_>) -> Candidates {
        let mut literals = Vec::new();
        let crosses = crosses(form, context);
        let roles = roles(context);
        literals.extend(crosses.iter().copied());
        let first_role = literals.len();
        literals.extend(roles.iter().copied());
        let equalities: Vec<usize> =
            (0..first_role).filter(|&i| is_condition(form, literals[i], context)).collect();
        let conditions = conditions(form, &literals, first_role, &equalities);
        let mut candidates = Candidates {
            support: vec![0; conditions.len()],
            rows_hash: vec![0; conditions.len()],
            live: Vec::new(),
            literals,
            conditions,
            tried: 0,
            family: 0,
            differences: Vec::new(),
        };
        candidates.live = (0..candidates.conditions.len())
            .map(|condition| candidates.consequents(form, condition, context))
            .collect();
        candidates.tried = candidates.live.iter().map(|live| live.len() as u64).sum();
        candidates
    }

    /// The literals worth trying below a condition.
    fn consequents(&self, form: &Form, condition: usize, context: &Context<'_>) -> Vec<usize> {
        let condition = &self.conditions[condition];
        let worth = |place: &usize| {
            let literal = self.literals[*place];
            if condition.contains(place) {
                return false;
            }
            match literal {
                Literal::Cross(relation, l, r) => {
                    let decided = condition.iter().any(|c| match self.literals[*c] {
                        // What is equal is so in all its parts.
                        Literal::Cross(_, a, b) => {
                            let (left, right) = (&context.left.terms, &context.right.terms);
                            (a, b) == (l, r)
                                || left[l].what == right[r].what && left[l].is_part_of(&left[a])
                        }
                        Literal::Left(true, a, _) => {
                            a == l
                                && relation != Relation::Equal
                                && *form != Form::Steps
                                && is_role_like(context, l)
                        }
                        _ => false,
                    });
                    let both_given = given(condition, &self.literals, true, l)
                        && given(condition, &self.literals, false, r);
                    // That two things merely differ is news only of ids, or under a condition.
                    let differ_ok = relation != Relation::Differ
                        || *form != Form::Steps && (!condition.is_empty() || is_id(context, l, r));
                    !decided && !both_given && differ_ok
                }
                Literal::Left(..) => false,
                Literal::Right(equal, term, code) => {
                    // Alone, left and right are the same state.
                    let there = given(condition, &self.literals, true, term);
                    let terms = &context.right.terms;
                    let of_equals = |c: &usize| match self.literals[*c] {
                        Literal::Cross(_, _, whole) => terms[term].is_part_of(&terms[whole]),
                        _ => false,
                    };
                    // What has a part that is there is there, and so are its other parts.
                    let has_part = |c: &usize| match self.literals[*c] {
                        Literal::Cross(_, _, part) | Literal::Right(_, part, _) => {
                            terms[part].has_root_of(&terms[term])
                        }
                        Literal::Left(_, part, _) => {
                            *form == Form::One && terms[part].has_root_of(&terms[term])
                        }
                    };
                    let there_by_part = code == Dictionary::NULL && condition.iter().any(has_part);
                    let own = there && (*form == Form::One || condition.iter().any(of_equals));
                    // What speaks of one of two nodes is said of one node.
                    let of_right = |c: &usize| matches!(self.literals[*c], Literal::Right(..));
                    let alone = *form == Form::Two && condition.iter().all(of_right);
                    !condition.is_empty()
                        && !own
                        && !alone
                        && !there_by_part
                        && !given(condition, &self.literals, false, term)
                        && (equal || code == Dictionary::NULL || *form != Form::One)
                }
            }
        };
        (0..self.literals.len()).filter(worth).collect()
    }

    /// Drops what is false in some of these rows, which count for nothing else.
    pub(super) fn refute(&mut self, pairs: &Pairs, context: &Context<'_>, threads: usize) {
        self.pass(&blocks(pairs, false), false, context, threads);
    }

    /// Judges all rows and drops what is false somewhere. A first look at some of them drops most.
    pub(super) fn judge(
        &mut self,
        pairs: &Pairs,
        both_ways: bool,
        context: &Context<'_>,
        threads: usize,
    ) {
        let all = blocks(pairs, both_ways);
        if all.len() > FIRST_BLOCKS {
            // An odd step meets both orders of the sides.
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
        // What is left does not depend on how the blocks are dealt out, nor do the counts.
        let tallies = parallel::map(stripes, threads, |stripe| {
            let mut judge = Judge::new(context, &self.literals);
            let mut tally = Tally {
                live: self.live.clone(),
                support: vec![0; self.conditions.len()],
                rows_hash: vec![0; self.conditions.len()],
            };
            // Of what is false already nothing is worth knowing.
            let open: Vec<bool> = self.live.iter().map(|live| !live.is_empty()).collect();
            for (number, block) in blocks.iter().skip(stripe).step_by(stripes) {
                self.judge_block((*number, block), &mut judge, (&open, counting), &mut tally);
            }
            tally
        });
        for tally in tallies {
            for condition in 0..self.conditions.len() {
                let live = &tally.live[condition];
                self.live[condition].retain(|place| live.binary_search(place).is_ok());
                self.support[condition] += tally.support[condition];
                let hash = &mut self.rows_hash[condition];
                *hash = hash.wrapping_add(tally.rows_hash[condition]);
            }
        }
    }

    fn judge_block(
        &self,
        (number, block): (usize, &Block<'_>),
        judge: &mut Judge<'_>,
        (open, counting): (&[bool], bool),
        tally: &mut Tally,
    ) {
        judge.begin();
        let all = full(block.len);
        for (condition, literals) in self.conditions.iter().enumerate() {
            if !open[condition] || tally.live[condition].is_empty() && !counting {
                continue;
            }
            let mut mask = all.clone();
            for literal in literals {
                let yes = judge.yes(*literal, block);
                mask.iter_mut().zip(yes).for_each(|(word, yes)| *word &= yes);
            }
            if mask.iter().all(|word| *word == 0) {
                continue;
            }
            if counting {
                let count: u64 = mask.iter().map(|word| u64::from(word.count_ones())).sum();
                tally.support[condition] += count;
                let hash = &mut tally.rows_hash[condition];
                *hash = hash.wrapping_add(hash_of(&(number, &mask)));
            }
            tally.live[condition].retain(|literal| !meet(&mask, judge.no(*literal, block)));
        }
    }

    /// The survivors that do not follow from one with fewer conditions or a stronger relation,
    /// as (condition, literal); and those that do, with what they follow from.
    pub(super) fn strongest(&self) -> (Vec<Candidate>, Vec<(Candidate, Candidate)>) {
        let (mut kept, mut implied) = (Vec::new(), Vec::new());
        for condition in 0..self.conditions.len() {
            if self.support[condition] == 0 {
                continue;
            }
            for &literal in &self.live[condition] {
                let own = Candidate { condition, literal };
                match self.stronger(own) {
                    Some(other) => implied.push((own, other)),
                    None => kept.push(own),
                }
            }
        }
        (kept, implied)
    }

    /// A survivor from which this one follows: under fewer conditions, or under others that were
    /// true in just the same rows and so say the same, as far as is known.
    fn stronger(&self, own: Candidate) -> Option<Candidate> {
        let literal = self.literals[own.literal];
        let conditions = (0..=own.condition).filter(|&other| self.is_wider(other, own.condition));
        for condition in conditions {
            let found = self.live[condition].iter().find(|&&other| {
                let same = other == own.literal && condition != own.condition;
                same || entails(self.literals[other], literal)
            });
            if let Some(&literal) = found {
                return Some(Candidate { condition, literal });
            }
        }
        None
    }
}

impl Candidates {
    /// Whether a condition is true wherever another one is, as far as is known.
    pub(super) fn is_wider(&self, wide: usize, narrow: usize) -> bool {
        let rows = |condition: usize| (self.support[condition], self.rows_hash[condition]);
        let own = &self.conditions[narrow];
        self.support[wide] > 0
            && (rows(wide) == rows(narrow)
                || self.conditions[wide].iter().all(|literal| own.contains(literal)))
    }
}

/// What some blocks leave of the candidates.
#[derive(Debug)]
struct Tally {
    live: Vec<Vec<usize>>,
    support: Vec<u64>,
    rows_hash: Vec<u64>,
}

/// A condition and what follows from it, by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) condition: usize,
    pub(super) literal: usize,
}

fn entails(strong: Literal, weak: Literal) -> bool {
    match (strong, weak) {
        (Literal::Cross(a, l, r), Literal::Cross(b, x, y)) => {
            (l, r) == (x, y) && a.implies().contains(&b)
        }
        (Literal::Right(true, a, v), Literal::Right(false, b, w)) => a == b && v != w,
        _ => false,
    }
}

/// Whether the condition fixes the value of a term.
fn given(condition: &[usize], literals: &[Literal], left: bool, term: usize) -> bool {
    condition.iter().any(|place| match literals[*place] {
        Literal::Left(true, other, _) => left && other == term,
        Literal::Right(true, other, _) => !left && other == term,
        _ => false,
    })
}

fn is_role_like(context: &Context<'_>, term: usize) -> bool {
    context.left.terms[term].is_role()
}

/// Whether two terms are names or ids, so that differing says something.
fn is_id(context: &Context<'_>, l: usize, r: usize) -> bool {
    let id = |class: Class| matches!(class, Class::Token("node" | "text" | "bytes"));
    let (l, r) = (&context.left.terms[l], &context.right.terms[r]);
    id(l.class) && id(r.class) && !l.is_role() && !r.is_role()
}

/// The relations between terms of the two sides.
fn crosses(form: &Form, context: &Context<'_>) -> Vec<Literal> {
    let mut found = Vec::new();
    for (l, left) in context.left.terms.iter().enumerate() {
        for (r, right) in context.right.terms.iter().enumerate() {
            // Within one node each pair once; over time each variable with its own past.
            let skip = match form {
                Form::One => l >= r,
                Form::Steps | Form::TwoElements => l != r,
                Form::Elements(items) => *items == Some(r),
                _ => false,
            };
            if skip || (left.is_role() != right.is_role()) {
                continue;
            }
            for &relation in Relation::between(left.class, right.class) {
                // That a size is an element of something is a coincidence of numbers.
                let one = |term: &Term| matches!(term.class, Class::Number | Class::Token(_));
                let odd = (left.is_size() || right.is_size()) && one(left) != one(right);
                // Whether elements of two nodes agree is the question; their order is not.
                let agree = matches!(relation, Relation::Equal | Relation::Differ);
                if odd || *form == Form::TwoElements && !agree {
                    continue;
                }
                let strict = matches!(relation, Relation::Less | Relation::Greater);
                if !(strict && *form == Form::Steps) {
                    found.push(Literal::Cross(relation, l, r));
                }
            }
        }
    }
    found
}

/// Values of roles, on both sides.
fn roles(context: &Context<'_>) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut add = |left: bool, term: usize, codes: Vec<u32>| {
        for code in codes.into_iter().filter(|code| *code != 0) {
            for equal in [true, false] {
                found.push(if left {
                    Literal::Left(equal, term, code)
                } else {
                    Literal::Right(equal, term, code)
                });
            }
        }
    };
    for (place, _) in context.left.terms.iter().enumerate().filter(|(_, t)| t.is_role()) {
        add(true, place, distinct(&context.left.columns[place]));
    }
    for (place, _) in context.right.terms.iter().enumerate().filter(|(_, t)| t.is_role()) {
        add(false, place, distinct(&context.right.columns[place]));
    }
    // That something is there, which sometimes is not.
    let nullable = context.right.terms.iter().enumerate().filter(|(_, term)| term.nullable);
    found.extend(nullable.map(|(place, _)| Literal::Right(false, place, Dictionary::NULL)));
    found
}

/// The codes of a column, in order.
pub(super) fn distinct(column: &[u32]) -> Vec<u32> {
    few(column, 64).unwrap_or_else(|| {
        let mut codes = column.to_vec();
        codes.sort_unstable();
        codes.dedup();
        codes
    })
}

/// The codes of a column, in order, if they are not more than so many.
pub(super) fn few(column: &[u32], max: usize) -> Option<Vec<u32>> {
    let mut seen: Vec<u32> = Vec::new();
    // What comes next is mostly what came lately.
    let mut lately = [None; 8];
    for code in column {
        if lately[(code % 8) as usize] == Some(code) {
            continue;
        }
        lately[(code % 8) as usize] = Some(code);
        if let Err(place) = seen.binary_search(code) {
            if seen.len() == max {
                return None;
            }
            seen.insert(place, *code);
        }
    }
    Some(seen)
}

/// Whether an equality may be a condition: of one variable in both rows, and not of a role.
fn is_condition(form: &Form, literal: Literal, context: &Context<'_>) -> bool {
    let Literal::Cross(Relation::Equal, l, r) = literal else { return false };
    let (left, right) = (&context.left.terms[l], &context.right.terms[r]);
    matches!(form, Form::Two | Form::Steps | Form::TwoElements)
        && left.what == right.what
        && !left.is_role()
        && matches!(left.class, Class::Number | Class::Token(_))
}

/// Conjunctions of up to three literals: a role on each side, and an equality.
fn conditions(
    form: &Form,
    literals: &[Literal],
    first_role: usize,
    equalities: &[usize],
) -> Vec<Vec<usize>> {
    let is = |left: bool| {
        move |place: &usize| match literals[*place] {
            Literal::Left(true, ..) => left,
            Literal::Right(true, ..) => !left,
            _ => false,
        }
    };
    let lefts: Vec<usize> = (first_role..literals.len()).filter(is(true)).collect();
    let rights: Vec<usize> = match form {
        // Both sides are the same node in the same state.
        Form::One => Vec::new(),
        _ => (first_role..literals.len()).filter(is(false)).collect(),
    };
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    let singles = lefts.iter().chain(&rights).chain(equalities);
    found.extend(singles.map(|literal| vec![*literal]));
    let mut pairs = Vec::new();
    if *form == Form::TwoElements {
        for (place, e) in equalities.iter().enumerate() {
            pairs.extend(equalities[place + 1..].iter().map(|f| vec![*e, *f]));
        }
    }
    for l in &lefts {
        pairs.extend(rights.iter().map(|r| vec![*l, *r]));
        pairs.extend(equalities.iter().map(|e| vec![*l, *e]));
    }
    pairs.extend(rights.iter().flat_map(|r| equalities.iter().map(move |e| vec![*r, *e])));
    found.extend(pairs);
    if *form == Form::Two || *form == Form::Delivery {
        for l in &lefts {
            for r in &rights {
                found.extend(equalities.iter().map(|e| vec![*l, *r, *e]));
            }
        }
    }
    found.truncate(CONDITIONS_MAX);
    found
}

/// Whether two sets of rows have one in common.
fn meet(a: &[u64], b: &[u64]) -> bool {
    let common = |(a, b): (&[u64], &[u64])| a.iter().zip(b).fold(0, |all, (a, b)| all | a & b);
    a.chunks(32).zip(b.chunks(32)).any(|parts| common(parts) != 0)
}

/// The blocks with their numbers, perhaps in both orders of the sides.
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

/// How the sides of a form are called, if both are nodes.
pub(super) fn rows(form: &Form) -> Rows {
    use crate::variables::Row;
    let row = |name: &str| Row::Value(name.to_owned());
    let (left, right) = match form {
        Form::One | Form::Steps => (row("n"), row("n")),
        Form::Delivery => (row("sender"), row("receiver")),
        Form::Elements(_) => (row("x"), row("n")),
        Form::TwoElements => (row("x"), row("y")),
        Form::Two => (row("a"), row("b")),
    };
    Rows { left, right, left_is_past: *form == Form::Steps }
}

impl Candidates {
    /// A candidate by what it says.
    pub(super) fn key(&self, candidate: Candidate) -> (Vec<Literal>, Literal) {
        let mut condition: Vec<Literal> = self.conditions[candidate.condition]
            .iter()
            .map(|place| self.literals[*place])
            .collect();
        condition.sort_unstable();
        (condition, self.literals[candidate.literal])
    }

    /// A candidate among those of all families.
    pub(super) fn claim(&self, candidate: Candidate) -> Claim {
        Claim { family: self.family, candidate }
    }

    /// What survived here, if this did or something stronger.
    pub(super) fn covers(&self, (condition, literal): &(Vec<Literal>, Literal)) -> Option<Claim> {
        let is_wider = |other: &usize| {
            self.support[*other] > 0
                && self.conditions[*other].iter().all(|c| condition.contains(&self.literals[*c]))
        };
        (0..self.conditions.len()).filter(is_wider).find_map(|other| {
            let found = self.live[other].iter().find(|place| {
                let strong = self.literals[**place];
                strong == *literal || entails(strong, *literal)
            })?;
            Some(self.claim(Candidate { condition: other, literal: *found }))
        })
    }

    /// That, under a condition, a term of the left side is at most (or at least) one of the right.
    pub(super) fn ordered(
        &self,
        condition: &[usize],
        l: usize,
        r: usize,
        up: bool,
    ) -> Option<Claim> {
        let wanted = if up { Relation::AtMost } else { Relation::AtLeast };
        let condition: Vec<Literal> = condition.iter().map(|place| self.literals[*place]).collect();
        self.covers(&(condition, Literal::Cross(wanted, l, r)))
    }

    /// The same within a node, where each pair of terms is written in one order.
    pub(super) fn ordered_within(&self, a: usize, b: usize, up: bool) -> Option<Claim> {
        if a < b { self.ordered(&[], a, b, up) } else { self.ordered(&[], b, a, !up) }
    }

    /// That two terms of a node are in a relation, whatever the condition.
    pub(super) fn related(&self, relation: Relation, a: usize, b: usize) -> Option<Claim> {
        let literal = if a < b {
            Literal::Cross(relation, a, b)
        } else {
            Literal::Cross(relation.mirrored(), b, a)
        };
        self.covers(&(Vec::new(), literal))
    }

    /// One more than the largest number of a term.
    pub(super) fn terms(&self) -> usize {
        let largest = self.literals.iter().map(|literal| match literal {
            Literal::Cross(_, l, r) => *l.max(r),
            Literal::Left(_, term, _) | Literal::Right(_, term, _) => *term,
        });
        largest.max().map_or(0, |largest| largest + 1)
    }
}
