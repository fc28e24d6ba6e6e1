//! Files that a finding leaves behind, under `target/everhold`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use everhold_trace::Execution;
use everhold_trace::format::native::Writer;

use crate::report::page;
use crate::report::{Finding, Report, Saved};

/// The folder for findings: in the build's target folder if there is one.
pub(crate) fn folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let target = exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map_or_else(|| PathBuf::from("target"), Path::to_path_buf).join("everhold")
}

/// Writes schedule and trace; what cannot be written is said, not fatal.
pub(crate) fn save(report: &Report, finding: &Finding) -> Saved {
    let folder = folder().join(finding.id());
    let schedule = folder.join("schedule.txt");
    let trace = folder.join("trace.jsonl");
    let page = folder.join("report.html");
    let mut saved = Saved::default();
    match write_whole(&schedule, format!("{}\n", finding.schedule.token()).as_bytes()) {
        Ok(()) => saved.schedule = Some(schedule),
        Err(problem) => saved.problem = Some(problem),
    }
    match write_whole(&trace, &bytes(&[finding.trace().with_name(report.name())])) {
        Ok(()) => saved.trace = Some(trace),
        Err(problem) => saved.problem = Some(problem),
    }
    match write_whole(&page, page::finding(report, finding).html().as_bytes()) {
        Ok(()) => saved.page = Some(page),
        Err(problem) => saved.problem = Some(problem),
    }
    saved
}

/// Executions in the native format.
pub(crate) fn bytes(executions: &[Execution]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    for execution in executions {
        writer.execution(execution).expect("writing to memory does not fail");
    }
    writer.finish().expect("writing to memory does not fail");
    bytes
}

/// A test's name as the name of a folder.
pub(crate) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// Writes a file so that it is never seen half written.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let mut file = fs::File::create(&part)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        drop(file);
        written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| drop(fs::remove_file(&part)))
    };
    write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
