//! The options of `everhold attach`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The arguments of `everhold attach`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs Linux 6.6 or later on x86-64, as root or with CAP_BPF and CAP_PERFMON. The \
programs are not changed, restarted or stopped, and nothing remains in them, however this command ends. \
Ends as `watch` does with --rules, and with 0 without them; 64 if a line cannot be used or the kernel \
does not allow it."
)]
pub(crate) struct AttachArgs {
    /// Programs, by path or by name: all processes that run them are observed, now and later
    #[arg(value_name = "PROGRAM", required_unless_present = "pid")]
    pub(crate) programs: Vec<PathBuf>,

    /// Processes that are observed, by number
    #[arg(long, value_name = "PID", num_args = 1.., conflicts_with = "programs")]
    pub(crate) pid: Vec<u32>,

    /// The probe file, which says what to see: see `everhold help attach`
    #[arg(long, value_name = "FILE")]
    pub(crate) probes: PathBuf,

    /// Print every address, instruction and cost, and what is missing; attach to nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go on without the lines of the probe file that cannot be used
    #[arg(long)]
    pub(crate) skip_unusable: bool,

    /// Judge the rules of this file here, as `everhold watch` does
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// The folder for the log and the evidence of --rules
    #[arg(long, value_name = "FOLDER", default_value = "everhold-watch", requires = "rules")]
    pub(crate) folder: PathBuf,

    /// Serve the page and the metrics of --rules on this address
    #[arg(long, value_name = "ADDRESS", requires = "rules")]
    pub(crate) metrics: Option<String>,

    /// Tell a running watch at this address; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: Vec<SocketAddr>,

    /// A file with the secret that the watches of --to require
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Record everything into this folder, for `check` and `infer`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) record: Option<PathBuf>,

    /// Do not observe the messages over TCP, from which the order between processes follows
    #[arg(long)]
    pub(crate) no_order: bool,

    /// The system that the nodes belong to
    #[arg(long, value_name = "NAME", default_value = "system")]
    pub(crate) system: String,

    /// The kind of the nodes; the name of their program, if not given
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) kind: String,

    /// The buffer between the kernel and this command, in mebibytes: a power of two
    #[arg(long, value_name = "MIB", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) ring_mib: u32,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Leave after this many seconds; otherwise when the processes of --pid have ended
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seconds: Option<u64>,
}
