//! The files of a package.

use std::fs;
use std::io;
use std::path::Path;

use crate::facts::Skipped;

/// Folders with code of others.
const FOREIGN: &[&str] = &["vendor", "third_party", "node_modules"];

/// Folders that are no part of the source.
const NO_SOURCE: &[&str] = &["target", ".git", ".hg", ".svn", "testdata"];

/// Returns the files of a folder with this extension, by their paths relative to it, in order.
pub(crate) fn with_extension(
    folder: &Path,
    extension: &str,
    skipped: &mut Vec<Skipped>,
) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    walk(folder, "", extension, skipped, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(
    folder: &Path,
    prefix: &str,
    extension: &str,
    skipped: &mut Vec<Skipped>,
    found: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if FOREIGN.contains(&name.as_str()) {
                let reason = "it is code of others".to_owned();
                skipped.push(Skipped { path: format!("{path}/"), reason });
            } else if !NO_SOURCE.contains(&name.as_str()) && !name.starts_with('.') {
                walk(&entry.path(), &format!("{path}/"), extension, skipped, found)?;
            }
        } else if Path::new(&name).extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns whether a file says at its beginning that a program made it.
pub(crate) fn is_generated(text: &str) -> bool {
    let mut first = text.lines().take(20);
    first.any(|line| {
        let is_comment = line.trim_start().starts_with("//");
        is_comment && (line.contains("@generated") || line.contains("Code generated"))
    })
}
