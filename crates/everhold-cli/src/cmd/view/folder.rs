//! The runs of a folder, newest first.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::args::ViewArgs;
use crate::ci::escaped;
use crate::exit::BadInput;
use crate::findings;
use crate::serve::{Answer, Site, following};

use super::dashboard::{self, Run};
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
        if folder.runs().is_empty() && findings::outcomes(path).is_empty() {
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
        let name =
            |path: &Path| path.strip_prefix(&self.path).unwrap_or(path).display().to_string();
        let runs = self.runs().into_iter().enumerate();
        let runs: Vec<Run> = runs
            .map(|(place, (_, path))| Run { name: name(&path), link: format!("/run/{place}") })
            .collect();
        dashboard::page(&self.path, &findings::outcomes(&self.path), &runs)
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
        let runs = self.runs();
        let runs = runs.iter().map(|(time, path)| format!("{time:?} {}\n", path.display()));
        let outcomes = findings::outcomes(&self.path);
        let outcomes =
            outcomes.iter().map(|outcome| format!("{:?} {}\n", outcome.written, outcome.name));
        runs.chain(outcomes).collect()
    }
}
