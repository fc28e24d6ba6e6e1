//! The proposals of a family: comparisons of its two sides, and the conditions to try them under.

use super::candidates::Candidates;
use super::comparison::{Comparison, Context};
use super::family::Form;
use super::terms::{Side, Term, What};
use crate::evaluate::{Cell, distinct};
use crate::relation::{Class, Relation, TokenKind};

/// How many conditions are tried in one family.
const CONDITIONS_MAX: usize = 600;

/// All comparisons that the terms of the two sides give rise to, and all conditions: sets of
/// comparisons by place, the weaker before the stronger.
pub(super) fn all(form: &Form, context: &Context<'_>) -> (Vec<Comparison>, Vec<Vec<usize>>) {
    let mut comparisons = crosses(form, context);
    let first_role = comparisons.len();
    comparisons.extend(roles(context));
    let equalities: Vec<usize> =
        (0..first_role).filter(|&i| is_condition(form, comparisons[i], context)).collect();
    let conditions = conditions(form, &comparisons, first_role, &equalities);
    (comparisons, conditions)
}

/// The comparisons worth trying under a condition, by place.
pub(super) fn consequents(
    candidates: &Candidates,
    form: &Form,
    condition: usize,
    context: &Context<'_>,
) -> Vec<usize> {
    let below = Below {
        form,
        condition: &candidates.conditions[condition],
        comparisons: &candidates.comparisons,
        context,
    };
    (0..candidates.comparisons.len()).filter(|place| below.is_worth_trying(*place)).collect()
}

/// A condition under which comparisons are proposed.
struct Below<'a> {
    form: &'a Form,
    condition: &'a [usize],
    comparisons: &'a [Comparison],
    context: &'a Context<'a>,
}

impl Below<'_> {
    /// The comparisons of the condition.
    fn parts(&self) -> impl Iterator<Item = Comparison> {
        self.condition.iter().map(|place| self.comparisons[*place])
    }

    fn is_worth_trying(&self, place: usize) -> bool {
        if self.condition.contains(&place) {
            return false;
        }
        match self.comparisons[place] {
            Comparison::Cross(relation, l, r) => self.relation_is_open(relation, l, r),
            Comparison::Left(..) => false,
            Comparison::Right(equal, term, cell) => self.role_is_open(equal, term, cell),
        }
    }

    /// Whether the condition leaves open if two terms are in a relation.
    fn relation_is_open(&self, relation: Relation, l: usize, r: usize) -> bool {
        let (left, right) = (&self.context.left.terms, &self.context.right.terms);
        let decided = self.parts().any(|part| match part {
            // What a variable does while another one stays as it is tells little of a protocol: most
            // steps change few variables.
            Comparison::Cross(..) if *self.form == Form::Steps => true,
            // Equal values have equal parts.
            Comparison::Cross(_, a, b) => {
                (a, b) == (l, r) || left[l].what == right[r].what && left[l].is_part_of(&left[a])
            }
            Comparison::Left(true, a, _) => {
                a == l
                    && relation != Relation::Equal
                    && *self.form != Form::Steps
                    && left[l].is_role()
            }
            _ => false,
        });
        let both_given = self.gives(true, l) && self.gives(false, r);
        // A mere difference says something only of ids, or under a condition.
        let may_differ = relation != Relation::Differ
            || *self.form != Form::Steps
                && (!self.condition.is_empty() || is_id(self.context, l, r));
        !decided && !both_given && may_differ
    }

    /// Whether the condition leaves open if a term of the right side has a value.
    fn role_is_open(&self, equal: bool, term: usize, cell: Cell) -> bool {
        let terms = &self.context.right.terms;
        // With one node, the left and the right side are the same state.
        let there = self.gives(true, term);
        let of_equals = |part: Comparison| match part {
            Comparison::Cross(_, _, whole) => terms[term].is_part_of(&terms[whole]),
            _ => false,
        };
        // If one part of a variable is not null, neither are the variable and its other parts.
        let has_part = |part: Comparison| match part {
            Comparison::Cross(_, _, part) | Comparison::Right(_, part, _) => {
                terms[part].has_root_of(&terms[term])
            }
            Comparison::Left(_, part, _) => {
                *self.form == Form::One && terms[part].has_root_of(&terms[term])
            }
        };
        let there_by_part = cell.is_null() && self.parts().any(has_part);
        let own = there && (*self.form == Form::One || self.parts().any(of_equals));
        // A claim about one of two nodes belongs to the family of one node.
        let of_right = |part: Comparison| matches!(part, Comparison::Right(..));
        let alone = *self.form == Form::Two && self.parts().all(of_right);
        // A role that stays while a variable stays is true of most steps.
        let crosses = |part: Comparison| matches!(part, Comparison::Cross(..));
        let stays = *self.form == Form::Steps && self.parts().any(crosses);
        !self.condition.is_empty()
            && !own
            && !alone
            && !stays
            && !there_by_part
            && !self.gives(false, term)
            && (equal || cell.is_null() || *self.form != Form::One)
    }

    /// Whether the condition fixes the value of a term of the left or the right side.
    fn gives(&self, left: bool, term: usize) -> bool {
        self.parts().any(|part| match part {
            Comparison::Left(true, other, _) => left && other == term,
            Comparison::Right(true, other, _) => !left && other == term,
            _ => false,
        })
    }
}

/// Whether two terms are names or ids, so that differing says something.
fn is_id(context: &Context<'_>, l: usize, r: usize) -> bool {
    let id = |class: Class| {
        matches!(class, Class::Token(TokenKind::Node | TokenKind::Text | TokenKind::Bytes))
    };
    let (l, r) = (&context.left.terms[l], &context.right.terms[r]);
    id(l.class) && id(r.class) && !l.is_role() && !r.is_role()
}

/// The relations between terms of the two sides.
fn crosses(form: &Form, context: &Context<'_>) -> Vec<Comparison> {
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
            for &relation in left.class.relations_to(right.class) {
                // A size that is an element of something is a coincidence of numbers.
                let sizes = left.is_size() || right.is_size();
                let odd = sizes && left.class.is_single() != right.class.is_single();
                // Elements of two nodes may agree or not; their order says nothing.
                let agree = matches!(relation, Relation::Equal | Relation::Differ);
                if odd
                    || *form == Form::TwoElements && !agree
                    || is_of_containers(form, relation, (left, right), context)
                {
                    continue;
                }
                let strict = matches!(relation, Relation::Less | Relation::Greater);
                if !(strict && *form == Form::Steps) {
                    found.push(Comparison::Cross(relation, l, r));
                }
            }
        }
    }
    found
}

/// Whether a relation of whole elements says what a relation of their containers says: that they are
/// a part of another one, or share nothing with it.
fn is_of_containers(
    form: &Form,
    relation: Relation,
    (left, right): (&Term, &Term),
    context: &Context<'_>,
) -> bool {
    let whole = |term: &Term| matches!(&term.what, What::Variable(v) if v.path.is_empty());
    match form {
        Form::Elements(Some(items)) => {
            let among = matches!(relation, Relation::In | Relation::NotIn);
            whole(left) && among && context.right.terms[*items].class == right.class
        }
        Form::TwoElements => whole(left) && whole(right) && relation == Relation::Differ,
        _ => false,
    }
}

/// The values of roles on both sides, and that a term of the right side is not null.
fn roles(context: &Context<'_>) -> Vec<Comparison> {
    let mut found = Vec::new();
    for (place, cell) in role_values(context.left) {
        found.extend([true, false].map(|equal| Comparison::Left(equal, place, cell)));
    }
    for (place, cell) in role_values(context.right) {
        found.extend([true, false].map(|equal| Comparison::Right(equal, place, cell)));
    }
    let nullable = context.right.terms.iter().enumerate().filter(|(_, term)| term.nullable);
    let null = |place: usize| context.right.columns[place].cell(0);
    found.extend(nullable.map(|(place, _)| Comparison::Right(false, place, null(place))));
    found
}

/// Each value of each role of a side, with the place of the role among the terms.
pub(super) fn role_values(side: &Side) -> impl Iterator<Item = (usize, Cell)> {
    let roles = side.terms.iter().zip(&side.columns).enumerate();
    roles.filter(|(_, (term, _))| term.is_role()).flat_map(|(place, (_, column))| {
        let codes = distinct(column).into_iter().filter(|code| *code != 0);
        codes.map(move |code| (place, column.cell(code)))
    })
}

/// Whether an equality may be a condition: of one variable in both rows, and not of a role.
fn is_condition(form: &Form, comparison: Comparison, context: &Context<'_>) -> bool {
    let Comparison::Cross(Relation::Equal, l, r) = comparison else { return false };
    let (left, right) = (&context.left.terms[l], &context.right.terms[r]);
    matches!(form, Form::Two | Form::Steps | Form::TwoElements)
        && left.what == right.what
        && !left.is_role()
        && left.class.is_single()
}

/// Conjunctions of up to three comparisons: a role on each side, and an equality.
fn conditions(
    form: &Form,
    comparisons: &[Comparison],
    first_role: usize,
    equalities: &[usize],
) -> Vec<Vec<usize>> {
    let is = |left: bool| {
        move |place: &usize| match comparisons[*place] {
            Comparison::Left(true, ..) => left,
            Comparison::Right(true, ..) => !left,
            _ => false,
        }
    };
    let lefts: Vec<usize> = (first_role..comparisons.len()).filter(is(true)).collect();
    let rights: Vec<usize> = match form {
        // Both sides are the same node in the same state.
        Form::One => Vec::new(),
        _ => (first_role..comparisons.len()).filter(is(false)).collect(),
    };
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    let singles = lefts.iter().chain(&rights).chain(equalities);
    found.extend(singles.map(|comparison| vec![*comparison]));
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
