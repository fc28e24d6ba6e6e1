//! Three etcd processes as Debian ships them, observed from outside and judged.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use everhold_attach::{Attached, Options, Plan, ProbeFile, Targets, missing_capabilities};
use everhold_live::Report;
use everhold_trace::Value;
use everhold_watch::Notice;

use super::Seen;
use super::watch::{Folder, Watched, page};
use crate::args::DemoArgs;
use crate::cmd::attach::find;
use crate::exit::BadInput;

const PROBES: &str = include_str!("etcd.probes");
const RULES: &str = include_str!("etcd.prop");

/// A rule that a leader breaks that was stopped, and does not know yet of its successor.
const PLANTED: &str = "\
always \"one leader at a time\":
  forall a, b in nodes where a != b: not (a.role == \"leader\" and b.role == \"leader\")
";

/// The time limit for each step; generous, because machines are shared.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(_: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
    let etcd = find(Path::new("etcd"));
    let missing = missing_capabilities();
    if !missing.is_empty() || !etcd.is_file() {
        let text = match missing.is_empty() {
            true => "there is no etcd: `apt install etcd-server`, or another 3.4".to_owned(),
            false => format!("{} missing: run this as root", missing.join(" and ")),
        };
        return Err(BadInput(text).into());
    }
    writeln!(
        out,
        "Three etcd processes, as they are: stripped Go, started without anything of Everhold. The\n\
         probe file:\n\n{PROBES}\nThe rules, judged on every snapshot:\n\n{RULES}\n{PLANTED}"
    )?;
    let folder = Folder::new()?;
    let watched = Watched::start(&folder.0, &format!("{RULES}\n{PLANTED}"))?;
    let plan = Plan::make(
        ProbeFile::parse(PROBES)?,
        &Targets { programs: vec![etcd.clone()], ..Targets::default() },
    );
    let plan = plan.map_err(|error| BadInput(error.to_string()))?;
    if let Some((path, problem)) = plan.problems().next() {
        let text = format!("{} is no etcd that this tour knows: {}", path.display(), problem.text);
        return Err(BadInput(text).into());
    }
    let options = Options {
        checkers: vec![watched.intake.address()],
        system: "etcd".to_owned(),
        same_clock: true,
        order: true,
        report: Report::to(|_| {}),
        ..Options::default()
    };
    let attached = Attached::start(plan, options).map_err(|error| BadInput(error.to_string()))?;
    writeln!(out, "  attached in {} ms", attached.took.as_millis())?;
    let mut tour = Tour { cluster: Cluster::start(&etcd, &folder.0)?, attached };
    let outcome = tour.play(out, &watched);
    let Tour { cluster, attached } = tour;
    let totals = attached.leave();
    drop(cluster);
    let violation = outcome?;
    writeln!(
        out,
        "\n  left: {} hits of probes, {} messages, {} lost\n\nOn a system of your own: `everhold \
         attach --probes FILE --rules FILE PROGRAM`, and first with `--dry-run`.\n",
        totals.hits, totals.messages, totals.lost
    )?;
    Ok(Seen::of(&page(&violation, "everhold demo attach")?, false))
}

struct Tour {
    cluster: Cluster,
    attached: Attached,
}

impl Tour {
    fn play(
        &mut self,
        out: &mut dyn Write,
        watched: &Watched,
    ) -> Result<Box<everhold_watch::Violation>> {
        let (first, term) = self.leader(0)?;
        writeln!(out, "  {first} leads in term {term}")?;
        for number in 0..20 {
            self.cluster.put(&first, number)?;
        }
        self.until(|states| states.values().all(|state| field(state, "commit") >= Some(20)))?;
        writeln!(out, "  twenty writes are committed on all three")?;
        self.cluster.signal(&first, "STOP")?;
        let (second, term) = self.leader(term)?;
        writeln!(out, "  {first} is stopped; {second} leads in term {term}")?;
        let mut fired = None;
        self.until(|_| {
            let fires = watched.notices.try_iter().find_map(|notice| match notice {
                Notice::Fired(violation) => Some(violation),
                _ => None,
            });
            fired = fired.take().or(fires);
            fired.is_some()
        })?;
        let violation = fired.context("the watch did not see two leaders")?;
        writeln!(out, "\n✗ VIOLATED  \"{}\"  {}", violation.rule, violation.reason)?;
        for (name, value) in &violation.witness {
            writeln!(out, "            {name} = {value}")?;
        }
        self.cluster.signal(&first, "CONT")?;
        self.until(|states| role(states.get(&first)) == Some("follower"))?;
        writeln!(out, "\n  {first} goes on, and follows")?;
        self.cluster.signal(&second, "KILL")?;
        let (third, term) = self.leader(term)?;
        writeln!(out, "  {second} is killed; {third} leads in term {term}")?;
        self.cluster.restart(&second)?;
        self.until(|states| role(states.get(&second)) == Some("follower"))?;
        writeln!(out, "  {second} is back, and follows")?;
        for notice in watched.notices.try_iter() {
            if let Notice::Fired(other) = &notice
                && other.rule != violation.rule
            {
                bail!("\"{}\" was violated, which etcd does not do", other.rule);
            }
        }
        Ok(violation)
    }

    /// Observes until there is a leader in a later term than this one.
    fn leader(&mut self, before: i64) -> Result<(String, i64)> {
        let mut found = None;
        self.until(|states| {
            found = states.iter().find_map(|(name, state)| {
                let term = field(state, "term").filter(|term| *term > before)?;
                (role(Some(state)) == Some("leader")).then(|| (name.clone(), term))
            });
            found.is_some()
        })?;
        found.context("there is no leader")
    }

    fn until(&mut self, mut is_so: impl FnMut(&BTreeMap<String, Value>) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.attached.turn();
            let states = self.attached.states();
            if is_so(&states) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("etcd does not get on: {}", Value::Record(states));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn field(state: &Value, name: &str) -> Option<i64> {
    match state.get(name) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }
}

fn role(state: Option<&Value>) -> Option<&str> {
    match state?.get("role") {
        Some(Value::Text(role)) => Some(role),
        _ => None,
    }
}

/// Three processes, each with a folder and two ports.
struct Cluster {
    etcd: PathBuf,
    folder: PathBuf,
    peers: Vec<u16>,
    clients: Vec<u16>,
    children: BTreeMap<String, Child>,
}

impl Cluster {
    fn start(etcd: &Path, folder: &Path) -> Result<Cluster> {
        // They stay bound until all are chosen, so they differ.
        let sockets: Vec<TcpListener> =
            (0..6).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let ports = sockets.iter().map(|socket| socket.local_addr().map(|at| at.port()));
        let mut peers: Vec<u16> = ports.collect::<Result<_, _>>()?;
        let clients = peers.split_off(3);
        drop(sockets);
        let (etcd, folder) = (etcd.to_owned(), folder.join("etcd"));
        fs::create_dir_all(&folder)?;
        let mut cluster = Cluster { etcd, folder, peers, clients, children: BTreeMap::new() };
        for name in ["n1", "n2", "n3"] {
            cluster.restart(name)?;
        }
        Ok(cluster)
    }

    fn restart(&mut self, name: &str) -> Result<()> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let index = index(name);
        let (peer, client) = (url(self.peers[index]), url(self.clients[index]));
        let all =
            self.peers.iter().zip(1..).map(|(port, number)| format!("n{number}={}", url(*port)));
        let all = all.collect::<Vec<_>>().join(",");
        let data = self.folder.join(name);
        let child = Command::new(&self.etcd)
            .args(["--name", name, "--data-dir"])
            .arg(&data)
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--initial-cluster", &all, "--initial-cluster-state", "new"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{}", self.etcd.display()))?;
        if let Some(mut before) = self.children.insert(name.to_owned(), child) {
            before.wait()?;
        }
        Ok(())
    }

    fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let child = self.children.get(name).context("there is no such process")?;
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status()?;
        if sent.success() { Ok(()) } else { bail!("{name} cannot be sent {signal}") }
    }

    /// Writes a key through etcd's HTTP interface.
    fn put(&self, name: &str, number: u32) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.clients[index(name)]))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The key is "foo".
        let body = format!(r#"{{"key": "Zm9v", "value": "{number:04}"}}"#);
        let len = body.len();
        write!(
            stream,
            "POST /v3/kv/put HTTP/1.0\r\nContent-Type: application/json\r\n\
             Content-Length: {len}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let first = answer.lines().next().unwrap_or_default().to_owned();
        if first.contains(" 200 ") { Ok(()) } else { bail!("etcd answers {first}") }
    }
}

fn index(name: &str) -> usize {
    name[1..].parse::<usize>().map_or(0, |number| number - 1)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.children.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
