//! The engine for several processes, on a stream server of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use everhold_watch::nats::{Nats, NatsOptions};
use everhold_watch::{
    Balance, Evidence, Intake, IntakeOptions, Log, Store, Watch, WatchOptions, WatchParts,
};

use crate::engine::{LOCKS, Probe, folder, hello};

/// A stream server with a folder of its own; it ends with the test.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// `None` where there is no such program; in CI that is a failure.
    fn start(name: &str) -> Option<Server> {
        let folder = folder(name);
        fs::create_dir_all(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        match Server::spawn(port, &folder) {
            Ok(child) => Some(Server { child, port, folder }),
            Err(error) => {
                let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
                assert!(!ci, "nats-server is needed: apt install nats-server ({error})");
                eprintln!("skipped: apt install nats-server");
                None
            }
        }
    }

    fn spawn(port: u16, folder: &Path) -> std::io::Result<Child> {
        Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(folder.join("nats"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Kills the server as a power cut of the process would, and starts it again.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        sleep(Duration::from_millis(300));
        self.child = Server::spawn(self.port, &self.folder).unwrap();
    }

    fn options(&self, partitions: u32) -> NatsOptions {
        options(&format!("nats://127.0.0.1:{}", self.port), partitions)
    }

    fn connect(&self, partitions: u32) -> Nats {
        connect(&self.options(partitions))
    }
}

fn options(url: &str, partitions: u32) -> NatsOptions {
    NatsOptions { partitions, lease: Duration::from_millis(1_500), ..NatsOptions::new(url) }
}

/// A server that just started needs a moment.
fn connect(options: &NatsOptions) -> Nats {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match Nats::connect(options) {
            Ok(nats) => return nats,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        sleep(Duration::from_millis(200));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_log_is_read_from_any_number_and_survives_the_server() {
    let Some(mut server) = Server::start("nats-log") else { return };
    let log = server.connect(2).log();
    for i in 1..=20_u8 {
        assert_eq!(log.append(1, &[&[i]]).unwrap(), u64::from(i));
    }
    let read = |log: &dyn Log, from: u64| {
        let mut cursor = log.cursor(1, from).unwrap();
        let entries = cursor.next(1 << 20, Duration::from_millis(100)).unwrap();
        entries.into_iter().map(|entry| (entry.sequence, entry.bytes[0])).collect::<Vec<_>>()
    };
    assert_eq!(read(&log, 1).len(), 20);
    assert_eq!(read(&log, 18), [(18, 18), (19, 19), (20, 20)]);
    assert_eq!(log.next_sequence(0).unwrap(), 1, "the other partition is empty");
    server.restart();
    // An append waits for the server to come back, and is made once.
    assert_eq!(log.append(1, &[&[21]]).unwrap(), 21);
    assert_eq!(read(&log, 20), [(20, 20), (21, 21)]);
}

fn gained(balance: &Balance) -> Vec<u32> {
    balance.gained.iter().map(|(lease, _)| lease.partition).collect()
}

#[test]
fn partitions_are_shared_handed_over_and_fenced() {
    let Some(server) = Server::start("nats-leases") else { return };
    let mut first = server.connect(4).store();
    let balance = first.balance().unwrap();
    assert_eq!(gained(&balance), [0, 1, 2, 3]);
    let lease = balance.gained[3].0;
    let lease = first.save(lease, b"state").unwrap().expect("it is ours");
    let mut second = server.connect(4).store();
    let end = Instant::now() + Duration::from_secs(30);
    let mut taken = Vec::new();
    while taken.len() < 2 {
        first.balance().unwrap();
        taken.extend(second.balance().unwrap().gained);
        assert!(Instant::now() < end, "the second gets its share");
    }
    let mine: Vec<u32> = taken.iter().map(|(lease, _)| lease.partition).collect();
    assert_eq!(mine, [2, 3]);
    assert_eq!(taken[1].1.as_deref(), Some(&b"state"[..]), "the checkpoint goes with it");
    assert_eq!(first.save(lease, b"stale").unwrap(), None, "the former owner is fenced off");
    // The first dies without a word.
    drop(first);
    while taken.len() < 4 {
        taken.extend(second.balance().unwrap().gained);
        assert!(Instant::now() < end, "what the dead held is taken over");
        sleep(Duration::from_millis(100));
    }
    assert!(second.report("x", "once").unwrap() && !second.report("x", "twice").unwrap());
    assert_eq!(second.reports().unwrap(), BTreeMap::from([("x".into(), "once".into())]));
}

#[test]
fn a_missing_server_is_explained() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Nats::connect(&options(&format!("nats://127.0.0.1:{port}"), 1)).unwrap_err();
    assert!(error.to_string().contains("apt install nats-server"), "{error}");
}

const PARTITIONS: u32 = 4;
const URL: &str = "EVERHOLD_TEST_CHECKER";

/// Not a test: what the fault run starts as checkers, in processes of their own.
#[test]
fn checker_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let folder = PathBuf::from(std::env::var("EVERHOLD_TEST_FOLDER").unwrap());
    let nats = connect(&options(&url, PARTITIONS));
    let parts = WatchParts {
        log: Arc::new(nats.log()),
        store: Box::new(nats.store()),
        evidence: Evidence::open(&folder).unwrap(),
        flows: Arc::new(Vec::new),
        told: Box::new(|_| {}),
        trouble: Box::new(|text| eprintln!("checker: {text}")),
    };
    let checkpoint_every = Duration::from_millis(500);
    let balance_every = Duration::from_millis(250);
    let options = WatchOptions { checkpoint_every, balance_every, ..WatchOptions::default() };
    let _watch = Watch::start(parts, options).unwrap();
    sleep(Duration::from_secs(600));
}

fn spawn_checker(url: &str, folder: &Path, number: usize) -> Child {
    let own = folder.join(format!("checker-{number}"));
    fs::create_dir_all(&own).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nats::checker_process", "--nocapture"])
        .env(URL, url)
        .env("EVERHOLD_TEST_FOLDER", &own)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The number of reports of each key, by all checkers together.
fn reported(nats: &Nats) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::new();
    for (identity, report) in nats.store().reports().unwrap_or_default() {
        if identity.ends_with(".fired") {
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            *keys.entry(report["key"].to_string()).or_default() += 1;
        }
    }
    keys
}

/// Checkers are killed every two seconds, the stream server is restarted once, one application
/// node is killed: every planted violation is told, each once. `EVERHOLD_FAULT_SECONDS=60` is the
/// bar; in CI it runs for a few seconds.
#[test]
fn killed_checkers_and_servers_lose_nothing_and_tell_nothing_twice() {
    let Some(mut server) = Server::start("nats-faults") else { return };
    let seconds = std::env::var("EVERHOLD_FAULT_SECONDS").ok().and_then(|s| s.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(8));
    let url = format!("nats://127.0.0.1:{}", server.port);
    let folder = server.folder.clone();
    let nats = server.connect(PARTITIONS);
    let log: Arc<dyn Log> = Arc::new(nats.log());
    let rules = everhold_watch::entry::rules_entry(1, LOCKS);
    for partition in 0..PARTITIONS {
        log.append(partition, &[&rules]).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {}).unwrap();
    let connect = |node| Probe::connect(intake.address(), hello(node, 1)).unwrap();
    let mut probes = [0, 1].map(connect);
    let mut victim = Some(connect(2));
    let mut checkers: Vec<Child> = (0..2).map(|n| spawn_checker(&url, &folder, n)).collect();
    let (start, mut killed, mut planted) = (Instant::now(), Instant::now(), 0_i64);
    let (mut restarted, mut next) = (false, 0);
    while start.elapsed() < length {
        probes[0].add(planted, "exclusive");
        probes[1].add(planted, "exclusive");
        probes.iter_mut().for_each(Probe::beat);
        victim.iter_mut().for_each(Probe::beat);
        planted += 1;
        if killed.elapsed() > Duration::from_secs(2) {
            let place = next % 2;
            next += 1;
            checkers[place].kill().unwrap();
            checkers[place].wait().unwrap();
            let number = next + 1;
            checkers[place] = spawn_checker(&url, &folder, number);
            killed = Instant::now();
        }
        if start.elapsed() > length / 3 {
            victim = None;
        }
        if !restarted && start.elapsed() > length / 2 {
            server.restart();
            restarted = true;
        }
        sleep(Duration::from_millis(40));
    }
    // Time for what is under way: leases that expire, re-reading, the silent node.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        probes.iter_mut().for_each(Probe::beat);
        let keys = reported(&nats);
        if keys.len() as i64 == planted || Instant::now() > end {
            break;
        }
        sleep(Duration::from_millis(500));
    }
    checkers.iter_mut().for_each(|checker| {
        let _ = checker.kill();
        let _ = checker.wait();
    });
    let keys = reported(&nats);
    let twice: Vec<_> = keys.iter().filter(|(_, times)| **times > 1).collect();
    println!("{planted} planted, {} reported, {} twice, {next} kills", keys.len(), twice.len());
    assert_eq!(keys.len() as i64, planted, "each planted violation is reported");
    assert!(twice.is_empty(), "none is reported twice: {twice:?}");
}
