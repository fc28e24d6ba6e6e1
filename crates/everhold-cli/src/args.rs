//! The arguments of the command line.

mod attach;
mod instrument;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use attach::AttachArgs;
pub(crate) use instrument::{InstrumentArgs, PlacesWord};
pub(crate) use tls::TlsArgs;

/// Finds the executions that break a distributed system, and shows them.
///
/// Systems are explored by `cargo test`, with the `everhold` library. This program judges, converts
/// and shows recorded executions, and demonstrates the rest.
#[derive(Debug, Parser)]
#[command(name = "everhold", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colour: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub(crate) color: Color,
}

const EXIT_CODES: &str = "Exit codes: 0 holds, 1 violated, 2 unknown (a bound was reached), \
3 diverged (an execution did not replay), 64 wrong use or unreadable input, 70 a bug in Everhold, \
130 interrupted.";

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs tours of Everhold on bundled systems
    Demo(DemoArgs),
    /// Checks properties on recorded or imported traces
    Check(CheckArgs),
    /// Infers properties from recorded or imported traces
    Infer(InferArgs),
    /// Finds the variables of a package that interact with the network, and records them
    Instrument(InstrumentArgs),
    /// Converts a trace or a log into another format
    Convert(ConvertArgs),
    /// Shows a trace as text, space-time picture or statistics
    Show(ShowArgs),
    /// Finds slow executions of a bundled system and explains them
    Perf(PerfArgs),
    /// Judges rules on a running system, from the records that its probes send
    Watch(WatchArgs),
    /// Observes unmodified, running processes: state and order for a watch, a recording, inference
    Attach(AttachArgs),
    /// Replays a recording of a bundled system's nodes in the explorer, and shrinks it
    ReplayLive(ReplayLiveArgs),
    /// Lists the last outcome of each test, and the findings
    Findings(FindingsArgs),
    /// Runs the test of a finding again, with its schedule
    Replay(ReplayArgs),
    /// Shows traces and findings in a browser
    View(ViewArgs),
    /// Writes a first test into a crate of your own
    Init(InitArgs),
    /// Prints a test that pins a finding
    EmitTest(EmitTestArgs),
    /// Prints a completion script for a shell
    Completions(CompletionsArgs),
    /// Explains a topic: properties, traces, logs, exit-codes, or a command
    Help(HelpArgs),
}

/// The arguments of `everhold demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  everhold demo\n  everhold demo find --seed 7")]
pub(crate) struct DemoArgs {
    /// The tour; without one, all run but `attach`
    #[arg(value_enum)]
    pub(crate) tour: Option<TourName>,

    /// Explore with this seed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

/// The tours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TourName {
    /// Bugs found, shrunk and explained
    Find,
    /// A program as it is, on a simulated host
    Hosts,
    /// Properties inferred, and a bug found with them
    Infer,
    /// A slow execution explained
    Perf,
    /// A live cluster watched, and a violation caught
    Watch,
    /// Three etcd processes as they are, observed from outside and judged; needs root, and etcd
    Attach,
}

impl TourName {
    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The arguments of `everhold check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold check raft.prop run.jsonl\n  everhold check raft.prop \
server.log --parser '(?<event>.*)' --junit check.xml\n\nEach property is judged on all consistent cuts of each run where that is \
possible, not only on the order in which things were recorded. Ends with 0 if all hold, 1 if one \
is violated, 2 if one is unknown, 4 if all hold but one was never put to the test, 64 if the input \
cannot be used."
)]
pub(crate) struct CheckArgs {
    /// The properties: see `everhold help properties`
    pub(crate) rules: PathBuf,

    /// Traces or logs; `-` is the standard input
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the verdicts as JUnit XML, one test case for each property
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Judge at most this many cuts or tuples for each property and run; the verdict is unknown if
    /// there are more
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cases_max: u64,

    /// Judge states in every order in which they could have happened, or in the recorded one alone,
    /// as a watch does
    #[arg(long, value_enum, default_value = "every", value_name = "ORDER")]
    pub(crate) order: OrderWord,

    /// Set a constant that the properties use: `NAME=VALUE`, where VALUE is JSON or else text
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) define: Vec<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Which orders of events are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OrderWord {
    /// Every one that the messages allow
    Every,
    /// The recorded one
    Recorded,
}

/// The arguments of `everhold infer`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold infer run.jsonl\n  everhold infer run.jsonl --almost\n  everhold \
infer run.jsonl --why 'forall n in nodes: n.commit <= len(n.log)'\n\nEach line held in all runs, wherever its scope asks, and is very unlikely \
to have held by chance. Ends with 0 if there are lines, 2 if there is not enough evidence for any, \
64 if the input cannot be used; with --why, as `check` does."
)]
pub(crate) struct InferArgs {
    /// Traces or logs; `-` is the standard input
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Look only in this scope; may be given several times
    #[arg(long = "scope", value_enum, value_name = "SCOPE")]
    pub(crate) scopes: Vec<ScopeWord>,

    /// Show at most this many lines
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) lines: usize,

    /// Also show properties that held and were hidden, with the reasons
    #[arg(long)]
    pub(crate) all: bool,

    /// Explain why an expected property is not among the lines
    #[arg(long, value_name = "PROPERTY")]
    pub(crate) why: Option<String>,

    /// Write the lines as properties that `check` reads
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Keep pairs of states within this many mebibytes
    #[arg(long, value_name = "MIB", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_memory: u32,

    #[command(flatten)]
    pub(crate) decided: DecidedArgs,

    #[command(flatten)]
    pub(crate) almost: AlmostArgs,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Options about decisions on inferred properties, and about properties inferred before.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From one time to the next")]
pub(crate) struct DecidedArgs {
    /// Show what appeared, disappeared and changed since this file of properties was written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["why", "explain"])]
    pub(crate) diff: Option<PathBuf>,

    /// A file of decisions, to be kept under version control; properties that it rejects are not
    /// shown
    #[arg(long, value_name = "FILE")]
    pub(crate) decisions: Option<PathBuf>,

    /// Record in the file of decisions that the property of this line must hold
    #[arg(long, value_name = "NUMBER", requires = "decisions")]
    pub(crate) accept: Vec<usize>,

    /// Record in the file of decisions that the property of this line is not of interest
    #[arg(long, value_name = "NUMBER", requires = "decisions")]
    pub(crate) reject: Vec<usize>,
}

/// Further options of `everhold infer --almost`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Almost-invariants")]
pub(crate) struct AlmostArgs {
    /// Look for properties that held in all but a few cases, and list the cases
    #[arg(long = "almost")]
    pub(crate) on: bool,

    /// Show the exceptions of the almost-invariant of this number
    #[arg(long, value_name = "NUMBER", requires = "on")]
    pub(crate) explain: Option<usize>,

    /// Also write an HTML page with the exceptions
    #[arg(long, value_name = "FILE", requires = "on")]
    pub(crate) html: Option<PathBuf>,

    /// The largest number of nodes in a property
    #[arg(long, value_name = "NUMBER", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) max_nodes: u8,

    /// The largest number of literals in a property
    #[arg(long, value_name = "NUMBER", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) max_literals: u8,

    /// The largest number of properties with the same variables
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) max_properties: usize,

    /// Drop properties that held less often than this
    #[arg(long, value_name = "RATE", default_value_t = 0.9)]
    pub(crate) min_rate: f64,

    /// Drop properties that were judged less often than this
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub(crate) min_evaluations: u64,

    /// Report at most this many properties
    #[arg(long = "top", value_name = "NUMBER", default_value_t = 10)]
    pub(crate) report_max: usize,

    /// The score of a property in a snapshot
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) accounting: AccountingWord,

    /// Consider only this variable and those below it; may be given several times
    #[arg(long, value_name = "VARIABLE", requires = "on")]
    pub(crate) only: Vec<String>,

    /// Give variables a sub type: variables of different sub types are not compared
    #[arg(long = "subtype", value_name = "VARIABLE=NAME")]
    pub(crate) subtypes: Vec<String>,

    /// Stop when the report stays the same over this many more snapshots
    #[arg(long, value_name = "SNAPSHOTS")]
    pub(crate) stable: Option<u64>,

    /// Stop after about this time, with what is found by then
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
}

/// The score of a property in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccountingWord {
    /// The share of its bindings for which it is true
    #[default]
    Spatial,
    /// 1 if it is true for all its bindings, 0 otherwise
    Plain,
}

/// The scopes in which properties are inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeWord {
    /// In every consistent global state
    EveryCut,
    /// Where no message is in flight between the nodes of the property
    Quiet,
    /// Where no message is in flight at all
    AllQuiet,
    /// Sender and receiver of each message
    Delivery,
    /// Nodes on one causal chain
    Chains,
}

/// The arguments of `everhold convert`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold convert server.log run.jsonl\n  everhold convert run.jsonl - --to mermaid"
)]
pub(crate) struct ConvertArgs {
    /// A trace or log; `-` is the standard input
    pub(crate) input_file: PathBuf,

    /// The file to write; `-` is the standard output, and a name that ends with `.zst` is
    /// compressed
    pub(crate) output: PathBuf,

    /// The format to write; if not given, the name of the output determines it
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<OutputFormat>,

    /// Convert only this run: its name, or its number from 1
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// The arguments of `everhold show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold show run.jsonl\n  everhold show run.jsonl --as text --from 10 --to 20"
)]
pub(crate) struct ShowArgs {
    /// A trace or log; `-` is the standard input
    pub(crate) trace: PathBuf,

    /// Show only this run: its name, or its number from 1
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// The form of the output
    #[arg(long = "as", value_enum, default_value_t, value_name = "FORM")]
    pub(crate) form: Form,

    /// The first event to show, from 0
    #[arg(long, value_name = "EVENT")]
    pub(crate) from: Option<usize>,

    /// The last event to show
    #[arg(long, value_name = "EVENT")]
    pub(crate) to: Option<usize>,

    /// Show only events of this node; may be given several times
    #[arg(long = "node", value_name = "NAME")]
    pub(crate) nodes: Vec<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// The arguments of `everhold perf`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold perf\n  everhold perf randtree --html slow.html\n  everhold \
perf chord --against none\n\nSystems of your own are analysed by `cargo test`, with `Perf` of the \
library; see `everhold help perf`. Ends with 0 if no execution is slow, 1 if some are, 2 if that \
cannot be told (the stopping condition was never reached, or too few executions), 64 if the input \
cannot be used, 130 if interrupted."
)]
pub(crate) struct PerfArgs {
    /// The system; without one, the systems are listed
    pub(crate) system: Option<String>,

    /// The bug of the system; `none` is the fixed system
    #[arg(long, value_name = "NAME")]
    pub(crate) bug: Option<String>,

    /// The number of nodes
    #[arg(long, value_name = "NUMBER")]
    pub(crate) nodes: Option<usize>,

    /// Draw this many executions; the search then runs half as many again
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) executions: Option<u64>,

    /// Draw with this seed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Use this many threads
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) workers: Option<u64>,

    /// Stop after this many seconds, and report the results so far
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) time: Option<u64>,

    /// Compare with the same system with this bug instead (`none`: fixed), seed by seed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["mace", "replay", "what_if"])]
    pub(crate) against: Option<String>,

    /// Analyse as MacePC does (FSE 2010), as a baseline
    #[arg(long)]
    pub(crate) mace: bool,

    /// For `--mace`: random walks from each prefix
    #[arg(long, value_name = "NUMBER", default_value_t = 20, requires = "mace")]
    pub(crate) walks: u32,

    /// Read the durations of handlers from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) durations: Option<PathBuf>,

    /// Measure the durations of handlers on this machine, write them to this file, and use them
    #[arg(long, value_name = "FILE", conflicts_with = "durations")]
    pub(crate) train: Option<PathBuf>,

    /// Also run with a change: `Join=200%` for the handlers of a message, `0->2=50%` for a link
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<String>,

    /// Run the one execution with this token or seed
    #[arg(long, value_name = "TOKEN")]
    pub(crate) replay: Option<String>,

    /// Also write the page to this file; the page of each finding is in target/everhold in any case
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print only the data for plots, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `everhold replay-live`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  everhold replay-live recordings/ --out shrunk.jsonl\n\nSystems of your own are replayed by `cargo test`, with `Explorer::replay_live` of the library; see `everhold help live`. Ends with 1 if the recording violates a property, 2 if it does not, 3 if the nodes diverged from the recording, 64 if the recording cannot be used."
)]
pub(crate) struct ReplayLiveArgs {
    /// Folders with the recordings of the nodes; without one, the systems are listed
    #[arg(value_name = "RECORDING")]
    pub(crate) recordings: Vec<PathBuf>,

    /// The system; if not given, it is taken from the recording
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<String>,

    /// The bug of the system; if not given, it is taken from the recording
    #[arg(long, value_name = "NAME")]
    pub(crate) bug: Option<String>,

    /// Write the shrunk execution to this file, as a trace
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// The arguments of `everhold findings`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  everhold findings\n  everhold findings --failing\n  \
everhold findings --junit target/everhold.xml\n\nEnds with 0 if no test failed when it ran last, 1 if \
one did, 64 if no test has left an outcome.")]
pub(crate) struct FindingsArgs {
    /// The folder in which tests leave their outcomes; without one, that of this workspace
    pub(crate) folder: Option<PathBuf>,

    /// List only the tests that failed
    #[arg(long)]
    pub(crate) failing: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the outcomes as JUnit XML, one test case for each test
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

/// The arguments of `everhold replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold replay no_addition_is_lost-1a2b3c4d\n  everhold replay \
1a2b3c4d\n  everhold replay 1a2b3c4d -- --features hosts\n\nEnds with 1 if the finding still fails, 0 if it \
does not, 3 if its schedule no longer fits, 64 if there is no such finding or its test did not run."
)]
pub(crate) struct ReplayArgs {
    /// The id of a finding, or its beginning or end; `everhold findings` lists them
    pub(crate) id: String,

    /// Options of `cargo test`, such as the features that the test needs
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) cargo: Vec<String>,
}

/// The arguments of `everhold view`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  everhold view\n  everhold view 7f3a91c2\n  \
everhold view run.jsonl --rules raft.prop --out report.html")]
pub(crate) struct ViewArgs {
    /// A trace, a finding's folder or id, or a folder of runs; without one, the findings of this
    /// workspace
    pub(crate) path: Option<PathBuf>,

    /// Write the page into this file instead of serving it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Judge these properties at every event of the first run
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Set a constant that the properties use: `NAME=VALUE`, where VALUE is JSON or else text
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) define: Vec<String>,

    /// Show only this run: its name, or its number from 1
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// The address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7117")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// The arguments of `everhold init`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold init\n  everhold init crates/server\n\nAdds the library \
to the dev-dependencies, a first test in tests/everhold.rs, and a profile with which tests explore \
optimised, if the workspace has none for tests."
)]
pub(crate) struct InitArgs {
    /// The folder of the crate
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// The source of the `everhold` library, if it is not beside that of this program
    #[arg(long, value_name = "FOLDER")]
    pub(crate) library: Option<PathBuf>,
}

/// The arguments of `everhold emit-test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  everhold emit-test 1a2b3c4d\n  everhold emit-test 1a2b3c4d \
--setup two_clients >> tests/regressions.rs")]
pub(crate) struct EmitTestArgs {
    /// The token of a schedule, its file, or the id of a finding
    pub(crate) token: String,

    /// The setup function that your test explores
    #[arg(long, value_name = "NAME", default_value = "setup")]
    pub(crate) setup: String,
}

/// The arguments of `everhold completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  everhold completions bash > ~/.local/share/bash-completion/completions/everhold"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// The violations that raise an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AlarmArg {
    /// Those that are certain
    Definite,
    /// Those that are possible as well
    Possible,
}

/// The arguments of `everhold watch`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  everhold watch --rules leader.prop --listen 127.0.0.1:7070\n  everhold watch \
--at 127.0.0.1:7070 --add more.prop\n\nRuns until it is stopped. With --at it talks to a watch that runs: it prints \
the rules in force, or changes them with --add and --remove. Ends with 1 if something was violated."
)]
pub(crate) struct WatchArgs {
    /// The rules: see `everhold help properties`; changes of the file are applied while the watch
    /// runs
    #[arg(long, value_name = "FILE", required_unless_present_any = ["at", "engine"])]
    pub(crate) rules: Option<PathBuf>,

    /// The address to which probes connect
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// The folder for the log, the checkpoints and the evidence
    #[arg(long, value_name = "FOLDER", default_value = "everhold-watch")]
    pub(crate) folder: PathBuf,

    /// `nats://HOST:PORT` or `tls://HOST:PORT` shares the work with other processes; if not given,
    /// this process does it all
    #[arg(long, value_name = "URL")]
    pub(crate) engine: Option<String>,

    /// The number of partitions over which keys are spread; fixed when the log is created
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) partitions: Option<u32>,

    /// Accept only records of this system
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) system: String,

    /// A file with the secret that probes must present
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Allow addresses that other machines can reach without a secret
    #[arg(long)]
    pub(crate) open: bool,

    /// Treat a node as crashed after this many milliseconds of silence
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pub(crate) silence_ms: u64,

    /// Wait this many milliseconds for a node that falls behind, then continue without it
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pub(crate) wait_ms: u64,

    /// The violations that raise an alarm: only those that are certain whatever the errors of the
    /// clocks, or also those that are possible; other violations are counted and shown
    #[arg(long, value_enum, value_name = "WHICH", default_value = "definite")]
    pub(crate) alarm: AlarmArg,

    /// Serve Prometheus metrics, and accept changes of rules, on this address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,

    /// Post violations to this URL (`http://...` or `https://...`), in the format of Alertmanager
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no status line
    #[arg(long)]
    pub(crate) quiet: bool,

    /// End after this many seconds
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seconds: Option<u64>,

    /// Send the command to the running watch with this --metrics address; `https://ADDRESS` for TLS
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) at: Option<String>,

    /// Add the rules of this file; they replace rules with the same names
    #[arg(long, value_name = "FILE", requires = "at")]
    pub(crate) add: Option<PathBuf>,

    /// Remove the rule of this name; may be given several times
    #[arg(long, value_name = "NAME", requires = "at")]
    pub(crate) remove: Vec<String>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// The arguments of `everhold help`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  everhold help properties\n  everhold help watch")]
pub(crate) struct HelpArgs {
    /// The topic; without one, the topics are listed
    pub(crate) topic: Option<String>,
}

/// Options for reading the input.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct InputArgs {
    /// The format of the input; if not given, its content and name determine it
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<InputFormat>,

    /// The parser expression of a ShiViz log, with groups host, clock, event; any other named
    /// group is a variable of the host's state
    #[arg(long, value_name = "REGEX")]
    pub(crate) parser: Option<String>,

    /// The expression between two executions of a ShiViz log; its group `trace` names the next one
    #[arg(long, value_name = "REGEX")]
    pub(crate) executions: Option<String>,

    /// For JSON lines of another tool: a file that assigns a meaning to each field (`everhold help
    /// logs`)
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,

    /// The files (or those of a directory) are the logs of one run, one for each node
    #[arg(long)]
    pub(crate) together: bool,

    /// Leave out broken parts and keep the rest, instead of refusing the file
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// Everhold's own: JSON lines, see `everhold help traces`
    Native,
    /// A log with vector clocks and a parser expression
    Shiviz,
    /// A log of GoVector
    Govector,
    /// JSON lines of another tool, with `--mapping`
    Ndjson,
    /// A table of states with a column `node`
    Csv,
    /// Lines of `from, to, message`
    Messages,
    /// Dinv's points (`NAMEEncoded.txt`) and the GoVector logs beside them
    Dinv,
}

impl InputFormat {
    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Everhold's own: JSON lines
    Native,
    /// A log for ShiViz
    Shiviz,
    /// A Chrome trace, for Perfetto
    Chrome,
    /// A sequence diagram for Markdown
    Mermaid,
    /// A table of events and states
    Csv,
    /// Fixed columns for people
    Text,
}

impl OutputFormat {
    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The forms in which a trace is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One line for each event
    #[default]
    Text,
    /// A space-time picture, time downwards
    Picture,
    /// Numbers of events, messages, states and cuts
    Stats,
}
