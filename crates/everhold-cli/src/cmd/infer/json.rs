//! The report for programs: one JSON object per line.

use std::io::{self, Write};

use everhold_infer::{AlmostReport, Always, LeftOut, Unjudged};
use everhold_property::print;
use serde_json::json;

pub(super) fn write(found: &Always, all: bool, out: &mut impl Write) -> io::Result<()> {
    for line in &found.lines {
        let object = json!({
            "name": line.property.name,
            "property": print(&line.property),
            "samples": line.samples,
            "distinct": line.distinct,
            "confidence": line.confidence,
        });
        writeln!(out, "{object}")?;
    }
    for hidden in found.hidden.iter().filter(|_| all) {
        let object = json!({
            "hidden": hidden.property.name,
            "property": print(&hidden.property),
            "reason": hidden.reason.to_string(),
        });
        writeln!(out, "{object}")?;
    }
    for LeftOut { variable, why, .. } in found.left_out.iter().filter(|_| all) {
        writeln!(out, "{}", json!({ "left_out": variable, "reason": why.to_string() }))?;
    }
    for bound in &found.bounds {
        writeln!(out, "{}", json!({ "bound": bound.to_string() }))?;
    }
    for Unjudged { of, why, .. } in &found.unjudged {
        writeln!(out, "{}", json!({ "unjudged_totals": of, "reason": why.to_string() }))?;
    }
    Ok(())
}

/// Writes almost-invariants in the same form; runs and events are counted from 0.
pub(super) fn write_almost(report: &AlmostReport, out: &mut impl Write) -> io::Result<()> {
    for found in &report.found {
        let episodes = found.episodes.iter().map(|episode| {
            json!({ "run": episode.run, "from": episode.from.0, "to": episode.to.map(|to| to.0) })
        });
        let nodes =
            found.nodes.iter().map(|(name, count)| json!({"name": name, "exceptions": count}));
        let object = json!({
            "almost": found.property.name,
            "property": print(&found.property),
            "rate": found.rate,
            "interval": [found.interval.0, found.interval.1],
            "evaluations": found.evaluations,
            "exceptions": found.exceptions,
            "episodes": episodes.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
            "score": found.score.total(),
        });
        writeln!(out, "{object}")?;
    }
    for note in &report.left_out {
        writeln!(out, "{}", json!({ "bound": note.to_string() }))?;
    }
    Ok(())
}
