//! The cost of an observation, watched and not.
//!
//! Each burst fits the ring and is followed by a pause in which the probe's own thread empties it:
//! the measurement covers the observing thread, without drops.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::{NodeId, Probe, Var};
use everhold_trace::wire::{Encoder, Frame, Greeting, VERSION};

use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

const NUMBER: &str = "a number, watched";
const UNWATCHED: &str = "a number, not watched";

/// The largest permitted costs, in nanoseconds. They were set on a machine with twenty other busy
/// processes, so they can be met on a loaded machine.
const BARS: [(&str, f64); 2] = [(NUMBER, 45.0), (UNWATCHED, 3.0)];

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
    while !probe.is_watched() {
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

/// A checker that accepts connections and ignores their content.
pub(super) fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || listener.incoming().flatten().for_each(swallow));
    address
}

fn swallow(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let greeting = Frame::Greeting(Greeting { version: VERSION, nonce: [0; 16] });
    for frame in [greeting, Frame::Ack { batch: 0 }] {
        Encoder::default().frame(&frame, &mut bytes).expect("it is small");
    }
    let _ = stream.write_all(&bytes);
    let mut heard = [0; 1 << 16];
    while stream.read(&mut heard).is_ok_and(|read| read > 0) {}
}
