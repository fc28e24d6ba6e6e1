//! The report for people.

use std::io::{self, Write};

use everhold_property::{
    CutViolation, Method, Modality, Property, Reason, Scope, Tally, Verdict, sampling_text,
};
use everhold_trace::{Execution, NodeId, Value};

use super::{Judged, Judgement, Report, Told, orders};
use crate::args::CheckArgs;
use crate::hint;
use crate::paint::Paint;
use crate::words::{self, amount, counted, number, pad, short};

pub(super) fn write_end(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let events: usize = report.runs.iter().map(|run| run.execution.events().len()).sum();
    let counts = [Verdict::Holds, Verdict::Violated, Verdict::Unknown].map(|v| report.count(v));
    let untested = match report.untested() {
        0 => String::new(),
        count => format!(" ({count} never put to the test)"),
    };
    writeln!(
        out,
        "{} hold{untested}, {} violated, {} unknown · {} · {}",
        counts[0],
        counts[1],
        counts[2],
        counted(report.runs.len(), "run"),
        counted(events, "event")
    )
}

/// Writes a property with its first violation as soon as there is one, otherwise when all runs were
/// judged. What is known only then of a violated property follows in one line.
pub(super) fn write(
    judgement: &Judgement<'_>,
    told: Told,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    match told {
        Told::Run { violates_first: true } => write_judgement(judgement, paint, out),
        Told::Run { violates_first: false } => Ok(()),
        Told::All if !judgement.is_violated() => write_judgement(judgement, paint, out),
        Told::All => write_share(judgement, paint, out),
    }
}

/// In how many runs a property is violated, if there are several.
fn write_share(judgement: &Judgement<'_>, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let is_violated = |judged: &&Judged<'_>| judged.outcome.verdict == Verdict::Violated;
    let (some, all) = (judgement.runs.iter().filter(is_violated).count(), judgement.runs.len());
    if all > 1 {
        write_title(judgement, paint, out)?;
        writeln!(out, "          violated in {some} of {all} runs; the first is shown above\n")?;
    }
    Ok(())
}

fn write_title(judgement: &Judgement<'_>, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let property = judgement.rule.property();
    let verdict = judgement.verdict();
    let word = paint.verdict(verdict, &format!("{:8}", verdict.to_string()));
    let title = format!("{} \"{}\"", modality(property), property.name);
    writeln!(out, "{word}  {}", paint.bold(&title))
}

pub(super) fn write_judgement(
    judgement: &Judgement<'_>,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let property = judgement.rule.property();
    let verdict = judgement.verdict();
    write_title(judgement, paint, out)?;
    let part = sampling_text(property.sampling);
    if !part.is_empty() {
        writeln!(out, "          judged in full: `{part}` is for a watch")?;
    }
    if let Some(untested) = judgement.untested() {
        let help = untested.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        writeln!(out, "          but was never put to the test: {}{help}", untested.reason)?;
    }
    for how in methods(judgement) {
        writeln!(out, "          {how}")?;
    }
    let same = |judged: &&Judged<'_>| judged.outcome.verdict == verdict;
    let decisive: Vec<&Judged<'_>> = judgement.runs.iter().filter(same).collect();
    if judgement.runs.len() > 1 && verdict == Verdict::Unknown {
        let (some, all) = (decisive.len(), judgement.runs.len());
        writeln!(out, "          {verdict} in {some} of {all} runs")?;
    }
    if let Some(judged) = decisive.first() {
        match (&judged.outcome.violation, verdict) {
            (Some(violation), Verdict::Violated) => write_violation(judged, violation, out)?,
            (_, Verdict::Unknown) => {
                let why = judged.why(judgement.rule);
                writeln!(out, "          {}: {why}", judged.run.name())?;
            }
            _ => {}
        }
    }
    writeln!(out)
}

pub(super) fn modality(property: &Property) -> &'static str {
    match property.modality {
        Modality::Always | Modality::LeadsTo { .. } => "always",
        Modality::Sometimes => "sometimes",
        Modality::Eventually { .. } => "eventually",
        Modality::Finally { .. } => "finally",
    }
}

/// The methods by which the property was judged, one line each: the runs of a file may need
/// several.
fn methods(judgement: &Judgement<'_>) -> Vec<String> {
    let mut ways: Vec<Way> = Vec::new();
    for Judged { run, outcome, .. } in &judgement.runs {
        let way = Way {
            method: outcome.method,
            bounded: outcome.bound.is_some(),
            all_decided: outcome.method == Method::RecordedOrder
                && orders::all_decided(judgement.rule, run.execution),
            tally: outcome.tally,
        };
        match ways.iter_mut().find(|other| other.is_like(&way)) {
            Some(same) => same.add(way.tally),
            None => ways.push(way),
        }
    }
    ways.iter().map(|way| way.words(judgement)).collect()
}

/// One method of judging, with its results over some runs.
struct Way {
    method: Method,
    bounded: bool,
    /// Whether the recorded order decides the property for all orders.
    all_decided: bool,
    tally: Tally,
}

impl Way {
    fn is_like(&self, other: &Way) -> bool {
        (self.method, self.bounded, self.all_decided)
            == (other.method, other.bounded, other.all_decided)
    }

    fn add(&mut self, tally: Tally) {
        self.tally.holds += tally.holds;
        self.tally.violated += tally.violated;
        self.tally.unknown += tally.unknown;
        self.tally.skipped += tally.skipped;
    }

    fn words(&self, judgement: &Judgement<'_>) -> String {
        let Tally { holds, violated, unknown, skipped } = self.tally;
        let sometimes = judgement.rule.property().modality == Modality::Sometimes;
        let mut words = self.where_judged(judgement, holds + violated + unknown);
        if matches!(self.method, Method::Weights | Method::Windows) {
            // The cuts and pairs that violate the claim were not counted.
            return words;
        }
        let parts = [(violated, "false"), (unknown, "unknown"), (skipped, "out of scope")];
        for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
            // States in which a goal is not yet reached are not errors, so they are not mentioned.
            if !(sometimes && *what == "false") {
                words += &format!("; {} {what}", number(*count));
            }
        }
        words
    }

    fn where_judged(&self, judgement: &Judgement<'_>, judged: u64) -> String {
        let cuts = match judgement.rule.property().scope {
            Scope::Quiet => "every cut that is quiet between the nodes it binds",
            Scope::AllQuiet => "every quiet cut",
            Scope::EveryCut | Scope::Delivery | Scope::Chains => "every consistent cut",
        };
        let tuples = match orders::nodes_bound(judgement.rule) {
            Some(1) => amount(judged, "local state", "local states"),
            Some(2) => amount(judged, "pair of compatible states", "pairs of compatible states"),
            _ => amount(judged, "tuple of compatible states", "tuples of compatible states"),
        };
        let some_cuts = amount(judged, "cut", "cuts");
        let states = amount(judged, "state", "states");
        let goal = judgement.verdict() == Verdict::Holds
            && judgement.rule.property().modality == Modality::Sometimes;
        match (self.method, self.bounded) {
            (Method::Tuples, false) => format!("on {cuts}, by {tuples}"),
            (Method::Tuples, true) => format!("on {tuples}, then the bound was reached"),
            (Method::Windows, _) => format!("on {cuts}, by windows over {tuples}"),
            (Method::Weights, true) => {
                format!("on {cuts}, by the weights of events, until the bound was reached")
            }
            (Method::Weights, false) => format!("on {cuts}, by the weights of events"),
            (Method::Cuts, true) => format!("on {some_cuts}, then the bound was reached"),
            (Method::Cuts, false) if goal => format!("on {some_cuts}, one by one"),
            (Method::Cuts, false) => format!("on {cuts}, {} one by one", number(judged)),
            (Method::RecordedOrder, _) if self.all_decided => format!(
                "on {states} in the recorded order, which decides all orders: it is about \
                 the steps of one node"
            ),
            (Method::RecordedOrder, _) if goal => format!("in the recorded order, {states}"),
            (Method::RecordedOrder, _) => {
                format!("on {states} in the recorded order; other orders were not judged")
            }
            (Method::Deliveries, _) => format!("on {}", amount(judged, "delivery", "deliveries")),
            (Method::Chains, _) => {
                format!("on {}", amount(judged, "causal chain", "causal chains"))
            }
        }
    }
}

fn write_violation(
    judged: &Judged<'_>,
    violation: &CutViolation,
    out: &mut impl Write,
) -> io::Result<()> {
    let execution = judged.run.execution;
    let place = match violation.event {
        Some(event) => format!(
            "at event {} of {}: {}, {}",
            event.0,
            judged.run.name(),
            words::node(execution, execution.event(event).node),
            short(&words::event(execution, event), 60)
        ),
        None => format!("before the first event of {}", judged.run.name()),
    };
    let reason = match violation.reason {
        Reason::False => String::new(),
        reason => format!(" ({reason})"),
    };
    writeln!(out, "          first {place}{reason}")?;
    let shown = violation.witness.bindings.iter().chain(&violation.witness.values);
    for item in shown {
        writeln!(out, "            {} = {}", item.text, item.shown)?;
    }
    write_cut(execution, violation, out)
}

/// Writes the cut: each node with its last event and its state; the nodes that the witness binds
/// are marked.
fn write_cut(
    execution: &Execution,
    violation: &CutViolation,
    out: &mut impl Write,
) -> io::Result<()> {
    let states = execution.local_states();
    let names = execution.nodes().iter().map(|node| node.name.chars().count());
    let width = names.max().unwrap_or(0).max(4);
    writeln!(out, "          the cut, node by node:")?;
    writeln!(out, "            {}  event  what{}state", pad("node", width), " ".repeat(30))?;
    let bound = |node: NodeId| {
        let is = |value: &Result<Value, _>| matches!(value, Ok(Value::Node(id)) if *id == node);
        violation.witness.bindings.iter().any(|item| is(&item.value))
    };
    let mut idle = 0;
    for (node, count) in execution.node_ids().zip(&violation.cut) {
        let count = *count as usize;
        if count == 0 && !bound(node) {
            idle += 1;
            continue;
        }
        let (event, what) = match count.checked_sub(1) {
            Some(last) => {
                let id = execution.events_of(node)[last];
                (id.0.to_string(), short(&words::event(execution, id), 32))
            }
            None => ("-".to_owned(), "not started".to_owned()),
        };
        let state = states.at(node, count).map_or("none".to_owned(), ToString::to_string);
        let mark = if bound(node) { '>' } else { ' ' };
        let name = pad(&execution.node(node).name, width);
        let (what, state) = (pad(&what, 32), short(&state, 100));
        writeln!(out, "          {mark} {name}  {event:>5}  {what}  {state}")?;
    }
    if idle > 0 {
        writeln!(out, "            and {} before the first event", counted(idle, "node"))?;
    }
    Ok(())
}

/// Suggests the next command, with the options that read the same input.
pub(super) fn next(report: &Report<'_>, args: &CheckArgs) {
    let violated = report.judgements.iter().find(|j| j.verdict() == Verdict::Violated);
    let first =
        violated.and_then(|j| j.runs.iter().find(|judged| judged.outcome.violation.is_some()));
    let reading = hint::reading(&args.input);
    let Some(Judged { run, outcome, .. }) = first else {
        let trace = hint::quoted(&args.traces[0].display().to_string());
        return hint::next(&format!("everhold show {trace}{reading} --as stats"));
    };
    let event = outcome.violation.as_ref().and_then(|v| v.event).map_or(0, |event| event.0);
    let run_option = match run.given.executions.len() {
        1 => String::new(),
        _ => format!(" --run {}", run.place + 1),
    };
    let from = event.saturating_sub(10);
    let name = hint::quoted(&run.given.name);
    hint::next(&format!("everhold show {name}{reading}{run_option} --from {from} --to {event}"));
}
