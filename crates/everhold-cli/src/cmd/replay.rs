//! `everhold replay`: runs the test of a finding with its schedule.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

use crate::args::ReplayArgs;
use crate::exit::{BadInput, Code};
use crate::findings::{self, Outcome};
use crate::hint;

/// The environment variable that names the file for the outcome of a replay.
const OUTCOME_FILE: &str = "EVERHOLD_OUTCOME";

pub(crate) fn run(args: &ReplayArgs) -> Result<Code> {
    let folder = findings::find(&args.id)?;
    let outcome = findings::outcome_of(&folder);
    let Some((outcome, test)) = outcome.as_ref().and_then(|one| Some((one, one.test.as_ref()?)))
    else {
        let text = format!(
            "{} does not say which test made it; run `EVERHOLD_REPLAY={} cargo test NAME -- --exact`",
            folder.display(),
            args.id
        );
        return Err(BadInput(text).into());
    };
    let told = folder.canonicalize()?.join("replayed.json");
    let _ = fs::remove_file(&told);
    let mut cargo = command(outcome, test, &folder)?;
    cargo.env(OUTCOME_FILE, &told).args(&args.cargo).args(["--", "--exact", "--nocapture"]);
    let status = cargo.status().context("cargo cannot be started; is Rust installed?")?;
    // Cargo ends with one code for a failing test, for a test that cannot be compiled, and for a
    // schedule that no longer fits; the test itself says what happened.
    match findings::read(&told) {
        Some(replayed) => Ok(judged(&replayed.verdict, &args.id)),
        None => Err(BadInput(not_replayed(status, test, &args.id)).into()),
    }
}

fn judged(verdict: &str, id: &str) -> Code {
    match verdict {
        "violated" => {
            hint::next(&format!("everhold view {id}"));
            Code::Violated
        }
        "diverged" => {
            println!("the schedule no longer fits the program: see above");
            Code::Diverged
        }
        _ => {
            println!("the finding does not fail any more");
            Code::Holds
        }
    }
}

fn not_replayed(status: ExitStatus, test: &str, id: &str) -> String {
    if status.success() {
        return format!(
            "`cargo test` ran no exploration in a test `{test}`: it was renamed or removed, or it needs a \
             feature (`everhold replay {id} -- --features NAME`)"
        );
    }
    format!("`cargo test {test}` ended with {status} before it replayed the schedule: see above")
}

fn command(outcome: &Outcome, test: &str, finding: &Path) -> Result<Command> {
    let schedule = finding.join("schedule.txt").canonicalize()?;
    let mut cargo = Command::new("cargo");
    cargo.env("EVERHOLD_REPLAY", schedule).arg("test");
    if let Some(manifest) = outcome.manifest.as_ref().filter(|folder| folder.is_dir()) {
        cargo.current_dir(manifest);
    } else if let Some(package) = &outcome.package {
        cargo.args(["--package", package]);
    }
    cargo.arg(test);
    Ok(cargo)
}
