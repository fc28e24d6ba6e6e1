//! Decisions of people on inferred properties, and changes since the last inference.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use everhold_infer::{Decision, Decisions, Diff};
use everhold_property::{Property, parse};

use crate::args::DecidedArgs;
use crate::exit::BadInput;
use crate::input::read_text;

/// Reads the decisions in the named file; without a file there are none.
pub(super) fn read(args: &DecidedArgs) -> Result<Decisions> {
    let Some(path) = args.decisions.as_deref().filter(|path| path.exists()) else {
        return Ok(Decisions::default());
    };
    let decisions = read_text(path)?.parse::<Decisions>();
    decisions.map_err(|error| BadInput(format!("{}: {error}", path.display())).into())
}

/// Records which of these properties were accepted and rejected, by number.
pub(super) fn write_down(
    args: &DecidedArgs,
    mut decisions: Decisions,
    shown: &[Property],
) -> Result<()> {
    let accepted = args.accept.iter().map(|number| (*number, Decision::Accept));
    let rejected = args.reject.iter().map(|number| (*number, Decision::Reject));
    let decided: Vec<(usize, Decision)> = accepted.chain(rejected).collect();
    let Some(path) = args.decisions.as_deref().filter(|_| !decided.is_empty()) else {
        return Ok(());
    };
    for (number, decision) in decided {
        decisions.decide(numbered(shown, number)?, decision);
    }
    fs::write(path, decisions.to_string()).with_context(|| format!("{}", path.display()))
}

/// The property with a number in the list that is shown.
pub(super) fn numbered(shown: &[Property], number: usize) -> Result<&Property> {
    number.checked_sub(1).and_then(|place| shown.get(place)).ok_or_else(|| {
        let there = match shown.len() {
            0 => "there is none".to_owned(),
            count => format!("they are numbered 1 to {count}"),
        };
        BadInput(format!("no line {number}: {there}")).into()
    })
}

/// Writes the properties that appeared, disappeared and changed since a file was written.
pub(super) fn write_diff(old: &Path, new: &[Property], out: &mut impl Write) -> Result<()> {
    let diff = Diff::of(&properties(old)?, new);
    if diff.is_empty() {
        writeln!(out, "the same as in {}", old.display())?;
    }
    write!(out, "{diff}")?;
    Ok(())
}

fn properties(path: &Path) -> Result<Vec<Property>> {
    let text = read_text(path)?;
    parse(&text).into_result().map_err(|diagnostics| {
        BadInput::of_properties(&diagnostics, &path.display().to_string(), &text).into()
    })
}
