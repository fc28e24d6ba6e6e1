//! The format of a file, detected from its beginning, or from its name where that is ambiguous.

use std::path::Path;

use crate::args::InputFormat;

/// Returns the format, or a description of the file's apparent content and a remedy.
pub(super) fn format(head: &[u8], path: &Path) -> Result<InputFormat, String> {
    if head.contains(&0) {
        return Err("a binary file, not a trace or a log".into());
    }
    let text = String::from_utf8_lossy(head);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let Some(first) = text.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return Err("the file is empty".into());
    };
    if let Some(format) = by_content(first, text) {
        return Ok(format);
    }
    by_name(path).ok_or_else(|| {
        "not a trace, and no log that is recognised; say what it is with --format, or with \
         --parser how its events look (`everhold help logs` has the formats)"
            .into()
    })
}

fn by_content(first: &str, text: &str) -> Option<InputFormat> {
    let groups = ["(?<host>", "(?<clock>", "(?<event>"];
    if groups.iter().all(|group| first.contains(group)) {
        return Some(InputFormat::Shiviz);
    }
    if first.starts_with('{') {
        let has = |key: &str| first.contains(&format!("\"{key}\""));
        return Some(match () {
            () if has("everhold") || has("is") => InputFormat::Native,
            () if has("VectorClock") => InputFormat::Dinv,
            () => InputFormat::Ndjson,
        });
    }
    if first.split(',').any(|column| column.trim().trim_matches('"') == "node") {
        return Some(InputFormat::Csv);
    }
    let columns: Vec<&str> = first.split(',').map(|c| c.trim().trim_matches('"')).collect();
    if columns.contains(&"from") && columns.contains(&"to") {
        return Some(InputFormat::Messages);
    }
    // A line with a host and its clock: `a {"a":1, "b":2}`.
    let has_clock = |line: &str| line.contains(" {\"") && line.trim_end().ends_with('}');
    text.lines().take(20).any(has_clock).then_some(InputFormat::Shiviz)
}

fn by_name(path: &Path) -> Option<InputFormat> {
    let name = path.file_name()?.to_str()?.to_lowercase();
    let name = name.strip_suffix(".zst").or(name.strip_suffix(".gz")).unwrap_or(&name);
    Some(match name.rsplit_once('.')?.1 {
        "log" | "shiviz" => InputFormat::Shiviz,
        "csv" => InputFormat::Csv,
        "ndjson" | "jsonl" => InputFormat::Ndjson,
        "trace" | "everhold" => InputFormat::Native,
        _ => return None,
    })
}
