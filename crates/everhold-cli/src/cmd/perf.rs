//! `everhold perf`: slow executions of a bundled system, found and explained.

mod versions;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use everhold::perf::{PerfReport, Versions, WhatIf, default_seed, draw};
use everhold::timed::{Draws, Durations};
use everhold_systems::timed::{CASES, Case, How, Ready, Settings};

use crate::args::PerfArgs;
use crate::exit::{BadInput, Code};
use crate::hint;
use crate::progress::Progress;

/// The number of executions in which handlers are measured.
const TRAINING: u64 = 20;
/// The number of seeds on which two versions are compared.
const PAIRS: u64 = 60;
/// The number of MacePC's training executions.
const MACE_TRAINING: usize = 50;

pub(crate) fn run(args: &PerfArgs) -> Result<Code> {
    let Some(name) = &args.system else { return list() };
    let case = Case::find(name).map_err(BadInput)?;
    let durations = args.durations.as_deref().map(read_durations).transpose()?;
    let mut settings = Settings { bug: args.bug.clone(), nodes: args.nodes, durations };
    let mut ready = case.ready(&settings).map_err(BadInput)?;
    if let Some(file) = &args.train {
        let trained = ready.train(TRAINING);
        fs::write(file, trained.to_string())
            .map_err(|error| BadInput(format!("{} cannot be written: {error}", file.display())))?;
        let measured = Durations::MEASURED_AS;
        eprintln!("everhold: the durations of handlers ({measured}) are in {}", file.display());
        settings.durations = Some(trained);
        ready = case.ready(&settings).map_err(BadInput)?;
    }
    if args.durations.is_some() {
        warn_of_untrained(&ready.untrained());
    }
    if let Some(other) = &args.against {
        let reference = case.ready(&Settings { bug: Some(other.clone()), ..settings });
        return against(args, case, (ready, reference.map_err(BadInput)?), other);
    }
    let report = ready.perf(how(args, case, bug(args, case))?);
    print(args, &report, name)
}

/// The bug that was given, or the first one of the system.
fn bug<'a>(args: &'a PerfArgs, case: &Case) -> &'a str {
    args.bug.as_deref().unwrap_or(case.bugs[0])
}

/// Compares a version with a reference, on the same seeds.
fn against(
    args: &PerfArgs,
    case: &Case,
    (version, reference): (Ready, Ready),
    other: &str,
) -> Result<Code> {
    let bug = bug(args, case);
    let pairs = args.executions.unwrap_or(PAIRS) as usize;
    let how =
        |bug| Ok::<How, anyhow::Error>(How { executions: Some(pairs), ..how(args, case, bug)? });
    let measured = (version.measure(how(bug)?), reference.measure(how(other)?));
    let found = Versions::new(&measured.0, &measured.1);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
        return Ok(found.verdict().into());
    }
    let names = [bug, other].map(|bug| format!("{} ({bug})", case.name));
    write!(out, "{}", versions::text(&found, &names))?;
    if measured.0.len().min(measured.1.len()) < pairs {
        writeln!(out, "    cut short    {pairs} pairs were asked for")?;
    }
    out.flush()?;
    if let Some(widest) = found.widest {
        let draws = draw(args.seed.unwrap_or_else(default_seed), widest);
        hint::next(&format!("{} {}", replay_with(args, case, bug), draws.token()));
    }
    Ok(found.verdict().into())
}

fn list() -> Result<Code> {
    let mut out = io::stdout().lock();
    writeln!(out, "everhold perf SYSTEM [--bug NAME] [--nodes NUMBER]\n\nSystems:")?;
    for case in CASES {
        writeln!(out, "  {:12}  {}", case.name, case.about)?;
        writeln!(out, "  {:12}  {} nodes; bugs: {}", "", case.nodes, case.bugs.join(", "))?;
    }
    out.flush()?;
    hint::next("everhold perf randtree");
    Ok(Code::Holds)
}

fn read_durations(file: &Path) -> Result<Durations> {
    let text = fs::read_to_string(file)
        .map_err(|error| BadInput(format!("{} cannot be read: {error}", file.display())))?;
    let parsed = Durations::parse(&text);
    Ok(parsed.map_err(|error| BadInput(format!("{}: {error}", file.display())))?)
}

fn warn_of_untrained(kinds: &[String]) {
    if !kinds.is_empty() {
        let kinds = kinds.join(", ");
        eprintln!("everhold: no durations for {kinds}; they take the default of the file");
    }
}

fn how(args: &PerfArgs, case: &Case, bug: &str) -> Result<How> {
    let what_if: Result<Vec<WhatIf>, String> =
        args.what_if.iter().map(|change| change.parse()).collect();
    let replay = args.replay.as_deref().map(Draws::parse).transpose();
    Ok(How {
        executions: args.executions.map(|executions| executions as usize),
        seed: args.seed,
        workers: args.workers.map(|workers| workers as usize),
        time: args.time.map(Duration::from_secs),
        mace: args.mace.then_some((MACE_TRAINING, args.walks)),
        what_if: what_if.map_err(BadInput)?,
        replay: replay.map_err(|error| BadInput(error.to_string()))?,
        on_progress: Some(progress()),
        name: format!("{} ({bug})", case.name),
        replay_with: replay_with(args, case, bug),
    })
}

/// The command that runs an execution again, with all options that define the system.
fn replay_with(args: &PerfArgs, case: &Case, bug: &str) -> String {
    let mut command = format!("everhold perf {} --bug {bug}", case.name);
    if let Some(nodes) = args.nodes {
        command += &format!(" --nodes {nodes}");
    }
    if let Some(file) = args.durations.as_ref().or(args.train.as_ref()) {
        command += &format!(" --durations {}", hint::quoted(&file.display().to_string()));
    }
    // Whether an execution is slow depends on the executions that are drawn, so these options are
    // repeated.
    for (option, number) in [("--seed", args.seed), ("--executions", args.executions)] {
        if let Some(number) = number {
            command += &format!(" {option} {number}");
        }
    }
    command + " --replay"
}

/// Shows one line on a terminal: the phase, its progress, its rate and the time left.
fn progress() -> everhold::perf::OnProgress {
    let line = Arc::new(Progress::new("simulating"));
    Box::new(move |now| {
        line.phase(now.phase, now.done as u64, now.total as u64);
    })
}

fn print(args: &PerfArgs, report: &PerfReport, name: &str) -> Result<Code> {
    let mut out = io::stdout().lock();
    if let Some(path) = &args.html {
        fs::write(path, report.page().html())
            .map_err(|error| BadInput(format!("{} cannot be written: {error}", path.display())))?;
    }
    if args.json {
        writeln!(out, "{}", report.data())?;
    } else {
        writeln!(out, "{}", report.save())?;
        out.flush()?;
        match &args.html {
            Some(path) => {
                hint::next(&format!("everhold view {}", hint::quoted(&path.display().to_string())));
            }
            None => hint::next(&next(report, name)),
        }
    }
    Ok(if report.interrupted() { Code::Interrupted } else { report.verdict().into() })
}

/// The command that follows a report.
fn next(report: &PerfReport, name: &str) -> String {
    match (report.finding(), &report.mace) {
        (Some(finding), _) if finding.growth.is_none() => report.replay_line(&finding.token()),
        (Some(_), _) => format!("everhold perf {name} --against none"),
        (None, Some(_)) => format!("everhold perf {name}"),
        (None, None) if report.interrupted() || report.replayed.is_some() => {
            format!("everhold perf {name}")
        }
        (None, None) => format!("everhold perf {name} --nodes {}", 2 * report.nodes.len().max(1)),
    }
}
