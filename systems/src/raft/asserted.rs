//! A peer as a process, which asserts a property of the whole system after each of its events.

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

/// A peer that asserts an invariant.
#[derive(Clone, Debug)]
pub struct Asserted {
    /// The peer's id in the configuration.
    pub me: NodeId,
    /// The UDP addresses at which the peers ask each other for their states.
    pub addresses: Vec<SocketAddr>,
    /// The bug whose invariant is asserted.
    pub invariant: Silent,
    /// The number of ticks until the invariant is broken; `None` if it never is.
    pub wait: Option<u32>,
    /// The probability that the invariant is asserted at the end of an event; 0 for never.
    pub probability: f64,
    /// Whether the peer waits for the answer, as in Dinv.
    pub blocking: bool,
}

impl Asserted {
    /// Reads `ID ADDRESS,ADDRESS,.. INVARIANT TICKS|never PROBABILITY blocking|async`.
    ///
    /// # Errors
    ///
    /// If the text has another form.
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

    /// Starts the peer. `tell` receives `begun MICROS` when the peer begins to misbehave, and
    /// `violated MICROS` when it detects a violation; the times are microseconds since 1970.
    ///
    /// # Errors
    ///
    /// If its sockets cannot be opened.
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
            return Ok(running); // nothing is asserted
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
            // Other peers may observe its actions before this line runs, so the peer's own time
            // counts.
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
