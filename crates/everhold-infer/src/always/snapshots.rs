//! What always held in a large table of snapshots.

use everhold_property::{Scope, Type};

use super::family::{Form, Pairs, rows};
use super::lines::Setting;
use super::literal::Context;
use super::terms::{Class, Numbers, Side, Term, What};
use super::{Always, Family, Findings, Settings, linear};
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
    let mut findings = Findings::default();
    let side = side(table, &mut findings.found);
    let (values, numbers) = (Dictionary::default(), Numbers::From(Snapshots::FIRST));
    let context = Context { left: &side, right: &side, values: &values, numbers: &numbers };
    let setting = |form: Form| {
        let rows = rows(&form);
        Setting { form, scope: Scope::EveryCut, kinds: (None, None), rows, inner: Vec::new() }
    };
    let count = u32::try_from(table.rows()).expect("rows are numbered by 32 bits");
    let own: Vec<u32> = (0..count).collect();
    let pairs = Pairs { left: own.clone(), right: own, samples: count.into() };
    let one = setting(Form::One);
    let family = Family { setting: &one, pairs: &pairs, both_ways: false, context: &context };
    let alone = findings.family(&family, None, &[], None);
    let (drafts, tried) = linear::within(&one, &pairs, &context);
    findings.add(drafts, tried);
    drop(pairs);
    let pairs = beside(table, settings.pairs_max());
    if pairs.samples > pairs.left.len() as u64 {
        findings.bound("not all pairs of states were judged: allow more memory");
    }
    let two = setting(Form::Two);
    let family = Family { setting: &two, pairs: &pairs, both_ways: true, context: &context };
    findings.family(&family, None, &[], Some((&alone, &alone)));
    findings.finish(settings)
}

fn side(table: &Snapshots, found: &mut Always) -> Side {
    let mut side = Side { groups: table.node_of.clone(), ..Side::default() };
    for (name, column) in table.variables.iter().zip(&table.columns) {
        let distinct = distinct(column);
        if distinct < 2 {
            found.left_out.push((name.clone(), "it is always the same".into()));
            continue;
        }
        let variable = Variable { path: vec![Access::Field(name.clone())], ty: Type::Int };
        let what = What::Variable(variable);
        side.terms.push(Term { what, class: Class::Number, distinct });
        side.columns.push(column.clone());
    }
    side
}

/// How many distinct values there are, or many.
fn distinct(column: &[u32]) -> usize {
    let mut seen = std::collections::BTreeSet::new();
    let mut last = None;
    for code in column {
        if last != Some(code) && seen.insert(*code) && seen.len() >= DISTINCT_MAX {
            break;
        }
        last = Some(code);
    }
    seen.len()
}

/// The nodes of each snapshot in pairs, each in one of its orders.
fn beside(table: &Snapshots, pairs_max: usize) -> Pairs {
    let mut pairs = Pairs::default();
    for snapshot in table.begins.windows(2) {
        for left in snapshot[0]..snapshot[1] {
            let others = left + 1..snapshot[1];
            pairs.samples += others.len() as u64;
            if pairs.left.len() < pairs_max {
                pairs.left.extend(std::iter::repeat_n(left, others.len()));
                pairs.right.extend(others);
            }
        }
    }
    pairs
}
