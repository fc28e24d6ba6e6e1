//! The processes of a row: watches, nodes, perhaps a stream server.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::watcher::{PARTITIONS, Standing};
use super::{NODE, WATCH};
use crate::process::Process;
use crate::watch::folder;

/// How long an answer may take: nodes answer at once, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A watch, which may be dead at times.
pub(super) struct Watcher {
    words: Vec<String>,
    pub(super) process: Process,
    standing: Option<(Instant, Standing)>,
    /// Its complaints.
    pub(super) troubles: Vec<String>,
    peak: u64,
}

impl Watcher {
    fn start(words: Vec<String>) -> Watcher {
        let process = Process::start(WATCH, &words);
        Watcher { words, process, standing: None, troubles: Vec::new(), peak: 0 }
    }

    /// `SIGKILL`, and another life in the same folder.
    pub(super) fn restart(&mut self) {
        self.listen();
        self.process.signal(Signal::KILL);
        self.process = Process::start(WATCH, &self.words);
        self.standing = None;
    }

    fn listen(&mut self) {
        self.peak = self.peak.max(self.process.peak());
        for line in self.process.lines.try_iter() {
            match Standing::read(&line) {
                Some(standing) => self.standing = Some((Instant::now(), standing)),
                None => self.troubles.push(line),
            }
        }
    }
}

/// A node, which may be dead at times.
pub(super) struct Node {
    words: Vec<String>,
    pub(super) process: Process,
    /// The reports of its probe.
    pub(super) reports: Vec<String>,
}

impl Node {
    pub(super) fn start(words: Vec<String>) -> Node {
        let process = Process::start(NODE, &words);
        Node { words, process, reports: Vec::new() }
    }

    pub(super) fn restart(&mut self) {
        self.process.signal(Signal::KILL);
        self.process = Process::start(NODE, &self.words);
    }

    /// Gives a command and waits for the answer.
    pub(super) fn call(&mut self, command: &str) -> String {
        self.process.tell(command);
        loop {
            let line = self.process.lines.recv_timeout(PATIENCE).expect("a node answers");
            match line.strip_prefix("ok ") {
                Some(answer) => return answer.to_owned(),
                None => self.reports.push(line),
            }
        }
    }

    pub(super) fn listen(&mut self) {
        self.reports.extend(self.process.lines.try_iter());
    }
}

/// `nats-server`, of this row alone.
pub(super) struct Server {
    pub(super) process: Process,
    port: u16,
    folder: PathBuf,
}

impl Server {
    fn start(folder: &Path) -> std::io::Result<Server> {
        let port = free_port();
        let folder = folder.join("nats");
        Ok(Server { process: Server::spawn(port, &folder)?, port, folder })
    }

    fn spawn(port: u16, folder: &Path) -> std::io::Result<Process> {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder);
        Process::spawn(&mut command)
    }

    /// `SIGKILL`, and another life in the same folder.
    pub(super) fn restart(&mut self) {
        self.process.signal(Signal::KILL);
        std::thread::sleep(Duration::from_millis(300));
        self.process = Server::spawn(self.port, &self.folder).expect("it started before");
    }
}

/// The processes that a row needs.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) secret: Option<&'static str>,
    /// Of each node, by how much its wall clock is wrong, in microseconds.
    pub(super) offsets: [i64; NODES],
    /// Two watches and a stream server.
    pub(super) is_shared: bool,
}

/// How many nodes there are.
pub(super) const NODES: usize = 3;

pub(super) struct Cluster {
    pub(super) folder: PathBuf,
    pub(super) server: Option<Server>,
    pub(super) watches: Vec<Watcher>,
    pub(super) nodes: Vec<Node>,
    /// Where the watches listen.
    pub(super) addresses: Vec<String>,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

impl Cluster {
    /// Starts everything; `prepare` sees the folder of the watch before that.
    ///
    /// An error says that there is no stream server.
    pub(super) fn start(
        name: &str,
        setup: &Setup,
        prepare: impl FnOnce(&Path),
    ) -> std::io::Result<Cluster> {
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let folder = folder(&format!("faults-{name}"));
        std::fs::create_dir_all(&folder)?;
        prepare(&folder);
        let server = setup.is_shared.then(|| Server::start(&folder)).transpose()?;
        let watches = if setup.is_shared { 2 } else { 1 };
        let addresses: Vec<_> =
            (0..watches).map(|_| format!("127.0.0.1:{}", free_port())).collect();
        let engine = server.as_ref().map(|server| format!("nats://127.0.0.1:{}", server.port));
        let watch = |(number, address): (usize, &String)| {
            let own = folder.join(format!("watch-{number}"));
            let mut words = vec![format!("folder={}", own.display()), format!("listen={address}")];
            words.extend(engine.iter().map(|url| format!("engine={url}")));
            words.extend(setup.secret.map(|secret| format!("secret={secret}")));
            words.extend((number == 0).then(|| "rules=1".to_owned()));
            Watcher::start(words)
        };
        let watches = addresses.iter().enumerate().map(watch).collect();
        let mut cluster = Cluster { folder, server, watches, nodes: Vec::new(), addresses };
        for (id, offset) in setup.offsets.iter().enumerate() {
            let mut words = cluster.words(id);
            words.extend(setup.secret.map(|secret| format!("secret={secret}")));
            words.extend((*offset != 0).then(|| format!("offset={offset}")));
            cluster.nodes.push(Node::start(words));
        }
        Ok(cluster)
    }

    /// The words that make a node of this number.
    pub(super) fn words(&self, id: usize) -> Vec<String> {
        vec![format!("id={id}"), format!("checkers={}", self.addresses.join(","))]
    }

    /// Takes in what everybody said.
    pub(super) fn listen(&mut self) {
        self.watches.iter_mut().for_each(Watcher::listen);
        self.nodes.iter_mut().for_each(Node::listen);
    }

    /// The latest statuses of the watches.
    pub(super) fn standings(&self) -> impl Iterator<Item = &Standing> {
        self.watches.iter().filter_map(|watch| watch.standing.as_ref().map(|(_, said)| said))
    }

    /// Whether all watches have said since then that all nodes are known and all rules judged.
    pub(super) fn is_whole_since(&self, then: Instant) -> bool {
        let whole = |watch: &Watcher| {
            let said = watch.standing.as_ref().filter(|(at, _)| *at >= then);
            said.is_some_and(|(_, said)| said.is_known && said.nodes == NODES)
        };
        let expected = if self.server.is_some() { PARTITIONS } else { 1 };
        let partitions: u32 = self.standings().map(|said| said.partitions).sum();
        self.watches.iter().all(whole) && partitions == expected
    }

    /// The most memory of a watch, in KiB.
    pub(super) fn peak(&self) -> u64 {
        self.watches.iter().map(|watch| watch.peak).max().unwrap_or(0)
    }

    /// How often each violation was told: of a rule, for a key.
    pub(super) fn told(&self) -> BTreeMap<(String, i64), usize> {
        let mut told = BTreeMap::new();
        for number in 0..self.watches.len() {
            let file = self.folder.join(format!("watch-{number}/violations.jsonl"));
            let text = std::fs::read_to_string(file).unwrap_or_default();
            for notice in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
                let notice: serde_json::Value = notice;
                if notice["event"] == "fired" {
                    let rule = notice["rule"].as_str().unwrap_or_default().to_owned();
                    *told.entry((rule, notice["key"].as_i64().unwrap_or(-1))).or_default() += 1;
                }
            }
        }
        told
    }
}
