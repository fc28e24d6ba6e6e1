//! The cost of an observation, watched and not.
//!
//! Each burst fits the ring and is followed by a pause in which the probe's own thread empties it:
//! the measurement covers the observing thread, without drops.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use everhold_live::{NodeId, Probe, Var};
use everhold_trace::wire::{Decoder, Encoder, Frame, Greeting, Stamp, VERSION};

use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

const NUMBER: &str = "a number, watched";
const UNWATCHED: &str = "a number, not watched";

/// The largest permitted costs, in nanoseconds.
const BARS: [(&str, f64); 2] = [(NUMBER, 10.0), (UNWATCHED, 1.0)];

/// The longest time for a probe to reach the sink.
const REACHED: Duration = Duration::from_secs(10);

/// The number of observations in a burst.
const BURST: u32 = 2_000;

/// The cost of an observation, in nanoseconds.
struct Cost {
    what: &'static str,
    median: f64,
    /// The cost in the fastest tenth of the bursts: the others include other work of the machine.
    fast: f64,
}

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let costs = costs(size.pick(5, 300));
    let mut table = Table::new(&["observation", "median ns", "fastest tenth"]);
    for cost in &costs {
        let ns = |ns: f64| format!("{ns:.1}");
        table.row(vec![cost.what.to_owned(), ns(cost.median), ns(cost.fast)]);
    }
    table.print("What an observation costs the thread that makes it");
    for (what, most) in BARS {
        let cost = costs.iter().find(|cost| cost.what == what).expect("it was measured");
        // A smoke run is too short to warm up.
        let measured = size.pick(0.0, cost.median / most);
        scores.hold(format!("{what}, of {most} ns"), measured, Bound::AtMost(1.0));
    }
}

fn costs(bursts: usize) -> Vec<Cost> {
    let off = Probe::off();
    let probe = Probe::to_checkers([sink()]).node(NodeId(1), "n1", "bench").start();
    let begun = Instant::now();
    while !probe.is_watched() {
        assert!(begun.elapsed() < REACHED, "the sink is not reached");
        thread::sleep(Duration::from_millis(1));
    }
    let text = "x".repeat(390);
    let measured = vec![
        cost(UNWATCHED, bursts, &off, |probe, var, n| {
            probe.observe(var, n);
        }),
        cost(NUMBER, bursts, &probe, |probe, var, n| {
            probe.observe(var, n);
        }),
        cost("a tuple of two numbers, watched", bursts, &probe, |probe, var, n| {
            probe.add(var, n, n);
        }),
        cost("a text of 390 bytes, watched", bursts, &probe, |probe, var, _| {
            probe.observe(var, text.as_str());
        }),
    ];
    assert_eq!(probe.dropped(), 0, "a drop is cheaper than a write: the numbers would flatter");
    measured
}

fn cost(
    what: &'static str,
    bursts: usize,
    probe: &Probe,
    observe: impl Fn(&Probe, Var, u32),
) -> Cost {
    let var = probe.var("x");
    let burst = |_| {
        // Longer records take more room, so fewer of them form a burst.
        let count = if what.contains("390") { BURST / 10 } else { BURST };
        let begun = Instant::now();
        for n in 0..count {
            observe(black_box(probe), black_box(var), black_box(n));
        }
        let ns = begun.elapsed().as_nanos() as f64 / f64::from(count);
        if probe.is_watched() {
            thread::sleep(Duration::from_millis(12));
        }
        ns
    };
    let mut costs: Vec<f64> = (0..bursts).map(burst).collect();
    costs.sort_by(f64::total_cmp);
    Cost { what, median: costs[bursts / 2], fast: costs[bursts / 10] }
}

/// A checker that accepts connections, tells its time, and ignores everything else.
pub(super) fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || swallow(stream));
        }
    });
    address
}

/// Ends with the connection.
fn swallow(mut stream: TcpStream) -> Option<()> {
    let mut encoder = Encoder::default();
    let mut say = |stream: &mut TcpStream, frame| {
        let mut bytes = Vec::new();
        encoder.frame(&frame, &mut bytes).expect("it is small");
        stream.write_all(&bytes).ok()
    };
    say(&mut stream, Frame::Greeting(Greeting { version: VERSION, nonce: [0; 16] }))?;
    let (mut decoder, mut heard) = (Decoder::default(), vec![0; 1 << 16]);
    loop {
        let read = stream.read(&mut heard).ok().filter(|read| *read > 0)?;
        decoder.feed(&heard[..read]);
        while let Some(frame) = decoder.next_frame().ok()? {
            match frame {
                Frame::Hello(_) => say(&mut stream, Frame::Ack { batch: 0 })?,
                Frame::Ping { sent } => {
                    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
                    let at = Stamp::from_nanos(u64::try_from(since.as_nanos()).ok()?);
                    say(&mut stream, Frame::Pong { sent, at })?;
                }
                _ => {}
            }
        }
    }
}
