//! The arguments of `everhold instrument`.

use std::path::PathBuf;

use clap::ValueEnum;

/// The arguments of `everhold instrument`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
everhold instrument ./service --list                      the variables, each with its way to the network\n  \
everhold instrument ./service --out /tmp/copy             a copy that records when EVERHOLD_RECORD names a folder\n  \
everhold instrument ./service --run -- cargo test         copy, run, infer: the properties that held\n  \
everhold instrument ./raft --node Raft.id --run -- go test ./...\n\n\
Ends with 0 if there are variables or properties, 2 if there are none, 64 if the package cannot be \
used.")]
pub(crate) struct InstrumentArgs {
    /// The folder of a package: of Cargo, or of Go
    pub(crate) package: PathBuf,

    /// Only list the variables that interact with the network, each with its way
    #[arg(long, conflicts_with_all = ["out", "run"])]
    pub(crate) list: bool,

    /// Only print the counts
    #[arg(long, conflicts_with_all = ["out", "run", "list"])]
    pub(crate) count: bool,

    /// Put the copy into this folder; by default beside the package's own builds
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Run a command in the copy, and infer properties from what it records
    #[arg(long, requires = "command")]
    pub(crate) run: bool,

    /// Record at these places
    #[arg(long, value_enum, default_value_t, value_name = "PLACES")]
    pub(crate) at: PlacesWord,

    /// The nodes of a process: `process`, `auto`, or the values of a type, `TYPE` or `TYPE.FIELD`
    #[arg(long, default_value = "auto", value_name = "NODE")]
    pub(crate) node: String,

    /// Also record local variables
    #[arg(long)]
    pub(crate) locals: bool,

    /// A file with further functions that communicate: lines `receive NAME` and `send NAME`
    #[arg(long, value_name = "FILE")]
    pub(crate) entries: Option<PathBuf>,

    /// Record each place at most this often per second
    #[arg(long, default_value_t = 2_000, value_name = "NUMBER")]
    pub(crate) rate: u32,

    /// Show at most this many properties
    #[arg(long, default_value_t = 20, value_name = "NUMBER")]
    pub(crate) lines: usize,

    /// The folder of the probe's source; by default that with which this program was built
    #[arg(long, value_name = "FOLDER")]
    pub(crate) probe: Option<PathBuf>,

    /// The command to run, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// The places at which variables are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacesWord {
    /// The marks `// @observe` if there are any, or else `ends` and `network`
    #[default]
    Auto,
    /// The ends of functions
    Ends,
    /// The calls that communicate
    Network,
    /// The marks
    Marks,
    /// All of these
    All,
}
