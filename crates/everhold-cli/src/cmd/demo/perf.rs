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
        "Nodes join a hash table. Nothing is ever violated: a node that was pushed out of the list of\n\
         its neighbours too early is found again when a timer fires. In some executions it only takes\n\
         forty times as long. Since when, and which message decides?\n"
    )?;
    let case = Case::find("bamboo").map_err(BadInput)?;
    let settings = Settings { bug: Some("forgets-evicted".to_owned()), ..Settings::default() };
    let ready = case.ready(&settings).map_err(BadInput)?;
    let report = ready.perf(How {
        executions: Some(EXECUTIONS),
        seed: args.seed,
        name: "bamboo (forgets-evicted)".to_owned(),
        replay_with: "everhold perf bamboo --bug forgets-evicted --replay".to_owned(),
        ..How::default()
    });
    writeln!(out, "{report}\n")?;
    writeln!(out, "Systems of your own are analysed by `cargo test`: see docs/perf.md.\n")?;
    if report.findings.is_empty() && report.replayed.is_none() && !report.interrupted() {
        bail!("the slow executions were not found");
    }
    Ok(Seen::of(&report.page(), report.interrupted()))
}
