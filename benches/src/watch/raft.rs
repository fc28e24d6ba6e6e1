//! Dinv, sections 7 and 8.1: Raft as three processes under load, with three silent bugs and an
//! assertion after every event.
//!
//! The measurements are the time from the first misbehaviour to the report, and the cost of the
//! assertion for clients. Dinv's peers were virtual machines with blocking assertions; these run on
//! one machine's loopback, and assert in the background unless stated otherwise.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::host::loopback;
use everhold_live::{Client, Config, NodeId};
use everhold_systems::raft::{Asserted, Msg, Silent, codec};

use super::folder;
use crate::measure::{Bound, Scorecard, Size};
use crate::process::{Process, when_input_ends};
use crate::table::Table;

/// The name under which this program is a peer.
pub(super) const PEER: &str = "watch-raft-peer";

/// Dinv's table 3: seconds until a violation is detected, by probability.
const DINV: [(Silent, [f64; 3]); 3] = [
    (Silent::AppendsUnled, [0.07, 0.05, 2.96]),
    (Silent::PicksLeader, [0.36, 0.34, 6.75]),
    (Silent::DamagesLog, [2.22, 4.35, 6.07]),
];

const PROBABILITIES: [f64; 3] = [1.0, 0.1, 0.01];

/// The number of client requests per second.
const LOAD: u32 = 100;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    detection(size, scores);
    latency(size, scores);
}

fn detection(size: Size, scores: &mut Scorecard) {
    let mut table = Table::new(&["invariant", "P=1.0", "P=0.1", "P=0.01", "Dinv"]);
    let (mut worst, mut found) = (0.0_f64, 0);
    for (bug, dinv) in DINV.into_iter().take(size.pick(1, 3)) {
        let mut row = vec![bug.invariant().to_owned()];
        for probability in PROBABILITIES.into_iter().take(size.pick(1, 3)) {
            let runs = size.pick(1, 3);
            let mut times: Vec<f64> = (0..runs).filter_map(|_| detect(bug, probability)).collect();
            found += times.len();
            times.sort_by(f64::total_cmp);
            let median = times.get(times.len() / 2).copied();
            worst = worst.max(median.unwrap_or(f64::INFINITY));
            row.push(median.map_or("never".to_owned(), |seconds| format!("{seconds:.3} s")));
        }
        row.resize(4, String::new());
        row.push(dinv.map(|seconds| format!("{seconds} s")).join(", "));
        table.row(row);
    }
    table.print("From a silent bug's first step to the report of the assertion");
    let wanted = size.pick(1, 27);
    scores.hold("silent bugs found", found as f64 / wanted as f64, Bound::AtLeast(1.0));
    scores.hold("slowest median, of Dinv's 6.75 s", worst / 6.75, Bound::AtMost(1.0));
}

/// The time until the bug was found, in seconds; `None` if it was not found in half a minute.
fn detect(bug: Silent, probability: f64) -> Option<f64> {
    let peers = Peers::start(bug, "15", probability, "async");
    let load = peers.load(Duration::from_secs(30), true);
    let times = load.told?;
    Some((times.1 - times.0) as f64 / 1e6)
}

fn latency(size: Size, scores: &mut Scorecard) {
    let mut table =
        Table::new(&["assertion", "how", "P", "median ms", "95 % ms", "slowdown", "Dinv"]);
    let length = size.pick(Duration::from_secs(1), Duration::from_secs(10));
    let mut bare = 0.0;
    let leads = Silent::AppendsUnled;
    let rows = [
        (leads, "none", 0.0, ""),
        (leads, "async", 1.0, ""),
        (leads, "async", 0.1, ""),
        (leads, "blocking", 1.0, "52x"),
        (leads, "blocking", 0.1, "2.5x"),
        (leads, "blocking", 0.01, "1.02x"),
        (Silent::PicksLeader, "async", 1.0, ""),
        (Silent::DamagesLog, "async", 1.0, "1.09x (blocking, followers)"),
    ];
    let mut background = 0.0;
    for (invariant, how, probability, dinv) in rows.into_iter().take(size.pick(2, 8)) {
        let peers = Peers::start(invariant, "never", probability, how);
        let mut times = peers.load(length, false).latencies;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        if how == "none" {
            bare = at(0.5);
        }
        if how == "async" && probability == 0.1 {
            background = at(0.5) / bare;
        }
        table.row(vec![
            invariant.invariant().to_owned(),
            how.to_owned(),
            probability.to_string(),
            format!("{:.2}", at(0.5)),
            format!("{:.2}", at(0.95)),
            format!("{:.2}x", at(0.5) / bare),
            dinv.to_owned(),
        ]);
    }
    table.print(&format!("What clients wait for a write, {LOAD} requests a second"));
    let measured = size.pick(0.0, background);
    scores.hold("asserted in the background, P=0.1: latency", measured, Bound::AtMost(1.5));
}

/// Three peers.
struct Peers {
    folder: PathBuf,
    config: Config,
    processes: Vec<Process>,
}

struct Load {
    /// The latency of each write, in milliseconds.
    latencies: Vec<f64>,
    /// The times at which the bug began and was reported, in microseconds.
    told: Option<(u64, u64)>,
}

impl Peers {
    fn start(invariant: Silent, wait: &str, probability: f64, how: &str) -> Peers {
        let folder = folder("raft");
        std::fs::create_dir_all(&folder).expect("a folder");
        let addresses = loopback(6).expect("ports are free");
        let [a, b, c, ref udp @ ..] = addresses[..] else { unreachable!("six were asked for") };
        let text =
            format!(r#"{{"system": "raft", "nodes": {{"0": "{a}", "1": "{b}", "2": "{c}"}}}}"#);
        let config = Config::parse(&text).expect("it is one");
        let path = folder.join("raft.json");
        std::fs::write(&path, text).expect("there is room");
        let udp: Vec<String> = udp.iter().map(SocketAddr::to_string).collect();
        let udp = udp.join(",");
        let peer = |id: u32| {
            let words = [
                path.display().to_string(),
                id.to_string(),
                udp.clone(),
                format!("{invariant:?}"),
                wait.to_owned(),
                probability.to_string(),
                how.to_owned(),
            ];
            Process::start(PEER, &words)
        };
        let processes = (0..3).map(peer).collect();
        Peers { folder, config, processes }
    }

    /// A client that writes at a steady pace; with `until_told` it ends at the first report of a
    /// violation.
    fn load(&self, length: Duration, until_told: bool) -> Load {
        let mut latencies = Vec::new();
        let mut client = self.connect();
        let (mut begun, mut told) = (None, None);
        let (start, mut sent) = (Instant::now(), 0_u64);
        while start.elapsed() < length && !(until_told && told.is_some()) {
            sent += 1;
            let asked = Instant::now();
            match client.call(&Msg::Write(sent), Duration::from_secs(2)) {
                Ok(Msg::Written(_)) => latencies.push(asked.elapsed().as_secs_f64() * 1e3),
                _ => client = self.connect(),
            }
            for line in self.processes.iter().flat_map(|process| process.lines.try_iter()) {
                let (what, when) = line.split_once(' ').unwrap_or_default();
                let when = when.parse().ok();
                match what {
                    "begun" => begun = begun.or(when),
                    _ => told = told.or(begun.zip(when)),
                }
            }
            thread::sleep((Duration::from_secs(1) / LOAD).saturating_sub(asked.elapsed()));
        }
        Load { latencies, told }
    }

    /// Connects to the peer with the shortest timeout, which usually leads; once it answers a
    /// write, there is a leader.
    fn connect(&self) -> Client<Msg> {
        let (id, address) = (NodeId(0), self.config.nodes[&NodeId(0)]);
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(mut client) = Client::connect("raft", id, address, codec())
                && client.call(&Msg::Write(0), Duration::from_millis(700)).is_ok()
            {
                return client;
            }
            assert!(Instant::now() < end, "no peer leads");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.processes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// `CONFIG ID ADDRESSES INVARIANT WAIT PROBABILITY HOW`: hosts a peer until standard input ends.
pub(super) fn peer(words: &[&str]) {
    let [config, rest @ ..] = words else { panic!("{words:?}") };
    let config = Config::read(config.as_ref()).expect("it was just written");
    let asserted = Asserted::parse(rest).expect("it is right");
    let running = asserted.start(config, |line| println!("{line}")).expect("its ports are free");
    when_input_ends(|| std::process::exit(0));
    let _ = running.wait();
}
