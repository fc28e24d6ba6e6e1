//! Token passing in other simulators: `everhold-timed-peers NAME NODES DELIVERIES` prints the
//! number of deliveries and the CPU-seconds that they took. Latencies are uniform between 1 and 10
//! ms. Neither simulator models bandwidth, queues or handler times, so they do less than Everhold
//! in the comparison.
//!
//! `ping-madsim EXECUTIONS` and `ping-turmoil TICK LATENCY EXECUTIONS` do the same for executions of
//! three hosts that play ping-pong over TCP.

mod on_madsim;
mod on_turmoil;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSource, Output};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse().ok()).expect("a number");
    let delivered = match args.first().map(String::as_str) {
        Some("madsim") => on_madsim(number(1), number(2)),
        Some("nexosim") => on_nexosim(number(1), number(2)),
        Some("ping-madsim") => on_madsim::ping(number(1)),
        Some("ping-turmoil") => on_turmoil::ping(number(1), number(2), number(3)),
        other => panic!("no simulator {other:?}"),
    };
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    println!("{delivered} {}", cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9);
}

const PORT: u16 = 700;

fn address(node: u64) -> std::net::SocketAddr {
    let ip = std::net::Ipv4Addr::new(10, 0, (node >> 8) as u8, (node & 255) as u8 + 1);
    (ip, PORT).into()
}

fn on_madsim(nodes: u64, deliveries: u64) -> u64 {
    let runtime = madsim::runtime::Runtime::with_seed_and_config(1, madsim::Config::default());
    let delivered = Arc::new(AtomicU64::new(0));
    for node in 0..nodes {
        let handle = runtime.create_node().ip(address(node).ip()).build();
        let delivered = Arc::clone(&delivered);
        handle.spawn(async move {
            let endpoint = madsim::net::Endpoint::bind(address(node)).await.expect("a free port");
            // All nodes exist before the first token is sent.
            madsim::time::sleep(Duration::from_millis(1)).await;
            let mut random = Random(node);
            let mut token = [0; 16];
            loop {
                let to = random.below(nodes);
                endpoint.send_to(address(to), 1, &token).await.expect("a token is sent");
                endpoint.recv_from(1, &mut token).await.expect("a token comes");
                delivered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let counter = Arc::clone(&delivered);
    runtime.block_on(async move {
        while counter.load(Ordering::Relaxed) < deliveries {
            madsim::time::sleep(Duration::from_millis(50)).await;
        }
    });
    delivered.load(Ordering::Relaxed)
}

/// A node that passes on each token after a delay.
#[derive(Serialize, Deserialize)]
struct Passer {
    outputs: Vec<Output<(u64, u64)>>,
    random: Random,
    seen: u64,
}

#[Model]
impl Passer {
    fn input(&mut self, token: (u64, u64), cx: &Context<Self>) {
        self.seen += 1;
        let after = Duration::from_nanos(1_000_000 + self.random.below(9_000_000));
        cx.schedule_event(after, schedulable!(Self::pass), token).expect("it is in the future");
    }

    #[nexosim(schedulable)]
    async fn pass(&mut self, token: (u64, u64)) {
        let to = self.random.below(self.outputs.len() as u64) as usize;
        self.outputs[to].send((token.0 + 1, 0)).await;
    }
}

fn on_nexosim(nodes: u64, deliveries: u64) -> u64 {
    let mailboxes: Vec<Mailbox<Passer>> = (0..nodes).map(|_| Mailbox::new()).collect();
    let mut bench = SimInit::with_num_threads(1);
    let mut passers = Vec::new();
    for node in 0..nodes {
        let mut passer = Passer { outputs: Vec::new(), random: Random(node), seen: 0 };
        for to in &mailboxes {
            let mut output = Output::default();
            output.connect(Passer::input, to);
            passer.outputs.push(output);
        }
        passers.push(passer);
    }
    let source = |mailbox: &Mailbox<Passer>| EventSource::new().connect(Passer::input, mailbox);
    let sources: Vec<_> = mailboxes.iter().map(source).collect();
    let sources: Vec<_> = sources.into_iter().map(|source| source.register(&mut bench)).collect();
    for (passer, mailbox) in passers.into_iter().zip(mailboxes) {
        bench = bench.add_model(passer, mailbox, "passer");
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("the bench is sound");
    for source in &sources {
        simulation.process_event(source, (0, 0)).expect("a token is put in");
    }
    // A token is delivered every 5.5 ms.
    let seconds = deliveries as f64 / nodes as f64 * 0.0055;
    simulation.step_until(Duration::from_secs_f64(seconds)).expect("it goes on");
    deliveries
}

/// SplitMix64.
#[derive(Serialize, Deserialize)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(x ^ (x >> 31)) * u128::from(bound)) >> 64) as u64
    }
}
