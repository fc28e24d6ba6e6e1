//! Unmodified programs on hosts, beside turmoil: three hosts that exchange 100 messages. They run
//! in a separate program, since hosts replace functions of the C library in the whole of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Options;
use crate::measure::{Bound, Scorecard, Size};
use crate::table::{Table, short};

const EVERHOLD: &str = "everhold";
/// Everhold with runtimes of one thread and of two, and turmoil with its defaults, with coarser
/// steps of time, and with shorter latencies.
const SIMULATORS: [&str; 5] =
    [EVERHOLD, "everhold-2", "turmoil", "turmoil-tick-10", "turmoil-latency-1"];
const TURMOIL: &str = "turmoil";

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    let mut table =
        Table::new(&["simulator", "executions a CPU-second", "us an execution", "ns a step"]);
    let program = build(options.size).unwrap_or_else(|problem| panic!("{problem}"));
    let (mut ours, mut best) = (0.0, 0.0_f64);
    for name in SIMULATORS {
        let measured = median(&program, name, options.size);
        let rate = 1.0 / measured.seconds;
        let step = measured.steps.map(|steps| format!("{:.0}", 1e9 * measured.seconds / steps));
        let time = format!("{:.0}", 1e6 * measured.seconds);
        table.row(vec![name.to_owned(), short(rate), time, step.unwrap_or_default()]);
        if name == EVERHOLD {
            ours = rate;
        } else if name.starts_with(TURMOIL) {
            best = best.max(rate);
        }
    }
    table.print("Ping-pong of 100 messages between three hosts");
    let bound = |bound: f64| Bound::AtLeast(options.size.pick(0.0, bound));
    scores.hold("executions a CPU-second, of 2,500", ours / 2_500.0, bound(1.0));
    scores.hold("executions, of the fastest setting of turmoil", ours / best, bound(1.0));
    scores
}

/// One execution.
struct Measured {
    seconds: f64,
    steps: Option<f64>,
}

/// The median of some turns.
fn median(program: &Path, name: &str, size: Size) -> Measured {
    let executions = size.pick(2, if name.starts_with(EVERHOLD) { 2_000 } else { 100 });
    let mut turns: Vec<Measured> =
        (0..size.rounds()).map(|_| turn(program, name, executions)).collect();
    turns.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    turns.swap_remove(turns.len() / 2)
}

fn turn(program: &Path, name: &str, executions: u64) -> Measured {
    let output = Command::new(program).args([name, &executions.to_string(), "100"]).output();
    let output = output.expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers = printed.trim().split_once(' ');
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (steps, seconds): (f64, f64) = numbers.unwrap_or_else(|| {
        panic!("{name} failed: {printed}{}", String::from_utf8_lossy(&output.stderr))
    });
    let executions = executions as f64;
    Measured { seconds: seconds / executions, steps: (steps > 0.0).then_some(steps / executions) }
}

/// Builds the program: optimised, but for a run that only shows that it works.
fn build(size: Size) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts");
    let target = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = target.parent().and_then(Path::parent).ok_or("this program has no folder")?;
    let target = target.join("hosts");
    let profile = size.pick("dev", "release");
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", &target)
        .status();
    match cargo {
        Ok(status) if status.success() => {
            Ok(target.join(size.pick("debug", "release")).join("everhold-hosts-bench"))
        }
        Ok(status) => Err(format!("cargo ended with {status}")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}
