//! A system of processes and the watch over it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use everhold::node::Message;
use everhold_live::host::loopback;
use everhold_live::{Client, Codec, Config, NodeId};
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Flow, Intake, IntakeOptions, Log, Notice, SegmentLog,
    SegmentOptions, Timing, Watch, WatchOptions, WatchParts,
};
use serde::de::DeserializeOwned;

use super::d3s::NODES;
use crate::process::Process;

/// The time after which a node that is silent has crashed; a loaded machine is not a crash.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The time in which a node must come up.
const UP: Duration = Duration::from_secs(20);

/// Checks in Rust.
pub(super) type Flows = Arc<dyn Fn() -> Vec<Flow> + Send + Sync>;

/// A system that runs.
pub(super) struct Deployed {
    bug: &'static str,
    config: Config,
    folder: PathBuf,
    processes: BTreeMap<u32, Process>,
    notices: Receiver<Notice>,
    watch: Watch,
    _intake: Intake,
}

impl Deployed {
    /// Starts the nodes: each in a process, or all in one and with datagrams.
    pub(super) fn start(
        system: &str,
        bug: &'static str,
        nodes: u32,
        together: bool,
        rules: &str,
        flows: Flows,
    ) -> Deployed {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("everhold-bench-{system}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (watch, intake, notices) = watch(&folder, rules, flows);
        let text = configuration(system, nodes, together, &folder, &intake);
        std::fs::write(folder.join("config.json"), &text).expect("there is room");
        let config = Config::parse(&text).expect("it is one");
        let processes = BTreeMap::new();
        let mut deployed =
            Deployed { bug, config, folder, processes, notices, watch, _intake: intake };
        let all: Vec<u32> = (0..nodes).collect();
        if together {
            deployed.launch(&all);
        } else {
            all.iter().for_each(|node| deployed.launch(&[*node]));
        }
        deployed
    }

    fn launch(&mut self, nodes: &[u32]) {
        let mut words = vec![self.folder.join("config.json").display().to_string()];
        words.push(self.bug.to_owned());
        words.extend(nodes.iter().map(u32::to_string));
        self.processes.insert(nodes[0], Process::start(NODES, &words));
    }

    /// Kills these nodes at once, and starts them again.
    pub(super) fn restart(&mut self, nodes: &[u32]) {
        nodes.iter().for_each(|node| drop(self.processes.remove(node)));
        nodes.iter().for_each(|node| self.launch(&[*node]));
    }

    fn client<M: Message + DeserializeOwned>(&self, node: u32) -> Client<M> {
        let (id, begun) = (NodeId(node), Instant::now());
        loop {
            let address = self.config.nodes[&id];
            match Client::connect(&self.config.system, id, address, Codec::postcard()) {
                Ok(client) => return client,
                Err(error) => assert!(begun.elapsed() < UP, "{id} does not come up: {error}"),
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Calls a node and waits for its answer.
    pub(super) fn call<M: Message + DeserializeOwned>(&self, node: u32, msg: &M) {
        self.client(node).call(msg, UP).expect("it answers");
    }

    /// Tells a node something.
    pub(super) fn tell<M: Message + DeserializeOwned>(&self, node: u32, msg: &M) {
        self.client(node).tell(msg).expect("it is up");
    }

    /// Waits until this rule is violated, or the time is over.
    pub(super) fn alarm(&self, rule: &str, patience: Duration) -> Option<()> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.notices.recv_timeout(left).ok()? {
                Notice::Fired(violation) if violation.rule == rule => return Some(()),
                _ => {}
            }
        }
    }

    /// Changes the rules while they are judged.
    pub(super) fn refine(&self, rules: &str) {
        self.watch.set_rules(rules, "rules.prop").expect("they parse");
    }
}

impl Drop for Deployed {
    fn drop(&mut self) {
        self.processes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn watch(folder: &std::path::Path, rules: &str, flows: Flows) -> (Watch, Intake, Receiver<Notice>) {
    let folder = folder.join("watch");
    let log = SegmentLog::open(&folder.join("log"), SegmentOptions::default()).expect("a folder");
    let log: Arc<dyn Log> = Arc::new(log);
    let (tell, notices) = channel();
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(&folder, 1).expect("a folder")),
        evidence: Evidence::open(&folder).expect("a folder"),
        flows,
        told: Box::new(move |notice| drop(tell.send(notice.clone()))),
        trouble: Box::new(|text| eprintln!("{text}")),
    };
    let timing = Timing { silence_max: SILENCE_MAX, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let options = WatchOptions { check, ..WatchOptions::default() };
    let watch = Watch::start(parts, options).expect("a store");
    watch.set_rules(rules, "rules.prop").expect("they parse");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let intake = Intake::start(listener, log, IntakeOptions::default(), |text| eprintln!("{text}"));
    (watch, intake.expect("a thread"), notices)
}

fn configuration(
    system: &str,
    nodes: u32,
    together: bool,
    folder: &std::path::Path,
    intake: &Intake,
) -> String {
    let transport = if together { "udp" } else { "tcp" };
    let mut text = format!(r#"{{"system": "{system}", "transport": "{transport}", "nodes": {{"#);
    for (node, address) in loopback(nodes as usize).expect("ports are free").iter().enumerate() {
        let comma = if node == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}\"{node}\": \"{address}\"");
    }
    let data = folder.join("data");
    let _ = write!(text, "}}, \"checkers\": [\"{}\"], \"data\": {data:?}}}", intake.address());
    text
}
