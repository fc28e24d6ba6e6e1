//! What can be typed.

use clap::{Parser, Subcommand};

/// Finds the executions that break a distributed system, and shows them.
///
/// Systems are explored by `cargo test`, with the `everhold` library; this program shows what that
/// looks like.
#[derive(Debug, Parser)]
#[command(name = "everhold", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 holds, 1 violated, 2 unknown (a bound was reached), \
3 diverged (an execution did not replay), 64 wrong use or unreadable input, 70 a bug in Everhold, \
130 interrupted.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Finds, shrinks and explains a bug in a bundled system
    Demo(DemoArgs),
}

/// What `everhold demo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Explore with another seed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}
