//! The checker of a running system: tuples a second, and how far behind it is.

mod observe;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Hello, Ordering, Record, Stamp, Tuple, VERSION, What,
};
use everhold_trace::{NodeId, Value};
use everhold_watch::{
    CheckOptions, EntryWriter, Evidence, FileStore, Intake, IntakeOptions, Log, Notice, Origin,
    PartitionChecker, SegmentLog, SegmentOptions, Timing, Watch, WatchOptions, WatchParts, entry,
};

use crate::Options;
use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::table::Table;

/// D3S section 2.1: a property of two nodes for every key.
const RULES: &str = r#"always "one holder": forall a, b in nodes where a != b:
  not (a.locks[key] == "exclusive" and b.locks[key] != null)"#;

const KEYS: u64 = 10_000;

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    if options.wants("observe") {
        observe::run(options.size, &mut scores);
    }
    if options.wants("throughput") {
        throughput(options.size, &mut scores);
    }
    if options.wants("lag") {
        lag(options.size, &mut scores);
    }
    scores
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("everhold-bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn hello(node: u32) -> Hello {
    Hello {
        version: VERSION,
        system: "bench".into(),
        node: NodeId(node),
        name: format!("n{node}"),
        kind: "client".into(),
        incarnation: 1,
        order: Ordering::Clocks,
        proof: None,
    }
}

fn tuple(key: u64, mode: &str) -> Tuple {
    Tuple { relation: "locks".into(), key: Value::from(key), value: mode.into() }
}

/// Node 0 takes and gives back shared locks, and node 1 too: nothing is ever wrong.
fn record(i: u64, at: Stamp) -> Record {
    let key = i.wrapping_mul(2_654_435_761) % KEYS;
    let shared = tuple(key, "shared");
    let what = if (i / KEYS).is_multiple_of(2) { What::Add(shared) } else { What::Remove(shared) };
    Record::new(at, what)
}

/// Entries of a thousand tuples of two nodes, as an intake writes them.
fn fill(log: &dyn Log, tuples: u64) {
    log.append(0, &[&entry::rules_entry(1, RULES)]).expect("there is room");
    let mut at = 1_000_000_u64;
    let mut made = 0;
    let mut number = 0;
    while made < tuples {
        let mut writer = EntryWriter::new(at);
        number += 1;
        for node in 0..2_u32 {
            let origin = Origin { node: NodeId(node), incarnation: 1 };
            if number == 1 {
                writer.push(origin, &Frame::Hello(hello(node))).expect("it is small");
            }
            let stamp = |i: u64| Stamp(Stamp::from_micros(at).0 + 2 * i + u64::from(node));
            let records = (0..500).map(|i| record(made + i, stamp(i))).collect();
            let batch = Batch { number, dropped: 0, records };
            writer.push(origin, &Frame::Batch(batch)).expect("it is small");
            let beat = Frame::Heartbeat { at: stamp(500) };
            writer.push(origin, &beat).expect("it is small");
        }
        made += 1_000;
        at += 1_000;
        log.append(0, &[&writer.finish()]).expect("there is room");
    }
}

fn throughput(size: Size, scores: &mut Scorecard) {
    let tuples = size.pick(20_000, 4_000_000);
    let folder = folder("throughput");
    let log = SegmentLog::open(&folder, SegmentOptions::default()).expect("a folder");
    fill(&log, tuples);
    let mut best = 0.0_f64;
    for _ in 0..size.rounds() {
        let mut checker = PartitionChecker::new(CheckOptions::default());
        let mut cursor = log.cursor(0, 1).expect("a cursor");
        let mut notices = Vec::new();
        let before = cpu_seconds();
        loop {
            let entries = cursor.next(1 << 20, Duration::ZERO).expect("it reads");
            if entries.is_empty() {
                break;
            }
            entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
        }
        let seconds = cpu_seconds() - before;
        assert_eq!(checker.counts().records, tuples, "every tuple was judged");
        let fired = notices.iter().any(|notice| matches!(notice, Notice::Fired(_)));
        assert!(!fired, "nothing is wrong");
        best = best.max(tuples as f64 / seconds);
    }
    let mut table = Table::new(&["tuples", "keys", "tuples a CPU-second"]);
    table.row(vec![tuples.to_string(), KEYS.to_string(), format!("{best:.0}")]);
    table.print("One embedded checker: log, snapshots, a property of two nodes with keys");
    scores.hold("a million tuples a second", best / 1e6, Bound::AtLeast(1.0));
    let _ = std::fs::remove_dir_all(folder);
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Stamp::from_micros(since.as_micros() as u64)
}

/// A connection that only sends.
struct Sender {
    stream: std::net::TcpStream,
    encoder: Encoder,
    number: u64,
    last: Stamp,
}

impl Sender {
    fn connect(address: std::net::SocketAddr, node: u32) -> Sender {
        let stream = std::net::TcpStream::connect(address).expect("it listens");
        let last = Stamp(0);
        let mut sender = Sender { stream, encoder: Encoder::default(), number: 0, last };
        sender.write(&Frame::Hello(hello(node)));
        let mut reader = sender.stream.try_clone().expect("a second handle");
        // Acknowledgements must be read, or they would fill the connection.
        std::thread::spawn(move || {
            let mut decoder = Decoder::default();
            let mut buffer = [0; 4096];
            while let Ok(count) = std::io::Read::read(&mut reader, &mut buffer) {
                if count == 0 {
                    break;
                }
                decoder.feed(&buffer[..count]);
                while let Ok(Some(_)) = decoder.next_frame() {}
            }
        });
        sender
    }

    fn write(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        self.encoder.frame(frame, &mut bytes).expect("it is small");
        std::io::Write::write_all(&mut self.stream, &bytes).expect("it is open");
    }

    fn send(&mut self, what: Vec<What>) {
        self.number += 1;
        let mut records = Vec::with_capacity(what.len());
        for what in what {
            self.last = Stamp((self.last.0 + 1).max(now().0));
            records.push(Record::new(self.last, what));
        }
        self.write(&Frame::Batch(Batch { number: self.number, dropped: 0, records }));
    }

    fn beat(&mut self) {
        self.last = Stamp((self.last.0 + 1).max(now().0));
        self.write(&Frame::Heartbeat { at: self.last });
    }
}

/// 200,000 tuples a second over TCP; now and then a violation is planted, and the time until it
/// is told is taken.
fn lag(size: Size, scores: &mut Scorecard) {
    let folder = folder("lag");
    let log: Arc<dyn Log> = Arc::new(
        SegmentLog::open(&folder.join("log"), SegmentOptions::default()).expect("a folder"),
    );
    let (told, notices) = channel();
    let parts = WatchParts {
        log: Arc::clone(&log),
        store: Box::new(FileStore::open(&folder, 1).expect("a folder")),
        evidence: Evidence::open(&folder).expect("a folder"),
        flows: Arc::new(Vec::new),
        told: Box::new(move |notice| {
            if let Notice::Fired(violation) = notice {
                let _ = told.send((violation.key.clone(), Instant::now()));
            }
        }),
        trouble: Box::new(|text| eprintln!("{text}")),
    };
    // Starved senders must not look like crashed nodes: the lag is what is measured.
    let silence_max = Duration::from_secs(10);
    let timing = Timing { silence_max, wait_max: 2 * silence_max, ..Timing::default() };
    let check = CheckOptions { timing, ..CheckOptions::default() };
    let watching = WatchOptions { check, ..WatchOptions::default() };
    let watch = Watch::start(parts, watching).expect("a store");
    watch.set_rules(RULES, "rules").expect("they are right");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let intake = Intake::start(listener, log, IntakeOptions::default(), |text| eprintln!("{text}"))
        .expect("a thread");
    let mut senders = [0, 1].map(|node| Sender::connect(intake.address(), node));
    senders.iter_mut().for_each(Sender::beat);
    let rounds = size.pick(50, 1_000);
    let mut planted = Vec::new();
    let (start, mut sent) = (Instant::now(), 0_u64);
    for round in 0..rounds {
        // Five milliseconds' worth: 500 tuples of each node.
        for sender in &mut senders {
            let what = (0..500).map(|i| record(sent + i, Stamp(0)).what).collect();
            sender.send(what);
        }
        sent += 500;
        if round % 20 == 10 {
            let key = KEYS + round;
            planted.push((Value::from(key), Instant::now()));
            senders.iter_mut().for_each(|s| s.send(vec![What::Add(tuple(key, "exclusive"))]));
        }
        senders.iter_mut().for_each(Sender::beat);
        let due = start + Duration::from_millis(5 * (round + 1));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let rate = 2.0 * sent as f64 / start.elapsed().as_secs_f64();
    let wait = Duration::from_secs(30);
    let found: Vec<_> = planted.iter().map_while(|_| notices.recv_timeout(wait).ok()).collect();
    drop((intake, watch));
    let mut delays: Vec<f64> = Vec::new();
    for (key, at) in &planted {
        let told = found.iter().find(|(found, _)| found.as_ref() == Some(key));
        let (_, told) = told.expect("every planted violation is told");
        delays.push(told.duration_since(*at).as_secs_f64() * 1e3);
    }
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let mut table =
        Table::new(&["tuples a second", "planted", "median ms", "95 % ms", "largest ms"]);
    let shown = [at(0.5), at(0.95), at(1.0)].map(|ms| format!("{ms:.1}"));
    let [median, most, largest] = shown;
    table.row(vec![format!("{rate:.0}"), planted.len().to_string(), median, most, largest]);
    table.print("From a violation in the application to its report, over TCP");
    scores.hold("200,000 tuples a second go in", rate / 200_000.0, Bound::AtLeast(0.95));
    scores.hold("told within 100 ms (95 %)", at(0.95) / 100.0, Bound::AtMost(1.0));
    let _ = std::fs::remove_dir_all(folder);
}
