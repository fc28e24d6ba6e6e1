//! Literals on the rows of a class, by codes: the truth for two values is decided only once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everhold_property::Type;
use everhold_trace::{NodeId, Value};

use super::decide::Decider;
use super::global::GlobalStates;
use super::literal::{Operand, Test};
use super::predicate::PARAMS_MAX;
use super::rows::{FEW, Rows};
use crate::bitmap;
use crate::dictionary::{Code, Dictionary};
use crate::evaluate::{Truth, TruthBits};
use crate::relation::Relation;
use crate::states::States;

/// Lookups by code: node ids, integers and global states.
#[derive(Clone, Debug)]
pub(crate) struct Coded {
    /// The codes of node ids; an id that no state mentions has a code that no value has.
    nodes: Vec<Code>,
    /// The integers among the values; `None` for other values.
    ints: Vec<Option<i64>>,
    /// The whole states.
    globals: GlobalStates,
}

impl Coded {
    pub(crate) fn of(states: &States, globals: GlobalStates) -> Coded {
        let nodes = states.runs.iter().map(|run| run.nodes.len()).max().unwrap_or(0);
        let nodes = u32::try_from(nodes).expect("node ids are 32 bits");
        let code = |id: u32| {
            let met = states.values.find(&Value::Node(NodeId(id)));
            met.unwrap_or(Code::of_unmentioned(NodeId(id)))
        };
        let ints = states.values.codes().map(|code| states.values.value(code).as_int()).collect();
        Coded { nodes: (0..nodes).map(code).collect(), ints, globals }
    }

    pub(crate) fn globals(&self) -> &GlobalStates {
        &self.globals
    }

    /// The codes of the nodes, by their ids.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Code> {
        self.nodes.iter().copied()
    }

    pub(crate) fn node(&self, node: u32) -> Code {
        self.nodes[node as usize]
    }

    pub(crate) fn value<'a>(&self, code: Code, values: &'a Dictionary) -> Cow<'a, Value> {
        match code.index() < values.len() {
            true => Cow::Borrowed(values.value(code)),
            false => Cow::Owned(Value::Node(code.unmentioned())),
        }
    }
}

/// How the literals of a class are evaluated, decided before any row is looked at.
pub(crate) struct Plan<'a> {
    pub(crate) decider: Decider<'a>,
    operands: Vec<(Operand, Option<Known>)>,
    /// For each literal the places of its operands, and how it is evaluated.
    ways: Vec<(Vec<usize>, Way)>,
    /// For each literal whether it reads elements: the others are the same in all rows of a
    /// binding.
    by_row: Vec<bool>,
}

/// The values of an operand of a local state, an element or a node.
struct Known {
    /// Its code by the number of the state, element or node.
    codes: Vec<Code>,
    /// Its distinct codes, and for each number the place of its own among them.
    values: Vec<Code>,
    places: Vec<u32>,
}

/// How a literal is evaluated.
enum Way {
    /// Equal by code.
    Same,
    /// Sets of few different elements, as bits, by the places of their values.
    Sets { subset: bool, sets: [Vec<u64>; 2] },
    /// The values are so few that each combination has its place in a table of this many.
    Table(usize),
    /// Integers, `<` or `<=`.
    Ordered { or_equal: bool },
    /// Recent decisions are kept in a cache.
    Lately,
}

/// Combinations of values of a literal that have a table, which fills as they are met.
const TABLE_MAX: usize = 1 << 18;
/// Slots of what was decided lately, a power of two.
const LATELY: usize = 1 << 13;

impl Known {
    fn of(operand: Operand, decider: &Decider<'_>) -> Option<Known> {
        let Decider { states, domain, coded, .. } = *decider;
        let column = |node: usize, table: usize, variable: usize| {
            states.kinds[domain.kinds[node]].column(table, variable).to_vec()
        };
        let codes = match operand {
            Operand::Node(_) => coded.nodes().collect(),
            Operand::State { node, variable } => column(node, 0, variable),
            Operand::Item { range, variable } => {
                column(domain.ranges[range].node, domain.ranges[range].table, variable)
            }
            Operand::AtNode { .. } | Operand::AtItem { .. } | Operand::Global => return None,
        };
        let mut values = codes.clone();
        values.sort_unstable();
        values.dedup();
        let place = |code| values.binary_search(code).expect("each code is among them");
        let places = codes.iter().map(place).map(|place| u32::try_from(place).expect("codes are"));
        Some(Known { places: places.collect(), codes, values })
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(decider: Decider<'a>) -> Plan<'a> {
        let mut all: Vec<Operand> =
            decider.literals.iter().flat_map(|literal| literal.operands.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let known = |operand: &Operand| (*operand, Known::of(*operand, &decider));
        let operands: Vec<(Operand, Option<Known>)> = all.iter().map(known).collect();
        let way = |literal: usize| {
            let place = |operand| all.binary_search(operand).expect("all were listed");
            let places: Vec<usize> = decider.literals[literal].operands.iter().map(place).collect();
            let way = way(literal, &decider, &places, &operands);
            (places, way)
        };
        let ways = (0..decider.literals.len()).map(way).collect();
        let by_row = decider.literals.iter().map(|literal| literal.ranges() != 0).collect();
        Plan { decider, operands, ways, by_row }
    }
}

fn way(
    literal: usize,
    decider: &Decider<'_>,
    places: &[usize],
    operands: &[(Operand, Option<Known>)],
) -> Way {
    let of = &decider.literals[literal];
    let ty = |operand: &Operand| operand.ty(decider.domain, decider.states);
    // Numbers are equal by size, and a float may be equal to an integer.
    let as_codes = |operand: &Operand| !matches!(ty(operand), Type::Float | Type::Any);
    let known: Vec<Option<&Known>> =
        places.iter().map(|place| operands[*place].1.as_ref()).collect();
    let values = known.iter().map(|known| known.map_or(usize::MAX, |known| known.values.len()));
    let combinations = values.fold(1, usize::saturating_mul);
    match (&of.test, &known[..]) {
        (Test::Compare(Relation::Equal), _) if of.operands.iter().all(as_codes) => Way::Same,
        (_, [_] | [_, _]) if combinations <= TABLE_MAX => Way::Table(combinations),
        (Test::Compare(relation @ (Relation::Less | Relation::AtMost)), _)
            if of.operands.iter().all(|operand| *ty(operand) == Type::Int) =>
        {
            Way::Ordered { or_equal: *relation == Relation::AtMost }
        }
        (Test::Compare(relation @ (Relation::Subset | Relation::Disjoint)), [Some(a), Some(b)]) => {
            let subset = *relation == Relation::Subset;
            sets([a, b], decider).map_or(Way::Lately, |sets| Way::Sets { subset, sets })
        }
        _ => Way::Lately,
    }
}

/// The values of two operands as bits, if all are sets, of at most 64 elements in all.
fn sets(known: [&Known; 2], decider: &Decider<'_>) -> Option<[Vec<u64>; 2]> {
    let set = |code: &Code| match decider.states.values.value(*code) {
        Value::Set(set) => Some(set),
        _ => None,
    };
    let mut elements: BTreeMap<&Value, u64> = BTreeMap::new();
    for code in known.iter().flat_map(|known| &known.values) {
        for element in set(code)? {
            let next = elements.len();
            elements.entry(element).or_insert(1_u64.checked_shl(u32::try_from(next).ok()?)?);
        }
    }
    // A float may be equal to an integer.
    if elements.keys().any(|element| matches!(element, Value::Float(_))) {
        return None;
    }
    let bits = |code: &Code| {
        set(code).into_iter().flatten().fold(0, |bits, element| bits | elements[element])
    };
    Some(known.map(|known| known.values.iter().map(bits).collect()))
}

/// An operand in all bindings, or in all rows, of a piece.
#[derive(Default)]
struct Column {
    codes: Vec<Code>,
    /// The places of the codes among the values of the operand.
    places: Vec<u32>,
}

/// The codes of the operands of a literal.
type Key = [Code; PARAMS_MAX + 1];

/// Evaluates the literals of one class on rows, piece after piece; one a thread.
pub(crate) struct Bench<'a> {
    plan: &'a Plan<'a>,
    pub(crate) rows: Rows,
    /// The operands of literals that read no elements, and of those that do.
    columns: [Vec<Column>; 2],
    /// Where each literal fails: among the rows, or among the bindings if it reads no elements.
    pub(crate) fails: Vec<TruthBits>,
    /// The latter among the rows, too.
    pub(crate) spread: Vec<TruthBits>,
    /// For each literal what is known of each combination of values, or was decided lately.
    tables: Vec<Vec<Option<Truth>>>,
    lately: Vec<Vec<(Key, Truth)>>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(plan: &'a Plan<'a>) -> Bench<'a> {
        let literals = plan.ways.len();
        let columns = || plan.operands.iter().map(|_| Column::default()).collect();
        Bench {
            plan,
            rows: Rows::default(),
            columns: [columns(), columns()],
            fails: vec![TruthBits::default(); literals],
            spread: vec![TruthBits::default(); literals],
            tables: vec![Vec::new(); literals],
            lately: vec![Vec::new(); literals],
        }
    }

    /// Finds out where those literals fail of which `used` is true.
    pub(crate) fn evaluate(&mut self, used: &[bool]) {
        for column in self.columns.iter_mut().flatten() {
            column.codes.clear();
            column.places.clear();
        }
        for (literal, used) in used.iter().enumerate() {
            self.fails[literal].clear();
            if *used {
                self.fill(literal);
                self.one(literal);
            }
        }
    }

    /// Makes the columns that a literal needs, if they are not there yet.
    fn fill(&mut self, literal: usize) {
        let (operands, way) = &self.plan.ways[literal];
        let by_place = matches!(way, Way::Table(_) | Way::Sets { .. });
        let by_row = self.plan.is_by_row(literal, &self.rows);
        for place in operands {
            let (operand, known) = &self.plan.operands[*place];
            let column = &mut self.columns[usize::from(by_row)][*place];
            let filled =
                if by_place { !column.places.is_empty() } else { !column.codes.is_empty() };
            if filled {
                continue;
            }
            let Some(known) = known else {
                // Only operands that are known have a table or are sets.
                self.plan.decider.codes(*operand, by_row, &self.rows, &mut column.codes);
                continue;
            };
            let numbers = match *operand {
                Operand::Node(node) => &self.rows.nodes[node],
                Operand::State { node, .. } => &self.rows.states[node],
                Operand::Item { range, .. } => &self.rows.items[range],
                _ => unreachable!("{operand:?} is of more than one"),
            };
            let spread = by_row && !matches!(operand, Operand::Item { .. });
            let rows = spread.then_some(&self.rows);
            match by_place {
                true => look_up(numbers, &known.places, rows, &mut column.places),
                false => look_up(numbers, &known.codes, rows, &mut column.codes),
            }
        }
    }

    fn one(&mut self, literal: usize) {
        let (operands, way) = &self.plan.ways[literal];
        let by_row = self.plan.is_by_row(literal, &self.rows);
        let columns = &self.columns[usize::from(by_row)];
        let columns: Vec<&Column> = operands.iter().map(|place| &columns[*place]).collect();
        let rows = if by_row { self.rows.len() } else { self.rows.binding.len() };
        let decider = &self.plan.decider;
        let fails = &mut self.fails[literal];
        match (way, &columns[..]) {
            (Way::Same, [a, b]) => fails.zip(&a.codes, &b.codes, |a, b| a == b),
            (Way::Sets { subset, sets: [x, y] }, [a, b]) => {
                let bits = |row: usize| (x[a.places[row] as usize], y[b.places[row] as usize]);
                fails.extend(rows, |row| match bits(row) {
                    (a, b) if *subset => (a & !b == 0).into(),
                    (a, b) => (a & b == 0).into(),
                });
            }
            (Way::Ordered { or_equal }, [a, b]) => {
                let ints = &decider.coded.ints;
                let int = |column: &Column, row: usize| ints[column.codes[row].index()];
                fails.extend(rows, |row| {
                    let known = int(a, row).zip(int(b, row));
                    known.map(|(a, b)| a < b || *or_equal && a == b).into()
                });
            }
            (Way::Table(size), columns) => {
                let table = &mut self.tables[literal];
                table.resize(*size, None);
                by_table(literal, self.plan, columns, table, fails);
            }
            (_, columns) => {
                let known = &mut self.lately[literal];
                known.resize(LATELY, ([Code(u32::MAX); PARAMS_MAX + 1], Truth::Unknown));
                let mut key = [Code(u32::MAX - 1); PARAMS_MAX + 1];
                fails.extend(rows, |row| {
                    let codes = columns.iter().map(|column| column.codes[row]);
                    key.iter_mut().zip(codes).for_each(|(key, code)| *key = code);
                    let slot = &mut known[slot(&key[..columns.len()])];
                    if slot.0 != key {
                        *slot = (key, decider.decide(literal, &key[..columns.len()]));
                    }
                    slot.1
                });
            }
        }
    }
}

/// The values of these states, elements or nodes by number, repeated for each of `rows` if given.
fn look_up<T: Copy>(numbers: &[u32], of: &[T], rows: Option<&Rows>, into: &mut Vec<T>) {
    let values = numbers.iter().map(|number| of[*number as usize]);
    match rows {
        Some(rows) => rows.spread(values, into),
        None => into.extend(values),
    }
}

/// Evaluates a literal by a table of all combinations of values, each decided when first met.
fn by_table(
    literal: usize,
    plan: &Plan<'_>,
    columns: &[&Column],
    table: &mut [Option<Truth>],
    fails: &mut TruthBits,
) {
    let known = |operand: usize| {
        let place = plan.ways[literal].0[operand];
        plan.operands[place].1.as_ref().expect("a table has values that are known")
    };
    match columns {
        [a] => {
            let of = known(0);
            fails.extend(a.places.len(), |row| {
                let at = a.places[row] as usize;
                *table[at].get_or_insert_with(|| plan.decider.decide(literal, &[of.values[at]]))
            });
        }
        [a, b] => {
            let (of, with) = (known(0), known(1));
            let width = with.values.len();
            fails.extend(a.places.len(), |row| {
                let (x, y) = (a.places[row] as usize, b.places[row] as usize);
                let decide = || plan.decider.decide(literal, &[of.values[x], with.values[y]]);
                *table[x * width + y].get_or_insert_with(decide)
            });
        }
        _ => unreachable!("a table has one operand or two"),
    }
}

impl Plan<'_> {
    /// Makes of where literals fail among bindings where they fail among rows.
    pub(crate) fn spread(
        &self,
        rows: &Rows,
        fails: &[TruthBits],
        used: &[bool],
        into: &mut [TruthBits],
    ) {
        for (literal, used) in used.iter().enumerate() {
            if *used && !self.is_by_row(literal, rows) {
                let (of, into) = (&fails[literal], &mut into[literal]);
                bitmap::spread(&of.no, &rows.times, &mut into.no);
                match of.total {
                    true => bitmap::complement(&into.no, rows.len(), &mut into.yes),
                    false => bitmap::spread(&of.yes, &rows.times, &mut into.yes),
                }
            }
        }
    }

    /// About how many bytes the truth of all literals takes in this many rows and bindings.
    pub(crate) fn bytes(&self, rows: u64, bindings: u64) -> u64 {
        let by_row = self.by_row.iter().filter(|by_row| **by_row).count() as u64;
        let by_binding = self.by_row.len() as u64 - by_row;
        // Two bits each, and the numbers of the bindings.
        let thin = rows.min(bindings.saturating_mul(FEW as u64)).saturating_mul(by_binding);
        let bits = rows.saturating_mul(by_row).saturating_add(thin);
        (bits / 4).saturating_add(bindings.saturating_mul(8))
    }

    /// Whether a literal is evaluated row by row, and not once a binding.
    pub(crate) fn is_by_row(&self, literal: usize, rows: &Rows) -> bool {
        self.by_row[literal] || rows.is_thin()
    }
}

fn slot(key: &[Code]) -> usize {
    let mixed = key.iter().fold(0u64, |mixed, code| {
        (mixed ^ u64::from(code.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    });
    (mixed >> 20) as usize & (LATELY - 1)
}
