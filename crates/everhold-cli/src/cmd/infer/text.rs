//! The report for people.

use std::io::{self, Write};

use everhold_infer::{Always, Line};
use everhold_property::{ExprKind, Property, Scope, print};

use crate::args::InferArgs;
use crate::hint;
use crate::paint::Paint;
use crate::words::{counted, number};

pub(super) fn write(
    found: &Always,
    of: &str,
    args: &InferArgs,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    for (place, line) in found.lines.iter().enumerate() {
        write_line(place + 1, line, paint, out)?;
    }
    if args.all {
        write_hidden(found, out)?;
    }
    if found.lines.is_empty() {
        writeln!(out, "not enough evidence for any property{}", reasons(found))?;
    }
    for bound in &found.bounds {
        writeln!(out, "note: {bound}; raise with --max-memory (now {} MiB)", args.max_memory)?;
    }
    writeln!(
        out,
        "{} of {} that held, {} tried · {of}",
        counted(found.lines.len(), "line"),
        number((found.lines.len() + found.hidden.len()) as u64),
        number(found.tried)
    )?;
    next(found, args);
    Ok(())
}

fn write_line(place: usize, line: &Line, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let text = print(&line.property);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    writeln!(out, "{place:>3}. {}", paint.bold(first))?;
    for rest in lines {
        writeln!(out, "     {rest}")?;
    }
    writeln!(out, "     {}\n", support(line))
}

/// What speaks for a line: where, how often, how many different values, how sure.
fn support(line: &Line) -> String {
    format!(
        "{} {}, {} distinct pairs of values, {} sure",
        number(line.samples),
        cases(&line.property),
        number(line.distinct),
        percent(line.confidence)
    )
}

/// What was counted.
fn cases(property: &Property) -> &'static str {
    let quantified = match &property.body.kind {
        ExprKind::Quantified { over, .. } => {
            over.binders.iter().map(|binder| binder.pattern.idents().len()).sum()
        }
        _ => 0,
    };
    let past = property.body.any(&mut |expr| matches!(expr.kind, ExprKind::History { .. }));
    match (property.scope, quantified) {
        (Scope::Delivery, _) => "deliveries",
        (Scope::Chains, _) => "pairs of states on a chain",
        (Scope::Quiet | Scope::AllQuiet, _) => "quiet pairs of states",
        (Scope::EveryCut, _) if past => "steps",
        (Scope::EveryCut, 0 | 1) => "local states",
        (Scope::EveryCut, _) => "pairs of compatible states",
    }
}

/// Never rounded up to certainty.
fn percent(confidence: f64) -> String {
    let shown = (confidence * 10_000.0).floor() / 100.0;
    if shown >= 99.99 { "over 99.99 %".into() } else { format!("{shown:.2} %") }
}

fn reasons(found: &Always) -> String {
    let left_out: Vec<String> =
        found.left_out.iter().take(5).map(|(name, why)| format!("`{name}`: {why}")).collect();
    match (found.tried, left_out.is_empty()) {
        (0, true) => ": no node shows a state; record observations, or name variables when \
                      importing (`everhold help logs`)"
            .into(),
        (_, true) => "; record more runs, or look at what held with --all".into(),
        (_, false) => format!("\n  {}", left_out.join("\n  ")),
    }
}

fn write_hidden(found: &Always, out: &mut impl Write) -> io::Result<()> {
    for hidden in &found.hidden {
        writeln!(out, "hidden: {}\n  {}", hidden.property.name, hidden.reason)?;
    }
    for (name, why) in &found.left_out {
        writeln!(out, "left out: `{name}`: {why}")?;
    }
    writeln!(out)
}

fn next(found: &Always, args: &InferArgs) {
    let trace = hint::quoted(&args.traces[0].display().to_string());
    let reading = hint::reading(&args.input);
    match (&args.out, found.lines.is_empty()) {
        (_, true) => hint::next(&format!("everhold infer {trace}{reading} --all")),
        (Some(path), false) => {
            let path = hint::quoted(&path.display().to_string());
            hint::next(&format!("everhold check {path} {trace}{reading}"));
        }
        (None, false) => {
            hint::next(&format!("everhold infer {trace}{reading} --out inferred.prop"));
        }
    }
}
