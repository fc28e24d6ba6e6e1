//! `everhold help`: the documents that are part of the program.

use std::io::{self, Write};

use anyhow::Result;
use clap::CommandFactory;
use everhold_property::{REFERENCE, nearest};

use crate::args::{Args, HelpArgs};
use crate::exit::{BadInput, Code};

/// The topics: name, subject and page.
const TOPICS: [(&str, &str, &str); 15] = [
    ("properties", "the property language, on one page", REFERENCE),
    (
        "traces",
        "the trace format, to be written from any language",
        include_str!("../../help/trace-format.md"),
    ),
    (
        "logs",
        "what `check` judges, and how logs of other tools are read",
        include_str!("../../help/check.md"),
    ),
    (
        "infer",
        "how properties are inferred from traces, and how reliable a line is",
        include_str!("../../help/infer.md"),
    ),
    (
        "instrument",
        "variables found in the source of a package and recorded; probes in Go and Python",
        include_str!("../../help/instrument.md"),
    ),
    (
        "almost",
        "properties that held in all but a few cases: candidates, counts and ranking",
        include_str!("../../help/almost.md"),
    ),
    (
        "perf",
        "how slow executions are found and explained, and the data for plots",
        include_str!("../../help/perf.md"),
    ),
    (
        "timed",
        "the simulator behind it: model, network, faults, files of durations",
        include_str!("../../help/timed.md"),
    ),
    (
        "strategies",
        "how the explorer searches, and what silence means",
        include_str!("../../help/strategies.md"),
    ),
    (
        "live",
        "nodes on real sockets, probes, recordings and their replay, assertions",
        include_str!("../../help/live.md"),
    ),
    ("watch", "rules judged on a running system", include_str!("../../help/watch.md")),
    (
        "attach",
        "unmodified, running processes: probe files, order, losses, safety",
        include_str!("../../help/attach.md"),
    ),
    (
        "security",
        "who may send and read, secrets, TLS with an example",
        include_str!("../../help/security.md"),
    ),
    ("faults", "the faults that a test can inject", include_str!("../../help/faults.md")),
    ("exit-codes", "the exit codes of the commands", include_str!("../../help/exit-codes.md")),
];

pub(crate) fn run(args: &HelpArgs) -> Result<Code> {
    let mut out = io::stdout().lock();
    let Some(topic) = args.topic.as_deref() else {
        writeln!(out, "everhold help TOPIC\n\nTopics:")?;
        for (name, about, _) in TOPICS {
            writeln!(out, "  {name:12}  {about}")?;
        }
        writeln!(out, "\nCommands, each with its options:")?;
        for command in Args::command().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(out, "  {:12}  {about}", command.get_name())?;
        }
        return Ok(Code::Holds);
    };
    if let Some((.., page)) = TOPICS.iter().find(|(name, ..)| *name == topic) {
        write!(out, "{page}")?;
        return Ok(Code::Holds);
    }
    let mut program = Args::command();
    program.build();
    if let Some(command) = program.find_subcommand_mut(topic) {
        write!(out, "{}", command.render_long_help())?;
        return Ok(Code::Holds);
    }
    let commands: Vec<_> = program.get_subcommands().map(clap::Command::get_name).collect();
    let near = nearest(topic, TOPICS.iter().map(|(name, ..)| *name).chain(commands));
    let help = near
        .map_or("`everhold help` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
    Err(BadInput(format!("no topic `{topic}`; {help}")).into())
}
