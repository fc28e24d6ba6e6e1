//! Properties that always held: templates over one node, two nodes, the steps of a node, elements of
//! its containers and sums over all nodes, with roles as conditions, in all four scopes.
//!
//! The work falls into families of rows: a node alone, two nodes that some cut shows together, the
//! two ends of a message, a node before and after a step, an element and its node. A candidate of a
//! family (`propose`) is a relation of two values under up to three conditions. Candidates are judged
//! on blocks of rows as bitmaps (`block`) and dropped at their first counterexample (`candidates`).
//! Survivors that do not follow from a stronger claim (`follows`, `redundant`) are weighed
//! (`evidence`, `bearing`) and written out (`lines`). The lines to show are selected at the end, and
//! each hidden property gets a reason (`ledger`, `selection`).
//!
//! The rows come from recorded runs or from a table of snapshots (`source`); the search is the same
//! for both (`search`).

mod all_nodes;
mod atoms;
mod bearing;
mod block;
mod candidates;
mod comparison;
mod conserved;
mod cuts;
mod differences;
mod doubt;
mod elements;
mod episodes;
mod evidence;
mod family;
mod follows;
mod in_role;
mod ledger;
mod linear;
mod lines;
mod pairs;
mod propose;
mod quorum;
mod race;
mod redundant;
mod rows;
mod search;
mod selection;
mod single;
mod source;
mod sums;
mod table;
mod terms;
mod totals;
mod unjudged;

use everhold_property::Scope;
use everhold_trace::{Execution, Order};

pub use lines::{Hidden, Line};

use atoms::Atoms;
use cuts::Cuts;
use ledger::Ledger;
use pairs::Together;
use search::Search;
use source::{Runs, Source};
use table::TableRows;
use terms::{Identity, Side};

use crate::decisions::Decisions;
use crate::dictionary::Dictionary;
use crate::evaluate::Numbers;
use crate::outcome::{Bound, LeftOut, Unjudged};
use crate::snapshots::Snapshots;
use crate::states::States;

/// How to infer what always held.
///
/// ```
/// use everhold_infer::Settings;
///
/// let settings = Settings::default().lines_max(5).threads(1);
/// assert_eq!((settings.lines_max, settings.threads), (5, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The scopes in which properties may hold, the strongest first.
    pub scopes: Vec<Scope>,
    /// The most lines to show.
    pub lines_max: usize,
    /// The share of the lines that may be coincidences: the false discovery rate.
    pub alpha: f64,
    /// The bytes that pairs of states and elements of containers may take. Whatever does not fit is
    /// left out, and [`Always::bounds`] says so.
    pub memory_max: usize,
    /// The number of threads; 0 stands for one a core. The result does not depend on it.
    pub threads: usize,
    /// Earlier decisions: rejected properties are not shown.
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
    /// Sets [`Settings::scopes`].
    #[must_use]
    pub fn scopes(self, scopes: impl IntoIterator<Item = Scope>) -> Settings {
        Settings { scopes: scopes.into_iter().collect(), ..self }
    }

    /// Sets [`Settings::lines_max`].
    #[must_use]
    pub fn lines_max(self, lines_max: usize) -> Settings {
        Settings { lines_max, ..self }
    }

    /// Sets [`Settings::alpha`].
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Settings {
        Settings { alpha, ..self }
    }

    /// Sets [`Settings::memory_max`].
    #[must_use]
    pub fn memory_max(self, memory_max: usize) -> Settings {
        Settings { memory_max, ..self }
    }

    /// Sets [`Settings::threads`].
    #[must_use]
    pub fn threads(self, threads: usize) -> Settings {
        Settings { threads, ..self }
    }

    /// Sets [`Settings::decisions`].
    #[must_use]
    pub fn decisions(self, decisions: Decisions) -> Settings {
        Settings { decisions, ..self }
    }

    /// The most pairs of states that fit into memory.
    fn pairs_max(&self) -> usize {
        (self.memory_max / 32).max(1024)
    }

    /// The most pairs of elements that fit into memory. Duplicates are removed only now and then, so
    /// a pair counts for several.
    fn elements_max(&self) -> usize {
        (self.memory_max / 256).max(1024)
    }

    /// The most elements of containers that fit into memory.
    fn rows_max(&self) -> usize {
        (self.memory_max / 48).max(1024)
    }
}

/// The properties that always held, and those that are hidden.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Always {
    /// The lines, in descending order of [`Line::score`].
    pub lines: Vec<Line>,
    /// The properties that held and are not among the lines, with the reasons.
    pub hidden: Vec<Hidden>,
    /// The variables that no line speaks of.
    pub left_out: Vec<LeftOut>,
    /// The totals that were not judged.
    pub unjudged: Vec<Unjudged>,
    /// The number of candidates that were tried.
    pub tried: u64,
    /// Limits that were reached.
    pub bounds: Vec<Bound>,
}

/// Infers the properties that always held in these runs.
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
    let mut ledger = Ledger::with(settings);
    states.bounds.iter().for_each(|bound| ledger.bound(bound.clone()));
    let left_out = &mut ledger.found.left_out;
    let sides: Vec<Side> = (0..states.kinds.len())
        .map(|kind| Side::of(kind, &states, &atoms, &numbers, &identity, left_out))
        .collect();
    doubt::share(&sides);
    let pairs_max = settings.pairs_max();
    let together = Together { atoms: &atoms, orders: &orders, pairs_max, bounds: Vec::new() };
    let search = Search {
        source: Source::Runs(Runs { states: &states, atoms: &atoms, together }),
        values: &states.values,
        numbers: &numbers,
        sides: &sides,
        cuts: Cuts { executions, orders: &orders, bounds: Vec::new() },
        elements_max: settings.elements_max(),
        ledger,
    };
    search.run(settings)
}

/// Infers what always held in the snapshots of a table.
///
/// The result is that of [`always`] on the table read as executions, one for each snapshot, but
/// large tables need no executions.
///
/// ```
/// use everhold_infer::{Settings, Snapshots, always_snapshots};
///
/// let mut text = String::from("snapshot,node,term\n");
/// for snapshot in 0..200_u64 {
///     let term = snapshot * 7919 % 101;
///     text += &format!("{snapshot},a,{term}\n{snapshot},b,{term}\n");
/// }
/// let table = Snapshots::read(text.as_bytes()).unwrap();
/// let found = always_snapshots(&table, &Settings::default());
/// assert_eq!(found.lines[0].property.name, "a's term equals b's term");
/// ```
#[must_use]
pub fn always_snapshots(table: &Snapshots, settings: &Settings) -> Always {
    let mut ledger = Ledger::with(settings);
    let rows = TableRows::of(table, settings);
    let sides = [rows.side(&mut ledger.found.left_out)];
    let search = Search {
        source: Source::Table(rows),
        values: &Dictionary::default(),
        numbers: &Numbers::From(Snapshots::FIRST),
        sides: &sides,
        // There are no cuts but the snapshots.
        cuts: Cuts { executions: &[], orders: &[], bounds: Vec::new() },
        elements_max: settings.elements_max(),
        ledger,
    };
    search.run(settings)
}
