//! The runs of a folder, newest first.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::args::ViewArgs;
use crate::exit::BadInput;
use crate::serve::{Answer, Site, following};

use super::{one, written};

/// The depth to which nested folders are searched.
const DEPTH_MAX: u32 = 3;
/// The largest number of runs that are listed.
const RUNS_MAX: usize = 500;

/// A folder of runs.
pub(super) struct Folder {
    path: PathBuf,
    args: ViewArgs,
}

impl Folder {
    pub(super) fn new(path: &Path, args: &ViewArgs) -> Result<Folder, BadInput> {
        let folder = Folder { path: path.to_owned(), args: args.clone() };
        if folder.runs().is_empty() {
            return Err(BadInput(format!(
                "{} has no runs: neither report.html nor traces (.jsonl, .jsonl.zst). A failing \
                 `cargo test` writes them to target/everhold",
                path.display()
            )));
        }
        Ok(folder)
    }

    /// The findings that have a page of their own, and other traces.
    fn runs(&self) -> Vec<(SystemTime, PathBuf)> {
        let mut found = Vec::new();
        collect(&self.path, DEPTH_MAX, &mut found);
        found.sort_by(|a, b| b.cmp(a));
        found.truncate(RUNS_MAX);
        found
    }

    fn index(&self) -> String {
        let mut rows = String::new();
        for (place, (_, path)) in self.runs().iter().enumerate() {
            let name = path.strip_prefix(&self.path).unwrap_or(path).display().to_string();
            let _ = writeln!(rows, "<li><a href=\"/run/{place}\">{}</a></li>", escaped(&name));
        }
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\
             <title>Everhold</title><style>body{{font:15px/1.6 system-ui;margin:2em;\
             color-scheme:light dark}}</style><body><h1>Runs in {}</h1>\
             <p>Newest first; this page follows the folder.</p><ol>{rows}</ol></body></html>",
            escaped(&self.path.display().to_string())
        )
    }
}

fn collect(folder: &Path, depth: u32, found: &mut Vec<(SystemTime, PathBuf)>) {
    let page = folder.join("report.html");
    if let Some(time) = written(&page) {
        found.push((time, folder.to_owned()));
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_trace = [".jsonl", ".jsonl.zst"].iter().any(|ending| name.ends_with(ending));
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, found);
        } else if is_trace && let Some(time) = written(&path) {
            found.push((time, path));
        }
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let escape = |c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

impl Site for Folder {
    fn get(&self, path: &str) -> Answer {
        if path == "/" {
            return Answer::Html(following(&self.index()));
        }
        let place = path.strip_prefix("/run/").and_then(|place| place.parse::<usize>().ok());
        let runs = self.runs();
        let Some((_, run)) = place.and_then(|place| runs.get(place)) else {
            return Answer::Missing;
        };
        match one(run, &self.args) {
            Ok(html) => Answer::Html(following(&html)),
            Err(error) => Answer::Html(escaped(&format!("{}: {error:#}", run.display()))),
        }
    }

    fn version(&self) -> String {
        self.runs().iter().map(|(time, path)| format!("{time:?} {}\n", path.display())).collect()
    }
}
