//! The report for programs: one JSON object a line.

use std::io::{self, Write};

use everhold_infer::Always;
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
            "reason": hidden.reason,
        });
        writeln!(out, "{object}")?;
    }
    for (name, reason) in found.left_out.iter().filter(|_| all) {
        writeln!(out, "{}", json!({ "left_out": name, "reason": reason }))?;
    }
    for bound in &found.bounds {
        writeln!(out, "{}", json!({ "bound": bound }))?;
    }
    Ok(())
}
