//! Probes on real sockets, checkers on a real log: what is said, what is refused, what survives.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Greeting, Hello, Ordering, Record, Refusal, Stamp, Tuple,
    VERSION, What, secret,
};
use everhold_trace::{NodeId, Value};
use everhold_watch::{
    CheckOptions, Cursor, Evidence, FileStore, Intake, IntakeOptions, Log, LogError, Notice,
    SegmentLog, SegmentOptions, Sequence, Store, Timing, ViolationId, Watch, WatchOptions,
    WatchParts, export,
};
use serde_json::Value as Json;

pub(crate) const LOCKS: &str = r#"always "one holder": forall a, b in nodes where a != b:
  not (a.locks[key] == "exclusive" and b.locks[key] != null)
"#;

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("engine-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Stamp::from_micros(u64::try_from(since.as_micros()).expect("before 2112"))
}

pub(crate) fn hello(node: u32, incarnation: u64) -> Hello {
    Hello {
        version: VERSION,
        system: "test".into(),
        node: NodeId(node),
        name: format!("n{node}"),
        kind: "client".into(),
        incarnation,
        order: Ordering::Clocks,
        proof: None,
    }
}

/// A probe as small as can be.
pub(crate) struct Probe {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    number: u64,
}

impl Probe {
    fn dial(address: SocketAddr) -> (Probe, Greeting) {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        let mut probe = Probe { stream, encoder, decoder, number: 0 };
        let Some(Frame::Greeting(greeting)) = probe.read() else { panic!("no greeting") };
        (probe, greeting)
    }

    pub(crate) fn connect(address: SocketAddr, hello: Hello) -> Result<Probe, Refusal> {
        let (mut probe, _) = Probe::dial(address);
        probe.say(hello)?;
        Ok(probe)
    }

    fn say(&mut self, hello: Hello) -> Result<(), Refusal> {
        self.write(&Frame::Hello(hello));
        match self.read() {
            Some(Frame::Ack { batch: 0 }) => Ok(()),
            Some(Frame::Refuse { reason, .. }) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        self.encoder.frame(frame, &mut bytes).expect("it is small");
        self.stream.write_all(&bytes).expect("it is open");
    }

    fn read(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("it speaks the protocol") {
                return Some(frame);
            }
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => self.decoder.feed(&buffer[..count]),
                _ => return None,
            }
        }
    }

    pub(crate) fn beat(&mut self) {
        self.write(&Frame::Heartbeat { at: now() });
    }

    /// Asks and tells, and reads no answer, until nobody takes any more.
    pub(crate) fn speak_on(&mut self) {
        self.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        loop {
            let mut bytes = Vec::new();
            for _ in 0..500 {
                self.encoder.frame(&Frame::Ping { sent: now() }, &mut bytes).expect("it is small");
            }
            self.number += 1;
            let batch = Batch { number: self.number, dropped: 0, records: Vec::new() };
            self.encoder.frame(&Frame::Batch(batch), &mut bytes).expect("it is small");
            if self.stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }

    pub(crate) fn observe(&mut self, name: &str, value: i64) {
        self.number += 1;
        let records = vec![Record::new(now(), What::Observe(vec![(name.into(), value.into())]))];
        self.write(&Frame::Batch(Batch { number: self.number, dropped: 0, records }));
    }

    /// Tells everything: that it holds one lock.
    pub(crate) fn tell_all(&mut self, key: i64) {
        let tuple =
            Tuple { relation: "locks".into(), key: Value::Int(key), value: "shared".into() };
        self.number += 1;
        let all = [What::Refresh, What::Add(tuple), What::Whole];
        let records = all.map(|what| Record::new(now(), what)).to_vec();
        self.write(&Frame::Batch(Batch { number: self.number, dropped: 0, records }));
    }

    /// Whether the watch has ended the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let ended = matches!(self.stream.read(&mut [0; 4096]), Ok(0));
        self.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        ended
    }

    pub(crate) fn add(&mut self, key: i64, mode: &str) {
        let tuple = Tuple { relation: "locks".into(), key: Value::Int(key), value: mode.into() };
        self.number += 1;
        let records = vec![Record::new(now(), What::Add(tuple))];
        self.write(&Frame::Batch(Batch { number: self.number, dropped: 0, records }));
    }
}

pub(crate) struct Running {
    pub(crate) watch: Watch,
    pub(crate) intake: Intake,
    notices: Receiver<Notice>,
    pub(crate) troubles: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn start(folder: &Path, options: IntakeOptions) -> Running {
    let log: Arc<dyn Log> =
        Arc::new(SegmentLog::open(&folder.join("log"), SegmentOptions::default()).unwrap());
    let store = Box::new(FileStore::open(folder, 1).unwrap());
    start_on(folder, options, log, store)
}

pub(crate) fn start_on(
    folder: &Path,
    options: IntakeOptions,
    log: Arc<dyn Log>,
    store: Box<dyn Store>,
) -> Running {
    let (sender, notices) = channel();
    let troubles = Arc::new(Mutex::new(Vec::new()));
    let keep = |troubles: &Arc<Mutex<Vec<String>>>| {
        let troubles = Arc::clone(troubles);
        move |text: String| troubles.lock().unwrap().push(text)
    };
    let parts = WatchParts {
        log: Arc::clone(&log),
        store,
        evidence: Evidence::open(folder).unwrap(),
        flows: Arc::new(Vec::new),
        told: Box::new(move |notice| drop(sender.send(notice.clone()))),
        trouble: Box::new(keep(&troubles)),
    };
    // A loaded machine must not look like a crash.
    let silence_max = Duration::from_secs(5);
    let timing = Timing { silence_max, wait_max: 2 * silence_max, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let checkpoint_every = Duration::from_millis(100);
    let options_watch = WatchOptions { check, checkpoint_every, ..WatchOptions::default() };
    let watch = Watch::start(parts, options_watch).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let intake = Intake::start(listener, log, options, keep(&troubles)).unwrap();
    watch.ask_through(intake.asker());
    Running { watch, intake, notices, troubles }
}

/// The next violation, or none in the time. Meanwhile the probes go on beating, as real ones do: a
/// moment is complete only when everybody has passed it.
pub(crate) fn next_violation(
    running: &Running,
    probes: &mut [Probe],
    wait: Duration,
) -> Option<String> {
    let end = Instant::now() + wait;
    while Instant::now() < end {
        probes.iter_mut().for_each(Probe::beat);
        if let Ok(Notice::Fired(v)) = running.notices.recv_timeout(Duration::from_millis(50)) {
            return Some(format!("{} {}", v.rule, v.key.unwrap_or_default()));
        }
    }
    None
}

pub(crate) const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_double_grant_is_told_once_even_across_restarts() {
    let folder = folder("restart");
    let running = start(&folder, IntakeOptions::default());
    running.watch.set_rules(LOCKS, "rules.prop").unwrap();
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap());
    probes.iter_mut().for_each(Probe::beat);
    probes[0].add(7, "exclusive");
    probes[1].add(7, "shared");
    probes.iter_mut().for_each(Probe::beat);
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("one holder 7"));
    drop((probes, running));
    // The checkpoint is lost, so everything is read again.
    let _ = fs::remove_file(folder.join("p0.checkpoint"));
    let running = start(&folder, IntakeOptions::default());
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 2)).unwrap());
    probes[0].add(8, "exclusive");
    probes[1].add(8, "exclusive");
    probes.iter_mut().for_each(Probe::beat);
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("one holder 8"));
    let told = fs::read_to_string(folder.join("violations.jsonl")).unwrap();
    let fired = told.lines().filter(|line| line.contains("\"fired\"")).count();
    assert_eq!(fired, 2, "{told}");
    let traces: Vec<_> = fs::read_dir(folder.join("violations")).unwrap().collect();
    assert_eq!(traces.len(), 2);
}

#[test]
fn strangers_are_refused_with_a_reason_and_harm_nobody() {
    let running = start(
        &folder("strangers"),
        IntakeOptions {
            system: "test".into(),
            secret: b"open sesame".to_vec(),
            ..IntakeOptions::default()
        },
    );
    let address = running.intake.address();
    let proven = |hello: Hello| {
        let (mut probe, greeting) = Probe::dial(address);
        let proof = Some(secret::prove(b"open sesame", &greeting, &hello));
        probe.say(Hello { proof, ..hello }).map(|()| probe)
    };
    let refused = |result: Result<Probe, Refusal>| result.err();
    let mut member = proven(hello(0, 5)).expect("it knows the secret");
    assert_eq!(refused(Probe::connect(address, hello(1, 1))), Some(Refusal::Secret));
    let second = while_it_speaks(&mut member, || refused(proven(hello(0, 5))));
    assert_eq!(second, Some(Refusal::NodeInUse));
    assert_eq!(refused(proven(hello(0, 4))), Some(Refusal::NodeInUse));
    let other = Hello { system: "other".into(), ..hello(1, 1) };
    assert_eq!(refused(proven(other)), Some(Refusal::System));
    // Garbage from a fixed seed, text of another protocol, a promise of much.
    let mut seed = 3_u64;
    for round in 0..40 {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut bytes: Vec<u8> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        if round == 0 {
            bytes = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        }
        if round % 2 == 1 {
            bytes[..4].copy_from_slice(&100_u32.to_le_bytes());
        }
        let _ = stream.write_all(&bytes);
    }
    assert!(proven(hello(2, 1)).is_ok(), "who speaks well is still let in");
    assert!(!running.troubles.lock().unwrap().is_empty());
}

#[test]
fn rules_are_changed_over_http_and_bad_ones_leave_the_old() {
    let running = start(&folder("control"), IntakeOptions::default());
    let watch = Arc::new(running.watch);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = b"s".to_vec();
    let pages = Box::new(|path: &str| (path == "/").then(|| ("text/html", "a page".to_owned())));
    let served = export::Served { watch: Arc::clone(&watch), intake: None, secret, pages };
    let address = export::serve(listener, served).unwrap();
    let address = address.to_string();
    let denied = export::ask(&address, "PUT", "/rules", "", LOCKS).unwrap_err().to_string();
    assert!(denied.contains("secret"), "{denied}");
    export::ask(&address, "PUT", "/rules", "s", LOCKS).unwrap();
    assert_eq!(watch.rules().as_deref(), Some(LOCKS), "it is answered when they are in force");
    let wrong = export::ask(&address, "PUT", "/rules", "s", "always \"x\": forall")
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("expected"), "{wrong}");
    for path in ["/rules", "/metrics", "/status.json", "/violations/0.trace", "/"] {
        let denied = export::ask(&address, "GET", path, "x", "").unwrap_err().to_string();
        assert!(denied.contains("secret"), "{denied}");
    }
    assert_eq!(export::ask(&address, "GET", "/rules", "s", "").unwrap(), LOCKS);
    let metrics = export::ask(&address, "GET", "/metrics", "s", "").unwrap();
    assert!(metrics.contains("everhold_violations_total{rule=\"one holder\""), "{metrics}");
    assert_eq!(export::ask(&address, "GET", "/", "s", "").unwrap(), "a page");
    let missing =
        export::ask(&address, "GET", "/violations/../x.trace", "s", "").unwrap_err().to_string();
    assert!(missing.contains("/status.json"), "{missing}");
}

#[test]
fn changes_of_rules_at_the_same_time_all_count() {
    let running = start(&folder("changes"), IntakeOptions::default());
    let watch = Arc::new(running.watch);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (secret, pages) = (Vec::new(), Box::new(|_: &str| None));
    let served = export::Served { watch: Arc::clone(&watch), intake: None, secret, pages };
    let address = export::serve(listener, served).unwrap().to_string();
    let change = |remove: &[&str], add: &str| {
        let body = serde_json::json!({ "remove": remove, "add": add }).to_string();
        export::ask(&address, "PATCH", "/rules", "", &body)
    };
    let rule = |name: &str| format!("always \"{name}\": forall n in nodes: n.x != 1\n");
    change(&[], &rule("gone")).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            scope.spawn(move || change(&[], &rule(name)).unwrap());
        }
        scope.spawn(|| change(&["gone"], "").unwrap());
    });
    let mut names: Vec<String> = watch.status()[&0].rules.keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert!(change(&["gone"], "").unwrap_err().to_string().contains("no rule is called"));
}

/// A log whose disk may be full, and a store that cannot save.
#[derive(Debug)]
struct Full(Arc<dyn Log>, Arc<AtomicBool>);

impl Log for Full {
    fn partitions(&self) -> u32 {
        self.0.partitions()
    }
    fn append(&self, partition: u32, entries: &[&[u8]]) -> Result<Sequence, LogError> {
        if self.1.load(Relaxed) {
            return Err(LogError::Unusable("no space left".into()));
        }
        self.0.append(partition, entries)
    }
    fn cursor(&self, partition: u32, from: Sequence) -> Result<Box<dyn Cursor>, LogError> {
        self.0.cursor(partition, from)
    }
    fn next_sequence(&self, partition: u32) -> Result<Sequence, LogError> {
        self.0.next_sequence(partition)
    }
    fn trim(&self, partition: u32, before: Sequence) -> Result<(), LogError> {
        self.0.trim(partition, before)
    }
}

#[test]
fn a_rule_is_said_to_hold_only_if_everything_works_and_somebody_is_there() {
    let folder = folder("unknown");
    let log: Arc<dyn Log> =
        Arc::new(SegmentLog::open(&folder.join("log"), SegmentOptions::default()).unwrap());
    let full = Arc::new(AtomicBool::new(false));
    let log: Arc<dyn Log> = Arc::new(Full(log, Arc::clone(&full)));
    let store = Box::new(FileStore::open(&folder, 1).unwrap());
    let running = start_on(&folder, IntakeOptions::default(), log, store);
    let mut probes: Vec<Probe> = Vec::new();
    let stands = |probes: &mut Vec<Probe>, verdict: &str, reason: &str| {
        let end = Instant::now() + LONG;
        loop {
            probes.iter_mut().for_each(Probe::beat);
            let status = export::status(&running.watch, Some(running.intake.counts()), 0);
            let why = status["rules"][0]["reason"].as_str().unwrap_or_default().to_owned();
            if status["verdict"] == verdict && why.contains(reason) {
                let metrics = export::metrics(&running.watch, Some(running.intake.counts()));
                let unknown = u8::from(verdict == "unknown" && !reason.is_empty());
                let row = format!("everhold_rule_unknown{{rule=\"one holder\"}} {unknown}");
                assert!(reason.is_empty() || metrics.contains(&row), "{metrics}");
                return;
            }
            assert!(Instant::now() < end, "{verdict} {reason}: {status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    stands(&mut probes, "unknown", "");
    running.watch.set_rules(LOCKS, "rules").unwrap();
    stands(&mut probes, "unknown", "no node is connected");
    let address = running.intake.address();
    probes.extend([0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap()));
    stands(&mut probes, "unknown", "not all is known");
    probes[0].add(7, "exclusive");
    probes[1].add(8, "exclusive");
    stands(&mut probes, "holds", "");
    full.store(true, Relaxed);
    // Its records cannot be written: it is hung up on, and the rule is not said to hold.
    probes[0].add(9, "exclusive");
    probes.clear();
    stands(&mut probes, "unknown", "no space left");
    full.store(false, Relaxed);
    probes.extend([0, 1].map(|node| Probe::connect(address, hello(node, 2)).unwrap()));
    probes[0].add(7, "exclusive");
    probes[1].add(8, "exclusive");
    stands(&mut probes, "holds", "");
    probes[1].add(7, "exclusive");
    stands(&mut probes, "violated", "");
}

#[test]
fn many_who_say_nothing_cost_no_threads_and_keep_nobody_out() {
    let running = start(&folder("idle"), IntakeOptions::default());
    let address = running.intake.address();
    let threads = || {
        let status = fs::read_to_string("/proc/self/status").expect("Linux says it");
        let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        line.expect("it is there").trim().parse::<usize>().expect("a number")
    };
    let before = threads();
    let idle: Vec<TcpStream> =
        (0..700).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let mut probe = Probe::connect(address, hello(0, 1)).expect("it is let in");
    probe.beat();
    assert!(threads() < before + 200, "{} threads for {} strangers", threads(), idle.len());
    assert!(running.intake.counts().refused.load(Relaxed) > 0, "the oldest were given up");
}

#[test]
fn two_processes_with_one_number_are_told_both() {
    let running = start(&folder("twice"), IntakeOptions::default());
    let address = running.intake.address();
    let mut first = Probe::connect(address, hello(0, 1)).expect("it is let in");
    let mut second = Probe::connect(address, hello(0, 2)).expect("a restart looks like this");
    second.beat();
    first.beat();
    let refused = loop {
        match first.read() {
            Some(Frame::Refuse { reason, text }) => break (reason, text),
            Some(_) => {}
            None => panic!("it is told why"),
        }
    };
    assert!(refused.0 == Refusal::NodeInUse && refused.1.contains("its own number"), "{refused:?}");
    let troubles = running.troubles.lock().unwrap();
    assert!(troubles.iter().any(|text| text.contains("its own number")), "{troubles:?}");
}

#[test]
fn alerts_that_are_not_delivered_are_kept_and_tried_again_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    let url = format!("http://{address}/alerts");
    let webhook = export::Webhook::start(&url, move |text| drop(tell.send(text))).unwrap();
    let notices = crate::feed::notices(CheckOptions::default(), &crate::checker::double_grant());
    notices.iter().for_each(|notice| webhook.tell(notice));
    let mut delivered = Vec::new();
    for (attempt, stream) in listener.incoming().flatten().enumerate() {
        let mut stream = stream;
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.contains("\"version\"") {
            let count = stream.read(&mut buffer).unwrap();
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        if attempt < 2 {
            continue;
        }
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n").unwrap();
        delivered.push(text.contains("\"status\":\"resolved\""));
        if delivered.len() == 2 {
            break;
        }
    }
    assert_eq!(delivered, [false, true]);
    assert!(told.recv_timeout(LONG).unwrap().contains("trying again"));
}

#[test]
fn the_status_tells_rules_nodes_and_violations_as_they_come() {
    let folder = folder("status");
    let running = start(&folder, IntakeOptions::default());
    let aside = r#"always "acks name us" on delivery: sender.term <= receiver.term"#;
    running.watch.set_rules(&format!("{LOCKS}{aside}"), "rules.prop").unwrap();
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap());
    probes[0].add(7, "exclusive");
    probes[1].add(7, "shared");
    assert!(next_violation(&running, &mut probes, LONG).is_some());
    let end = Instant::now() + LONG;
    let status = loop {
        probes.iter_mut().for_each(Probe::beat);
        let status = export::status(&running.watch, Some(running.intake.counts()), 0);
        if status["rules"][0]["verdict"] == "violated" {
            break status;
        }
        assert!(Instant::now() < end, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let rules = status["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["name"], &rules[0]["firing"]), (&"one holder".into(), &1.into()));
    assert_eq!(rules[1]["verdict"], "not watched");
    assert!(rules[1]["reason"].as_str().unwrap().contains("everhold check"), "{status}");
    assert_eq!(status["nodes"][1]["name"], "n1");
    assert_eq!(status["connections"], 2);
    let violation = &status["violations"][0];
    assert_eq!((&violation["key"], &violation["resolved"]), (&7.into(), &Json::Null));
    let number = status["number"].as_u64().unwrap();
    let (_, again, _) = running.watch.told_after(number);
    assert!(again.is_empty(), "{again:?}");
    let id = u64::from_str_radix(violation["id"].as_str().unwrap(), 16).unwrap();
    assert!(running.watch.trace(ViolationId(id)).is_some(), "its trace can be fetched");
    drop((probes, running));
    let running = start(&folder, IntakeOptions::default());
    let (_, kept, _) = running.watch.told_after(0);
    assert_eq!(kept[0]["id"], violation["id"], "what was told before a restart is still shown");
}

#[test]
fn a_rule_that_takes_too_long_is_disabled_alone() {
    let folder = folder("expensive");
    let log: Arc<dyn Log> =
        Arc::new(SegmentLog::open(&folder.join("log"), SegmentOptions::default()).unwrap());
    let (sender, notices) = channel();
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(&folder, 1).unwrap()),
        evidence: Evidence::open(&folder).unwrap(),
        flows: Arc::new(Vec::new),
        told: Box::new(move |notice| drop(sender.send(notice.clone()))),
        trouble: Box::new(|_| {}),
    };
    let evaluation_max = Duration::from_millis(1);
    let options = WatchOptions { evaluation_max, ..WatchOptions::default() };
    let watch = Watch::start(parts, options).unwrap();
    let slow = r#"always "slow": forall n in nodes, i in 0..300000: i + n.x >= 0"#;
    watch.set_rules(&format!("{LOCKS}{slow}"), "rules.prop").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let intake = Intake::start(listener, log, IntakeOptions::default(), |_| {}).unwrap();
    let mut probe = Probe::connect(intake.address(), hello(0, 1)).unwrap();
    probe.beat();
    probe.number += 1;
    let what = What::Observe(vec![("x".into(), Value::Int(1))]);
    let records = vec![Record::new(now(), what)];
    probe.write(&Frame::Batch(Batch { number: 1, dropped: 0, records }));
    let end = Instant::now() + LONG;
    let disabled = loop {
        probe.beat();
        if let Ok(Notice::Disabled { rule }) = notices.recv_timeout(Duration::from_millis(100)) {
            break rule;
        }
        assert!(Instant::now() < end, "it is disabled");
    };
    assert_eq!(disabled, "slow");
    let off = |name: &str| watch.status()[&0].rules.get(name).map(|rule| rule.disabled);
    while off("slow") != Some(true) {
        assert!(Instant::now() < end, "the status says so");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(off("one holder"), Some(false));
}

#[test]
fn alerts_are_in_alertmanagers_format() {
    let notices = crate::feed::notices(CheckOptions::default(), &crate::checker::double_grant());
    let fired = notices.iter().find_map(export::alert).expect("there is a violation");
    assert_eq!(fired["version"], "4");
    assert_eq!(fired["status"], "firing");
    let alert = &fired["alerts"][0];
    assert_eq!(alert["labels"]["alertname"], "one holder");
    assert_eq!(alert["labels"]["key"], "7");
    assert_eq!(alert["endsAt"], "0001-01-01T00:00:00Z");
    let resolved = notices.iter().filter_map(export::alert).next_back().unwrap();
    assert_eq!(resolved["status"], "resolved");
    assert_eq!(resolved["alerts"][0]["fingerprint"], alert["fingerprint"]);
}

/// A probe does not notice that a batch of it was lost behind its back. It is asked, which it notices
/// by the end of the connection, and then the rule is known to hold again.
#[test]
fn a_node_that_stays_unknown_is_asked_to_tell_everything_again() {
    let running = start(&folder("asked"), IntakeOptions::default());
    running.watch.set_rules(LOCKS, "rules.prop").unwrap();
    let address = running.intake.address();
    let mut probe = Probe::connect(address, hello(0, 1)).unwrap();
    let verdict = || export::status(&running.watch, None, 0)["verdict"].clone();
    let end = Instant::now() + LONG;
    probe.tell_all(7);
    while verdict() != "holds" {
        assert!(Instant::now() < end, "{}", verdict());
        probe.beat();
    }
    probe.number += 1; // It is lost.
    probe.add(8, "shared");
    while !probe.is_ended() {
        assert!(Instant::now() < end, "{}", verdict());
        let _ = probe.stream.write_all(&beat_bytes());
    }
    assert_eq!(verdict(), "unknown");
    let number = probe.number;
    probe = Probe::connect(address, hello(0, 1)).expect("it comes back at once");
    probe.number = number;
    probe.tell_all(8);
    while verdict() != "holds" {
        assert!(Instant::now() < end, "{}", verdict());
        probe.beat();
    }
}

/// Does something while a probe goes on beating.
fn while_it_speaks<T: Send>(probe: &mut Probe, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(act);
        while !acting.is_finished() {
            probe.beat();
            std::thread::sleep(Duration::from_millis(20));
        }
        acting.join().expect("it does not panic")
    })
}

fn beat_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::default().frame(&Frame::Heartbeat { at: now() }, &mut bytes).expect("it is small");
    bytes
}

/// A connection that was cut without a word does not keep its node out.
#[test]
fn a_node_comes_back_although_its_old_connection_is_still_open() {
    let running = start(&folder("half-open"), IntakeOptions::default());
    let address = running.intake.address();
    let mut old = Probe::connect(address, hello(0, 1)).unwrap();
    // A second process with the same number is refused as long as the first one speaks.
    let second = while_it_speaks(&mut old, || Probe::connect(address, hello(0, 1)).err());
    assert_eq!(second, Some(Refusal::NodeInUse));
    assert!(!old.is_ended());
    // It says nothing any more.
    let mut new = Probe::connect(address, hello(0, 1)).expect("nobody speaks for it");
    new.beat();
    let told = std::iter::from_fn(|| old.read());
    let is_told = |frame| matches!(frame, Frame::Refuse { reason: Refusal::NodeInUse, .. });
    assert!(told.into_iter().any(is_told), "it is told, and cut off");
    assert!(!new.is_ended());
    let troubles = running.troubles.lock().unwrap();
    assert!(troubles.iter().any(|text| text.contains("its own number")), "{troubles:?}");
}

/// A power cut loses the end of the log but not the checkpoint that was saved after it.
#[test]
fn what_comes_after_a_lost_end_of_the_log_is_judged() {
    let folder = folder("lost-end");
    let running = start(&folder, IntakeOptions::default());
    running.watch.set_rules(LOCKS, "rules.prop").unwrap();
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap());
    probes.iter_mut().for_each(|probe| probe.add(7, "exclusive"));
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("one holder 7"));
    drop((probes, running));
    fs::remove_dir_all(folder.join("log")).unwrap();
    let running = start(&folder, IntakeOptions::default());
    assert!(running.troubles.lock().unwrap().iter().any(|text| text.contains("lost in the log")));
    let address = running.intake.address();
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 2)).unwrap());
    probes.iter_mut().for_each(|probe| probe.add(8, "exclusive"));
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("one holder 8"));
}

/// A checkpoint of another version is not misread: the log is judged from its beginning.
#[test]
fn a_checkpoint_of_another_version_is_named_and_the_log_is_read_again() {
    let folder = folder("version");
    fs::create_dir_all(&folder).unwrap();
    for version in [1, 99] {
        fs::write(folder.join("p0.checkpoint"), format!("[{version},[]]")).unwrap();
        let running = start(&folder, IntakeOptions::default());
        let troubles = running.troubles.lock().unwrap().join("\n");
        let (old, new) = (format!("it is of version {version}"), "this program reads version");
        assert!(troubles.contains(&old) && troubles.contains(new), "{troubles}");
    }
}
