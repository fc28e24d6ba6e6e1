//! The report for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use everhold_infer::{Always, Line, ReasonKind};
use everhold_property::{Binder, Domain, ExprKind, Property, Scope, print};

use crate::args::InferArgs;
use crate::hint;
use crate::paint::Paint;
use crate::terminal;
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
        let more = if bound.is_of_memory() {
            format!("; raise with --max-memory (now {} MiB)", args.max_memory)
        } else {
            String::new()
        };
        writeln!(out, "note: {bound}{more}")?;
    }
    for unjudged in &found.unjudged {
        writeln!(out, "note: {unjudged}")?;
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
    let mut first = wrapped(first, terminal::width()).into_iter();
    writeln!(out, "{place:>3}. {}", paint.bold(&first.next().unwrap_or_default()))?;
    for more in first {
        writeln!(out, "       {}", paint.bold(&more))?;
    }
    for rest in lines {
        writeln!(out, "     {rest}")?;
    }
    writeln!(out, "     {}\n", support(line))
}

/// Breaks a line between words; the scope after the name is not broken.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut found: Vec<String> = vec![String::new()];
    let (name, scope) = match line.rfind("\" ") {
        Some(end) => (&line[..=end], Some(&line[end + 2..])),
        None => (line, None),
    };
    for word in name.split(' ').chain(scope) {
        let last = found.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() > width - 7 {
            found.push(word.to_owned());
        } else {
            *last += " ";
            *last += word;
        }
    }
    found
}

/// The support for a line: where and how often it was judged, on how many different values, and
/// with what confidence.
fn support(line: &Line) -> String {
    format!(
        "{} {}, {} distinct cases, {} sure",
        number(line.samples),
        cases(&line.property),
        number(line.distinct),
        percent(line.confidence)
    )
}

/// The noun for the cases that were counted.
fn cases(property: &Property) -> &'static str {
    let binders: &[Binder] = match &property.body.kind {
        ExprKind::Quantified { over, .. } => &over.binders,
        _ => &[],
    };
    let count = |of_nodes: bool| -> usize {
        let own = binders.iter().filter(|b| matches!(b.domain, Domain::Nodes { .. }) == of_nodes);
        own.map(|binder| binder.pattern.idents().len()).sum()
    };
    let past = property.body.any(&mut |expr| matches!(expr.kind, ExprKind::History { .. }));
    match (property.scope, count(true), count(false)) {
        (Scope::Delivery, ..) => "deliveries",
        (Scope::Chains, ..) => "pairs of states on a chain",
        (Scope::Quiet | Scope::AllQuiet, ..) => "quiet pairs of states",
        (Scope::EveryCut, ..) if past => "steps",
        (Scope::EveryCut, 0, _) => "global states",
        (Scope::EveryCut, 1, 0) => "local states",
        (Scope::EveryCut, 1, _) => "elements",
        (Scope::EveryCut, _, 0) => "pairs of compatible states",
        (Scope::EveryCut, ..) => "pairs of elements",
    }
}

/// A confidence in per cent, never rounded up to 100.
fn percent(confidence: f64) -> String {
    let shown = (confidence * 10_000.0).floor() / 100.0;
    if shown >= 99.99 { "over 99.99 %".into() } else { format!("{shown:.2} %") }
}

fn reasons(found: &Always) -> String {
    let left_out: Vec<String> = found.left_out.iter().take(5).map(ToString::to_string).collect();
    match (found.tried, left_out.is_empty()) {
        (0, true) => ": no node shows a state; record observations, or name variables when \
                      importing (`everhold help logs`)"
            .into(),
        (_, true) => "; record more runs, or use --all to list everything that held".into(),
        (_, false) => format!("\n  {}", left_out.join("\n  ")),
    }
}

fn write_hidden(found: &Always, out: &mut impl Write) -> io::Result<()> {
    for hidden in &found.hidden {
        writeln!(out, "hidden: {}\n  {}", hidden.property.name, hidden.reason)?;
    }
    for left_out in &found.left_out {
        writeln!(out, "left out: {left_out}")?;
    }
    let mut kinds: BTreeMap<ReasonKind, usize> = BTreeMap::new();
    for hidden in &found.hidden {
        *kinds.entry(hidden.reason.kind()).or_default() += 1;
    }
    for (kind, count) in kinds {
        writeln!(out, "{} hidden: {kind}", number(count as u64))?;
    }
    writeln!(out)
}

pub(super) fn next(found: &Always, args: &InferArgs) {
    let trace = super::traces(args);
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
