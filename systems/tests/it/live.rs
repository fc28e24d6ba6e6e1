//! Common parts of the tests of deployed systems: nodes as processes, and an embedded watch that
//! listens to them on a real socket.
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use everhold::node::Message;
use everhold_live::host::loopback;
use everhold_live::{Client, Codec, Config, NodeId};
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Flow, Intake, IntakeOptions, Log, Notice, SegmentLog,
    SegmentOptions, Timing, Violation, Watch, WatchOptions, WatchParts,
};
use serde::de::DeserializeOwned;

/// A time limit that is long enough for a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An empty folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("there is room for a test");
    folder
}

/// An embedded watch with its rules in force.
pub(crate) struct Watcher {
    notices: Receiver<Notice>,
    intake: Intake,
    pub(crate) watch: Watch,
    folder: PathBuf,
}

impl Watcher {
    pub(crate) fn start(folder: &Path, rules: &str) -> Watcher {
        Watcher::start_telling(folder, rules, |text| println!("watch: {text}"))
    }

    /// Does the same with checks in Rust.
    pub(crate) fn start_with(
        folder: &Path,
        rules: &str,
        flows: impl Fn() -> Vec<Flow> + Send + Sync + 'static,
    ) -> Watcher {
        Watcher::start_all(folder, rules, Arc::new(flows), |text| println!("watch: {text}"))
    }

    /// Does the same, and passes warnings for people to `trouble`.
    pub(crate) fn start_telling(
        folder: &Path,
        rules: &str,
        trouble: impl Fn(String) + Clone + Send + Sync + 'static,
    ) -> Watcher {
        Watcher::start_all(folder, rules, Arc::new(Vec::new), trouble)
    }

    fn start_all(
        folder: &Path,
        rules: &str,
        flows: Arc<dyn Fn() -> Vec<Flow> + Send + Sync>,
        trouble: impl Fn(String) + Clone + Send + Sync + 'static,
    ) -> Watcher {
        let folder = folder.join("watch");
        let log: Arc<dyn Log> =
            Arc::new(SegmentLog::open(&folder.join("log"), SegmentOptions::default()).unwrap());
        let (sender, notices) = channel();
        let parts = WatchParts {
            log: Arc::clone(&log),
            store: Box::new(FileStore::open(&folder, 1).unwrap()),
            evidence: Evidence::open(&folder).unwrap(),
            flows,
            told: Box::new(move |notice| drop(sender.send(notice.clone()))),
            trouble: Box::new(trouble.clone()),
        };
        // Nodes are killed in these tests, and a loaded machine must not be mistaken for that.
        let timing = Timing { silence_max: Duration::from_millis(1_500), ..Timing::default() };
        let check = CheckOptions { timing, ..CheckOptions::default() };
        let watch = Watch::start(parts, WatchOptions { check, ..WatchOptions::default() }).unwrap();
        watch.set_rules(rules, "rules.prop").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let intake = Intake::start(listener, log, IntakeOptions::default(), trouble).unwrap();
        Watcher { notices, intake, watch, folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.intake.address()
    }

    /// The next violation, if there is one within the time.
    pub(crate) fn violation(&self, patience: Duration) -> Option<Box<Violation>> {
        loop {
            match self.notices.recv_timeout(patience) {
                Ok(Notice::Fired(violation)) => return Some(violation),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// The number of times that the rules were judged.
    pub(crate) fn evaluations(&self) -> u64 {
        let status = self.watch.status();
        let rules = status.values().flat_map(|partition| partition.rules.values());
        rules.map(|rule| rule.counts.evaluations).sum()
    }

    pub(crate) fn trace_of(&self, violation: &Violation) -> PathBuf {
        self.folder.join("violations").join(format!("{}.trace", violation.id))
    }
}

/// Nodes of a case study, each in a separate process.
pub(crate) struct Cluster {
    folder: PathBuf,
    config: Config,
    bug: &'static str,
    processes: BTreeMap<u32, Child>,
}

impl Cluster {
    /// Starts `nodes` nodes, watched and recorded.
    pub(crate) fn start(
        folder: &Path,
        system: &str,
        bug: &'static str,
        nodes: u32,
        watcher: &Watcher,
    ) -> Cluster {
        let mut cluster = Cluster::configure(folder, system, bug, nodes, "tcp", watcher);
        (0..nodes).for_each(|node| cluster.launch(node));
        cluster
    }

    /// Starts `nodes` nodes that exchange datagrams, all of them in one process.
    pub(crate) fn start_together(
        folder: &Path,
        system: &str,
        bug: &'static str,
        nodes: u32,
        watcher: &Watcher,
    ) -> Cluster {
        let mut cluster = Cluster::configure(folder, system, bug, nodes, "udp", watcher);
        cluster.launch_all(&(0..nodes).collect::<Vec<_>>());
        cluster
    }

    fn configure(
        folder: &Path,
        system: &str,
        bug: &'static str,
        nodes: u32,
        transport: &str,
        watcher: &Watcher,
    ) -> Cluster {
        let addresses = loopback(nodes as usize).unwrap();
        let entries = addresses.iter().enumerate();
        let entries: Vec<_> = entries.map(|(id, at)| format!("\"{id}\": \"{at}\"")).collect();
        let text = format!(
            r#"{{"system": "{system}", "nodes": {{{}}}, "checkers": ["{}"],
                "transport": "{transport}", "data": {:?}, "record": {:?}}}"#,
            entries.join(", "),
            watcher.address(),
            folder.join("data"),
            folder.join("record"),
        );
        let config = Config::parse(&text).unwrap();
        fs::write(folder.join("config.json"), text).unwrap();
        Cluster { folder: folder.to_owned(), config, bug, processes: BTreeMap::new() }
    }

    pub(crate) fn launch(&mut self, node: u32) {
        self.launch_all(&[node]);
    }

    /// Starts a process with these nodes, which is named by the first one.
    fn launch_all(&mut self, nodes: &[u32]) {
        let process = Command::new(env!("CARGO_BIN_EXE_live-node"))
            .arg(self.folder.join("config.json"))
            .arg(self.bug)
            .args(nodes.iter().map(u32::to_string))
            .stdin(Stdio::piped())
            .spawn();
        self.processes.insert(nodes[0], process.expect("the program was built with this test"));
    }

    /// Sends `SIGKILL`, which leaves the process no time to shut down.
    pub(crate) fn kill(&mut self, node: u32) {
        let mut process = self.processes.remove(&node).expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// A client of a node, as soon as the node accepts it.
    pub(crate) fn client<M: Message + DeserializeOwned>(&self, node: u32) -> Client<M> {
        let id = NodeId(node);
        for _ in 0..400 {
            let address = self.config.nodes[&id];
            match Client::connect(&self.config.system, id, address, Codec::postcard()) {
                Ok(client) => return client,
                Err(_) => std::thread::sleep(Duration::from_millis(25)),
            }
        }
        panic!("{id} does not come up");
    }

    /// The folder with the recordings, after a clean shutdown of all nodes that still run.
    pub(crate) fn end(mut self) -> PathBuf {
        for process in self.processes.values_mut() {
            drop(process.stdin.take());
        }
        for mut process in std::mem::take(&mut self.processes).into_values() {
            assert!(process.wait().unwrap().success());
        }
        self.folder.join("record")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
