//! Measures what the crate promises about speed, on synthetic traces from a fixed seed.
//!
//! ```sh
//! cargo run --release -p everhold-trace --features import --example measure -- 1000000
//! ```
#![expect(clippy::disallowed_methods, reason = "a measurement looks at the clock")]

use std::time::Instant;

use everhold_trace::format::{ReadOptions, Writer, read_all};
use everhold_trace::{EventKind, Execution, NodeId, Order, Slice, TraceBuilder, Value, export};

fn main() {
    let argument = std::env::args().nth(1);
    let events = argument.map_or(100_000, |text| text.parse().expect("a number of events"));
    enumeration();
    slicing_and_pairs(events);
    files(events);
    shiviz(events);
}

/// A request-reply system: nodes ask random peers, which answer before anything else.
fn system(nodes: u32, events: usize, states: bool) -> Execution {
    let mut random = 7u64;
    let mut below = |n: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from((random >> 33) % u64::from(n)).expect("below a 32-bit number")
    };
    let mut trace = TraceBuilder::new();
    for node in 0..nodes {
        trace.add_node(&format!("node-{node}"), "server");
    }
    let mut count = 0;
    while count < events {
        let (a, b) = (NodeId(below(nodes)), NodeId(below(nodes)));
        trace.begin(a, EventKind::Timer { name: "ask".into() });
        let ask = trace.send(b, "Ask", None);
        trace.begin(b, EventKind::Deliver { message: ask });
        if states {
            trace.observe(Value::record([("asked", i64::try_from(count).expect("small"))]));
        }
        let answer = trace.send(a, "Answer", None);
        trace.begin(a, EventKind::Deliver { message: answer });
        trace.begin(b, EventKind::Local { name: "work".into() });
        count += 4;
    }
    trace.finish()
}

/// Nodes that work alone for a while, and then tell the next one.
fn ring(nodes: u32, rounds: usize, work: usize) -> Execution {
    let mut trace = TraceBuilder::new();
    for node in 0..nodes {
        trace.add_node(&format!("node-{node}"), "server");
    }
    for _ in 0..rounds {
        let mut told = Vec::new();
        for node in 0..nodes {
            for _ in 0..work {
                trace.begin(NodeId(node), EventKind::Local { name: "work".into() });
            }
            let next = NodeId((node + 1) % nodes);
            told.push((next, trace.send(next, "Tell", None)));
        }
        for (node, message) in told {
            trace.begin(node, EventKind::Deliver { message });
        }
    }
    trace.finish()
}

fn enumeration() {
    for (nodes, rounds, work) in [(3, 10, 200), (5, 3, 15), (10, 2, 3)] {
        let order = Order::of(&ring(nodes, rounds, work));
        let mut cuts = Slice::consistent(&order).cuts();
        let start = Clock::start();
        let (mut seen, mut sum) = (0u64, 0u64);
        while let Some(cut) = cuts.next_cut() {
            seen += 1;
            sum = sum.wrapping_add(u64::from(cut[cut.len() - 1]));
            if seen == 500_000_000 {
                break;
            }
        }
        let seconds = start.seconds();
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = seen as f64 / seconds / 1e6;
        println!("enumerate {nodes} nodes: {seen} cuts in {seconds:.2} s, {rate:.0} M/s ({sum})");
    }
}

fn slicing_and_pairs(events: usize) {
    let execution = timed("record", || system(100, events, false));
    let order = timed("clocks", || Order::of(&execution));
    let quiet = timed("slice", || Slice::quiet(&order));
    println!("  {:?}", quiet.components());
    let all = |slice: &Slice<'_>| {
        let mut pairs = 0u64;
        slice.all_windows(|_, _, windows| {
            pairs += windows.iter().map(|(low, high)| u64::from(high - low + 1)).sum::<u64>();
        });
        pairs
    };
    println!("  {} pairs", timed("all consistent pairs", || all(&Slice::consistent(&order))));
    println!("  {} pairs", timed("all quiet pairs", || all(&quiet)));
}

fn files(events: usize) {
    let execution = system(20, events, true);
    let file = timed("write native", || {
        let mut writer = Writer::new(Vec::new());
        writer.execution(&execution).expect("memory takes all");
        writer.finish().expect("memory takes all")
    });
    println!("  {} MB", file.len() >> 20);
    let read = timed("read native", || read_all(file.as_slice(), &ReadOptions::strict()));
    assert!(read.expect("what was written").executions == [execution]);
}

fn shiviz(events: usize) {
    use everhold_trace::import::shiviz::{Format, read};
    for events in [events / 4, events / 2, events] {
        let mut log = Vec::new();
        export::shiviz(&[system(10, events, false)], &mut log).expect("memory takes all");
        let name = format!("import {events} ShiViz events, {} MB", log.len() >> 20);
        let read = timed(&name, || read(log.as_slice(), &Format::detect(), &ReadOptions::strict()));
        assert_eq!(read.expect("a whole log").executions[0].events().len(), events);
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Clock::start();
    let result = work();
    println!("{what}: {:.2} s", start.seconds());
    result
}

/// The time on the processor where the system tells it, so that a busy machine does not count;
/// the wall clock elsewhere.
struct Clock {
    wall: Instant,
    cpu_ns: Option<u64>,
}

impl Clock {
    fn start() -> Clock {
        Clock { wall: Instant::now(), cpu_ns: cpu_ns() }
    }

    fn seconds(&self) -> f64 {
        match (self.cpu_ns, cpu_ns()) {
            (Some(start), Some(end)) => std::time::Duration::from_nanos(end - start).as_secs_f64(),
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}
