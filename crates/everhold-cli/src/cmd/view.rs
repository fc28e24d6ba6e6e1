//! `everhold view`: traces and findings in a browser.
//!
//! - `page`: a trace as a page; `folder`: the runs of a folder, with the outcomes of tests
//!   (`dashboard`).

mod dashboard;
mod folder;
mod page;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::args::ViewArgs;
use crate::exit::{BadInput, Code};
use crate::findings;
use crate::hint;
use crate::serve::{Answer, Site, following, listen, serve};
use folder::Folder;

pub(crate) fn run(args: &ViewArgs) -> Result<Code> {
    let path = found(args.path.as_deref())?;
    if let Some(out) = &args.out {
        let html = one(&path, args)?;
        std::fs::write(out, html).with_context(|| format!("{}", out.display()))?;
        println!("{}", out.display());
        return Ok(Code::Holds);
    }
    if path.is_dir() && !path.join("report.html").is_file() {
        return show(args, &path, Arc::new(Folder::new(&path, args)?));
    }
    // The page is made once now, so that errors are reported here and not in the browser.
    let html = one(&path, args)?;
    let file = File { path: path.clone(), args: args.clone(), first: html };
    show(args, &path, Arc::new(file))
}

fn show(args: &ViewArgs, path: &Path, site: Arc<impl Site>) -> Result<Code> {
    let listener = listen(args.listen)?;
    let address = listener.local_addr()?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is shown at http://{address}/ until Ctrl-C", path.display())?;
    if !address.ip().is_loopback() {
        writeln!(out, "everyone who reaches {address} can read it")?;
    }
    out.flush()?;
    drop(out);
    hint::next(&format!(
        "everhold view {} --out report.html",
        hint::quoted(&path.display().to_string())
    ));
    serve(&listener, site);
    Ok(Code::Holds)
}

/// The path itself or, if there is no such file, the finding with this id. Without a path, the
/// findings of the workspace.
fn found(path: Option<&Path>) -> Result<PathBuf, BadInput> {
    let Some(path) = path else { return Ok(findings::folder()) };
    if path.exists() {
        return Ok(path.to_path_buf());
    }
    findings::find(&path.display().to_string()).map_err(|error| {
        let path = path.display();
        BadInput(format!(
            "there is no {path}: give a trace, a folder of runs, or the id of a finding; {error}"
        ))
    })
}

/// The page of a trace, or of a finding's folder.
fn one(path: &Path, args: &ViewArgs) -> Result<String> {
    let written = path.join("report.html");
    if written.is_file() {
        return std::fs::read_to_string(&written).with_context(|| format!("{}", written.display()));
    }
    if path.extension().is_some_and(|ending| ending == "html") {
        return std::fs::read_to_string(path).with_context(|| format!("{}", path.display()));
    }
    if path.is_dir() {
        let text = format!(
            "{} is a folder of runs: it is served, not written; give one of its traces for --out",
            path.display()
        );
        return Err(BadInput(text).into());
    }
    Ok(page::of_trace(path, args)?.html())
}

/// The time at which a file or folder was last written.
fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// One trace, which is read again when it changes.
struct File {
    path: PathBuf,
    args: ViewArgs,
    first: String,
}

impl Site for File {
    fn get(&self, path: &str) -> Answer {
        match path {
            // A file that is being written may be incomplete; the last complete version is shown
            // then.
            "/" => {
                Answer::Html(following(&one(&self.path, &self.args).unwrap_or(self.first.clone())))
            }
            _ => Answer::Missing,
        }
    }

    fn version(&self) -> String {
        format!("{:?}", written(&self.path))
    }
}
