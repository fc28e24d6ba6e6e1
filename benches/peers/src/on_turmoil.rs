//! Ping-pong of three hosts in turmoil.

use std::time::Duration;

#[path = "../../src/hosts/echo.rs"]
mod echo;

mod net {
    pub(super) use tokio::time::sleep;
    pub(super) use turmoil::net::{TcpListener, TcpStream};

    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }
}

/// Ping-pong with a step of the clock and a longest time for which a message is under way, both in
/// milliseconds; 0 leaves turmoil's own.
pub(crate) fn ping(tick: u64, latency_max: u64, executions: u64) -> u64 {
    for seed in 0..executions {
        let mut builder = turmoil::Builder::new();
        builder.rng_seed(seed).simulation_duration(Duration::from_secs(600));
        if tick > 0 {
            builder.tick_duration(Duration::from_millis(tick));
        }
        if latency_max > 0 {
            builder.min_message_latency(Duration::ZERO);
            builder.max_message_latency(Duration::from_millis(latency_max));
        }
        let mut sim = builder.build();
        for name in ["a", "b"] {
            sim.host(name, || async { Ok(echo::echo().await?) });
        }
        sim.client("pinger", async { Ok(echo::pinger(["a:80", "b:80"]).await?) });
        sim.run().expect("every message comes back");
    }
    executions
}
