//! Ping-pong of three hosts in madsim.

use std::net::Ipv4Addr;

use madsim::Config;
use madsim::runtime::Runtime;

#[path = "../../src/hosts/echo.rs"]
mod echo;

mod net {
    pub(super) use madsim::net::{TcpListener, TcpStream};
    pub(super) use madsim::time::sleep;

    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        madsim::task::spawn(task);
    }
}

pub(crate) fn ping(executions: u64) -> u64 {
    for seed in 0..executions {
        let runtime = Runtime::with_seed_and_config(seed, Config::default());
        let node = |host| runtime.create_node().ip(Ipv4Addr::new(10, 0, 0, host).into()).build();
        for server in [1, 2] {
            node(server).spawn(echo::echo());
        }
        let done = node(3).spawn(echo::pinger(["10.0.0.1:80", "10.0.0.2:80"]));
        runtime.block_on(done).expect("it does not panic").expect("every message comes back");
    }
    executions
}
