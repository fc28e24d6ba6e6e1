//! A slow execution explained.

use std::io::Write;

use anyhow::{Result, bail};
use everhold_systems::timed::{Case, How, Settings};

use super::Seen;
use crate::args::DemoArgs;
use crate::exit::BadInput;

/// The number of executions to draw: enough to see slow ones that make up a tenth.
const EXECUTIONS: usize = 120;

pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    writeln!(
        out,
        "Nodes join a tree. Nothing is ever violated: a node whose join is forgotten asks again when\n\
         its recovery timer fires. It only takes a thousand times as long. Which message decides?\n"
    )?;
    let case = Case::find("randtree").map_err(BadInput)?;
    let settings = Settings::default();
    let ready = case.ready(&settings).map_err(BadInput)?;
    let report = ready.perf(How {
        executions: Some(EXECUTIONS),
        seed: args.seed,
        name: "randtree (forgets-join)".to_owned(),
        replay_with: "everhold perf randtree --replay".to_owned(),
        ..How::default()
    });
    writeln!(out, "{report}\n")?;
    writeln!(out, "Systems of your own are analysed by `cargo test`: see docs/perf.md.\n")?;
    if report.findings.is_empty() && report.replayed.is_none() && !report.interrupted() {
        bail!("the slow executions were not found");
    }
    Ok(Seen::of(&report.page(), report.interrupted()))
}
