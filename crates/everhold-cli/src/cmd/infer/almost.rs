//! `everhold infer --almost`: properties that held in all but a few cases.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use everhold_infer::{
    Accounting, Almost, AlmostInvariant, AlmostReport, Decision, Decisions, Explanation,
};
use everhold_property::{Library, Property, Schema, Scope, Type, nearest};
use everhold_trace::Execution;

use crate::args::{AccountingWord, AlmostArgs, InferArgs};
use crate::cmd::check::observe;
use crate::exit::{BadInput, Code};
use crate::hint;
use crate::input::Given;
use crate::plain::{Plain, PlainJson};
use crate::progress::Progress;

use super::decided;

pub(super) fn run(args: &InferArgs, given: &[Given]) -> Result<Code> {
    let executions: Vec<&Execution> = given.iter().flat_map(|given| &given.executions).collect();
    let wanted = &args.almost;
    let decisions = decided::read(&args.decided)?;
    let options = options(args)?;
    known(&wanted.only, &executions)?;
    let mut report = infer(&options, wanted, &executions, &decisions);
    report.found.retain(|found| decisions.of(&found.property) != Some(Decision::Reject));
    report.found.truncate(wanted.report_max);
    let shown: Vec<Property> = report.found.iter().map(|found| found.property.clone()).collect();
    decided::write_down(&args.decided, decisions, &shown)?;
    let mut out = Plain(io::stdout().lock());
    if let Some(number) = wanted.explain {
        decided::numbered(&shown, number)?;
        let found = &report.found[number - 1];
        writeln!(
            out,
            "{}\n{}\n",
            everhold_property::print(&found.property).trim_end(),
            found.measured()
        )?;
        write!(out, "{}", Explanation::of(found, &executions, &Library::new()))?;
        out.flush()?;
        next_of_explanation(found, given, args);
    } else if let Some(old) = &args.decided.diff {
        decided::write_diff(old, &shown, &mut out)?;
        out.flush()?;
        next_of_report(&report, args);
    } else if args.json {
        super::json::write_almost(&report, &mut PlainJson(&mut out.0))?;
    } else {
        write!(out, "{report}")?;
        out.flush()?;
        next_of_report(&report, args);
    }
    if let Some(path) = &args.out {
        fs::write(path, report.to_string())?;
    }
    if let Some(path) = &wanted.html {
        let html = super::page::page(&report, &executions).html();
        fs::write(path, html).with_context(|| format!("{}", path.display()))?;
        if !args.json {
            writeln!(out, "# report: {}", path.display())?;
        }
    }
    out.flush()?;
    Ok(if report.found.is_empty() { Code::Unknown } else { Code::Holds })
}

fn infer(
    options: &Almost,
    wanted: &AlmostArgs,
    executions: &[&Execution],
    decisions: &Decisions,
) -> AlmostReport {
    let _progress = Progress::new("inferring");
    // Ask for more, to replace those that are rejected.
    let rejected = decisions.all(Decision::Reject).count();
    let options = options.clone().report_max(options.report_max + rejected);
    match wanted.seconds {
        None => options.infer(executions, &Library::new()),
        Some(seconds) => {
            let begin = Instant::now();
            let budget = Duration::from_secs(seconds);
            options.infer_until(executions, &Library::new(), &|| begin.elapsed() >= budget)
        }
    }
}

fn options(args: &InferArgs) -> Result<Almost> {
    let wanted = &args.almost;
    let mut subtypes = std::collections::BTreeMap::new();
    for pair in &wanted.subtypes {
        let Some((variable, subtype)) = pair.split_once('=') else {
            let text = format!("--subtype takes VARIABLE=NAME, not `{pair}`");
            return Err(BadInput(text).into());
        };
        subtypes.insert(variable.to_owned(), subtype.to_owned());
    }
    let default = Almost::default();
    let scopes = scopes(args, &default)?;
    Ok(default
        .scopes(scopes)
        .nodes_max(wanted.max_nodes.into())
        .literals_max(wanted.max_literals.into())
        .properties_max(wanted.max_properties)
        .rate_min(wanted.min_rate)
        .evaluations_min(wanted.min_evaluations)
        .report_max(wanted.report_max)
        .accounting(match wanted.accounting {
            AccountingWord::Spatial => Accounting::Spatial,
            AccountingWord::Plain => Accounting::Plain,
        })
        .stable(wanted.stable)
        .variables(wanted.only.iter().cloned())
        .subtypes(subtypes)
        .memory_max(super::memory(args)))
}

/// Refuses variables that no node has.
fn known(wanted: &[String], executions: &[&Execution]) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut schema = Schema::default();
    executions.iter().for_each(|execution| observe(&mut schema, execution));
    let fields = |kind| match schema.state(kind) {
        Some(Type::Record(fields)) => fields.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let names: BTreeSet<&str> = schema.kinds().flat_map(fields).collect();
    for variable in wanted {
        let name = variable.split('.').next().unwrap_or_default();
        if !names.contains(name) {
            let listed = || names.iter().copied().collect::<Vec<_>>().join(", ");
            let help = nearest(name, names.iter().copied()).map_or_else(
                || format!("there are {}", listed()),
                |n| format!("did you mean `{n}`?"),
            );
            return Err(BadInput(format!("--only: no variable `{name}`; {help}")).into());
        }
    }
    Ok(())
}

fn scopes(args: &InferArgs, default: &Almost) -> Result<Vec<Scope>> {
    let scopes: Vec<Scope> = args.scopes.iter().map(|word| super::scope(*word)).collect();
    let other = scopes.iter().any(|scope| !default.scopes.contains(scope));
    match (scopes.is_empty(), other) {
        (true, _) => Ok(default.scopes.clone()),
        (false, false) => Ok(scopes),
        (false, true) => {
            let text = "--almost looks at snapshots: --scope every-cut or --scope all-quiet";
            Err(BadInput(text.to_owned()).into())
        }
    }
}

/// Suggests the next commands after the list.
fn next_of_report(report: &AlmostReport, args: &InferArgs) {
    let (traces, reading) = (super::traces(args), hint::reading(&args.input));
    match (&args.out, report.found.is_empty()) {
        (_, true) => hint::next(&format!("everhold infer {traces}{reading}")),
        (Some(path), false) => {
            let path = hint::quoted(&path.display().to_string());
            hint::next(&format!("everhold check {path} {traces}{reading}"));
        }
        (None, false) => {
            hint::next(&format!("everhold infer --almost {traces}{reading} --explain 1"));
        }
    }
}

/// Suggests the command that opens the first exception.
fn next_of_explanation(found: &AlmostInvariant, given: &[Given], args: &InferArgs) {
    let Some(first) = found.episodes.first() else { return };
    let mut run = first.run;
    for given in given {
        if run < given.executions.len() {
            let from = first.from.0.saturating_sub(10);
            hint::next(&format!(
                "everhold show {}{} --run {} --from {from} --to {}",
                hint::quoted(&given.name),
                hint::reading(&args.input),
                run + 1,
                first.from.0
            ));
            return;
        }
        run -= given.executions.len();
    }
}
