//! The rows of the table: what fails in each.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use super::cluster::{Cluster, Node, Setup};
use super::work::{Outcome, Work};
use crate::measure::Size;

/// The result of a row: an outcome, or the reason for which it cannot be run here.
pub(super) type Ran = Result<Outcome, String>;

/// A row of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// How long things fail, in seconds, at full size.
    seconds: u64,
    run: fn(&Row, Length) -> Ran,
    /// Within how many seconds the watch has to know everything again.
    pub(super) recovery: f64,
}

/// How long a row takes.
#[derive(Clone, Copy)]
struct Length {
    size: Size,
    all: Duration,
    /// From one fault to the next.
    period: Duration,
}

const fn row(name: &'static str, seconds: u64, recovery: f64, run: fn(&Row, Length) -> Ran) -> Row {
    Row { name, seconds, run, recovery }
}

/// In seconds.
const SOON: f64 = 2.0;

/// Leases that end and a server that starts take longer.
const LATER: f64 = 10.0;

pub(super) const ROWS: [Row; 18] = [
    row("nothing", 20, SOON, nothing),
    row("watch killed", 60, SOON, watch_killed),
    row("node killed", 30, SOON, node_killed),
    row("engine killed", 40, LATER, engine_killed),
    row("shared watch killed", 40, LATER, shared_watch_killed),
    row("watch stopped", 20, SOON, watch_stopped),
    row("node stopped", 20, SOON, node_stopped),
    row("engine stopped", 20, LATER, engine_stopped),
    row("full disk", 15, SOON, full_disk),
    row("clock -50 ms", 15, SOON, |row, length| skewed(row, length, -50_000)),
    row("clock -5 s", 15, SOON, |row, length| skewed(row, length, -5_000_000)),
    row("clock +5 s", 15, SOON, |row, length| skewed(row, length, 5_000_000)),
    row("clock +5 min", 15, SOON, |row, length| skewed(row, length, 300_000_000)),
    row("duplicate id", 15, SOON, duplicate_id),
    row("wrong secret", 15, SOON, wrong_secret),
    row("idle strangers", 20, SOON, idle_strangers),
    row("1 M tuples/s", 20, SOON, million),
    row("1 M tuples/s, killed", 20, SOON, million_killed),
];

impl Row {
    pub(super) fn run(&self, size: Size) -> Ran {
        let all = size.pick(Duration::from_secs(2), Duration::from_secs(self.seconds));
        let period = size.pick(Duration::from_secs(1), Duration::from_secs(2));
        (self.run)(self, Length { size, all, period })
    }

    fn start(&self, setup: &Setup) -> Result<Work, String> {
        self.start_in(setup, |_| ())
    }

    fn start_in(&self, setup: &Setup, prepare: impl FnOnce(&Path)) -> Result<Work, String> {
        match Cluster::start(self.name, setup, prepare) {
            Ok(cluster) => Ok(Work::start(cluster)),
            Err(error) => {
                Err(format!("there is no `nats-server` here (`apt install nats-server`): {error}"))
            }
        }
    }
}

/// A fault, again and again.
fn again(work: &mut Work, length: Length, mut fault: impl FnMut(&mut Work, usize)) {
    let begun = Instant::now();
    for time in 0.. {
        work.go_on(length.period);
        if length.size == Size::Full && time % 5 == 0 {
            work.plant_late();
        }
        fault(work, time);
        if begun.elapsed() >= length.all {
            return;
        }
    }
}

fn nothing(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |_, _| ());
    Ok(work.finish())
}

fn watch_killed(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |work, _| {
        work.cluster.watches[0].restart();
        work.mended();
    });
    Ok(work.finish())
}

/// Plants nothing in the last moment before it dies, since nobody could know of that.
fn node_killed(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |work, _| {
        work.spare(2);
        work.go_on(Duration::from_millis(400));
        work.cluster.nodes[2].process.signal(Signal::KILL);
        work.forget(2);
        work.go_on(length.period / 4);
        work.cluster.nodes[2].restart();
        work.include(2);
        work.mended();
    });
    Ok(work.finish())
}

fn shared(row: &Row) -> Result<Work, String> {
    row.start(&Setup { is_shared: true, ..Setup::default() })
}

fn engine_killed(row: &Row, length: Length) -> Ran {
    let mut work = shared(row)?;
    again(&mut work, Length { period: 4 * length.period, ..length }, |work, _| {
        work.cluster.server.as_mut().expect("it was started").restart();
        work.mended();
    });
    Ok(work.finish())
}

/// One of two watches in turn, also the one that the probes talk to.
fn shared_watch_killed(row: &Row, length: Length) -> Ran {
    let mut work = shared(row)?;
    again(&mut work, length, |work, time| {
        work.cluster.watches[time % 2].restart();
        work.mended();
    });
    Ok(work.finish())
}

/// How long a process is stopped.
fn stop_length(length: Length) -> Duration {
    length.size.pick(Duration::from_millis(1_500), Duration::from_secs(3))
}

fn watch_stopped(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |work, _| {
        work.cluster.watches[0].process.signal(Signal::STOP);
        work.go_on(stop_length(length));
        work.cluster.watches[0].process.signal(Signal::CONT);
        work.mended();
        work.go_on(length.period);
    });
    Ok(work.finish())
}

/// While a node is stopped, another takes what it holds, which it can say only later.
fn node_stopped(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |work, _| {
        work.spare(2);
        work.cluster.nodes[2].process.signal(Signal::STOP);
        work.go_on(stop_length(length) / 2);
        work.rob(2);
        work.go_on(stop_length(length) / 2);
        work.cluster.nodes[2].process.signal(Signal::CONT);
        work.include(2);
        work.mended();
        work.go_on(length.period);
    });
    Ok(work.finish())
}

fn engine_stopped(row: &Row, length: Length) -> Ran {
    let mut work = shared(row)?;
    again(&mut work, length, |work, _| {
        let server = work.cluster.server.as_ref().expect("it was started");
        server.process.signal(Signal::STOP);
        work.go_on(stop_length(length));
        let server = work.cluster.server.as_ref().expect("it was started");
        server.process.signal(Signal::CONT);
        work.mended();
        work.go_on(2 * length.period);
    });
    Ok(work.finish())
}

/// A small disk of its own; where mounting is not allowed, a limit on the size of files.
enum Disk {
    Mounted(PathBuf),
    Limited,
}

impl Disk {
    fn mount(at: &Path) -> Disk {
        let folder = at.join("watch-0");
        let _ = std::fs::create_dir_all(&folder);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "everhold-bench"]).arg(&folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if mounted { Disk::Mounted(folder) } else { Disk::Limited }
    }

    fn fill(&self, watch: u32) {
        let Disk::Mounted(folder) = self else { return limit(watch, "1:") };
        let mut file = File::create(folder.join("filler")).expect("there is room still");
        let zeros = [0; 1 << 12];
        while file.write_all(&zeros).is_ok() {}
        while file.write_all(&zeros[..16]).is_ok() {}
    }

    fn free(&self, watch: u32) {
        match self {
            Disk::Mounted(folder) => {
                std::fs::remove_file(folder.join("filler")).expect("it is there");
            }
            Disk::Limited => limit(watch, "unlimited:"),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Disk::Mounted(folder) = self {
            let _ = Command::new("umount").arg("--lazy").arg(folder).output();
        }
    }
}

/// The largest file that a process may write.
fn limit(process: u32, size: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &process.to_string(), &format!("--fsize={size}")]);
    let output = prlimit.output().expect("util-linux is there");
    assert!(output.status.success(), "{output:?}");
}

fn full_disk(row: &Row, length: Length) -> Ran {
    let mut disk = None;
    let mut work = row.start_in(&Setup::default(), |folder| disk = Some(Disk::mount(folder)))?;
    let disk = disk.expect("it was prepared");
    again(&mut work, length, |work, _| {
        let watch = work.cluster.watches[0].process.id();
        disk.fill(watch);
        work.go_on(length.period);
        let told = work.cluster.standings().any(|said| !said.is_known && !said.reason.is_empty());
        work.claim("while the disk is full, the verdict is unknown, with the reason", told);
        disk.free(watch);
        work.mended();
        work.go_on(length.period);
    });
    Ok(work.finish())
}

/// Node 1 has a wrong clock, and is named.
fn skewed(row: &Row, length: Length, micros: i64) -> Ran {
    let mut work = row.start(&Setup { offsets: [0, micros, 0], ..Setup::default() })?;
    again(&mut work, length, |_, _| ());
    let named = work.cluster.standings().all(|said| said.strays == [1]);
    work.claim("the node with the wrong clock is named, and no other", named);
    Ok(work.finish())
}

/// Another process calls itself node 2, and stays for a while.
fn duplicate_id(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    again(&mut work, length, |work, _| {
        work.spare(2);
        let mut other = Node::start(work.cluster.words(2));
        work.go_on(length.period / 2);
        other.listen();
        work.cluster.listen();
        let is_told = |line: &String| line.contains("number") || line.contains("n2");
        let mut sides = other.reports.iter().chain(&work.cluster.nodes[2].reports);
        let (node, watch) =
            (sides.any(is_told), work.cluster.watches[0].troubles.iter().any(is_told));
        work.claim("a number that is used twice is told by one of its nodes", node);
        work.claim("a number that is used twice is told by the watch", watch);
        drop(other);
        // The first gave up: it is started again.
        work.cluster.nodes[2].process.signal(Signal::KILL);
        work.forget(2);
        work.cluster.nodes[2].restart();
        work.include(2);
        work.mended();
        work.go_on(length.period);
    });
    Ok(work.finish())
}

/// A stranger with a wrong secret says that it holds what others hold.
fn wrong_secret(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup { secret: Some("right"), ..Setup::default() })?;
    let mut words = work.cluster.words(7);
    words.push("secret=wrong".to_owned());
    let mut stranger = Node::start(words);
    (1..1_000).for_each(|key| drop(stranger.call(&format!("take {key}"))));
    again(&mut work, length, |_, _| ());
    stranger.listen();
    let told = stranger.reports.iter().any(|line| line.contains("secret"));
    work.claim("the stranger is told that its secret is wrong", told);
    let watch = work.cluster.watches[0].troubles.iter().any(|line| line.contains("secret"));
    work.claim("the watch tells of a wrong secret", watch);
    Ok(work.finish())
}

/// How many strangers connect and say nothing.
const STRANGERS: usize = 10_000;

fn idle_strangers(row: &Row, length: Length) -> Ran {
    let strangers = length.size.pick(STRANGERS / 10, STRANGERS);
    let limit = getrlimit(Resource::Nofile);
    let wanted = strangers as u64 + 512;
    if limit.maximum.is_some_and(|most| most < wanted) {
        return Err(format!("a process may open only {:?} files here", limit.maximum));
    }
    // Before the watch starts, which inherits it.
    let raised = Rlimit { current: limit.current.map(|now| now.max(wanted)), ..limit };
    setrlimit(Resource::Nofile, raised).map_err(|error| error.to_string())?;
    let mut work = row.start(&Setup::default())?;
    let address = work.cluster.addresses[0].clone();
    let mut sockets = Vec::new();
    again(&mut work, length, |work, _| {
        // Those that were sent away come again.
        sockets.clear();
        for place in 0..strangers {
            sockets.extend(TcpStream::connect(&address));
            if place % 500 == 0 {
                work.look();
            }
        }
        let came = sockets.len() == strangers;
        work.claim("all strangers connect", came);
    });
    work.mended();
    Ok(work.finish())
}

/// Three nodes offer a million tuples a second together, which is more than can be judged here.
fn million(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    offer(&mut work);
    again(&mut work, length, |_, _| ());
    rest(&mut work);
    Ok(work.finish())
}

/// The same, with a watch that is killed meanwhile.
fn million_killed(row: &Row, length: Length) -> Ran {
    let mut work = row.start(&Setup::default())?;
    offer(&mut work);
    again(&mut work, Length { period: 3 * length.period, ..length }, |work, _| {
        work.cluster.watches[0].restart();
    });
    rest(&mut work);
    Ok(work.finish())
}

fn offer(work: &mut Work) {
    work.cluster.nodes.iter_mut().for_each(|node| drop(node.call("offer 333334")));
}

fn rest(work: &mut Work) {
    work.cluster.nodes.iter_mut().for_each(|node| drop(node.call("offer 0")));
    work.mended();
    sleep(Duration::from_millis(10));
}
