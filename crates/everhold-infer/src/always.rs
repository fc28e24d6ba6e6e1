//! What always held: templates over one node, two nodes, the steps of a node, elements of its
//! containers and sums over all nodes, with roles as conditions, in all four scopes.
//!
//! The work falls into families of rows: a node alone, two nodes that some cut shows together, the
//! two ends of a message, a node before and after a step, an element and its node. A candidate of a
//! family is a relation of two values under up to three conditions. Candidates are judged on
//! blocks of rows as bitmaps and dropped at their first counterexample (`family`); what survives
//! and does not follow from something stronger (`redundant`) is weighed (`evidence`, `bearing`) and
//! written out (`lines`); what is shown of it and why the rest is not is decided at the end
//! (`findings`, `verdicts`).

mod atoms;
mod bearing;
mod compare;
mod conserved;
mod cuts;
mod differences;
mod elements;
mod episodes;
mod evidence;
mod family;
mod findings;
mod judge;
mod linear;
mod lines;
mod literal;
mod pairs;
mod quorum;
mod redundant;
mod rows;
mod shown;
mod single;
mod snapshots;
mod sums;
mod terms;
mod verdicts;

use everhold_property::Scope;
use everhold_trace::{Execution, Order};

pub use lines::{Hidden, Line};
pub use snapshots::always_snapshots;

use atoms::Atoms;
use cuts::Cuts;
use elements::Elements;
use family::{Candidates, Form};
use findings::Findings;
use lines::Setting;
use literal::{Context, Rows};
use pairs::Together;
use rows::Pairs;
use shown::Shown;
use single::Changes;
use terms::{Identity, Numbers, Side, What};

use crate::decisions::Decisions;
use crate::states::States;
use crate::variables::{KindId, Origin, Row, TableId};

/// How to infer.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where properties may hold, the strongest first.
    pub scopes: Vec<Scope>,
    /// How many lines to show at most.
    pub lines_max: usize,
    /// Which share of the lines may be coincidences.
    pub alpha: f64,
    /// How many bytes pairs of states, and elements of containers, may take. What does not fit is
    /// left out, and [`Always::bounds`] says so.
    pub memory_max: usize,
    /// How many threads to use; 0 stands for all cores. The result does not depend on it.
    pub threads: usize,
    /// What was decided before: what was rejected is not shown.
    pub decisions: Decisions,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            scopes: vec![Scope::EveryCut, Scope::Quiet, Scope::Delivery, Scope::Chains],
            lines_max: 20,
            alpha: 0.01,
            memory_max: 1 << 30,
            threads: 0,
            decisions: Decisions::default(),
        }
    }
}

impl Settings {
    /// How many pairs of states fit.
    fn pairs_max(&self) -> usize {
        (self.memory_max / 32).max(1024)
    }

    /// How many pairs of elements fit: they are made distinct only now and then.
    fn elements_max(&self) -> usize {
        (self.memory_max / 256).max(1024)
    }

    /// How many elements of containers fit.
    fn rows_max(&self) -> usize {
        (self.memory_max / 48).max(1024)
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Always {
    /// The lines, the most telling first.
    pub lines: Vec<Line>,
    /// What held and is not among them, and why.
    pub hidden: Vec<Hidden>,
    /// Variables that no line speaks of, and why.
    pub left_out: Vec<(String, String)>,
    /// How many candidates were tried.
    pub tried: u64,
    /// Bounds that were reached, in words.
    pub bounds: Vec<String>,
}

/// Infers what always held in these runs.
///
/// ```
/// use everhold_infer::{Settings, always};
/// use everhold_trace::{EventKind, TraceBuilder, Value};
///
/// let mut trace = TraceBuilder::new();
/// let nodes: Vec<_> = (0..3).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
/// for step in 0..60_i64 {
///     let node = nodes[(step % 3) as usize];
///     trace.begin(node, EventKind::Local { name: "step".into() });
///     let (low, high) = (step * 7 % 11, step * 7 % 11 + step * 5 % 13);
///     trace.observe(Value::record([("low", low), ("high", high)]));
/// }
/// let found = always(&[&trace.finish()], &Settings::default());
/// let names: Vec<&str> = found.lines.iter().map(|line| line.property.name.as_str()).collect();
/// assert!(names.contains(&"n's high is at least n's low"), "{names:?}");
/// ```
#[must_use]
pub fn always(executions: &[&Execution], settings: &Settings) -> Always {
    let mut states = States::within(executions, settings.rows_max());
    let orders: Vec<Order> = executions.iter().map(|execution| Order::of(execution)).collect();
    let atoms = Atoms::of(&states);
    let identity = Identity::of(&mut states, &atoms);
    let numbers = Numbers::of(&states.values);
    let mut findings = Findings::with(settings);
    states.bounds.iter().for_each(|words| findings.bound(words));
    let left_out = &mut findings.found.left_out;
    let sides: Vec<Side> = (0..states.kinds.len())
        .map(|kind| Side::of(kind, &states, &atoms, &numbers, &identity, left_out))
        .collect();
    let pairs_max = settings.pairs_max();
    let mut search = Search {
        states: &states,
        atoms: &atoms,
        numbers: &numbers,
        sides: &sides,
        together: Together { atoms: &atoms, orders: &orders, pairs_max, bounds: Vec::new() },
        cuts: Cuts { executions, orders: &orders, bounds: Vec::new() },
        elements_max: settings.elements_max(),
        findings,
    };
    search.run(settings);
    for words in search.together.bounds.iter().chain(&search.cuts.bounds) {
        search.findings.bound(words);
    }
    search.findings.finish(settings)
}

/// One search over executions.
struct Search<'a> {
    states: &'a States,
    atoms: &'a Atoms,
    numbers: &'a Numbers,
    sides: &'a [Side],
    together: Together<'a>,
    cuts: Cuts<'a>,
    /// Pairs of elements looked at.
    elements_max: usize,
    findings: Findings,
}

impl<'a> Search<'a> {
    fn run(&mut self, settings: &Settings) {
        let kinds = 0..self.sides.len();
        let alone: Vec<Candidates> = kinds.clone().map(|kind| self.one(kind)).collect();
        self.conserved();
        for left in kinds.clone() {
            for right in kinds.clone() {
                self.two(left, right, settings, (&alone[left], &alone[right]));
            }
        }
    }

    fn context(&self, left: &'a Side, right: &'a Side) -> Context<'a> {
        Context { left, right, values: &self.states.values, numbers: self.numbers }
    }

    /// One node: its states, its steps, its elements, and the sum over all such nodes.
    fn one(&mut self, kind: KindId) -> Candidates {
        let sides = self.sides;
        let context = self.context(&sides[kind], &sides[kind]);
        let pairs = pairs::alone(self.states, self.atoms, kind);
        let setting = self.setting(Form::One, Scope::EveryCut, kind, kind);
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        let judged = self.findings.family(&family, None, &[], None);
        let (drafts, tried) = linear::within(&setting, &pairs, &context);
        self.findings.add(drafts, tried);
        let all_steps = pairs::all_steps(self.states, self.atoms, kind);
        let steps = pairs::steps(&all_steps);
        let changes = Changes::Listed([all_steps, pairs::starts(self.atoms, kind)].concat());
        let (drafts, tried) = single::claims(&setting, pairs.len() as u64, &changes, &context);
        self.findings.add(drafts, tried);
        let setting = self.setting(Form::Steps, Scope::EveryCut, kind, kind);
        let family =
            Family { setting: &setting, pairs: &steps, both_ways: false, context: &context };
        // While others move, a node stays as it is, which is no evidence and may be a
        // counterexample.
        self.findings.family(&family, Some(&pairs), &[], None);
        for table in self.containers(kind) {
            self.elements(kind, table);
        }
        let side = (&sides[kind], self.numbers);
        let name = setting.kinds.0.as_deref();
        let shown = Shown::Recorded { kind, states: self.states, atoms: self.atoms };
        let (drafts, tried) = sums::constant_sums(name, shown, side, &mut self.cuts);
        self.findings.add(drafts, tried);
        let place = quorum::Place { name, shown, context: &context };
        let (drafts, tried) = quorum::majorities(&place, &mut self.cuts);
        self.findings.add(drafts, tried);
        judged
    }

    /// All nodes and what is under way between them.
    fn conserved(&mut self) {
        let (states, atoms, numbers, sides) = (self.states, self.atoms, self.numbers, self.sides);
        let place = conserved::Place { states, atoms, numbers, sides };
        let (drafts, tried) = place.claims(&mut self.cuts);
        self.findings.add(drafts, tried);
    }

    /// The tables of containers that lie in the state itself.
    fn containers(&self, kind: KindId) -> Vec<TableId> {
        let tables = &self.states.variables.kinds[kind].tables;
        let direct = |table: &TableId| match tables[*table].origin {
            Origin::Elements { table, .. } | Origin::Entries { table, .. } => table == 0,
            Origin::State => false,
        };
        (0..tables.len()).filter(direct).collect()
    }

    /// The elements of a container: with their node, and with those of other nodes.
    fn elements(&mut self, kind: KindId, table: TableId) {
        let side = Side::of_elements(kind, table, self.states, self.numbers);
        if side.terms.is_empty() {
            return;
        }
        let elements = Elements::of(kind, table, self.states, &side);
        let own = &self.states.variables.kinds[kind];
        let row = |name: &str| match own.tables[table].origin {
            Origin::Entries { .. } => Row::Entry(format!("{name}k"), format!("{name}v")),
            _ => Row::Value(name.to_owned()),
        };
        let (values, numbers) = (&self.states.values, self.numbers);
        let items = own.tables[table].origin.container().map(|(_, variable)| variable);
        let items = items.map(|variable| What::Variable(own.tables[0].variables[variable].clone()));
        let items =
            self.sides[kind].terms.iter().position(|term| Some(&term.what) == items.as_ref());
        let mut setting = self.setting(Form::Elements(items), Scope::EveryCut, kind, kind);
        setting.inner = own.binders(table, "n", &["x"]);
        setting.rows = Rows { left: row("x"), right: Row::Value("n".into()), left_is_past: false };
        let max = self.elements_max;
        let (pairs, all) = elements.with_node(kind, self.atoms, max);
        if pairs.samples < all {
            let some = pairs.samples;
            self.findings.bound(&format!("looked at {some} of {all} elements of containers"));
        }
        let context = Context { left: &side, right: &self.sides[kind], values, numbers };
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        self.findings.family(&family, None, &[], None);
        let mut setting = self.setting(Form::TwoElements, Scope::EveryCut, kind, kind);
        setting.inner = own.binders(table, "a", &["x"]);
        setting.inner.extend(own.binders(table, "b", &["y"]));
        setting.rows = Rows { left: row("x"), right: row("y"), left_is_past: false };
        let nodes = self.together.pairs(Scope::EveryCut, kind, kind);
        let Some(pairs) = elements.with_elements(kind, self.atoms, &nodes, max) else {
            let words = format!("looked at none of more than {} pairs of elements", max / 2);
            self.findings.bound(&words);
            return;
        };
        let context = Context { left: &side, right: &side, values, numbers };
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        self.findings.family(&family, None, &[], None);
    }

    /// Two nodes of these kinds, in all scopes.
    fn two(
        &mut self,
        left: KindId,
        right: KindId,
        settings: &Settings,
        alone: (&Candidates, &Candidates),
    ) {
        let sides = self.sides;
        let context = self.context(&sides[left], &sides[right]);
        let mut wider: Vec<Candidates> = Vec::new();
        for &scope in &settings.scopes {
            let form = if scope == Scope::Delivery { Form::Delivery } else { Form::Two };
            if form == Form::Two && left > right {
                continue;
            }
            let pairs = self.together.pairs(scope, left, right);
            if pairs.is_empty() {
                continue;
            }
            // What a node tells itself is no evidence, and may be a counterexample.
            let own = (form == Form::Delivery && left == right)
                .then(|| self.together.own_deliveries(left));
            let both_ways = form == Form::Two && left == right;
            let setting = self.setting(form, scope, left, right);
            let family = Family { setting: &setting, pairs: &pairs, both_ways, context: &context };
            let judged = self.findings.family(&family, own.as_ref(), &wider, Some(alone));
            wider.push(judged);
        }
    }

    fn setting(&self, form: Form, scope: Scope, left: KindId, right: KindId) -> Setting {
        let several = self.states.variables.kinds.len() > 1;
        let name = |kind: KindId| several.then(|| self.states.variables.kinds[kind].name.clone());
        let rows = family::rows(&form);
        Setting { form, scope, kinds: (name(left), name(right)), rows, inner: Vec::new() }
    }
}

/// Rows, and how to speak of them.
struct Family<'a> {
    setting: &'a Setting,
    pairs: &'a Pairs,
    /// Whether each pair stands for both of its orders.
    both_ways: bool,
    context: &'a Context<'a>,
}
