//! The list of the variables that interact with the network, as text.

use std::fmt::Write as _;

use crate::facts::{Direction, Facts, Kind, VarId};
use crate::slice::{Hop, Slices};

/// The counts of a package, as in the table of Dinv.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were read.
    pub files: usize,
    /// Lines that are neither empty nor comments.
    pub lines: usize,
    /// Functions.
    pub functions: usize,
    /// Variables and fields.
    pub variables: usize,
    /// Of these, the ones that interact with the network.
    pub interacting: usize,
    /// Of these, the ones that are affected by what is received.
    pub received: usize,
    /// Of these, the ones that affect what is sent.
    pub sent: usize,
    /// Calls that communicate.
    pub calls: usize,
}

impl Counts {
    /// Counts.
    #[must_use]
    pub fn of(facts: &Facts, slices: &Slices) -> Counts {
        let named = |var: &VarId| facts.vars[*var].kind.is_named();
        let interacting: Vec<VarId> = interacting(facts, slices);
        let mut calls: Vec<_> =
            facts.meets.iter().map(|meet| (meet.file, meet.line, &meet.call)).collect();
        calls.sort();
        calls.dedup();
        Counts {
            files: facts.files.len(),
            lines: facts.files.iter().map(|file| file.lines).sum(),
            functions: facts.functions.len(),
            variables: (0..facts.vars.len()).filter(named).count(),
            interacting: interacting.len(),
            received: interacting.iter().filter(|var| slices.is_affected(**var)).count(),
            sent: interacting.iter().filter(|var| slices.affects(**var)).count(),
            calls: calls.len(),
        }
    }
}

/// Returns the variables that interact with the network: fields and globals first, then by place.
#[must_use]
pub fn interacting(facts: &Facts, slices: &Slices) -> Vec<VarId> {
    let mut found: Vec<VarId> =
        (0..facts.vars.len()).filter(|var| slices.interacts(facts, *var)).collect();
    found.sort_by_key(|var| {
        let var = &facts.vars[*var];
        (!matches!(var.kind, Kind::Field | Kind::Global), var.file, var.line, &var.name)
    });
    found
}

/// Returns the name of a variable for people: `Type.field`, `function.variable`.
#[must_use]
pub fn name(facts: &Facts, var: VarId) -> String {
    let var = &facts.vars[var];
    match var.kind {
        Kind::Call => format!("{}(..)", var.name),
        Kind::Return | Kind::Global => var.name.clone(),
        _ => format!("{}.{}", var.owner, var.name),
    }
}

/// Returns the list as text: each variable with the way by which it meets the network.
#[must_use]
pub fn text(facts: &Facts, slices: &Slices) -> String {
    let mut out = String::new();
    for var in interacting(facts, slices) {
        let place = place(facts, facts.vars[var].file, facts.vars[var].line);
        let _ = writeln!(out, "{}  ({place})", name(facts, var));
        for (direction, word) in [(Direction::In, "from"), (Direction::Out, "to")] {
            let way = slices.way(facts, var, direction);
            if !way.is_empty() {
                let _ = writeln!(out, "    {word} the network: {}", way_text(facts, &way));
            }
        }
    }
    out
}

/// The number of hops of a way that are shown at each of its ends.
const HOPS_SHOWN: usize = 4;

/// Returns a way in words, without the values of calls that are no variables of the program.
fn way_text(facts: &Facts, way: &[Hop]) -> String {
    let is_shown = |hop: &&Hop| hop.var.is_none_or(|var| facts.vars[var].kind.is_named());
    let mut hops: Vec<String> =
        way.iter().filter(is_shown).map(|hop| hop_text(facts, hop)).collect();
    let left = hops.len().saturating_sub(2 * HOPS_SHOWN);
    if left > 1 {
        hops.splice(HOPS_SHOWN..HOPS_SHOWN + left, [format!("({left} more)")]);
    }
    hops.join("; ")
}

fn hop_text(facts: &Facts, hop: &Hop) -> String {
    let place = place(facts, hop.file, hop.line);
    match hop.var {
        Some(var) => format!("{} ({place}) - {}", hop.how, name(facts, var)),
        None => format!("{} ({place})", hop.how),
    }
}

fn place(facts: &Facts, file: usize, line: usize) -> String {
    facts
        .files
        .get(file)
        .map_or_else(|| format!("line {line}"), |file| format!("{}:{line}", file.path))
}

/// Returns the counts as a table with one row for each package.
#[must_use]
pub fn table(rows: &[(String, Counts)]) -> String {
    let head = [
        "package",
        "files",
        "lines",
        "functions",
        "variables",
        "interacting",
        "received",
        "sent",
        "calls",
    ];
    let cells = rows.iter().map(|(name, counts)| {
        let Counts { files, lines, functions, variables, interacting, received, sent, calls } =
            *counts;
        let numbers = [files, lines, functions, variables, interacting, received, sent, calls];
        std::iter::once(name.clone()).chain(numbers.map(|n| n.to_string())).collect::<Vec<_>>()
    });
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut out = String::new();
    for row in &rows {
        let _ = write!(out, "{:<w$}", row[0], w = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            let _ = write!(out, "  {cell:>w$}", w = width(column));
        }
        out.push('\n');
    }
    out
}
