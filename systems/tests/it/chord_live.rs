//! A watched ring on real sockets: most of it is killed, and the remaining nodes take over its
//! keys.
#![expect(clippy::disallowed_methods, reason = "processes of their own run in real time")]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use everhold_live::host::loopback;
use everhold_systems::chord::{coverage, sampled_keys};
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Intake, IntakeOptions, Log, SegmentLog, SegmentOptions,
    Timing, Watch, WatchOptions, WatchParts,
};

const NODES: u32 = 20;
const SAMPLES: u32 = 64;

/// A watch in this process, with both checks in force.
struct Watched {
    intake: Intake,
    watch: Watch,
    shares: Receiver<i64>,
    holders: Receiver<Vec<i64>>,
}

fn watch(folder: &Path) -> Watched {
    let log: Arc<dyn Log> =
        Arc::new(SegmentLog::open(&folder.join("log"), SegmentOptions::default()).unwrap());
    let (share, shares) = channel();
    let (held, holders) = channel();
    let flows = move || {
        let (share, held) = (share.clone(), held.clone());
        vec![
            coverage(move |_, covered| {
                let _ = share.send(covered);
            }),
            sampled_keys(SAMPLES, move |_, counts| drop(held.send(counts))),
        ]
    };
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(folder, 1).unwrap()),
        evidence: Evidence::open(folder).unwrap(),
        flows: Arc::new(flows),
        told: Box::new(|_| {}),
        trouble: Box::new(|text| eprintln!("{text}")),
    };
    // A loaded machine must not be mistaken for a crash.
    let silence_max = Duration::from_secs(3);
    let timing = Timing { silence_max, wait_max: 2 * silence_max, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let watch = Watch::start(parts, WatchOptions { check, ..WatchOptions::default() }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {}).unwrap();
    Watched { intake, watch, shares, holders }
}

/// Processes that end with the test.
struct Ring {
    folder: PathBuf,
    processes: Vec<Child>,
}

impl Drop for Ring {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A folder that is removed when nothing writes to it any more.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Ring {
    fn configure(folder: PathBuf, checker: SocketAddr) -> Ring {
        let addresses = loopback(NODES as usize).unwrap();
        let nodes = addresses.iter().enumerate();
        let nodes: Vec<_> = nodes.map(|(node, at)| format!("\"{node}\": \"{at}\"")).collect();
        let nodes = nodes.join(", ");
        let text = format!(
            r#"{{"system": "chord", "transport": "udp", "nodes": {{{nodes}}},
                "checkers": ["{checker}"]}}"#
        );
        fs::write(folder.join("chord.json"), text).unwrap();
        Ring { folder, processes: Vec::new() }
    }

    fn start(&mut self, nodes: impl Iterator<Item = u32>) {
        let process = Command::new(env!("CARGO_BIN_EXE_chord-node"))
            .arg(self.folder.join("chord.json"))
            .arg("4")
            .args(nodes.map(|node| node.to_string()))
            .stdin(Stdio::piped())
            .spawn();
        self.processes.push(process.expect("the program was built with this test"));
    }
}

impl Watched {
    /// The number of nodes that are up.
    fn nodes(&self) -> usize {
        self.watch.status().values().map(|partition| partition.sizes.1).sum()
    }
}

/// Waits until the latest result meets a condition.
fn until<T: std::fmt::Debug>(judged: &Receiver<T>, wanted: impl Fn(&T) -> bool) -> Vec<T> {
    let end = Instant::now() + Duration::from_secs(60);
    let mut seen = Vec::new();
    loop {
        match judged.recv_timeout(Duration::from_millis(500)) {
            Ok(value) => seen.push(value),
            Err(_) if seen.last().is_some_and(&wanted) => return seen,
            Err(_) => assert!(Instant::now() < end, "{:?}", seen.last()),
        }
    }
}

/// Seven of ten nodes die at once. Their keys have no owner until their successors notice.
#[test]
fn the_ring_closes_again_after_most_of_it_was_killed() {
    let folder = std::env::temp_dir().join(format!("everhold-chord-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    let watched = watch(&folder.0.join("watch"));
    let mut ring = Ring::configure(folder.0.clone(), watched.intake.address());
    let survives = |node: &u32| node % 10 < 3;
    ring.start((0..NODES).filter(survives));
    ring.start((0..NODES).filter(|node| !survives(node)));
    // A few nodes form a ring too, so the test waits for all.
    until(&watched.shares, |share| *share == 1_000 && watched.nodes() == NODES as usize);
    until(&watched.holders, |counts| counts.iter().all(|count| *count == 1));

    let mut doomed = ring.processes.pop().unwrap();
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let shares = until(&watched.shares, |share| *share == 1_000);
    let lowest = shares.iter().min().copied().unwrap_or(1_000);
    assert!(lowest < 700, "{lowest} thousandths were covered when 14 of 20 were gone");
    let holders = until(&watched.holders, |counts| counts.iter().all(|count| *count == 1));
    let unheld = |counts: &Vec<i64>| counts.iter().filter(|count| **count == 0).count();
    let most = holders.iter().map(unheld).max().unwrap_or(0);
    assert!(most > 64 * 3 / 10, "{most} of 64 sampled keys were nobody's");
    let survivors = &mut ring.processes[0];
    drop(survivors.stdin.take());
    assert!(survivors.wait().unwrap().success());
}
