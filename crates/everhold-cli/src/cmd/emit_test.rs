//! `everhold emit-test`: a test that pins a finding.

use std::path::PathBuf;

use anyhow::Result;
use everhold::Schedule;

use crate::args::EmitTestArgs;
use crate::exit::{BadInput, Code};
use crate::findings;
use crate::hint;
use crate::words::counted;

pub(crate) fn run(args: &EmitTestArgs) -> Result<Code> {
    let token = token(&args.token)?;
    let schedule = Schedule::parse(&token).map_err(|error| {
        BadInput(format!("{} is not a schedule: {error}", crate::words::short(&token, 40)))
    })?;
    let id = schedule.id();
    println!(
        "\
/// Pins the finding {id}: {}, {}.
#[test]
fn finding_{id}() {{
    let schedule = everhold::Schedule::parse(\"{token}\").expect(\"the token is whole\");
    // `{setup}` is what your test gives to `explore`.
    everhold::Explorer::new().replay(schedule).run({setup}).assert_holds();
}}",
        counted(schedule.steps(), "step"),
        counted(schedule.faults(), "fault"),
        setup = args.setup,
    );
    hint::next(&format!("cargo test finding_{id}"));
    Ok(Code::Holds)
}

/// The token itself, or the one in a schedule's file or in a finding's folder.
fn token(given: &str) -> Result<String, BadInput> {
    let path = PathBuf::from(given);
    let files = [path.clone(), path.join("schedule.txt")];
    let file = files.into_iter().find(|file| file.is_file());
    let Some(file) = file.or_else(|| Some(findings::find(given).ok()?.join("schedule.txt"))) else {
        return Ok(given.trim().to_owned());
    };
    let text = std::fs::read_to_string(&file)
        .map_err(|error| BadInput(format!("{} cannot be read: {error}", file.display())))?;
    Ok(text.trim().to_owned())
}
