//! `everhold findings`: the last outcome of each test, and what failed.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Result;
use serde_json::json;

use crate::args::FindingsArgs;
use crate::ci::{self, Case};
use crate::exit::{BadInput, Code};
use crate::findings::{self, Finding, Outcome, ago};
use crate::hint;
use crate::plain::{Plain, plain};
use crate::words::{counted, number, short};

pub(crate) fn run(args: &FindingsArgs) -> Result<Code> {
    let folder = args.folder.clone().unwrap_or_else(findings::folder);
    let outcomes = findings::outcomes(&folder);
    if outcomes.is_empty() {
        let text = format!(
            "{} has no outcomes of tests: a `cargo test` that explores with Everhold writes them",
            folder.display()
        );
        return Err(BadInput(text).into());
    }
    if let Some(path) = &args.junit {
        let cases: Vec<Case> = outcomes.iter().map(case).collect();
        ci::junit("everhold tests", &cases, path)?;
    }
    ci::step_summary(|| Ok(summary(&outcomes)))?;
    let mut out = Plain(io::stdout().lock());
    for outcome in &outcomes {
        if args.json { write_json(outcome, &mut out)? } else { write(outcome, args, &mut out)? }
    }
    out.flush()?;
    let failed = outcomes.iter().find(|outcome| outcome.fails);
    if let Some(id) = failed.and_then(|outcome| Some(&outcome.finding.as_ref()?.id)) {
        hint::next(&format!("everhold replay {id}"));
    }
    Ok(if failed.is_some() { Code::Violated } else { Code::Holds })
}

fn write(outcome: &Outcome, args: &FindingsArgs, out: &mut impl Write) -> io::Result<()> {
    if args.failing && !outcome.fails {
        return Ok(());
    }
    let sign = if outcome.fails { "✗" } else { "✓" };
    writeln!(out, "{sign} {}  {} · {}", outcome.name, outcome.verdict, ago(outcome.written))?;
    let Some(finding) = &outcome.finding else {
        let executions =
            counted(usize::try_from(outcome.executions).unwrap_or(usize::MAX), "execution");
        writeln!(
            out,
            "    {executions}, {} orders · {}",
            number(outcome.coverage.orders),
            tested(outcome)
        )?;
        for untested in &outcome.untested {
            writeln!(out, "    ! {untested}")?;
        }
        return Ok(());
    };
    writeln!(out, "    {}: {}", finding.cause, short(&finding.message, 160))?;
    writeln!(out, "    {} · everhold replay {}", sizes(finding), finding.id)
}

/// The number of properties and goals.
fn tested(outcome: &Outcome) -> String {
    let reached = outcome.goals.iter().filter(|goal| goal.reached > 0).count();
    let goals = match outcome.goals.len() {
        0 => String::new(),
        all => format!(", {reached} of {} reached", counted(all, "goal")),
    };
    let properties = match outcome.properties.len() {
        1 => "1 property".to_owned(),
        many => format!("{many} properties"),
    };
    format!("{properties}{goals}")
}

fn sizes(finding: &Finding) -> String {
    format!("{}, {}", counted(finding.steps, "step"), counted(finding.faults, "fault"))
}

fn write_json(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let line = json!({
        "name": outcome.name,
        "test": outcome.test,
        "package": outcome.package,
        "verdict": outcome.verdict,
        "fails": outcome.fails,
        "executions": outcome.executions,
        "seconds": outcome.seconds,
        "properties": outcome.properties,
        "finding": outcome.finding.as_ref().map(|finding| json!({
            "id": finding.id,
            "cause": finding.cause,
            "message": finding.message,
            "steps": finding.steps,
            "faults": finding.faults,
            "replay": finding.replay,
        })),
    });
    writeln!(out, "{line}")
}

fn case(outcome: &Outcome) -> Case {
    let class = outcome.package.clone().unwrap_or_else(|| "everhold".to_owned());
    let text = match &outcome.finding {
        Some(finding) => format!("{}\n{}\n{}", finding.cause, finding.message, finding.replay),
        None => outcome.summary.clone(),
    };
    let title = match outcome.verdict.as_str() {
        "violated" => "violated",
        "diverged" => "diverged",
        // Without a violation a test fails because something was never tested.
        _ => "untested",
    };
    let result = match outcome.fails {
        true => ci::Outcome::Failed(title, text),
        false => ci::Outcome::Passed,
    };
    Case { class, name: outcome.name.clone(), outcome: result }
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut text = "### everhold tests\n\n| test | verdict | finding |\n|---|---|---|\n".to_owned();
    for outcome in outcomes {
        let finding = outcome.finding.as_ref();
        let finding =
            finding.map_or_else(String::new, |one| format!("{} ({})", one.cause, sizes(one)));
        let cells = [&outcome.name, &outcome.verdict, &finding]
            .map(|cell| ci::escaped(&plain(cell).replace(['\n', '`'], " ")).replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
