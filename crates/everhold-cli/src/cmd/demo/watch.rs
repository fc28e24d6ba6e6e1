//! A live cluster of three nodes on loopback, watched, and a violation caught.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use everhold_live::NodeId;
use everhold_live::host::{Client as Caller, Codec, Config, Host, Running};
use everhold_property::{Library, Rule, parse};
use everhold_report::{Kind, Page, Window, judged};
use everhold_systems::lock::{Bug, Client, Mode, Msg, RULES, SERVER, Server};
use everhold_trace::Execution;
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Intake, IntakeOptions, Log, Notice, SegmentLog,
    SegmentOptions, Timing, Violation, Watch, WatchOptions, WatchParts,
};

use super::Seen;
use crate::args::DemoArgs;

/// The time limit for each step; generous, because machines are shared.
const PATIENCE: Duration = Duration::from_secs(10);
const LOCK: u32 = 7;

pub(super) fn run(_: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    writeln!(
        out,
        "A lock server and two clients, each on a socket of its own. The server takes a lock for free\n\
         as soon as it has asked for it back. Each node alone is fine; together they are not. The\n\
         rule, judged on every snapshot of the running system:\n\n{}",
        RULES.trim_end()
    )?;
    let folder = Folder::new()?;
    let watched = Watched::start(&folder.0, RULES)?;
    let (running, addresses) = cluster(watched.intake.address())?;
    let (mut first, mut second) = (caller(1, &addresses)?, caller(2, &addresses)?);
    want(&mut first, Mode::Exclusive)?;
    writeln!(out, "\n  n1 holds lock {LOCK}, exclusively")?;
    want(&mut second, Mode::Shared)?;
    writeln!(out, "  n2 holds lock {LOCK}, shared")?;
    let violation = watched.violation().context("the watch did not see the double grant")?;
    writeln!(out, "\n✗ VIOLATED  \"{}\"  {}", violation.rule, violation.reason)?;
    for (name, value) in &violation.witness {
        writeln!(out, "            {name} = {value}")?;
    }
    running.stop()?;
    writeln!(out, "\nOn a system of your own: `everhold watch --rules FILE --listen ADDRESS`.\n")?;
    Ok(Seen::of(&page(&violation, "everhold demo watch")?, false))
}

/// A folder that is removed when it is dropped.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Folder> {
        let folder = std::env::temp_dir().join(format!("everhold-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An embedded watch.
pub(super) struct Watched {
    pub(super) notices: Receiver<Notice>,
    pub(super) intake: Intake,
    _watch: Watch,
}

impl Watched {
    pub(super) fn start(folder: &Path, rules: &str) -> Result<Watched> {
        let log = SegmentLog::open(&folder.join("log"), SegmentOptions::default())?;
        let log: Arc<dyn Log> = Arc::new(log);
        let (told, notices) = channel();
        let parts = WatchParts {
            log: Arc::clone(&log),
            store: Box::new(FileStore::open(folder, 1)?),
            evidence: Evidence::open(folder)?,
            flows: Arc::new(Vec::new),
            told: Box::new(move |notice| drop(told.send(notice.clone()))),
            trouble: Box::new(|text| eprintln!("warning: {text}")),
        };
        let timing = Timing { silence_max: Duration::from_secs(3), ..Timing::default() };
        let check = CheckOptions { timing, ..CheckOptions::default() };
        let watch = Watch::start(parts, WatchOptions { check, ..WatchOptions::default() })?;
        watch.set_rules(rules, "demo.prop")?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {})?;
        Ok(Watched { notices, intake, _watch: watch })
    }

    fn violation(&self) -> Option<Box<Violation>> {
        loop {
            match self.notices.recv_timeout(PATIENCE) {
                Ok(Notice::Fired(violation)) => return Some(violation),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Starts a server and its clients, all in this process, each with a socket and a thread.
fn cluster(checker: SocketAddr) -> Result<(Running, Vec<SocketAddr>)> {
    let listen = || TcpListener::bind("127.0.0.1:0");
    let listeners = [listen()?, listen()?, listen()?];
    let addresses: std::io::Result<Vec<SocketAddr>> =
        listeners.iter().map(TcpListener::local_addr).collect();
    let addresses = addresses?;
    let nodes = addresses.iter().zip(0..).map(|(address, id)| (NodeId(id), *address));
    let config = Config { checkers: vec![checker], ..Config::new("lock", nodes) };
    let bug = Bug::GrantsBeforeRelease;
    let mut host = Host::new(config, Codec::postcard())
        .node(SERVER, "server", move || Server::new(bug))
        .node(NodeId(1), "client", Client::default)
        .node(NodeId(2), "client", Client::default);
    for (listener, id) in listeners.into_iter().zip(0..) {
        host = host.listen_on(NodeId(id), listener);
    }
    Ok((host.start()?, addresses))
}

fn caller(id: u32, addresses: &[SocketAddr]) -> Result<Caller<Msg>> {
    let caller = Caller::connect("lock", NodeId(id), addresses[id as usize], Codec::postcard());
    caller.with_context(|| format!("n{id} does not answer"))
}

fn want(client: &mut Caller<Msg>, mode: Mode) -> Result<()> {
    match client.call(&Msg::Want(LOCK, mode), PATIENCE)? {
        Msg::Have(LOCK) => Ok(()),
        other => bail!("a client answered {other:?}"),
    }
}

/// The page of the violation: the events that led to it, and the rule with the values that falsify
/// it.
pub(super) fn page(violation: &Violation, command: &str) -> Result<Page> {
    let mut page = Page::new(Kind::Violation, &violation.rule, command);
    page.message(&violation.reason);
    for (name, value) in &violation.witness {
        page.fact(name, value);
    }
    let trace: &Execution = &violation.trace;
    let rules = parse(RULES).into_result().ok().context("the rule parses")?;
    for property in &rules {
        page.property(judged(&Rule::new(property, &Library::new()), trace));
    }
    let window = Window { violating: trace.events().len().checked_sub(1), ..Window::default() };
    page.execution("what led to it", trace, &window);
    Ok(page)
}
