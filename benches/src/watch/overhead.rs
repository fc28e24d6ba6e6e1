//! The cost of being watched for a whole application (D3S, figure 11).
//!
//! The application is a process with one thread that either computes, or writes to a disk and
//! waits. It shows 390 bytes at a fixed rate. Its checker runs elsewhere and is not part of the
//! cost. The measurement is the CPU time of all threads of the process, including the probe's:
//! other work on the machine changes it little. For the computing application, the overhead is the
//! CPU time of a unit of work relative to that without a probe; for the waiting one, it is the
//! share of a core that the probe uses.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use everhold_live::{NodeId, Probe};

use super::observe::sink;
use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::process::Process;
use crate::table::Table;

/// The name under which this program is the application.
pub(super) const APPLICATION: &str = "watch-application";

/// D3S's rate, and a higher one.
const RATES: [u64; 2] = [347, 10_000];

/// The result of one run of the application.
struct Ran {
    units: f64,
    cpu: f64,
    wall: f64,
}

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let checker = sink();
    let mut table = Table::new(&["application", "rate", "units/s", "of a core", "overhead"]);
    for kind in ["computes", "waits for a disk"] {
        let rounds = size.pick(1, 9);
        let mut runs: [Vec<Ran>; 3] = Default::default();
        for _ in 0..rounds {
            runs[0].push(turn(kind, 0, checker, size));
            runs[1].push(turn(kind, RATES[0], checker, size));
            runs[2].push(turn(kind, RATES[1], checker, size));
        }
        for (rate, watched) in [0, RATES[0], RATES[1]].into_iter().zip(&runs) {
            let overhead = overhead(kind, &runs[0], watched);
            table.row(vec![
                kind.to_owned(),
                if rate == 0 { "not watched".to_owned() } else { format!("{rate}/s") },
                format!("{:.0}", median(watched, |ran| ran.units / ran.wall)),
                format!("{:.2} %", 100.0 * median(watched, |ran| ran.cpu / ran.wall)),
                format!("{:+.2} %", 100.0 * overhead),
            ]);
            if rate > 0 {
                // A smoke run is too short for a meaningful figure.
                let measured = size.pick(0.0, overhead / 0.02);
                let claim = format!("it {kind}, {rate}/s of 390 bytes: 2 %");
                scores.hold(claim, measured, Bound::AtMost(1.0));
            }
        }
    }
    table.print("An application that is watched; D3S: about 2 %, at most 8 %");
}

fn overhead(kind: &str, bare: &[Ran], watched: &[Ran]) -> f64 {
    match kind {
        "computes" => {
            let cost = |runs| median(runs, |ran| ran.cpu / ran.units);
            cost(watched) / cost(bare) - 1.0
        }
        _ => {
            let busy = |runs| median(runs, |ran| ran.cpu / ran.wall);
            busy(watched) - busy(bare)
        }
    }
}

fn median(runs: &[Ran], value: impl Fn(&Ran) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn turn(kind: &str, rate: u64, checker: SocketAddr, size: Size) -> Ran {
    let milliseconds = size.pick(100, 1_500);
    let words = [kind.to_owned(), rate.to_string(), checker.to_string(), milliseconds.to_string()];
    let process = Process::start(APPLICATION, &words);
    let line = process.lines.recv().expect("it says what it did");
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [units, cpu, wall] = numbers[..] else { panic!("{line}") };
    Ran { units, cpu, wall }
}

/// `KIND RATE CHECKER MILLISECONDS`: works, shows its state, and prints units, CPU seconds and
/// seconds.
pub(super) fn application(words: &[&str]) {
    let [kind, rate, checker, milliseconds] = words else { panic!("{words:?}") };
    let rate: u64 = rate.parse().expect("a number");
    let length = Duration::from_millis(milliseconds.parse().expect("a number"));
    let probe = match rate {
        0 => Probe::off(),
        _ => Probe::to_checkers([checker.parse().expect("an address")])
            .node(NodeId(1), "n1", "bench")
            .start(),
    };
    while rate > 0 && !probe.is_watched() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut work: Box<dyn FnMut()> = match *kind {
        "computes" => Box::new(compute()),
        _ => Box::new(write_and_wait()),
    };
    let (var, text) = (probe.var("state"), "x".repeat(390));
    let (before, begun) = (cpu_seconds(), Instant::now());
    let (mut units, mut shown) = (0_u64, 0_u64);
    while begun.elapsed() < length {
        work();
        units += 1;
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        while shown < due {
            probe.observe(var, text.as_str());
            shown += 1;
        }
    }
    let (cpu, wall) = (cpu_seconds() - before, begun.elapsed().as_secs_f64());
    assert_eq!(probe.dropped(), 0, "a drop is cheaper than a write");
    println!("{units} {cpu} {wall}");
}

/// A computation of some microseconds over memory.
pub(super) fn compute() -> impl FnMut() {
    let mut state = vec![1_u64; 2_048];
    move || {
        for _ in 0..4 {
            let mut sum = 0_u64;
            for word in &mut state {
                sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(*word | 1);
                *word ^= sum >> 7;
            }
        }
        black_box(&mut state);
    }
}

/// Writes four KiB, which are on disk when the function returns.
fn write_and_wait() -> impl FnMut() {
    let folder = super::folder("overhead");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut file = File::create(folder.join("data")).expect("a file");
    // The open file stays usable; its name is not needed.
    let _ = std::fs::remove_dir_all(&folder);
    move || {
        file.write_all(&[7; 4_096]).expect("there is room");
        file.sync_data().expect("there is a disk");
    }
}
