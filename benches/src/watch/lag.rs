//! The time from a violation in the application to its report, at 200,000 tuples per second.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use everhold_trace::Value;
use everhold_trace::wire::{Batch, Decoder, Encoder, Frame, Record, Stamp, What};
use everhold_watch::{
    CheckOptions, Evidence, FileStore, Intake, IntakeOptions, Log, Notice, SegmentLog,
    SegmentOptions, Timing, Watch, WatchOptions, WatchParts,
};

use super::{KEYS, RULES, folder, hello, record, tuple};
use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

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

/// Sends 200,000 tuples per second over TCP; violations are planted at intervals, and the time
/// until each is reported is measured.
pub(super) fn run(size: Size, scores: &mut Scorecard) {
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
    // Senders without CPU time must not be mistaken for crashed nodes; the lag is what is measured.
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
        // The tuples of five milliseconds: 500 of each node.
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
    let delays = planted.iter().map(|(key, at)| {
        let told = found.iter().find(|(found, _)| found.as_ref() == Some(key));
        let (_, told) = told.expect("every planted violation is told");
        told.duration_since(*at).as_secs_f64() * 1e3
    });
    report(rate, delays.collect(), scores);
    let _ = std::fs::remove_dir_all(folder);
}

/// Prints the delays in milliseconds from each planted violation to its report.
fn report(rate: f64, mut delays: Vec<f64>, scores: &mut Scorecard) {
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let mut table =
        Table::new(&["tuples a second", "planted", "median ms", "95 % ms", "largest ms"]);
    let shown = [at(0.5), at(0.95), at(1.0)].map(|ms| format!("{ms:.1}"));
    let [median, most, largest] = shown;
    table.row(vec![format!("{rate:.0}"), delays.len().to_string(), median, most, largest]);
    table.print("From a violation in the application to its report, over TCP");
    scores.hold("200,000 tuples a second go in", rate / 200_000.0, Bound::AtLeast(0.95));
    scores.hold("told within 100 ms (95 %)", at(0.95) / 100.0, Bound::AtMost(1.0));
}
