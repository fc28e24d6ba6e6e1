//! Typed templates over the variables of a class: first literals, then disjunctions of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everhold_property::{Library, Type};
use everhold_trace::Value;

use super::Almost;
use super::domain::Domain;
use super::literal::{Literal, Operand, Test};
use super::names::{is_wanted, name};
use super::predicate::{PARAMS_MAX, Predicate};
use crate::dictionary::{Code, Dictionary};
use crate::relation::Relation;
use crate::states::States;
use crate::variables::Variable;

/// A text with more different values than this is compared, but not to constants.
const CONSTANTS_MAX: usize = 6;
/// The same for numbers, which are seldom names of something.
const NUMBERS_MAX: usize = 3;
/// The most literals of one class; the longest ones are left out first.
const LITERALS_MAX: usize = 2000;
/// Ways to give arguments to a predicate of the user; a further parameter is given to the first.
const ARGUMENTS_MAX: usize = 20_000;
/// Values of which it is asked whether two variables share one.
const SHARED_MAX: usize = 4096;

/// Variables by name with their sub types: those of different sub types are not compared.
pub(crate) type Subtypes = BTreeMap<String, String>;

/// The values of an operand, before any row is looked at.
struct Profile {
    operand: Operand,
    ty: Type,
    /// Its first values, in the order of their codes.
    values: BTreeSet<Code>,
    /// Least and greatest integer.
    ints: Option<(i64, i64)>,
    subtype: Option<String>,
    /// Whether it is the size of a container.
    is_size: bool,
}

impl Profile {
    fn is_const(&self) -> bool {
        self.values.len() == 1
    }
}

/// All literals of a class.
pub(crate) fn literals(
    domain: &Domain,
    states: &States,
    library: &Library,
    options: &Almost,
) -> Vec<Literal> {
    let profiles: Vec<Profile> = operands(domain, states, &options.variables)
        .into_iter()
        .map(|o| profile(o, domain, states, &options.subtypes))
        .collect();
    let mut found = BTreeSet::new();
    if domain.global {
        found.extend(whole(&profiles, domain, &options.predicates));
        if found.is_empty() {
            return Vec::new();
        }
    }
    for profile in &profiles {
        found.extend(unary(profile, states));
    }
    for (place, left) in profiles.iter().enumerate() {
        for right in &profiles[place + 1..] {
            found.extend(binary(left, right));
        }
    }
    found.extend(functions(&profiles, library));
    let mut found: Vec<Literal> = found.into_iter().map(Literal::ordered).collect();
    // Swapped literals of a symmetric class come together, so that both or none are kept.
    found.sort_by_key(|literal| (literal.cost(), literal.clone()));
    found.dedup();
    found.truncate(LITERALS_MAX);
    found
}

fn operands(domain: &Domain, states: &States, wanted: &[String]) -> Vec<Operand> {
    let variables = |node: usize, table: usize| {
        let kind = &states.variables.kinds[domain.kinds[node]];
        let fits = move |(place, variable): &(usize, &Variable)| {
            variable.ty != Type::Any && is_wanted(&name(kind, table, *place), wanted)
        };
        kind.tables[table].variables.iter().enumerate().filter(fits)
    };
    let mut found: Vec<Operand> = (0..domain.kinds.len()).map(Operand::Node).collect();
    for node in 0..domain.kinds.len() {
        found.extend(variables(node, 0).map(|(variable, _)| Operand::State { node, variable }));
    }
    for (range, of) in domain.ranges.iter().enumerate() {
        let items = variables(of.node, of.table);
        found.extend(items.map(|(variable, _)| Operand::Item { range, variable }));
    }
    let maps: Vec<(usize, usize, &Type)> = (0..domain.kinds.len())
        .flat_map(|node| variables(node, 0).map(move |(variable, v)| (node, variable, &v.ty)))
        .collect();
    for (node, map, ty) in maps {
        let Type::Map(keys, _) = ty else { continue };
        found.extend(lookups(node, map, keys, domain, states));
    }
    found
}

/// Lookups in a map: by other nodes, and by keys and elements of other containers.
fn lookups(node: usize, map: usize, keys: &Type, domain: &Domain, states: &States) -> Vec<Operand> {
    let mut found = Vec::new();
    if matches!(keys, Type::Node(_)) {
        let others = (0..domain.kinds.len()).map(|key| Operand::AtNode { node, map, key });
        found.extend(others);
    }
    for (range, of) in domain.ranges.iter().enumerate() {
        let table = &states.variables.kinds[domain.kinds[of.node]].tables[of.table];
        let own = of.node == node && table.origin.container() == Some((0, map));
        for (key, variable) in table.variables.iter().enumerate() {
            let whole = variable.path.is_empty() || variable.is_key() && variable.path.len() == 1;
            if whole && !own && variable.ty == *keys {
                found.push(Operand::AtItem { node, map, range, key });
            }
        }
    }
    found
}

fn profile(operand: Operand, domain: &Domain, states: &States, subtypes: &Subtypes) -> Profile {
    let of = |node: usize, table: usize, variable: usize| {
        let kind = domain.kinds[node];
        (
            states.kinds[kind].column(table, variable),
            name(&states.variables.kinds[kind], table, variable),
        )
    };
    let (column, name): (&[Code], String) = match operand {
        Operand::State { node, variable } => of(node, 0, variable),
        Operand::Item { range, variable } => {
            of(domain.ranges[range].node, domain.ranges[range].table, variable)
        }
        Operand::AtNode { node, map, .. } | Operand::AtItem { node, map, .. } => {
            let kind = &states.variables.kinds[domain.kinds[node]];
            (&[], format!("{}.value", name(kind, 0, map)))
        }
        Operand::Node(_) | Operand::Global => (&[], String::new()),
    };
    let mut values = BTreeSet::new();
    let mut ints: Option<(i64, i64)> = None;
    for code in column {
        if values.len() < SHARED_MAX {
            values.insert(*code);
        }
        if let Value::Int(number) = states.values.value(*code) {
            let (low, high) = ints.unwrap_or((*number, *number));
            ints = Some((low.min(*number), high.max(*number)));
        }
    }
    let ty = operand.ty(domain, states).clone();
    let is_size = name.ends_with(".len");
    // A container may be told apart by what it holds.
    let held = if matches!(ty, Type::Map(..)) { "key" } else { "value" };
    let subtype = subtypes.get(&name).or_else(|| subtypes.get(&format!("{name}.{held}"))).cloned();
    Profile { operand, ty, values, ints, subtype, is_size }
}

fn unary(profile: &Profile, states: &States) -> Vec<Literal> {
    let one = |test: Test| Literal { test, operands: vec![profile.operand] };
    let mut found = Vec::new();
    if profile.ty == Type::Bool {
        found.push(one(Test::True));
    }
    if profile.ints.is_some_and(|(low, high)| low < 0 && 0 <= high) {
        found.push(one(Test::Negative));
    }
    if profile.values.contains(&Dictionary::NULL) {
        found.push(one(Test::Is(Dictionary::NULL)));
    }
    if let Type::Variant(variants) = &profile.ty {
        found.extend(variants.keys().map(|name| one(Test::Variant(name.clone()))));
    }
    let few = (2..=CONSTANTS_MAX).contains(&profile.values.len());
    for code in &profile.values {
        let constant = match states.values.value(*code) {
            Value::Text(_) => few && profile.ty == Type::Text,
            // Programs often treat zero as a special case.
            Value::Int(number) => {
                let few = (2..=NUMBERS_MAX).contains(&profile.values.len());
                few && profile.ty == Type::Int && !profile.is_size || *number == 0
            }
            _ => false,
        };
        if constant {
            found.push(one(Test::Is(*code)));
        }
    }
    found
}

fn binary(left: &Profile, right: &Profile) -> Vec<Literal> {
    use Relation as R;
    let two = |relation: Relation, a: &Profile, b: &Profile| Literal {
        test: Test::Compare(relation),
        operands: vec![a.operand, b.operand],
    };
    if let (Some(a), Some(b)) = (&left.subtype, &right.subtype)
        && a != b
    {
        return Vec::new();
    }
    if left.is_const() && right.is_const() {
        return Vec::new();
    }
    let both = |relation: Relation| [two(relation, left, right), two(relation, right, left)];
    let mut found = Vec::new();
    match (&left.ty, &right.ty) {
        (Type::Null, _) | (_, Type::Null) => {}
        (Type::Set(a), Type::Set(b)) if a.overlaps(b) => {
            found.extend(both(R::Subset));
            found.push(two(R::Disjoint, left, right));
            found.push(two(R::Equal, left, right));
        }
        (Type::List(a), Type::List(b)) if a.overlaps(b) => {
            found.extend(both(R::Prefix));
            found.extend(both(R::Subsequence));
            found.push(two(R::Equal, left, right));
        }
        (Type::Int | Type::Float, Type::Int | Type::Float)
            if are_measures_alike(left, right) && ranges_meet(left, right) =>
        {
            found.push(two(R::Equal, left, right));
            found.extend([R::Less, R::AtMost].map(|relation| two(relation, left, right)));
        }
        (Type::Int | Type::Float, Type::Int | Type::Float) => {}
        (Type::Node(_), Type::Node(_)) => found.push(two(R::Equal, left, right)),
        (a, b) if *a == *b && values_meet(left, right) => found.push(two(R::Equal, left, right)),
        _ => {}
    }
    for (item, container) in [(left, right), (right, left)] {
        let (Type::List(of) | Type::Set(of) | Type::Map(of, _)) = &container.ty else { continue };
        let nodes = matches!((&**of, &item.ty), (Type::Node(_), Type::Node(_)));
        // An element in its own container is constant, which the scan of the rows finds out.
        if nodes || **of == item.ty && !item.is_size {
            found.push(two(R::In, item, container));
        }
    }
    found
}

/// Numbers are compared with numbers of the same node, and with the same variable of another;
/// sizes only with the size of the same container, and with those of the same node.
fn are_measures_alike(left: &Profile, right: &Profile) -> bool {
    match (left.operand, right.operand) {
        (Operand::State { node: a, variable: x }, Operand::State { node: b, variable: y }) => {
            a == b && left.is_size == right.is_size || x == y
        }
        (Operand::Item { variable: x, range: a }, Operand::Item { variable: y, range: b }) => {
            !left.is_size && !right.is_size && (x == y || a == b)
        }
        _ => !left.is_size && !right.is_size,
    }
}

fn ranges_meet(left: &Profile, right: &Profile) -> bool {
    match (left.ints, right.ints) {
        (Some((a, b)), Some((c, d))) => a <= d && c <= b,
        _ => true,
    }
}

/// Whether two variables ever had a value in common; a lookup may have.
fn values_meet(left: &Profile, right: &Profile) -> bool {
    left.values.is_empty()
        || right.values.is_empty()
        || left.values.len() >= SHARED_MAX
        || right.values.len() >= SHARED_MAX
        || left.values.iter().any(|code| *code != Dictionary::NULL && right.values.contains(code))
}

/// The functions of the user on all operands of the right types.
fn functions(profiles: &[Profile], library: &Library) -> Vec<Literal> {
    let mut found = Vec::new();
    for name in library.function_names() {
        let Some(function) = library.function(name) else { continue };
        let signature = function.signature();
        if signature.result != Type::Bool || !(1..=PARAMS_MAX).contains(&signature.params.len()) {
            continue;
        }
        let literal = |operands| Literal { test: Test::Function(name.to_owned()), operands };
        found.extend(arguments(profiles, signature.params.iter()).into_iter().map(literal));
    }
    found
}

/// The predicates of the user over the whole state, where they speak of all variables of the class.
fn whole(profiles: &[Profile], domain: &Domain, predicates: &[Predicate]) -> Vec<Literal> {
    let mut found = Vec::new();
    for predicate in predicates {
        let shared = Arc::new(predicate.clone());
        let literal = |mut operands: Vec<Operand>| {
            operands.push(Operand::Global);
            Literal { test: Test::Global(Arc::clone(&shared)), operands }
        };
        found.extend(arguments(profiles, predicate.types()).into_iter().map(literal));
    }
    found.retain(|literal: &Literal| {
        literal.nodes(domain).count_ones() as usize == domain.kinds.len()
            && literal.ranges().count_ones() as usize == domain.ranges.len()
    });
    found
}

/// All ways to give different operands to parameters of these types.
fn arguments<'a>(
    profiles: &[Profile],
    params: impl Iterator<Item = &'a Type>,
) -> Vec<Vec<Operand>> {
    let mut tuples = vec![Vec::new()];
    for param in params {
        let fits = |profile: &&Profile| {
            *param == Type::Any || profile.ty != Type::Null && param.overlaps(&profile.ty)
        };
        let longer = |tuple: &Vec<Operand>| {
            let free = profiles.iter().filter(fits).map(|profile| profile.operand);
            free.filter(|operand| !tuple.contains(operand))
                .map(|operand| [&tuple[..], &[operand]].concat())
                .collect::<Vec<_>>()
        };
        tuples = tuples.iter().flat_map(longer).take(ARGUMENTS_MAX).collect();
    }
    tuples
}

/// A literal or its negation: twice the place of the literal, and 1 more for the negation.
pub(crate) type Signed = u16;

/// The most literals of a property.
pub(crate) const LITERALS_IN_MAX: usize = 4;

/// A disjunction of literals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) literals: Vec<Signed>,
}

/// Forms disjunctions of the literals that are left.
pub(crate) struct Former<'a> {
    pub(crate) domain: &'a Domain,
    pub(crate) literals: &'a [Literal],
    /// The literals to use, by place.
    pub(crate) used: &'a [usize],
}

impl<'a> Former<'a> {
    /// The single literals.
    pub(crate) fn singles(&self) -> Vec<Candidate> {
        let signed = self.used.iter().flat_map(|place| signs(*place));
        let singles = signed.map(|literal| Candidate { literals: vec![literal] });
        singles.filter(|candidate| self.is_whole(candidate)).collect()
    }

    /// At most `most` disjunctions of two literals, the shortest first.
    pub(crate) fn pairs(&self, most: usize) -> Vec<Candidate> {
        let mut by_cost: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for (first, second) in self.whole_pairs() {
            let cost = self.literals[first].cost() + self.literals[second].cost();
            by_cost.entry(cost).or_default().push((first, second));
        }
        let mut found = Vec::new();
        for (first, second) in by_cost.into_values().flatten() {
            found.extend(self.signed(first, second));
            if found.len() >= most {
                break;
            }
        }
        found.truncate(most);
        found
    }

    /// The number of disjunctions of two literals, counted up to `most`.
    pub(crate) fn count_pairs(&self, most: usize) -> usize {
        self.whole_pairs().flat_map(|(first, second)| self.signed(first, second)).take(most).count()
    }

    /// Two literals each that together speak of all variables, by place.
    fn whole_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let after = |(at, first): (usize, &'a usize)| {
            self.used[at + 1..].iter().map(|second| (*first, *second))
        };
        self.used.iter().enumerate().flat_map(after).filter(|(first, second)| {
            let (a, b) = (&self.literals[*first], &self.literals[*second]);
            let plain = Candidate { literals: [*first, *second].map(|at| signs(at)[0]).to_vec() };
            !a.same_operands(b) && self.is_whole(&plain)
        })
    }

    /// Two literals and their negations, where that is not the same with the nodes swapped.
    fn signed(&self, first: usize, second: usize) -> impl Iterator<Item = Candidate> {
        let pairs = signs(first).into_iter().flat_map(move |a| signs(second).map(|b| [a, b]));
        let candidates = pairs.map(|literals| Candidate { literals: literals.to_vec() });
        candidates.filter(|candidate| self.is_first(candidate))
    }

    /// At most `most` disjunctions with one literal more than these.
    pub(crate) fn longer(&self, shorter: &[Candidate], most: usize) -> Vec<Candidate> {
        let mut found = BTreeSet::new();
        for candidate in shorter {
            for place in self.used {
                let known = |signed: &Signed| {
                    let other = &self.literals[usize::from(*signed / 2)];
                    usize::from(*signed / 2) == *place
                        || other.same_operands(&self.literals[*place])
                };
                if candidate.literals.iter().any(known) {
                    continue;
                }
                for signed in signs(*place) {
                    let mut literals = candidate.literals.clone();
                    literals.push(signed);
                    literals.sort_unstable();
                    let candidate = Candidate { literals };
                    if self.is_whole(&candidate) && self.is_first(&candidate) {
                        found.insert(candidate);
                    }
                }
            }
            if found.len() >= most {
                break;
            }
        }
        found.into_iter().take(most).collect()
    }

    /// Whether each variable of the class is spoken of; otherwise it belongs to another class.
    fn is_whole(&self, candidate: &Candidate) -> bool {
        let literals = || candidate.literals.iter().map(|s| &self.literals[usize::from(s / 2)]);
        let nodes = literals().fold(0, |bits, literal| bits | literal.nodes(self.domain));
        let ranges = literals().fold(0, |bits, literal| bits | literal.ranges());
        nodes.count_ones() as usize == self.domain.kinds.len()
            && (!self.domain.global || literals().any(Literal::is_global))
            && self.is_connected(candidate)
            && (ranges.count_ones() as usize == self.domain.ranges.len() || self.is_link_only())
    }

    /// Whether the literals are related: one of them is about two nodes, or all of them make the same
    /// claim about different nodes.
    fn is_connected(&self, candidate: &Candidate) -> bool {
        let literals = || candidate.literals.iter().map(|s| &self.literals[usize::from(s / 2)]);
        let bound = if self.domain.link.is_some() { 1 } else { self.domain.kinds.len() };
        bound == 1
            || literals().any(|literal| literal.nodes(self.domain).count_ones() > 1)
            || self.domain.is_symmetric()
                && literals().all(|literal| literals().any(|other| literal.swapped() == *other))
    }

    /// The element variable of a link is spoken of by way of the node it names.
    fn is_link_only(&self) -> bool {
        self.domain.link.is_some_and(|link| link.table > 0)
    }

    /// Whether it comes first of itself and the same with the two nodes swapped.
    fn is_first(&self, candidate: &Candidate) -> bool {
        if !self.domain.is_symmetric() {
            return true;
        }
        let sorted = |swap: bool| {
            let of = |signed: &Signed| {
                let literal = &self.literals[usize::from(signed / 2)];
                (if swap { literal.swapped() } else { literal.clone() }, signed % 2)
            };
            let mut literals: Vec<_> = candidate.literals.iter().map(of).collect();
            literals.sort();
            literals
        };
        sorted(false) <= sorted(true)
    }
}

fn signs(place: usize) -> [Signed; 2] {
    let place = Signed::try_from(place).expect("literals of a class are few");
    [2 * place, 2 * place + 1]
}
