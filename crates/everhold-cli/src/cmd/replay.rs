//! `everhold replay`: runs the test of a finding with its schedule.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::args::ReplayArgs;
use crate::exit::{BadInput, Code};
use crate::findings::{self, Outcome};
use crate::hint;

/// The exit code of `cargo test` when a test fails.
const TEST_FAILED: i32 = 101;

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
    let mut cargo = command(outcome, test, &folder)?;
    let status = cargo.status().context("cargo cannot be started; is Rust installed?")?;
    match status.code() {
        Some(0) => {
            println!(
                "the finding does not fail any more, or its schedule no longer fits: see above"
            );
            Ok(Code::Holds)
        }
        Some(TEST_FAILED) => {
            hint::next(&format!("everhold view {}", args.id));
            Ok(Code::Violated)
        }
        _ => Err(BadInput(format!("`cargo test {test}` ended with {status}")).into()),
    }
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
    cargo.args([test, "--", "--exact", "--nocapture"]);
    Ok(cargo)
}
