//! `everhold demo`: a bug found, shrunk and explained.

use std::io::{self, Write};

use anyhow::{Result, bail};
use everhold::{Explorer, Report, Stop};
use everhold_systems::storage::{Bug, Msg, system};

use crate::args::DemoArgs;
use crate::exit::Code;

/// The demo's three parts: what is wrong, what is wrong in another way, and the fixed system.
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

pub(crate) fn run(args: &DemoArgs) -> Result<Code> {
    let mut out = io::stdout().lock();
    writeln!(out, "everhold demo · the storage system of P# (FAST 2016), with its two bugs\n")?;
    for (bug, story) in PARTS {
        writeln!(out, "{story}\n")?;
        let report = explore(bug, args);
        let found = report.finding().is_some();
        writeln!(out, "{report}\n")?;
        if report.stop == Stop::Interrupted {
            return Ok(Code::Interrupted);
        }
        if found != (bug != Bug::None) {
            bail!("the demo did not show what it should: {bug:?}");
        }
    }
    writeln!(out, "This is what a failing `cargo test` prints. To test a system of your own, see")?;
    writeln!(out, "README.md; the system above is systems/src/storage.rs.")?;
    Ok(Code::Holds)
}

fn explore(bug: Bug, args: &DemoArgs) -> Report {
    let explorer = Explorer::new().executions(5_000).steps(200).name("storage");
    let explorer = match args.seed {
        Some(seed) => explorer.seed(seed),
        None => explorer,
    };
    explorer.run::<Msg>(system(bug))
}
