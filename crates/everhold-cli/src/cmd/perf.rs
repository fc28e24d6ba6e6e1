//! `everhold perf`: slow executions of a bundled system, found and explained.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use everhold::sim::perf::{PerfReport, WhatIf};
use everhold::sim::timed::{Draws, Durations};
use everhold_systems::timed::{CASES, Case, How, Settings};

use crate::args::PerfArgs;
use crate::exit::{BadInput, Code};
use crate::progress::Progress;

/// Executions that handlers are measured in.
const TRAINING: u64 = 20;
/// MacePC's training executions.
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
        eprintln!("everhold: handler times are in {}", file.display());
        settings.durations = Some(trained);
        ready = case.ready(&settings).map_err(BadInput)?;
    }
    if args.durations.is_some() {
        warn_of_untrained(&ready.untrained());
    }
    let bug = args.bug.as_deref().unwrap_or(case.bugs[0]);
    let report = ready.perf(how(args, format!("{name} ({bug})"))?);
    print(args, &report)
}

fn list() -> Result<Code> {
    let mut out = io::stdout().lock();
    writeln!(out, "everhold perf SYSTEM [--bug NAME] [--nodes NUMBER]\n\nSystems:")?;
    for case in CASES {
        writeln!(out, "  {:12}  {}", case.name, case.about)?;
        writeln!(out, "  {:12}  {} nodes; bugs: {}", "", case.nodes, case.bugs.join(", "))?;
    }
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

fn how(args: &PerfArgs, name: String) -> Result<How> {
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
        name,
    })
}

/// One line on a terminal: the phase, how far it is, its rate and the time left.
fn progress() -> everhold::sim::perf::OnProgress {
    let line = Arc::new(Progress::new("simulating"));
    Box::new(move |now| {
        line.phase(now.phase, now.done as u64, now.total as u64);
    })
}

fn print(args: &PerfArgs, report: &PerfReport) -> Result<Code> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", report.data())?;
    } else {
        writeln!(out, "{}", report.save())?;
    }
    Ok(if report.interrupted() { Code::Interrupted } else { report.verdict().into() })
}
