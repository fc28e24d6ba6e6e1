//! `everhold replay-live`: replays a recording of deployed nodes in the explorer, and shrinks it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use everhold::trace::format::Writer;
use everhold::trace::{Execution, Value};
use everhold::{Explorer, Finding};
use everhold_live::recording::merge;
use everhold_systems::live::{CASES, Case};

use crate::args::ReplayLiveArgs;
use crate::exit::{BadInput, Code};
use crate::plain::{Plain, plain};

pub(crate) fn run(args: &ReplayLiveArgs) -> Result<Code> {
    if args.recordings.is_empty() {
        return list();
    }
    let recording = merge(&args.recordings).map_err(|error| BadInput(error.to_string()))?;
    let execution = &recording.executions[0];
    let noted = |key: &str| match execution.notes().get(key) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let system = args.system.clone().or_else(|| noted("system")).ok_or_else(|| {
        BadInput(
            "the recording does not say which system it is of; say it with --system".to_owned(),
        )
    })?;
    let case = Case::find(&system).map_err(|error| {
        BadInput(format!(
            "{error}. A system of your own is replayed by a test of its crate, with \
             `Explorer::replay_live` (`everhold help live`)"
        ))
    })?;
    let bug = args.bug.clone().or_else(|| noted("bug")).unwrap_or_else(|| "none".to_owned());
    describe(execution, case, &bug);
    let explorer = Explorer::new().regressions(false).name(case.name);
    let report = case.replay(explorer, execution, &bug).map_err(BadInput)?;
    if let (Some(file), Some(finding)) = (&args.out, report.finding()) {
        save(file, finding)?;
    }
    writeln!(Plain(io::stdout().lock()), "{report}")?;
    Ok(report.verdict().into())
}

fn list() -> Result<Code> {
    let mut out = io::stdout().lock();
    writeln!(out, "everhold replay-live RECORDING.. [--system NAME] [--bug NAME]\n\nSystems:")?;
    for case in CASES {
        writeln!(out, "  {:15}  {}", case.name, case.about)?;
        writeln!(out, "  {:15}  bugs: {}", "", case.bugs.join(", "))?;
    }
    Ok(Code::Holds)
}

fn describe(execution: &Execution, case: &Case, bug: &str) {
    let recorded = execution.node_ids().filter(|node| !execution.events_of(*node).is_empty());
    let names: Vec<&str> = recorded.map(|node| execution.node(node).name.as_str()).collect();
    let events = crate::words::counted(execution.events().len(), "event");
    let names = plain(&names.join(", "));
    eprintln!("everhold: {events} of {names} ({}, bug {})", case.name, plain(bug));
}

fn save(file: &Path, finding: &Finding) -> Result<()> {
    let fail =
        |error: io::Error| BadInput(format!("{} cannot be written: {error}", file.display()));
    let mut writer = Writer::new(BufWriter::new(File::create(file).map_err(fail)?));
    writer.execution(&finding.trace()).map_err(fail)?;
    writer.finish().and_then(|mut output| output.flush()).map_err(fail)?;
    Ok(())
}
