//! The tour where hosts can be simulated.

use std::io::Write;

use anyhow::{Result, bail};
use everhold::Faults;
use everhold_host::{Net, Outcome, hosts};
use everhold_systems::bookings::{Bug, customer, main_with};

use super::super::Seen;
use crate::args::DemoArgs;

/// The number of executions of each part.
const EXECUTIONS: u64 = 1_000;

/// The beginning of the reason why there was no search, where this machine cannot simulate hosts.
const NOT_HERE: &str = "hosts cannot be simulated here";

/// The parts of the tour: the office with its mistake, and without it.
const PARTS: [(Bug, &str); 2] = [
    (
        Bug::DoesNotSync,
        "A box office: a thread for each customer, `std::net`, a mutex, and a journal in a file. It is\n\
         an ordinary program that knows nothing of Everhold. Its two customers book seats, and look\n\
         afterwards whether they have them. The machine of the office may crash once:",
    ),
    (
        Bug::None,
        "The office acknowledged what was written and not yet on the disk. With the missing\n\
         `sync_data` before the acknowledgement:",
    ),
];

pub(in crate::cmd::demo) fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    let mut page = None;
    for (bug, story) in PARTS {
        writeln!(out, "{story}\n")?;
        out.flush()?;
        let Outcome { report, failed, page: drawn, .. } = explore(bug, args);
        match &failed {
            Some(reason) if reason.starts_with(NOT_HERE) => {
                writeln!(out, "Not on this machine: {reason}.\n")?;
                return Ok(Seen { page: None, interrupted: false });
            }
            // The worker died.
            Some(reason) if report.is_empty() => bail!("{reason}"),
            _ => {}
        }
        writeln!(out, "{report}\n")?;
        if failed.is_some() != (bug != Bug::None) {
            bail!("the demo did not give the expected result: {bug:?}");
        }
        page = page.or(drawn);
    }
    writeln!(
        out,
        "Every thread, socket, file, clock and crash above is simulated and decided by the"
    )?;
    writeln!(
        out,
        "explorer; the program is systems/src/bookings.rs. To test a service of your own"
    )?;
    writeln!(out, "(tokio, axum, tonic and others run as they are), see docs/hosts.md.\n")?;
    Ok(Seen { page, interrupted: false })
}

fn office(net: &mut Net<'_>, bug: Bug) {
    net.host("office", move || main_with(bug));
    net.client("ada", || customer("office", "ada", "1A"));
    net.client("bob", || customer("office", "bob", "1B"));
    net.faults(Faults::none().crash(1));
}

fn explore(bug: Bug, args: &DemoArgs) -> Outcome {
    let seed = args.seed;
    hosts(move |net| office(net, bug))
        .explorer(|explorer| {
            let explorer = explorer.executions(EXECUTIONS).name("bookings").regressions(false);
            match seed {
                Some(seed) => explorer.seed(seed),
                None => explorer,
            }
        })
        .run()
}
