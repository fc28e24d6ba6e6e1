//! A trace as a page.

use std::path::Path;

use anyhow::Result;
use everhold_report::{Kind, Page, Window, judged};
use everhold_trace::{Execution, Value, notes};

use crate::args::ViewArgs;
use crate::cmd::check::Rules;
use crate::hint;
use crate::input::{self, choose_run};
use crate::words::counted;

/// The largest number of runs in one page.
const RUNS_MAX: usize = 20;
/// The largest number of events in a page; with more, a browser is slow to open it.
const EVENTS_MAX: usize = 100_000;

/// The page of a trace file: its runs, and the properties judged on the first of them.
pub(super) fn of_trace(path: &Path, args: &ViewArgs) -> Result<Page> {
    let given = input::read_one(path, &args.input)?;
    let runs = choose_run(&given, args.run.as_deref())?;
    let first = runs[0];
    let violated = first.notes().get(notes::PROPERTY).and_then(Value::as_text);
    let (kind, headline) = match violated {
        Some(property) => (Kind::Violation, property.to_owned()),
        None => (Kind::Trace, given.name.clone()),
    };
    let mut page = Page::new(kind, &headline, &title(first, &given.name));
    if runs.len() > RUNS_MAX {
        let more = counted(runs.len() - RUNS_MAX, "further run");
        page.note(&format!("not shown: {more} of the file; choose one with --run."));
    }
    facts(&mut page, path, args, first);
    if let Some(rules) = &args.rules {
        let rules = Rules::read(rules, &args.define, std::slice::from_ref(&given));
        let rules = rules.map_err(|wrong| crate::exit::BadInput::all(wrong.errors()))?;
        for rule in rules.about(first) {
            page.property(judged(&rule, first));
        }
    }
    let budget = EVENTS_MAX / runs.len().min(RUNS_MAX);
    for (place, run) in runs.iter().take(RUNS_MAX).enumerate() {
        page.execution(&run_title(run, place), run, &window(run, budget));
    }
    Ok(page)
}

fn title(execution: &Execution, file: &str) -> String {
    match execution.name() {
        "" => file.to_owned(),
        name => format!("{name} · {file}"),
    }
}

fn run_title(run: &Execution, place: usize) -> String {
    match run.name() {
        "" => format!("run {}", place + 1),
        name => format!("run {} · {name}", place + 1),
    }
}

fn facts(page: &mut Page, path: &Path, args: &ViewArgs, first: &Execution) {
    page.fact("nodes", counted(first.nodes().len(), "node"));
    page.fact("events", counted(first.events().len(), "event"));
    for (key, value) in first.notes() {
        if ![notes::PROPERTY, notes::STEP, notes::SCHEDULE].contains(&key.as_str()) {
            page.fact(key, value);
        }
    }
    if let Some(token) = first.notes().get(notes::SCHEDULE).and_then(Value::as_text) {
        page.command("replay", &format!("EVERHOLD_REPLAY={token} cargo test"));
    }
    let name = hint::quoted(&path.display().to_string());
    page.command("show", &format!("everhold show {name}{}", hint::reading(&args.input)));
}

fn window(run: &Execution, events_max: usize) -> Window {
    let violated = run.notes().contains_key(notes::PROPERTY);
    let step = run.notes().get(notes::STEP).and_then(Value::as_int);
    let violating = step.filter(|_| violated).and_then(|step| usize::try_from(step).ok());
    Window { violating, events_max, ..Window::default() }
}
