//! The findings and the outcomes that tests leave under `target/everhold`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde::Deserialize;

use crate::exit::BadInput;

/// The folder below the target folder.
const FOLDER: &str = "everhold";

/// The last outcome of a test, as the library writes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    /// The name that people read.
    pub(crate) name: String,
    /// The name under which `cargo test` runs it.
    pub(crate) test: Option<String>,
    /// The package, and the folder of its manifest.
    pub(crate) package: Option<String>,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) verdict: String,
    pub(crate) fails: bool,
    pub(crate) summary: String,
    pub(crate) executions: u64,
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) properties: Vec<String>,
    #[serde(default)]
    pub(crate) goals: Vec<Goal>,
    #[serde(default)]
    pub(crate) untested: Vec<String>,
    pub(crate) coverage: Coverage,
    pub(crate) finding: Option<Finding>,
    /// The time at which it was written.
    #[serde(skip)]
    pub(crate) written: Option<SystemTime>,
}

/// A `sometimes` goal, and the number of executions that reached it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Goal {
    pub(crate) name: String,
    pub(crate) reached: u64,
}

/// The extent of a search.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Coverage {
    pub(crate) orders: u64,
    pub(crate) states: u64,
    pub(crate) pairs_seen: u64,
    pub(crate) pairs_unseen: u64,
}

/// The finding of a test.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) cause: String,
    pub(crate) message: String,
    pub(crate) steps: usize,
    pub(crate) faults: usize,
    pub(crate) replay: String,
}

/// The folder with the findings of the workspace around the current folder.
pub(crate) fn folder() -> PathBuf {
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR").filter(|told| !told.is_empty()) {
        return PathBuf::from(target).join(FOLDER);
    }
    let here = std::env::current_dir().unwrap_or_default();
    let beside = here.ancestors().map(|folder| folder.join("target").join(FOLDER));
    let found = beside.into_iter().find(|folder| folder.is_dir());
    let found = found.or_else(|| Some(target_of_cargo()?.join(FOLDER)));
    found.unwrap_or_else(|| Path::new("target").join(FOLDER))
}

/// The target folder of the workspace, where a configuration of Cargo puts it elsewhere.
fn target_of_cargo() -> Option<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.output().ok().filter(|output| output.status.success())?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    metadata["target_directory"].as_str().map(PathBuf::from)
}

/// The folder of the finding with this id, or with an id that begins or ends with it if there is
/// only one.
pub(crate) fn find(id: &str) -> Result<PathBuf, BadInput> {
    let folder = folder();
    let whole = folder.join(id);
    if !id.is_empty() && whole.join("schedule.txt").is_file() {
        return Ok(whole);
    }
    let ids = ids(&folder);
    let alike = ids.iter().filter(|known| known.starts_with(id) || known.ends_with(id));
    let alike: Vec<&String> = alike.collect();
    match alike[..] {
        [one] if !id.is_empty() => Ok(folder.join(one)),
        [] | [_] => Err(BadInput(format!(
            "there is no finding `{id}` in {}{}",
            folder.display(),
            if ids.is_empty() {
                "; a failing `cargo test` writes it"
            } else {
                ": see `everhold findings`"
            }
        ))),
        _ => {
            let names: Vec<&str> = alike.iter().map(|name| name.as_str()).take(5).collect();
            Err(BadInput(format!("`{id}` could be {}: give more of it", names.join(", "))))
        }
    }
}

/// The ids of all findings that have a schedule.
fn ids(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let with_schedule = entries.filter(|entry| entry.path().join("schedule.txt").is_file());
    let mut ids: Vec<String> =
        with_schedule.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.sort();
    ids
}

/// The last outcomes of all tests, newest first.
pub(crate) fn outcomes(folder: &Path) -> Vec<Outcome> {
    let entries = std::fs::read_dir(folder.join("tests")).into_iter().flatten().flatten();
    let mut outcomes: Vec<Outcome> = entries.filter_map(|entry| read(&entry.path())).collect();
    outcomes.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.name.cmp(&b.name)));
    outcomes
}

/// The outcome beside a finding.
pub(crate) fn outcome_of(finding: &Path) -> Option<Outcome> {
    read(&finding.join("outcome.json"))
}

/// The outcome in a file.
pub(crate) fn read(path: &Path) -> Option<Outcome> {
    let ends_well = path.extension().is_some_and(|ending| ending == "json");
    let bytes = std::fs::read(path).ok().filter(|_| ends_well)?;
    let mut outcome: Outcome = serde_json::from_slice(&bytes).ok()?;
    outcome.written = path.metadata().and_then(|metadata| metadata.modified()).ok();
    Some(outcome)
}

/// The time since a moment, as people say it.
pub(crate) fn ago(moment: Option<SystemTime>) -> String {
    let Some(seconds) = moment.and_then(|moment| moment.elapsed().ok()).map(|age| age.as_secs())
    else {
        return String::new();
    };
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
