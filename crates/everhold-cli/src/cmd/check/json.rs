//! The report for programs: one JSON object per line, whose field `is` gives its kind.
//!
//! A `result` is one property on one run, a `property` covers all runs of it, a `summary` ends the
//! report, and an `error` is an input or a property that cannot be used.

use std::io::{self, Write};

use everhold_property::{CutViolation, Method, Scope, Shown, Verdict};
use everhold_trace::Execution;
use everhold_trace::value::json::to_json;
use serde_json::{Map, Value as Json, json};

use super::text::modality;
use super::{Judged, Judgement, Report, Told, orders};
use crate::exit::BadInput;
use crate::words;

/// Writes the result of a property on the last run that was judged, or all of them together.
pub(super) fn write(judgement: &Judgement<'_>, told: Told, out: &mut impl Write) -> io::Result<()> {
    match (told, judgement.runs.last()) {
        (Told::Run { .. }, Some(judged)) => writeln!(out, "{}", result(judgement, judged)),
        (Told::Run { .. }, None) => Ok(()),
        (Told::All, _) => write_all(judgement, out),
    }
}

fn write_all(judgement: &Judgement<'_>, out: &mut impl Write) -> io::Result<()> {
    let property = judgement.rule.property();
    let object = json!({
        "is": "property",
        "property": property.name,
        "claim": modality(property),
        "verdict": judgement.verdict().to_string(),
        "tested": judgement.untested().is_none(),
        "why_untested": judgement.untested().map(|untested| &untested.reason),
        "help": judgement.untested().and_then(|untested| untested.help.as_ref()),
        "runs": judgement.runs.len(),
    });
    writeln!(out, "{object}")
}

pub(super) fn write_end(
    report: &Report<'_>,
    errors: &[BadInput],
    out: &mut impl Write,
) -> io::Result<()> {
    for error in errors {
        writeln!(out, "{}", json!({"is": "error", "message": error.to_string()}))?;
    }
    let count = |verdict| report.count(verdict);
    let summary = json!({
        "is": "summary",
        "verdict": report.verdict().to_string(),
        "holds": count(Verdict::Holds),
        "violated": count(Verdict::Violated),
        "unknown": count(Verdict::Unknown),
        "untested": report.untested(),
        "runs": report.runs.len(),
        "errors": errors.len(),
    });
    writeln!(out, "{summary}")
}

fn result(judgement: &Judgement<'_>, judged: &Judged<'_>) -> Json {
    let property = judgement.rule.property();
    let (outcome, execution) = (&judged.outcome, judged.run.execution);
    let tally = outcome.tally;
    let why = (outcome.verdict == Verdict::Unknown).then(|| judged.why(judgement.rule));
    json!({
        "is": "result",
        "property": property.name,
        "claim": modality(property),
        "scope": scope(property.scope),
        "file": judged.run.given.name,
        "run": execution.name(),
        "run_number": judged.run.place + 1,
        "verdict": outcome.verdict.to_string(),
        "judged_on": method(outcome.method),
        "all_orders_decided": match outcome.method {
            Method::RecordedOrder => orders::all_decided(judgement.rule, execution),
            _ => outcome.bound.is_none(),
        },
        "cases": {
            "true": tally.holds,
            "false": tally.violated,
            "unknown": tally.unknown,
            "out_of_scope": tally.skipped,
        },
        "bound_reached": outcome.bound,
        "why_unknown": why,
        "violation": outcome.violation.as_ref().map(|found| violation(execution, found)),
    })
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::EveryCut => "at every cut",
        Scope::Quiet => "when quiet",
        Scope::AllQuiet => "when all quiet",
        Scope::Delivery => "on delivery",
        Scope::Chains => "along chains",
    }
}

fn method(method: Method) -> &'static str {
    match method {
        Method::Tuples => "compatible states",
        Method::Cuts => "cuts",
        Method::Windows => "windows of compatible states",
        Method::Weights => "weights of events",
        Method::RecordedOrder => "recorded order",
        Method::Deliveries => "deliveries",
        Method::Chains => "chains",
    }
}

fn violation(execution: &Execution, violation: &CutViolation) -> Json {
    let states = execution.local_states();
    let node = |(node, count): (everhold_trace::NodeId, &u32)| {
        let last = count.checked_sub(1).map(|last| execution.events_of(node)[last as usize]);
        json!({
            "node": execution.node(node).name,
            "events": count,
            "event": last.map(|event| event.0),
            "what": last.map(|event| words::event(execution, event)),
            "state": states.at(node, *count as usize).map(to_json),
        })
    };
    let cut: Vec<Json> = execution.node_ids().zip(&violation.cut).map(node).collect();
    let shown = |items: &[Shown]| {
        let item = |item: &Shown| {
            let value = item.value.as_ref().ok().map(to_json);
            json!({"text": item.text, "value": value, "shown": item.shown})
        };
        items.iter().map(item).collect::<Vec<_>>()
    };
    let mut object = Map::new();
    object.insert("event".into(), json!(violation.event.map(|event| event.0)));
    object.insert("reason".into(), json!(violation.reason.to_string()));
    object.insert("bindings".into(), json!(shown(&violation.witness.bindings)));
    object.insert("values".into(), json!(shown(&violation.witness.values)));
    object.insert("cut".into(), json!(cut));
    Json::Object(object)
}
