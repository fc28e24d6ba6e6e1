//! A peer as a process that asserts a property of the whole system after each of its events.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use everhold::prelude::*;
use everhold_live::assertion::{Assertions, Network};
use everhold_live::host::{Config, Host, Running};
use everhold_live::{Assertion, Report};

use super::serve::codec;
use super::silent::{Silent, peer};

/// A peer whose invariant is asserted.
#[derive(Clone, Debug)]
pub struct Asserted {
    /// Which peer, of those in the configuration.
    pub me: NodeId,
    /// Where the peers ask each other for their states, by UDP.
    pub addresses: Vec<SocketAddr>,
    /// Whose invariant is asserted.
    pub invariant: Silent,
    /// Ticks until that invariant is broken; never, if there is none.
    pub wait: Option<u32>,
    /// How often it is asserted, of the times that an event ends; 0 for never.
    pub probability: f64,
    /// Whether the peer waits for the answer, as in Dinv.
    pub blocking: bool,
}

impl Asserted {
    /// Reads `ID ADDRESS,ADDRESS,.. INVARIANT TICKS|never PROBABILITY blocking|async`.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn parse(words: &[&str]) -> Result<Asserted, Box<dyn Error>> {
        let [id, addresses, invariant, wait, probability, how] = words else {
            let usage = "ID ADDRESS,.. INVARIANT TICKS|never PROBABILITY blocking|async";
            return Err(usage.into());
        };
        Ok(Asserted {
            me: NodeId(id.parse()?),
            addresses: addresses.split(',').map(str::parse).collect::<Result<_, _>>()?,
            invariant: Silent::named(invariant)?,
            wait: if *wait == "never" { None } else { Some(wait.parse()?) },
            probability: probability.parse()?,
            blocking: *how == "blocking",
        })
    }

    /// Starts the peer. `tell` hears `begun MICROS` when it begins to misbehave, and
    /// `violated MICROS` when it finds that somebody does; microseconds since 1970.
    ///
    /// # Errors
    ///
    /// If its sockets cannot be had.
    pub fn start(
        self,
        config: Config,
        tell: impl Fn(String) + Clone + Send + Sync + 'static,
    ) -> Result<Running, Box<dyn Error>> {
        let (me, peers) = (self.me, config.nodes.len());
        let (bug, wait) = (self.wait.map(|_| self.invariant), self.wait.unwrap_or(0));
        let make = move || peer(me.index(), peers, bug, wait);
        let running = Host::new(config, codec()).node(me, "raft", make).start()?;
        if bug.is_none() && self.probability == 0.0 {
            return Ok(running); // Nobody looks.
        }
        let look = running.look(me).ok_or("it is hosted here")?;
        let nodes: BTreeMap<NodeId, SocketAddr> = (0..).map(NodeId).zip(self.addresses).collect();
        let mut network = Network::new("raft", me, nodes);
        network.report = Report::to({
            let tell = tell.clone();
            move |line: &str| {
                if line.contains("is violated") {
                    tell(format!("violated {}", micros()));
                }
            }
        });
        let assertions = Assertions::start(network, look.clone())?;
        let assertion = assertions.assert(self.invariant.assertion(), self.probability)?;
        let (asserts, blocking) = (self.probability > 0.0, self.blocking);
        let misbehaves = bug.is_some() && me.index() + 1 == peers;
        let begun = AtomicBool::new(!misbehaves);
        running.after_each_event(me, move || {
            // Others may see what it did before this is reached: the moment is the peer's own.
            let nanos = || look().and_then(|(state, _)| state.get("begun")?.as_int());
            if !begun.load(Ordering::Relaxed)
                && let Some(nanos) = nanos()
            {
                begun.store(true, Ordering::Relaxed);
                tell(format!("begun {}", nanos / 1_000));
            }
            if asserts {
                check(&assertion, blocking);
            }
        });
        Ok(running)
    }
}

fn check(assertion: &Assertion, blocking: bool) {
    match blocking {
        true => drop(assertion.check_blocking()),
        false => assertion.check(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a process of its own runs in real time")]
fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
