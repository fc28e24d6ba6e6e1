//! What always held in a large table of snapshots.

use std::sync::OnceLock;

use everhold_property::{Scope, Type};

use super::family::{Form, few, rows};
use super::lines::Setting;
use super::literal::Context;
use super::rows::{BLOCK, Pairs};
use super::shown::Shown;
use super::single::Changes;
use super::terms::{Class, Numbers, Side, Term, What};
use super::{Always, Cuts, Family, Findings, Settings, linear, quorum, single, sums};
use crate::dictionary::Dictionary;
use crate::snapshots::Snapshots;
use crate::variables::{Access, Variable};

/// Distinct values are counted up to this many.
const DISTINCT_MAX: usize = 1_000;

/// Infers what always held in the snapshots of a table.
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
    let mut findings = Findings::with(settings);
    let layout = Layout::of(table);
    let side = side(table, &layout, &mut findings.found);
    let (values, numbers) = (Dictionary::default(), Numbers::From(Snapshots::FIRST));
    let context = Context { left: &side, right: &side, values: &values, numbers: &numbers };
    let setting = |form: Form| {
        let rows = rows(&form);
        Setting { form, scope: Scope::EveryCut, kinds: (None, None), rows, inner: Vec::new() }
    };
    let pairs = Pairs::alone(table.rows(), table.rows() as u64);
    let one = setting(Form::One);
    let family = Family { setting: &one, pairs: &pairs, both_ways: false, context: &context };
    let alone = findings.family(&family, None, &[], None);
    let (drafts, tried) = linear::within(&one, &pairs, &context);
    findings.add(drafts, tried);
    let (drafts, tried) = single::claims(&one, pairs.samples, &layout.changes(table), &context);
    findings.add(drafts, tried);
    // There are no cuts but the snapshots.
    let mut cuts = Cuts { executions: &[], orders: &[], bounds: Vec::new() };
    let shown = layout.shown(table);
    let (drafts, tried) = sums::constant_sums(None, shown, (&side, &numbers), &mut cuts);
    findings.add(drafts, tried);
    let place = quorum::Place { name: None, shown, context: &context };
    let (drafts, tried) = quorum::majorities(&place, &mut cuts);
    findings.add(drafts, tried);
    let pairs = layout.pairs(table, settings.pairs_max());
    if pairs.samples > pairs.len() as u64 {
        let (some, all) = (pairs.len(), pairs.samples);
        findings.bound(&format!("looked at {some} of {all} pairs of states"));
    }
    let two = setting(Form::Two);
    let family = Family { setting: &two, pairs: &pairs, both_ways: true, context: &context };
    findings.family(&family, None, &[], Some((&alone, &alone)));
    findings.finish(settings)
}

/// In which order the rows are kept.
enum Layout {
    /// As they were read.
    AsRead,
    /// All rows of the first node, then all of the second, ...: so many nodes, in every snapshot
    /// in the same order, so that what two nodes show together lies side by side.
    ByNode(usize),
}

impl Layout {
    /// By node, if there are enough snapshots for it to be worth it.
    fn of(table: &Snapshots) -> Layout {
        let nodes = table.nodes.len();
        let regular = table.snapshots() >= BLOCK / 2
            && table.rows() == nodes * table.snapshots()
            && table.node_of.chunks(nodes).all(|own| own == &table.node_of[..nodes])
            && (0..).step_by(nodes).zip(&table.begins).all(|(row, begin)| row == *begin as usize);
        if regular { Layout::ByNode(nodes) } else { Layout::AsRead }
    }

    fn column(&self, read: &[u32]) -> Vec<u32> {
        let Layout::ByNode(nodes) = self else { return read.to_vec() };
        let each = read.len() / nodes;
        let mut found = vec![0; read.len()];
        // In pieces that stay in the cache while each node picks its own.
        for (place, piece) in read.chunks(nodes * 1024).enumerate() {
            for node in 0..*nodes {
                let own = piece.iter().skip(node).step_by(*nodes);
                let begin = node * each + place * 1024;
                found[begin..].iter_mut().zip(own).for_each(|(into, code)| *into = *code);
            }
        }
        found
    }

    /// From each row of a node to its next.
    fn changes(&self, table: &Snapshots) -> Changes {
        if let Layout::ByNode(_) = self {
            return Changes::Beside(table.snapshots());
        }
        let mut last = vec![None; table.nodes.len()];
        let mut steps = Vec::new();
        for (row, node) in (0..).zip(&table.node_of) {
            let before: Option<u32> = last[*node as usize].replace(row);
            steps.extend(before.map(|before| (before, row)));
        }
        Changes::Listed(steps)
    }

    /// What all nodes show.
    fn shown<'a>(&self, table: &'a Snapshots) -> Shown<'a> {
        match self {
            Layout::ByNode(nodes) => Shown::ByNode { nodes: *nodes, each: table.snapshots() },
            Layout::AsRead => Shown::BySnapshot { begins: &table.begins },
        }
    }

    /// The nodes of each snapshot in pairs, each in one of its orders.
    fn pairs(&self, table: &Snapshots, pairs_max: usize) -> Pairs {
        let Layout::ByNode(nodes) = self else { return listed(table, pairs_max) };
        let each = table.snapshots();
        let begin = |node: usize| u32::try_from(node * each).expect("rows are numbered by 32 bits");
        let others = |left: usize| (left + 1..*nodes).map(move |right| (begin(left), begin(right)));
        Pairs::beside((0..*nodes).flat_map(others).collect(), each)
    }
}

fn side(table: &Snapshots, layout: &Layout, found: &mut Always) -> Side {
    let mut side = Side { groups: layout.column(&table.node_of), ..Side::default() };
    for (name, column) in table.variables.iter().zip(&table.columns) {
        let distinct = few(column, DISTINCT_MAX).map_or(DISTINCT_MAX, |codes| codes.len());
        if distinct < 2 {
            found.left_out.push((name.clone(), "it is always the same".into()));
            continue;
        }
        let variable = Variable { path: vec![Access::Field(name.clone())], ty: Type::Int };
        let what = What::Variable(variable);
        // Counting has no early end and so runs by vectors.
        let nulls = |part: &[u32]| part.iter().filter(|code| **code == 0).count();
        let nullable = column.chunks(4096).any(|part| nulls(part) > 0);
        let (class, names_nodes) = (Class::Number, false);
        side.terms.push(Term { what, class, distinct, nullable, names_nodes });
        side.columns.push(layout.column(column));
        side.episodes.push(OnceLock::new());
    }
    side
}

fn listed(table: &Snapshots, pairs_max: usize) -> Pairs {
    let (mut lefts, mut rights, mut samples) = (Vec::new(), Vec::new(), 0);
    for snapshot in table.begins.windows(2) {
        for left in snapshot[0]..snapshot[1] {
            let others = left + 1..snapshot[1];
            samples += others.len() as u64;
            if lefts.len() < pairs_max {
                lefts.extend(std::iter::repeat_n(left, others.len()));
                rights.extend(others);
            }
        }
    }
    Pairs::listed(lefts, rights, samples)
}
