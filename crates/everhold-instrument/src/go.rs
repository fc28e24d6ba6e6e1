//! Packages of Go.

use crate::insert::Inserted;

/// Adds the import of the probe, on the line of the package clause.
pub(crate) fn imported(mut inserted: Inserted) -> Inserted {
    const IMPORT: &str = "; import everhold \"everhold.dev/probe\"";
    let mut at = 0;
    for line in inserted.text.split_inclusive('\n') {
        if line.starts_with("package ") {
            let words: usize = "package ".len();
            let name = line[words..].find(|c: char| !(c.is_alphanumeric() || c == '_'));
            at += words + name.unwrap_or(line.len() - words);
            break;
        }
        at += line.len();
    }
    inserted.text.insert_str(at, IMPORT);
    for (range, _) in &mut inserted.parts {
        *range = range.start + IMPORT.len()..range.end + IMPORT.len();
    }
    inserted
}

/// Reads a package and returns its facts.
///
/// # Errors
///
/// If Go is not installed, or the package cannot be read.
pub fn read(_folder: &std::path::Path, _entries: &crate::Entries) -> Result<crate::facts::Facts, String> {
    Err("Go".to_owned())
}

/// Copies a module.
///
/// # Errors
///
/// If a file cannot be read or written.
pub fn copy(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    crate::copy::tree(from, to)
}

/// Checks a module.
///
/// # Errors
///
/// If Go cannot be run.
pub fn check(_package: &std::path::Path) -> std::io::Result<crate::cargo::Checked> {
    Ok(crate::cargo::Checked::default())
}
