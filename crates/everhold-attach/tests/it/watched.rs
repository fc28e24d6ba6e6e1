//! From a breakpoint to a verdict: services that grant one lock twice, which only a watch over both
//! processes can see, and which throw and panic all the while.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use everhold_attach::{Attached, Options, Targets};
use everhold_live::{NodeId, Probe};
use everhold_watch::{
    Evidence, FileStore, Intake, IntakeOptions, Log, Notice, SegmentLog, SegmentOptions, Violation,
    Watch, WatchOptions, WatchParts,
};

use crate::support::{Puppet, allowed, compile, folder, left_out, plan};

const PROBES: &str = "\
node is arg --name
after ClientNode::on_lock_acquired add locks($lock, $mode) where $lock == 4
";

const RULES: &str = "\
always \"one holder\": forall a, b in nodes where a != b:
  not (a.locks[key] != null and b.locks[key] != null)
";

/// A watch, and what it tells.
struct Watched {
    notices: Receiver<Notice>,
    intake: Intake,
    _watch: Watch,
}

impl Watched {
    fn start(rules: &str) -> Watched {
        let place = folder();
        let log = SegmentLog::open(&place.join("log"), SegmentOptions::default()).unwrap();
        let log: Arc<dyn Log> = Arc::new(log);
        let (told, notices) = channel();
        let parts = WatchParts {
            log: Arc::clone(&log),
            store: Box::new(FileStore::open(&place, 1).unwrap()),
            evidence: Evidence::open(&place).unwrap(),
            flows: Arc::new(Vec::new),
            told: Box::new(move |notice| drop(told.send(notice.clone()))),
            trouble: Box::new(|text| panic!("{text}")),
        };
        let watch = Watch::start(parts, WatchOptions::default()).unwrap();
        watch.set_rules(rules, "watched.prop").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {}).unwrap();
        Watched { notices, intake, _watch: watch }
    }

    /// Attaches to all processes of a program, which tell this watch.
    fn attach(&self, probes: &str, program: &Path) -> Attached {
        let targets = Targets { programs: vec![program.to_owned()], ..Targets::default() };
        let plan = plan(probes, &targets);
        assert_eq!(plan.problems().count(), 0, "{}", plan.describe());
        let checkers = vec![self.intake.address()];
        let options = Options { checkers, same_clock: true, ..Options::default() };
        Attached::start(plan, options).unwrap()
    }

    /// Waits for a violation.
    fn fires(&self, attached: &mut Attached, patience: Duration) -> Option<Box<Violation>> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            attached.turn();
            let mut fired = self.notices.try_iter().filter_map(|notice| match notice {
                Notice::Fired(found) => Some(found),
                _ => None,
            });
            if let Some(found) = fired.next() {
                return Some(found);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn finds_the_planted_bug(program: &Path) {
    let watched = Watched::start(RULES);
    let mut attached = watched.attach(PROBES, program);
    let mut alice = Puppet::start(program, &["--name", "alice"]);
    let mut bob = Puppet::start(program, &["--name", "bob"]);
    // One of them may have the lock; the other is seen without it.
    alice.say("work 10");
    bob.say("work 3");
    assert!(watched.fires(&mut attached, Duration::from_secs(1)).is_none());
    bob.say("work 10");
    let found = watched.fires(&mut attached, PATIENCE).expect("it is violated");
    assert_eq!((&*found.rule, found.key.clone()), ("one holder", Some(4.into())));
    let totals = attached.leave();
    assert_eq!((totals.records, totals.lost), (2, 0));
    assert!(alice.end() && bob.end(), "exceptions and panics went their way");
}

#[test]
fn in_cpp() {
    if !allowed() {
        return;
    }
    if let Some(program) = compile("g++", &["-O2", "-g"], "locks.cpp") {
        finds_the_planted_bug(&program);
    }
}

#[test]
fn in_rust() {
    if !allowed() {
        return;
    }
    let options = ["-O", "-g", "--edition", "2021"];
    if let Some(program) = compile("rustc", &options, "locks.rs") {
        finds_the_planted_bug(&program);
    }
}

/// A node that is attached to and a node that reports itself, with the first number that there is, are two
/// nodes of one watch.
#[test]
fn attached_and_probed_nodes_mix() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("g++", &["-O2", "-g"], "locks.cpp") else { return };
    let watched = Watched::start(RULES);
    let mut attached = watched.attach(PROBES, &program);
    let mut alice = Puppet::start(&program, &["--name", "alice"]);
    let probe = Probe::to_checkers([watched.intake.address()])
        .node(NodeId(1), "carol", "client")
        .heartbeat(Duration::from_millis(10))
        .start();
    alice.say("work 10");
    probe.step(probe.var("ready"));
    assert!(watched.fires(&mut attached, Duration::from_secs(1)).is_none());
    probe.add(probe.var("locks"), 4, "Exclusive");
    let found = watched.fires(&mut attached, PATIENCE).expect("it is violated");
    assert_eq!((&*found.rule, found.key.clone()), ("one holder", Some(4.into())));
    assert_eq!(attached.leave().records, 1);
}

const REDIS_PROBES: &str = "\
node is address
on entry replicationSetMaster set follows = $1:u32
on entry replicationUnsetMaster set follows = 0
";

const REDIS_RULES: &str = "\
always \"somebody leads\": forall a, b in nodes where a != b: not (a.follows > 0 and b.follows > 0)
";

/// A server of redis, without its log and without files.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start(program: &Path) -> Redis {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--bind", "127.0.0.1", "--dir", folder().to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Redis { child, port };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "redis does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        redis
    }

    /// Says a command, which has to be done.
    fn say(&self, command: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        writeln!(stream, "{command}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.starts_with("+OK"), "{command}: {answer}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two servers of redis, as Debian has them: stripped, with the symbols that its modules need. That each
/// follows the other is seen by looking at both.
#[test]
fn two_servers_of_redis_that_follow_one_another() {
    let program = Path::new("/usr/bin/redis-server");
    if !allowed() || !program.exists() && !left_out("there is no redis-server") {
        return;
    }
    // The name may be a link, and observers look for the file.
    let program = program.canonicalize().unwrap();
    let server = Path::new("/usr/bin/redis-server");
    let watched = Watched::start(REDIS_RULES);
    let (one, other) = (Redis::start(server), Redis::start(server));
    let mut attached = watched.attach(REDIS_PROBES, &program);
    one.say(&format!("REPLICAOF 127.0.0.1 {}", other.port));
    one.say("REPLICAOF NO ONE");
    other.say(&format!("REPLICAOF 127.0.0.1 {}", one.port));
    assert!(watched.fires(&mut attached, Duration::from_secs(1)).is_none());
    one.say(&format!("REPLICAOF 127.0.0.1 {}", other.port));
    let found = watched.fires(&mut attached, PATIENCE).expect("it is violated");
    assert_eq!(&*found.rule, "somebody leads");
    let totals = attached.leave();
    assert_eq!((totals.records, totals.lost), (4, 0));
}
