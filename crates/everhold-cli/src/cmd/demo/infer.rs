//! Properties inferred from a correct system, and a bug found with them in a faulty one.

use std::io::Write;

use anyhow::{Result, bail};
use everhold::{Explorer, Search, Stop};
use everhold_infer::{Always, Settings, always};
use everhold_property::{Property, Scope, print};
use everhold_systems::shards::{Bug, environment};

use super::Seen;
use crate::args::DemoArgs;
use crate::words::number;

/// The number of executions from which properties are inferred.
const EXECUTIONS: u64 = 60;
/// The number of properties that are shown and used.
const LINES: usize = 6;

pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    writeln!(
        out,
        "Four nodes own keys and hand them over, while messages are lost and doubled. Nobody wrote\n\
         down what must hold. What {EXECUTIONS} executions have in common:\n"
    )?;
    let found = inferred(args);
    for (place, line) in found.lines.iter().take(LINES).enumerate() {
        let text = print(&line.property);
        writeln!(out, "{:>3}. {}", place + 1, text.trim_end().replace('\n', "\n     "))?;
        writeln!(out, "     held in {} cases\n", number(line.samples))?;
    }
    writeln!(
        out,
        "{} of {} candidates held and say something. Then someone changes the code: a node takes\n\
         in every key that arrives, also one that it had before and handed on. The inferred\n\
         properties are the test:\n",
        found.lines.len(),
        number(found.tried)
    )?;
    let candidates: Vec<Property> = found
        .lines
        .iter()
        .map(|line| line.property.clone())
        .filter(|property| matches!(property.scope, Scope::EveryCut))
        .take(LINES)
        .collect();
    let explorer = Explorer::new().executions(5_000).steps(200).name("shards").regressions(false);
    let report = seeded(explorer, args).run(move |system| {
        environment(Bug::TakesTwice)(system);
        system.properties(&candidates);
    });
    writeln!(out, "{report}\n")?;
    writeln!(out, "On traces of your own: `everhold infer TRACE --out rules.prop`.\n")?;
    let interrupted = report.stop == Stop::Interrupted;
    if report.finding().is_none() && !interrupted {
        bail!("the inferred properties did not find the bug");
    }
    Ok(Seen::of(&report.page(), interrupted))
}

fn inferred(args: &DemoArgs) -> Always {
    let explorer = Explorer::new().search(Search::Random).executions(EXECUTIONS).steps(200);
    let explorer = explorer.traces(EXECUTIONS).regressions(false);
    let report = seeded(explorer, args).run(environment(Bug::None));
    let traces: Vec<_> = report.traces.iter().collect();
    always(&traces, &Settings::default())
}

fn seeded(explorer: Explorer, args: &DemoArgs) -> Explorer {
    match args.seed {
        Some(seed) => explorer.seed(seed),
        None => explorer,
    }
}
