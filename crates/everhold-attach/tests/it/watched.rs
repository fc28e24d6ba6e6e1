//! From a breakpoint to a verdict: services that grant one lock twice, which only a watch over both
//! processes can see, and which throw and panic all the while.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use everhold_attach::{Attached, Options, Targets};
use everhold_watch::{
    Evidence, FileStore, Intake, IntakeOptions, Log, Notice, SegmentLog, SegmentOptions, Watch,
    WatchOptions, WatchParts,
};

use crate::support::{Puppet, allowed, compile, folder, plan};

const PROBES: &str = "\
node is arg --name
after ClientNode::on_lock_acquired add locks($lock, $mode) where $lock == 4
";

const RULES: &str = "\
always \"one holder\": forall a, b in nodes where a != b:
  not (a.locks[key] != null and b.locks[key] != null)
";

fn finds_the_planted_bug(program: &Path) {
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
    watch.set_rules(RULES, "locks.prop").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {}).unwrap();

    let targets = Targets { programs: vec![program.to_owned()], ..Targets::default() };
    let options =
        Options { checkers: vec![intake.address()], same_clock: true, ..Options::default() };
    let mut attached = Attached::start(plan(PROBES, &targets), options).unwrap();
    let fires = |attached: &mut Attached, patience: Duration| {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            attached.turn();
            if let Some(Notice::Fired(found)) =
                notices.try_iter().find(|notice| matches!(notice, Notice::Fired(_)))
            {
                return Some(found);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    };
    let mut alice = Puppet::start(program, &["--name", "alice"]);
    let mut bob = Puppet::start(program, &["--name", "bob"]);
    // One of them may have the lock; the other is seen without it.
    alice.say("work 10");
    bob.say("work 3");
    assert!(fires(&mut attached, Duration::from_secs(1)).is_none());
    bob.say("work 10");
    let found = fires(&mut attached, Duration::from_secs(20)).expect("it is violated");
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
