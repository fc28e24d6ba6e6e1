//! Bugs found, shrunk and explained.

use std::io::Write;

use anyhow::{Result, bail};
use everhold::{Explorer, Report, Stop};
use everhold_systems::storage::{Bug, Msg, system};

use super::Seen;
use crate::args::DemoArgs;

/// The parts of the tour: one bug, another bug, and the fixed system.
const PARTS: [(Bug, &str); 3] = [
    (
        Bug::CountsReports,
        "A client has a server replicate a value to three storage nodes. The server counts their\n\
         reports, and acknowledges at three. Nobody thought of a node that reports twice:",
    ),
    (
        Bug::KeepsCount,
        "Another mistake in the same server: it does not start counting again for the next value.\n\
         Nothing wrong ever happens then, but the second request is never answered:",
    ),
    (Bug::None, "And the server without its bugs:"),
];

pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    let mut page = None;
    for (bug, story) in PARTS {
        writeln!(out, "{story}\n")?;
        let report = explore(bug, args);
        let found = report.finding().is_some();
        writeln!(out, "{report}\n")?;
        // The page of the tour shows the first bug.
        let interrupted = report.stop == Stop::Interrupted;
        let first = page.get_or_insert_with(|| report.page());
        if interrupted {
            return Ok(Seen::of(first, interrupted));
        }
        if found != (bug != Bug::None) {
            bail!("the demo did not give the expected result: {bug:?}");
        }
    }
    writeln!(out, "This is what a failing `cargo test` prints. To test a system of your own, see")?;
    writeln!(out, "README.md; the system above is systems/src/storage.rs.\n")?;
    match page {
        Some(page) => Ok(Seen::of(&page, false)),
        None => bail!("the demo has no parts"),
    }
}

fn explore(bug: Bug, args: &DemoArgs) -> Report {
    let explorer = Explorer::new().executions(5_000).steps(200).name("storage");
    let explorer = match args.seed {
        Some(seed) => explorer.seed(seed),
        None => explorer,
    };
    explorer.run::<Msg>(system(bug))
}
