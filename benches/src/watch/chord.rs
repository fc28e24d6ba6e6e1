//! D3S, section 5.4: a ring of 85 nodes of which 70 % are killed at once, watched.
//!
//! The nodes are spread over two processes and communicate by datagrams on loopback; one process is
//! killed. Two checks run meanwhile, both as graphs of stages: the share of the ring that is
//! covered (figure 8a), and the number of nodes that hold each of 256 sampled keys (figure 8b).

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use everhold_live::host::loopback;
use everhold_live::{Config, NodeId};
use everhold_systems::chord::{coverage, host, sampled_keys};
use everhold_trace::wire::Stamp;
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Flow, Intake, IntakeOptions, Log, SegmentLog,
    SegmentOptions, Timing, Watch, WatchOptions, WatchParts,
};

use super::folder;
use crate::measure::{Bound, Scorecard, Size};
use crate::process::{Process, when_input_ends};
use crate::table::Table;

/// The name under which this program hosts some nodes of the ring.
pub(super) const NODES: &str = "watch-ring";

const SAMPLES: u32 = 256;

/// The results of the checks, by stamp.
#[derive(Default)]
struct Seen {
    shares: Vec<(Stamp, i64)>,
    holders: Vec<(Stamp, Vec<i64>)>,
}

type Shared = Arc<Mutex<Seen>>;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let (nodes, seconds) = (size.pick(12, 85), size.pick(6, 60));
    for reach in size.pick(&[3][..], &[3, 8]) {
        let ring = Ring::start(nodes, *reach);
        let (killed, seen) = ring.lose_most(seconds);
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        show(nodes, *reach, killed, seconds, &seen);
        let last = seen.shares.last().map_or(0, |(_, share)| *share);
        // A smoke run does not wait for the end.
        let measured = size.pick(1.0, 1.0 - (last as f64 / 1_000.0 - 1.0).abs());
        let claim = format!("{reach} neighbours: the ring is whole after {seconds} s");
        scores.hold(claim, measured, Bound::AtLeast(1.0));
    }
}

struct Ring {
    survivors: Process,
    doomed: Process,
    seen: Shared,
    folder: std::path::PathBuf,
    _watch: (Watch, Intake),
}

impl Ring {
    fn start(nodes: u32, reach: usize) -> Ring {
        let folder = folder("chord");
        std::fs::create_dir_all(&folder).expect("a folder");
        let seen = Shared::default();
        let watch = watch(&folder, &seen);
        let addresses = loopback(nodes as usize).expect("ports are free");
        let mut text = String::from(r#"{"system": "chord", "transport": "udp", "nodes": {"#);
        for (node, address) in addresses.iter().enumerate() {
            let comma = if node == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}\"{node}\": \"{address}\"");
        }
        let _ = write!(text, "}}, \"checkers\": [\"{}\"]}}", watch.1.address());
        let config = folder.join("chord.json");
        std::fs::write(&config, text).expect("there is room");
        let some = |wanted: bool| {
            let mut words = vec![config.display().to_string(), reach.to_string()];
            let wanted = |node: &u32| matches!(node % 10, 0 | 3 | 6) == wanted;
            words.extend((0..nodes).filter(wanted).map(|node| node.to_string()));
            Process::start(NODES, &words)
        };
        let (survivors, doomed) = (some(true), some(false));
        Ring { survivors, doomed, seen, folder, _watch: watch }
    }

    /// Waits until the ring is complete, kills most of it, and watches for a number of seconds.
    fn lose_most(self, seconds: u64) -> (Stamp, Shared) {
        let end = Instant::now() + Duration::from_secs(90);
        let whole = || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.shares.last().is_some_and(|(_, share)| *share == 1_000)
        };
        while !whole() && Instant::now() < end {
            sleep(Duration::from_millis(200));
        }
        // The state must be stable, not momentary.
        sleep(Duration::from_secs(2));
        let killed = now();
        drop(self.doomed);
        sleep(Duration::from_secs(seconds));
        drop(self.survivors);
        let _ = std::fs::remove_dir_all(&self.folder);
        (killed, self.seen)
    }
}

fn watch(folder: &Path, seen: &Shared) -> (Watch, Intake) {
    let log = SegmentLog::open(&folder.join("log"), SegmentOptions::default()).expect("a folder");
    let log: Arc<dyn Log> = Arc::new(log);
    let seen = Arc::clone(seen);
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(folder, 1).expect("a folder")),
        evidence: Evidence::open(folder).expect("a folder"),
        flows: Arc::new(move || flows(&seen)),
        told: Box::new(|_| {}),
        trouble: Box::new(|text| eprintln!("{text}")),
    };
    let silence_max = Duration::from_secs(2);
    let timing = Timing { silence_max, wait_max: 2 * silence_max, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let options = WatchOptions { check, ..WatchOptions::default() };
    let watch = Watch::start(parts, options).expect("a store");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let intake = Intake::start(listener, log, IntakeOptions::default(), |text| eprintln!("{text}"));
    (watch, intake.expect("a thread"))
}

fn flows(seen: &Shared) -> Vec<Flow> {
    let (one, other) = (Arc::clone(seen), Arc::clone(seen));
    let covered = coverage(move |at, share| {
        one.lock().unwrap_or_else(PoisonError::into_inner).shares.push((at, share));
    });
    let held = sampled_keys(SAMPLES, move |at, holders| {
        other.lock().unwrap_or_else(PoisonError::into_inner).holders.push((at, holders));
    });
    // Three samples per second are enough for a curve.
    vec![covered, held.sampled(Duration::from_millis(300))]
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Stamp::from_micros(since.as_micros() as u64)
}

/// Prints the curve after the kill: the last, lowest and highest share in each second, and the
/// keys.
fn show(nodes: u32, reach: usize, killed: Stamp, seconds: u64, seen: &Seen) {
    let second = |at: Stamp| at.micros().checked_sub(killed.micros()).map(|us| us / 1_000_000);
    let mut table =
        Table::new(&["second", "covered", "lowest", "highest", "keys of nobody", "of several"]);
    let percent = |share: i64| format!("{}.{} %", share / 10, share % 10);
    let before = seen.shares.iter().rfind(|(at, _)| second(*at).is_none());
    let mut last = before.map_or(0, |(_, share)| *share);
    for s in 0..seconds {
        let within = seen.shares.iter().filter(|(at, _)| second(*at) == Some(s));
        let within: Vec<i64> = within.map(|(_, share)| *share).collect();
        let keys = seen.holders.iter().rfind(|(at, _)| second(*at).is_some_and(|at| at <= s));
        let count = |wanted: fn(i64) -> bool| {
            keys.map_or(0, |(_, held)| held.iter().filter(|count| wanted(**count)).count())
        };
        let low = within.iter().min().copied().unwrap_or(last);
        let high = within.iter().max().copied().unwrap_or(last);
        last = within.last().copied().unwrap_or(last);
        if within.is_empty() && s % 5 != 0 {
            continue; // no change in this second
        }
        table.row(vec![
            s.to_string(),
            percent(last),
            percent(low),
            percent(high),
            count(|held| held == 0).to_string(),
            count(|held| held > 1).to_string(),
        ]);
    }
    table.print(&format!("A ring of {nodes}, {reach} neighbours a side, 70 % killed at once"));
}

/// `CONFIG REACH ID..`: hosts nodes of the ring until standard input ends.
pub(super) fn nodes(words: &[&str]) {
    let [config, reach, ids @ ..] = words else { panic!("{words:?}") };
    let config = Config::read(Path::new(config)).expect("it was just written");
    let ids: Vec<NodeId> = ids.iter().map(|id| NodeId(id.parse().expect("a number"))).collect();
    let running = host(config, &ids, reach.parse().expect("a number")).start().expect("ports");
    when_input_ends(|| std::process::exit(0));
    let _ = running.wait();
}
