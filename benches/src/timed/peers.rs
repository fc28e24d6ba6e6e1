//! Other simulators, in a separate program: madsim needs a flag for the whole build.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tokens::DELIVERIES;

/// The simulators that the program knows.
pub(crate) const NAMES: [&str; 2] = ["nexosim", "madsim"];
/// The number of executions: enough to make the start of the program negligible.
const EXECUTIONS: u64 = 20;
const TURNS: usize = 3;

/// Builds the program.
pub(crate) fn build() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let target =
        std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.join("peers")));
    let target = target.ok_or("this program has no folder")?;
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--locked"])
        .current_dir(folder)
        .env("RUSTFLAGS", "--cfg madsim")
        .env("CARGO_TARGET_DIR", &target)
        .status();
    match cargo {
        Ok(status) if status.success() => Ok(target.join("release/everhold-timed-peers")),
        Ok(status) => Err(format!("cargo ended with {status}")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// The number of deliveries per CPU-second: the median of some turns.
pub(crate) fn rate(program: &Path, name: &str, nodes: u64) -> Result<f64, String> {
    let mut rates = Vec::new();
    for _ in 0..TURNS {
        let deliveries = (DELIVERIES * EXECUTIONS).to_string();
        let (delivered, seconds) = turn(program, &[name, &nodes.to_string(), &deliveries])?;
        rates.push(delivered / seconds);
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[TURNS / 2])
}

/// Runs the program once; the count that it prints and its CPU-seconds.
pub(crate) fn turn(program: &Path, words: &[&str]) -> Result<(f64, f64), String> {
    let output = Command::new(program).args(words).output();
    let printed = output.map_err(|error| error.to_string())?.stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let numbers = printed.trim().split_once(' ');
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or_else(|| format!("{words:?} printed `{printed}`"))
}
