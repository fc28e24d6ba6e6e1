//! The `everhold` program.
//!
//! Only this crate handles the terminal and exit codes. Commands are functions from arguments to an
//! [`exit::Code`]; they print their results on standard output, and everything else on standard
//! error.

mod args;
mod ci;
mod cmd;
mod exit;
mod findings;
mod hint;
mod input;
mod paint;
mod plain;
mod progress;
mod serve;
mod terminal;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::exit::Code;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let result = match args.command {
        Command::Demo(options) => cmd::demo::run(&options),
        Command::Check(options) => cmd::check::run(&options, args.color),
        Command::Infer(options) => cmd::infer::run(&options, args.color),
        Command::Instrument(options) => cmd::instrument::run(&options, args.color),
        Command::Convert(options) => cmd::convert::run(&options),
        Command::Show(options) => cmd::show::run(&options),
        Command::Perf(options) => cmd::perf::run(&options),
        Command::Watch(options) => cmd::watch::run(&options),
        Command::Attach(options) => cmd::attach::run(&options),
        Command::ReplayLive(options) => cmd::replay_live::run(&options),
        Command::Findings(options) => cmd::findings::run(&options),
        Command::Replay(options) => cmd::replay::run(&options),
        Command::View(options) => cmd::view::run(&options),
        Command::Init(options) => cmd::init::run(&options),
        Command::EmitTest(options) => cmd::emit_test::run(&options),
        Command::Completions(options) => cmd::completions::run(&options),
        Command::Help(options) => cmd::help::run(&options),
    };
    let code = result.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return Code::Holds;
        }
        eprintln!("error: {}", plain::plain(&format!("{error:#}")));
        exit::code_of(&error)
    });
    code.into()
}

/// Whether the reader of our output closed it early, as `head` does; that is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
