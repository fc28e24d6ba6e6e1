//! The speed of executions of three hosts that exchange 100 messages.
//!
//! `time target/release/examples/speed 10000`: the processor's time by the number of executions.
//! A second argument asks for preemption at atomic instructions.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use everhold_host::{Net, Preemption, hosts};
use everhold_sim::Search;

/// The messages of an execution, in each direction.
const ROUNDS: usize = 50;

fn ping_pong(net: &mut Net<'_>) {
    for name in ["a", "b"] {
        net.host(name, || {
            for stream in TcpListener::bind("0.0.0.0:7").unwrap().incoming() {
                let (mut stream, mut byte) = (stream.unwrap(), [0]);
                while let Ok(()) = stream.read_exact(&mut byte) {
                    stream.write_all(&byte).unwrap();
                }
            }
        });
    }
    net.client("pinger", || {
        thread::sleep(Duration::from_secs(1));
        let mut streams = ["a:7", "b:7"].map(|at| TcpStream::connect(at).unwrap());
        for round in 0..ROUNDS {
            let (stream, mut byte) = (&mut streams[round % 2], [0]);
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut byte).unwrap();
        }
    });
}

fn main() {
    let executions = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let preemption = match std::env::args().nth(2) {
        Some(_) => Preemption::Atomics,
        None => Preemption::Calls,
    };
    let outcome = hosts(ping_pong)
        .preemption(preemption)
        .explorer(|e| e.executions(executions).search(Search::Random).regressions(false))
        .run();
    println!("{}", outcome.report);
}
