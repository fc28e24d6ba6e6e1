//! `everhold completions`: a script with which a shell completes commands and options.

use std::io;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::exit::Code;

pub(crate) fn run(args: &CompletionsArgs) -> Result<Code> {
    clap_complete::generate(args.shell, &mut Args::command(), "everhold", &mut io::stdout().lock());
    Ok(Code::Holds)
}
