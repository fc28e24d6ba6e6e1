//! Unmodified programs on simulated hosts, beside turmoil, madsim and Shuttle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use everhold_trace::text::thousands;

use crate::explore::channels;
use crate::measure::{Bound, Contender, Scorecard, Size, race};
use crate::table::{Table, short};
use crate::timed::peers;
use crate::{Options, Part};

/// The parts, in the order in which they run.
const PARTS: [Part; 5] = [
    ("ping", ping),
    ("step", step),
    ("channel", channel),
    ("memory", memory),
    ("repeats", repeats),
];

/// Executions a CPU-second of the ping-pong.
const PINGS: f64 = 2_500.0;
/// The longest time of a scheduling step, in nanoseconds.
const STEP: f64 = 100.0;
/// The largest permitted ratio of the memory of a long search to that of a short one.
const GROWTH: f64 = 1.1;

/// The other simulators, by what is said about them, with the words that start them and the number
/// of executions of a turn.
const OTHERS: [(&str, &[&str], u64); 5] = [
    ("turmoil", &["ping-turmoil", "0", "0"], 50),
    ("turmoil, a tick of 10 ms", &["ping-turmoil", "10", "0"], 400),
    ("turmoil, latency at most 1 ms", &["ping-turmoil", "0", "1"], 1_500),
    ("turmoil, both", &["ping-turmoil", "10", "1"], 1_500),
    ("madsim", &["ping-madsim"], 1_500),
];

pub(crate) fn run(options: &Options) -> Scorecard {
    options.run(&PARTS)
}

/// The output of the program that simulates hosts.
#[derive(Clone, Debug)]
struct Run {
    executions: f64,
    steps: f64,
    seconds: f64,
    peak: f64,
    schedule: String,
}

impl Run {
    fn executions_per_second(&self) -> f64 {
        self.executions / self.seconds
    }

    fn steps_per_second(&self) -> f64 {
        self.steps / self.seconds
    }
}

/// Builds the program that simulates hosts: as this one was built, and next to it.
fn build() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let program = program.with_file_name("everhold-hosts");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--bin", "everhold-hosts"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(built.success(), "cargo ended with {built}");
    program
}

/// Runs executions of a program on simulated hosts.
fn ours(program: &PathBuf, name: &str, executions: u64, seed: u64) -> Run {
    let mut command = Command::new(program);
    let output = command.args([name, &executions.to_string(), &seed.to_string()]).output();
    let output = output.expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = printed.split_whitespace().collect();
    let [executions, steps, seconds, peak, schedule] = words[..] else {
        panic!("{name} printed {printed:?} and {}", String::from_utf8_lossy(&output.stderr));
    };
    let number = |text: &str| text.parse::<f64>().expect("it prints numbers");
    Run {
        executions: number(executions),
        steps: number(steps),
        // The kernel counts hundredths; a smoke run may take none.
        seconds: number(seconds).max(0.01),
        peak: number(peak),
        schedule: schedule.to_owned(),
    }
}

/// The median of some turns by this figure.
fn median(mut turns: Vec<Run>, figure: fn(&Run) -> f64) -> Run {
    turns.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    turns.swap_remove(turns.len() / 2)
}

fn ping(size: Size, scores: &mut Scorecard) {
    let program = build();
    // Building the peers takes minutes, which is too long for a smoke run.
    let others = (size == Size::Full).then(peers::build);
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); OTHERS.len()];
    let mut turns = Vec::new();
    for _ in 0..size.rounds() {
        turns.push(ours(&program, "ping", size.pick(10, 3_000), 0));
        let Some(Ok(others)) = &others else { continue };
        for ((_, words, executions), rates) in OTHERS.iter().zip(&mut rates) {
            let executions = executions.to_string();
            let words: Vec<&str> = words.iter().copied().chain([executions.as_str()]).collect();
            rates.extend(peers::turn(others, &words).map(|(done, seconds)| done / seconds));
        }
    }
    let ours = median(turns, Run::executions_per_second);
    let rate = ours.executions_per_second();
    let mut table = Table::new(&["simulator", "executions a CPU-second", "steps of each"]);
    let steps = format!("{:.0}", ours.steps / ours.executions);
    table.row(vec!["everhold, tokio as it is".to_owned(), short(rate), steps]);
    let mut best: f64 = 0.0;
    for ((name, ..), mut rates) in OTHERS.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let rate = rates.get(rates.len() / 2).copied();
        let shown = rate.map_or_else(|| "not measured".to_owned(), short);
        table.row(vec![(*name).to_owned(), shown, String::new()]);
        if name.starts_with("turmoil") {
            best = best.max(rate.unwrap_or(0.0));
        }
    }
    table.print("Three hosts on tokio, 100 messages there and back");
    if let Some(Err(reason)) = &others {
        println!("The peers could not be built: {reason}");
    }
    let claim = "ping-pong, of 2,500 executions a CPU-second";
    scores.hold(claim, rate / PINGS, Bound::AtLeast(1.0));
    if others.is_some() {
        let share = if best > 0.0 { rate / best } else { 0.0 };
        scores.hold("ping-pong, of turmoil's fastest setting", share, Bound::AtLeast(1.0));
    }
}

/// The cost of a step in which one thread goes on instead of another one.
fn step(size: Size, scores: &mut Scorecard) {
    let program = build();
    let executions = size.pick(1, 200);
    let turns = (0..size.rounds()).map(|_| ours(&program, "yields", executions, 0)).collect();
    let ours = median(turns, Run::steps_per_second);
    let nanoseconds = 1e9 / ours.steps_per_second();
    println!(
        "\nA scheduling step takes {nanoseconds:.0} ns: two threads that yield to each other."
    );
    scores.hold("scheduling step, of 100 ns", nanoseconds / STEP, Bound::AtMost(1.0));
}

/// Two threads and two channels: those of the standard library, and Shuttle's own.
fn channel(size: Size, scores: &mut Scorecard) {
    let program = build();
    let executions = size.pick(10, 5_000);
    let mut turns = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..size.rounds() {
        turns.push(ours(&program, "channel", executions, 0));
        theirs.extend(race(&[Contender::new("shuttle", channels)], size));
    }
    let ours = median(turns, Run::steps_per_second);
    theirs.sort_by(|a, b| a.steps.total_cmp(&b.steps));
    let theirs = &theirs[theirs.len() / 2];
    let mut table = Table::new(&["100 round trips", "steps a CPU-second", "steps", "executions"]);
    let each = ours.steps / ours.executions;
    table.row(vec![
        "everhold, std::sync::mpsc".to_owned(),
        short(ours.steps_per_second()),
        format!("{each:.0}"),
        short(ours.executions_per_second()),
    ]);
    table.row(vec![
        "shuttle, shuttle::sync::mpsc".to_owned(),
        short(theirs.steps),
        format!("{:.0}", theirs.steps / theirs.executions),
        short(theirs.executions),
    ]);
    table.print("Two threads and two channels");
    let share = ours.steps_per_second() / theirs.steps;
    scores.hold("channels, steps a CPU-second, of shuttle's", share, Bound::AtLeast(1.0));
}

fn memory(size: Size, scores: &mut Scorecard) {
    let program = build();
    let counts = size.pick([10, 50], [1_000, 100_000]);
    let mut table = Table::new(&["executions of the ping-pong", "peak of the memory, KiB"]);
    let peaks = counts.map(|executions| {
        let peak = ours(&program, "ping", executions, 0).peak;
        table.row(vec![thousands(executions), thousands(peak as u64)]);
        peak
    });
    table.print("Memory of the process in which hosts run");
    let claim = format!("memory, {} to {} executions", thousands(counts[0]), thousands(counts[1]));
    scores.hold(claim, peaks[1] / peaks[0].max(1.0), Bound::AtMost(GROWTH));
}

/// One execution again and again, each time in a new process: its schedule has every choice.
fn repeats(size: Size, scores: &mut Scorecard) {
    let program = build();
    let count = size.pick(3, 1_000);
    let mut table = Table::new(&["one execution repeated", "times", "schedules"]);
    for name in ["ping-fails", "channel-fails"] {
        let runs = (0..count).map(|_| ours(&program, name, 1, 7));
        let schedules: BTreeSet<String> =
            runs.map(|run| format!("{} {}", run.steps, run.schedule)).collect();
        assert!(schedules.iter().all(|schedule| !schedule.ends_with('-')), "{name} has to fail");
        table.row(vec![name.to_owned(), thousands(count), schedules.len().to_string()]);
        let claim = format!("{name}: schedules of {} repeats", thousands(count));
        scores.hold(claim, schedules.len() as f64, Bound::AtMost(1.0));
    }
    table.print("Repeats");
}
