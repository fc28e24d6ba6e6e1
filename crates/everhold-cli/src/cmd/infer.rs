//! `everhold infer`: properties that held, from traces.
//!
//! - `why`: the reason why an expected property is not among the lines.
//! - `text`, `json`: the report; `decided`: accepted and rejected properties.
//! - `almost`: properties that held in all but a few cases; `page`: these as a page.

mod almost;
mod decided;
mod json;
mod page;
mod text;
mod why;

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};
use everhold_infer::{Always, Decisions, Settings, Snapshots, always, always_snapshots};
use everhold_property::{Property, Scope, print_all};
use everhold_trace::Execution;

use crate::args::{Color, InferArgs, ScopeWord};
use crate::exit::{BadInput, Code};
use crate::hint;
use crate::input::{self, Given};
use crate::paint::Paint;
use crate::plain::{Painted, Plain, PlainJson};
use crate::progress::Progress;
use crate::words::counted;

pub(crate) fn run(args: &InferArgs, color: Color) -> Result<Code> {
    // Almost-invariants and counterexamples need executions.
    if !args.almost.on
        && args.why.is_none()
        && let Some(snapshots) = input::read_snapshots(&args.traces, &args.input)?
    {
        return infer_snapshots(&snapshots, args, color);
    }
    let inputs = input::read(&args.traces, &args.input)?;
    if !inputs.errors.is_empty() {
        return Err(BadInput::all(inputs.errors).into());
    }
    if args.almost.on {
        return almost::run(args, &inputs.given);
    }
    let executions = executions(&inputs.given);
    let settings = settings(args)?;
    let found = {
        let _progress = Progress::new("inferring");
        always(&executions, &settings)
    };
    if let Some(text) = &args.why {
        return why::explain(text, &found, &inputs.given, &mut Plain(io::stdout().lock()));
    }
    let events: usize = executions.iter().map(|execution| execution.events().len()).sum();
    let of = format!("{} · {}", counted(executions.len(), "run"), counted(events, "event"));
    report(&found, &of, settings.decisions, args, color)
}

/// Infers from a table of snapshots, which needs no executions.
fn infer_snapshots(snapshots: &Snapshots, args: &InferArgs, color: Color) -> Result<Code> {
    let settings = settings(args)?;
    let found = {
        let _progress = Progress::new("inferring");
        always_snapshots(snapshots, &settings)
    };
    let of = format!(
        "{} · {}",
        counted(snapshots.snapshots(), "snapshot"),
        counted(snapshots.nodes.len(), "node")
    );
    report(&found, &of, settings.decisions, args, color)
}

fn report(
    found: &Always,
    of: &str,
    decisions: Decisions,
    args: &InferArgs,
    color: Color,
) -> Result<Code> {
    let shown: Vec<Property> = found.lines.iter().map(|line| line.property.clone()).collect();
    decided::write_down(&args.decided, decisions, &shown)?;
    if let Some(path) = &args.out {
        fs::write(path, print_all(&shown)).with_context(|| format!("{}", path.display()))?;
    }
    let mut out = io::stdout().lock();
    if let Some(old) = &args.decided.diff {
        decided::write_diff(old, &shown, &mut Plain(&mut out))?;
        out.flush()?;
        text::next(found, args);
    } else if args.json {
        json::write(found, args.all, &mut PlainJson(&mut out))?;
    } else {
        text::write(found, of, args, Paint::new(color), &mut Painted(&mut out))?;
    }
    out.flush()?;
    Ok(if found.lines.is_empty() { Code::Unknown } else { Code::Holds })
}

fn executions(given: &[Given]) -> Vec<&Execution> {
    given.iter().flat_map(|given| &given.executions).collect()
}

/// The traces as given on the command line; of several, the first one and dots.
fn traces(args: &InferArgs) -> String {
    const MAX: usize = 5;
    let quoted = args.traces.iter().map(|path| hint::quoted(&path.display().to_string()));
    let mut words: Vec<String> = quoted.collect();
    if words.len() > MAX {
        words.truncate(1);
        words.push("...".into());
    }
    words.join(" ")
}

fn settings(args: &InferArgs) -> Result<Settings> {
    let settings = Settings::default()
        .lines_max(args.lines)
        .memory_max(memory(args))
        .decisions(decided::read(&args.decided)?);
    Ok(match args.scopes.as_slice() {
        [] => settings,
        words => settings.scopes(words.iter().map(|word| scope(*word))),
    })
}

/// The number of bytes that may be used.
fn memory(args: &InferArgs) -> usize {
    usize::try_from(u64::from(args.max_memory) << 20).unwrap_or(usize::MAX)
}

fn scope(word: ScopeWord) -> Scope {
    match word {
        ScopeWord::EveryCut => Scope::EveryCut,
        ScopeWord::Quiet => Scope::Quiet,
        ScopeWord::AllQuiet => Scope::AllQuiet,
        ScopeWord::Delivery => Scope::Delivery,
        ScopeWord::Chains => Scope::Chains,
    }
}
