//! Files that a finding leaves behind, under `target/everhold`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use everhold_trace::Execution;
use everhold_trace::format::native::Writer;

use crate::execute::attempt;
use crate::report::page;
use crate::report::{Finding, Report, Saved};

/// The folder for findings: in the build's target folder if there is one.
#[must_use]
pub fn folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let target = exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map_or_else(|| PathBuf::from("target"), Path::to_path_buf).join("everhold")
}

/// The folder of one finding, which is named after the finding's id (it begins with the test's
/// name).
fn folder_of(report: &Report, finding: &Finding) -> PathBuf {
    folder().join(report.id_of(finding))
}

/// Writes the schedule.
pub(crate) fn save_schedule(report: &Report, finding: &Finding, saved: &mut Saved) {
    let file = folder_of(report, finding).join("schedule.txt");
    let token = format!("{}\n", finding.schedule.token());
    saved.schedule = saved.kept(file, "the schedule's file", || Ok(token.into_bytes()));
}

/// Writes the trace and the page. One that cannot be made or written is reported, the other is
/// still written.
pub(crate) fn save_rest(report: &Report, finding: &Finding, saved: &mut Saved) {
    let folder = folder_of(report, finding);
    let trace = || Ok(bytes(&[finding.trace().with_name(report.name())]));
    saved.trace = saved.kept(folder.join("trace.jsonl"), "the trace", trace);
    let page = || Ok(page::finding(report, finding).html().into_bytes());
    saved.page = saved.kept(folder.join("report.html"), "the page", page);
}

/// Writes the outcome of a test: the last one of each test, and the one of each finding beside it.
pub(crate) fn save_outcome(test: &str, finding: Option<&str>, bytes: &[u8], saved: &mut Saved) {
    let beside = finding.map(|id| folder().join(id).join("outcome.json"));
    let files = beside.into_iter().chain([folder().join("tests").join(test)]);
    for file in files {
        // Made anew by every run, so not worth waiting for the disk.
        if let Err(problem) = write_file(&file, bytes, false) {
            saved.problems.push(problem);
        }
    }
}

/// The environment variable with which `everhold replay` asks for the outcome of a replay.
pub(crate) const OUTCOME_FILE: &str = "EVERHOLD_OUTCOME";

/// Writes the outcome of a replay.
pub(crate) fn save_replayed(file: &Path, bytes: &[u8], saved: &mut Saved) {
    if let Err(problem) = write_file(file, bytes, false) {
        saved.problems.push(problem);
    }
}

impl Saved {
    /// Makes and writes a file; returns its path if that succeeded.
    fn kept(
        &mut self,
        file: PathBuf,
        what: &str,
        make: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Option<PathBuf> {
        let written = attempt(what, || make().and_then(|bytes| write_whole(&file, &bytes)));
        written.map_err(|problem| self.problems.push(problem)).ok().map(|()| file)
    }
}

/// Executions, encoded in the native format.
#[must_use]
pub fn bytes(executions: &[Execution]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    for execution in executions {
        writer.execution(execution).expect("writing to memory does not fail");
    }
    writer.finish().expect("writing to memory does not fail");
    bytes
}

/// A test's name as the name of a folder.
#[must_use]
pub fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// A name that no other thread and no other process uses.
fn part_name() -> String {
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    format!("part-{}-{number}", std::process::id())
}

/// Writes a file so that it is never seen half written.
///
/// # Errors
///
/// If it cannot be written, with its path.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    write_file(path, bytes, true)
}

fn write_file(path: &Path, bytes: &[u8], durable: bool) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let part = path.with_extension(part_name());
        let file = fs::File::create(&part)?;
        let sync = || if durable { file.sync_all() } else { Ok(()) };
        let written = (&file).write_all(bytes).and_then(|()| sync());
        drop(file);
        written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| drop(fs::remove_file(&part)))
    };
    write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
