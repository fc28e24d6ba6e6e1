//! Nodes that are seen from outside: an agent reports what it has observed of other processes, with
//! the times at which it happened.
//!
//! All nodes of one agent share one clock, so events of processes on one machine keep their true
//! order however inexactly the checker's clock is known.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everhold_tls::ClientTls;
use everhold_trace::wire::{Hello, Ordering, Record, Shown, Stamp, Tuple, VERSION, What};
use everhold_trace::{NodeId, Value};

use super::batches::Batcher;
use super::drain::CLOCK_BEATS;
use super::link::{Credentials, Link, Reading};
use super::trips::drift;
use super::{Timer, lock};
use crate::recording::{Peers, Recording};
use crate::report::Report;

/// The error of stamps if the checker reads the same clock, in microseconds.
const SAME_CLOCK_ERROR: u64 = 5;

/// A change of the machine's clock below this is an interruption while it was read.
const STEP: i64 = Stamp::from_micros(20).0.cast_signed();

/// The settings and the clock of an agent that reports the events of other processes.
///
/// ```
/// use std::time::Instant;
/// use everhold_live::{Agent, NodeId, Report};
/// use everhold_trace::wire::What;
///
/// let mut agent = Agent::new([], "shop", Report::default());
/// let mut feed = agent.node(NodeId(1), "till-1", "till", 1, None);
/// let seen = Instant::now();
/// agent.follow([&feed]);
/// feed.record(&agent, seen, What::Observe(vec![("open".into(), true.into())]));
/// feed.pass(&agent, Instant::now());
/// feed.close(&agent, Instant::now(), false);
/// ```
#[derive(Debug)]
pub struct Agent {
    checkers: Vec<SocketAddr>,
    system: String,
    knows: Credentials,
    report: Report,
    timer: Arc<Timer>,
    is_same_clock: bool,
    heartbeat: Duration,
    /// The names of all nodes, for their recordings.
    peers: Peers,
    /// The difference that is added to the agent's own time to make stamps; unknown before a checker answered.
    correction: Option<i64>,
    error: u64,
}

impl Agent {
    /// An agent that reports to these checkers.
    #[must_use]
    pub fn new(
        checkers: impl IntoIterator<Item = SocketAddr>,
        system: &str,
        report: Report,
    ) -> Agent {
        Agent {
            checkers: checkers.into_iter().collect(),
            system: system.to_owned(),
            knows: Credentials::default(),
            report,
            timer: Arc::new(Timer::new(0)),
            is_same_clock: false,
            heartbeat: Duration::from_millis(50),
            peers: Peers::default(),
            correction: None,
            error: u64::MAX,
        }
    }

    /// Sets the secret that checkers over a network require.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Agent {
        self.knows.secret = Some(secret.into());
        self
    }

    /// Uses TLS with checkers.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Agent {
        self.knows.tls = Some(tls);
        self
    }

    /// Says that the checker reads the clock of this very machine, as one in the same process does.
    /// The clocks then need not be compared.
    #[must_use]
    pub fn same_clock(mut self) -> Agent {
        self.is_same_clock = true;
        self
    }

    /// Begins to report a node. The incarnation increases with each start of the process.
    #[must_use]
    pub fn node(
        &self,
        id: NodeId,
        name: &str,
        kind: &str,
        incarnation: u64,
        recording: Option<Recording>,
    ) -> Feed {
        let hello = Hello {
            version: VERSION,
            system: self.system.clone(),
            node: id,
            name: name.to_owned(),
            kind: kind.to_owned(),
            incarnation,
            order: Ordering::Clocks,
            proof: None,
        };
        let link = |address: &SocketAddr| {
            let (hello, knows) = (hello.clone(), self.knows.clone());
            Link::start(*address, hello, knows, self.report.clone(), Arc::clone(&self.timer))
        };
        lock(&self.peers).insert(id, name.to_owned());
        let recording = recording.map(|recording| {
            let mut recording = recording.with_peers(&self.peers);
            recording.begin(&hello, self.report.clone());
            recording
        });
        Feed {
            links: self.checkers.iter().map(link).collect(),
            recording,
            shown: Shown::default(),
            ready: Vec::new(),
            last: Stamp(0),
            batcher: Batcher::default(),
            audience: 0,
            away: false,
            stale: false,
            beaten: Instant::now(),
            beats: 0,
        }
    }

    /// Compares clocks: follows the checker of the first node that has one, or the clock of the
    /// machine. Call it before each round of records.
    pub fn follow<'a>(&mut self, feeds: impl IntoIterator<Item = &'a Feed>) {
        let own = self.timer.own();
        let mut links = feeds.into_iter().flat_map(|feed| &feed.links);
        let estimate = links.find_map(|link| link.estimate(own).filter(|_| link.is_connected()));
        match estimate {
            _ if self.is_same_clock || self.checkers.is_empty() => {
                let ahead = self.wall_ahead();
                let known = self.correction.filter(|known| (ahead - known).abs() < STEP);
                self.correction = Some(known.unwrap_or(ahead));
                self.error = SAME_CLOCK_ERROR;
            }
            Some(estimate) => {
                self.correction = Some(estimate.ahead);
                self.error = Stamp(estimate.error).micros() + SAME_CLOCK_ERROR;
            }
            None => {}
        }
    }

    /// The lead of the wall clock, by the least disturbed of a few readings.
    fn wall_ahead(&self) -> i64 {
        let read = |_| {
            let before = Instant::now();
            let ahead = self.timer.wall_ahead();
            (before.elapsed(), ahead)
        };
        (0..4).map(read).min().map_or(0, |(_, ahead)| ahead)
    }

    /// The stamp of what happened at a time of this machine; none before a checker answered.
    #[must_use]
    pub fn stamp(&self, at: Instant) -> Option<Stamp> {
        let own = self.timer.own_at(at);
        Some(Stamp(own.0.wrapping_add_signed(self.correction?)))
    }
}

/// One node of an agent.
#[derive(Debug)]
pub struct Feed {
    links: Vec<Link>,
    recording: Option<Recording>,
    /// The present observations of the node, for checkers that connect later.
    shown: Shown,
    ready: Vec<Record>,
    last: Stamp,
    batcher: Batcher,
    audience: u64,
    /// Whether there was a time without checkers after the first one.
    away: bool,
    /// Whether a checker may have missed something.
    stale: bool,
    beaten: Instant,
    beats: u64,
}

impl Feed {
    /// Takes in what happened at the node at a time of this machine. Events come in their order;
    /// one that comes late counts right after the last one.
    pub fn record(&mut self, agent: &Agent, at: Instant, what: What) {
        self.shown.apply(&what);
        if let Some(stamp) = agent.stamp(at).filter(|_| self.has_use()) {
            let stamp = self.next(stamp);
            self.ready.push(Record::new(stamp, what));
        }
    }

    fn has_use(&self) -> bool {
        self.recording.is_some() || self.links.iter().any(Link::is_connected)
    }

    fn next(&mut self, stamp: Stamp) -> Stamp {
        self.last = if stamp > self.last { stamp } else { Stamp(self.last.0 + 1) };
        self.last
    }

    /// The present observations of the node.
    #[must_use]
    pub fn state(&self) -> Value {
        self.shown.state()
    }

    /// So many records of the node were lost: from now on it is unknown what it shows, until that is
    /// observed again.
    pub fn lost(&mut self, records: u64) {
        self.batcher.miss(Stamp(self.last.0 + 1), records);
        self.shown = Shown::default();
    }

    /// Everything up to this time was recorded. Sends what waits.
    pub fn pass(&mut self, agent: &Agent, to: Instant) {
        let Some(passed) = agent.stamp(to) else { return };
        self.look_for_checkers(agent, passed);
        if let Some(recording) = &mut self.recording {
            match self.ready.is_empty() && !self.batcher.has_gaps() {
                true => recording.rest(),
                false => recording.records(&self.ready, self.batcher.missing()),
            }
        }
        let sound = self.links.iter().all(Link::is_sound);
        if !self.ready.is_empty() || self.batcher.has_gaps() || !sound {
            self.emit(agent);
        }
        if self.beaten.elapsed() >= agent.heartbeat {
            self.beaten = Instant::now();
            self.beats += 1;
            if self.beats.is_multiple_of(CLOCK_BEATS) {
                self.tell_clock(agent, |_, _| true);
            }
            // A stamp of a record that came late may be ahead of the time that has passed.
            let at = passed.max(Stamp(self.last.0 + 1));
            self.links.iter_mut().for_each(|link| link.heartbeat(at));
        }
    }

    fn look_for_checkers(&mut self, agent: &Agent, passed: Stamp) {
        let audience = self.links.iter_mut().map(Link::look).sum();
        let connected = self.links.iter().any(Link::was_connected);
        let joined = connected && audience != self.audience;
        if connected {
            self.audience = audience;
        }
        if joined {
            self.tell_clock(agent, |_, _| true);
            if std::mem::take(&mut self.away) {
                self.batcher.resume(Stamp(self.last.0 + 1));
            }
        }
        self.away |= !connected && audience > 0;
        if connected && (joined || std::mem::take(&mut self.stale)) {
            self.tell_all(passed);
        }
    }

    /// Tells everything that the node shows, after what waits.
    fn tell_all(&mut self, passed: Stamp) {
        let Value::Record(fields) = self.shown.state() else { return };
        let mut all = vec![What::Refresh];
        for (name, value) in fields {
            match value {
                Value::Map(tuples) if self.shown.is_relation(&name) => {
                    let relation: Arc<str> = name.into();
                    all.extend(tuples.into_iter().map(|(key, value)| {
                        What::Add(Tuple { relation: Arc::clone(&relation), key, value })
                    }));
                }
                value => all.push(What::Observe(vec![(name.into(), value)])),
            }
        }
        all.push(What::Whole);
        for what in all {
            let stamp = self.next(passed);
            self.ready.push(Record::new(stamp, what));
        }
    }

    /// Tells of the clock those checkers for which `is_due` says so, given the error of the stamps.
    fn tell_clock(&mut self, agent: &Agent, is_due: impl Fn(&Link, u64) -> bool) {
        let own = agent.timer.own();
        let until_next = Stamp(drift(agent.heartbeat * CLOCK_BEATS as u32)).micros() + 1;
        for link in self.links.iter_mut().filter(|link| link.is_connected()) {
            let Some(estimate) = link.estimate(own) else { continue };
            let apart = match agent.is_same_clock {
                true => 0,
                false => agent.correction.map_or(0, |used| used.abs_diff(estimate.ahead)),
            };
            let error = agent.error.saturating_add(Stamp(apart).micros());
            if !is_due(link, error) {
                continue;
            }
            let ahead = agent.timer.wall_ahead().saturating_sub(estimate.ahead);
            let micros = Stamp(ahead.unsigned_abs()).micros().cast_signed() * ahead.signum();
            link.tell_clock(match agent.is_same_clock {
                true => Reading { ahead: 0, error },
                false => Reading { ahead: micros, error: error.saturating_add(until_next) },
            });
        }
    }

    fn emit(&mut self, agent: &Agent) {
        // No stamp may reach a checker before the error that it has.
        self.tell_clock(agent, Link::underestimates);
        for batch in self.batcher.cut(&std::mem::take(&mut self.ready)) {
            for link in &mut self.links {
                self.stale |= link.offer(&batch) > 0;
            }
        }
    }

    /// The process is gone, or no longer observed. The recording of one that crashed has no end,
    /// which is how a recording says so.
    pub fn close(mut self, agent: &Agent, at: Instant, crashed: bool) {
        self.pass(agent, at);
        let stamp = agent.stamp(at).unwrap_or_default().max(Stamp(self.last.0 + 1));
        self.links.into_iter().for_each(|link| link.close(stamp));
        if let Some(recording) = self.recording.as_mut().filter(|_| !crashed) {
            recording.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_before_a_loss_is_told_before_it() {
        let mut agent = Agent::new([], "shop", Report::to(|_| ()));
        let mut feed = agent.node(NodeId(1), "till", "till", 1, None);
        agent.follow([&feed]);
        let observed = |value: i64| What::Observe(vec![("x".into(), value.into())]);
        let ready = |feed: &mut Feed, value| {
            let stamp = feed.next(agent.stamp(Instant::now()).expect("its own clock is known"));
            feed.ready.push(Record::new(stamp, observed(value)));
        };
        ready(&mut feed, 1);
        feed.lost(3);
        ready(&mut feed, 2);
        let batches = feed.batcher.cut(&feed.ready);
        let told: Vec<_> =
            batches.iter().map(|batch| (batch.dropped, &batch.records[..])).collect();
        assert_eq!(told, [(0, &feed.ready[..1]), (3, &feed.ready[1..])]);
    }
}
