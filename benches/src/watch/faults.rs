//! A run with failures: checkers are killed by `SIGKILL` every two seconds, and one node of the
//! application is killed too.
//!
//! Three nodes of an application are processes with probes. Two of them plant violations: at
//! intervals, both take the same new lock and keep it. The third is killed. The same application
//! without a probe runs at the same time on the same machine, and the throughput of the watched
//! nodes is compared with its throughput. The checker is one process with the embedded engine,
//! restarted in the same folder whenever it was killed.
//!
//! (A test of `everhold-watch` does the same with the stream server, with
//! `EVERHOLD_FAULT_SECONDS=60`.)

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use everhold_live::{NodeId, Probe};
use everhold_trace::text::thousands;
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Intake, IntakeOptions, Log, SegmentLog, SegmentOptions,
    Timing, Watch, WatchOptions, WatchParts,
};

use super::{RULES, folder};
use crate::measure::{Bound, Scorecard, Size};
use crate::process::{Process, when_input_ends};
use crate::table::Table;

/// The names under which this program is a checker, and a node of the application.
pub(super) const CHECKER: &str = "watch-checker";
pub(super) const APPLICATION: &str = "watch-node";

/// The interval between planted violations.
const PLANT: Duration = Duration::from_millis(40);

/// The lifetime of a checker.
const LIFE: Duration = Duration::from_secs(2);

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let length = size.pick(Duration::from_secs(5), Duration::from_secs(60));
    let folder = folder("faults");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let words = [folder.display().to_string(), address.clone()];
    let planted = (length.as_nanos() / PLANT.as_nanos()) as u64;
    let count = planted.to_string();
    let node = |number: &str| Process::start(APPLICATION, &[number, &address, &count]);
    let mut checker = Process::start(CHECKER, &words);
    let (nodes, mut victim) = (["0", "1"].map(node), Some(node("2")));
    let alone = Process::start(APPLICATION, &["3", "nobody", "0"]);
    let (begun, mut kills, mut memory) = (Instant::now(), 0, 0);
    while begun.elapsed() < length {
        sleep(LIFE.min(length.saturating_sub(begun.elapsed())));
        memory = memory.max(checker.peak());
        drop(checker);
        kills += 1;
        checker = Process::start(CHECKER, &words);
        if begun.elapsed() > length / 3 {
            victim = None;
        }
    }
    drop(victim);
    let probed = nodes.iter().map(Process::peak).max().unwrap_or(0);
    let told = wait_for(&folder, planted);
    let (done, bare) = (finish(nodes), finish([alone]));
    memory = memory.max(checker.peak());
    drop(checker);
    let twice = told.values().filter(|times| **times > 1).count();
    let mut table =
        Table::new(&["planted", "reported", "twice", "kills", "checker", "node", "work"]);
    let share = done / bare;
    table.row(vec![
        thousands(planted),
        thousands(told.len() as u64),
        twice.to_string(),
        kills.to_string(),
        format!("{} MiB", memory >> 10),
        format!("{} MiB", probed >> 10),
        format!("{:.1} %", 100.0 * share),
    ]);
    table.print("Killed checkers, a killed node; memory at its peak; work against no probe");
    let reported = told.len() as f64 / planted as f64;
    scores.hold("planted violations reported", reported, Bound::AtLeast(1.0));
    scores.hold("reported twice", twice as f64, Bound::AtMost(0.0));
    scores.hold("a checker's memory, of 256 MiB", memory as f64 / 262_144.0, Bound::AtMost(1.0));
    // In a few seconds processes only start and stop, so the figure is meaningless.
    let share = size.pick(1.0, share);
    scores.hold("the application's throughput", share, Bound::AtLeast(0.95));
    let _ = std::fs::remove_dir_all(folder);
}

/// Ends applications; returns the work of each per second.
fn finish<const N: usize>(nodes: [Process; N]) -> f64 {
    let rates = nodes.map(|node| {
        let last = node.finish().pop().expect("it says what it did");
        last.parse::<f64>().expect("a number")
    });
    rates.iter().sum::<f64>() / N as f64
}

/// The number of reports of each violation, once all are reported or the time is over.
fn wait_for(folder: &Path, planted: u64) -> BTreeMap<String, usize> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let text = std::fs::read_to_string(folder.join("violations.jsonl")).unwrap_or_default();
        let mut told = BTreeMap::new();
        for line in text.lines().filter(|line| line.contains("\"event\":\"fired\"")) {
            let key = line.split("\"key\":").nth(1).and_then(|rest| rest.split(',').next());
            *told.entry(key.unwrap_or_default().to_owned()).or_default() += 1;
        }
        if told.len() as u64 >= planted || Instant::now() > end {
            return told;
        }
        sleep(Duration::from_millis(200));
    }
}

/// `FOLDER ADDRESS`: judges until it is killed.
pub(super) fn checker(words: &[&str]) {
    let [folder, address] = words else { panic!("{words:?}") };
    let folder = Path::new(folder);
    let log = SegmentLog::open(&folder.join("log"), SegmentOptions::default()).expect("a folder");
    let log: Arc<dyn Log> = Arc::new(log);
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(folder, 1).expect("a folder")),
        evidence: Evidence::open(folder).expect("a folder"),
        flows: Arc::new(Vec::new),
        told: Box::new(|_| {}),
        trouble: Box::new(|text| eprintln!("{text}")),
    };
    // On a loaded machine a short silence does not mean death; only the killed node is silent for
    // long.
    let silence_max = Duration::from_secs(5);
    let timing = Timing { silence_max, wait_max: 2 * silence_max, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let watch = Watch::start(parts, WatchOptions { check, ..WatchOptions::default() });
    let watch = watch.expect("a store");
    if watch.rules().as_deref() != Some(RULES) {
        watch.set_rules(RULES, "rules").expect("they are right");
    }
    let listener = TcpListener::bind(address.parse::<SocketAddr>().expect("an address"));
    let _intake =
        Intake::start(listener.expect("it is free"), log, IntakeOptions::default(), |_| {});
    loop {
        sleep(Duration::from_secs(600));
    }
}

/// `NUMBER CHECKER COUNT`: works until its standard input ends, plants COUNT violations in the
/// meantime if it is one of the first two nodes, and prints its work per second.
pub(super) fn application(words: &[&str]) {
    let [number, checker, count] = words else { panic!("{words:?}") };
    let number: u32 = number.parse().expect("a number");
    let count: u64 = if number < 2 { count.parse().expect("a number") } else { 0 };
    let planted = Arc::new(AtomicU64::new(0));
    let again = Arc::clone(&planted);
    let probe = match checker.parse() {
        Ok(address) => Probe::to_checkers([address])
            .system("bench")
            .node(NodeId(number), &format!("n{number}"), "client")
            .refresh(move |probe| {
                let locks = probe.var("locks");
                let held = again.load(Ordering::SeqCst);
                (0..held).for_each(|lock| probe.add(locks, lock as i64, "exclusive"));
            })
            .start(),
        Err(_) => Probe::off(),
    };
    let (locks, requests) = (probe.var("locks"), probe.var("requests"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    when_input_ends(move || stopped.store(true, Ordering::Relaxed));
    let mut work = super::overhead::compute();
    let (begun, mut done) = (Instant::now(), 0_i64);
    while !stop.load(Ordering::Relaxed) {
        work();
        done += 1;
        // About one request per millisecond is shown.
        if done % 32 == 0 {
            probe.observe(requests, done);
        }
        let due = begun.elapsed().as_nanos() / PLANT.as_nanos();
        let next = planted.load(Ordering::SeqCst);
        if next < count && u128::from(next) < due {
            planted.store(next + 1, Ordering::SeqCst);
            probe.add(locks, next as i64, "exclusive");
        }
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    println!("{rate}");
}
