//! The thread behind a node's assertions, which measures clocks, answers questions and asks them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use everhold_trace::NodeId;

use super::clock::{Peer, corrections};
use super::judge::{Question, Showed, judge};
use super::say::{self, Answer, Say};
use super::{Look, Network, Outcome};

/// The time allowed for answers after the moment of a snapshot, in addition to the largest round
/// trip.
const PATIENCE: Duration = Duration::from_millis(250);

/// A margin added to the largest round trip, in microseconds, for the time that it takes to wake
/// up.
const MARGIN: u64 = 1_000;

/// The input of the worker.
pub(super) enum Order {
    Check { question: Arc<Question>, tell: Box<dyn FnOnce(Outcome) + Send> },
    Said { bytes: Vec<u8>, from: SocketAddr },
}

/// The values that other threads may read.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) largest_rtt: AtomicU64,
    correction: AtomicI64,
}

impl Shared {
    pub(super) fn now(&self) -> u64 {
        crate::time::micros().saturating_add_signed(self.correction.load(Ordering::Relaxed))
    }
}

/// Forwards received datagrams to the worker.
pub(super) fn receive(socket: &UdpSocket, said: &Sender<Order>, stopping: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while !stopping.load(Ordering::Acquire) {
        if let Ok((length, from)) = socket.recv_from(&mut bytes)
            && said.send(Order::Said { bytes: bytes[..length].to_owned(), from }).is_err()
        {
            return;
        }
    }
}

pub(super) struct Worker {
    socket: UdpSocket,
    network: Network,
    look: Look,
    shared: Arc<Shared>,
    peers: BTreeMap<NodeId, Peer>,
    pings: BTreeMap<u64, (NodeId, u64)>,
    /// Questions whose moment has not come yet.
    asked: Vec<Asked>,
    /// The snapshots that this node has requested.
    rounds: BTreeMap<u64, Round>,
    counter: u64,
    measured: Instant,
}

struct Asked {
    at: u64,
    round: u64,
    by: NodeId,
    fields: Vec<String>,
}

struct Round {
    question: Arc<Question>,
    tell: Box<dyn FnOnce(Outcome) + Send>,
    until: Instant,
    parts: BTreeMap<NodeId, Vec<Option<Vec<u8>>>>,
    shown: BTreeMap<NodeId, Showed>,
}

impl Worker {
    pub(super) fn new(
        socket: UdpSocket,
        network: Network,
        look: Look,
        shared: Arc<Shared>,
    ) -> Self {
        shared.correction.store(network.clock_error, Ordering::Relaxed);
        let others = network.nodes.keys().filter(|node| **node != network.me);
        let peers = others.map(|node| (*node, Peer::default())).collect();
        let measured = Instant::now() - network.period;
        Worker {
            socket,
            network,
            look,
            shared,
            peers,
            pings: BTreeMap::new(),
            asked: Vec::new(),
            rounds: BTreeMap::new(),
            counter: crate::time::micros(),
            measured,
        }
    }

    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            self.measure_if_due();
            self.answer_if_due();
            self.give_up_if_due();
            match orders.recv_timeout(self.next_due()) {
                Ok(Order::Check { question, tell }) => self.check(question, tell),
                Ok(Order::Said { bytes, from }) => self.said(&bytes, from),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn next_due(&self) -> Duration {
        let measure = self.network.period.saturating_sub(self.measured.elapsed());
        let now = self.shared.now();
        let asked =
            self.asked.iter().map(|asked| Duration::from_micros(asked.at.saturating_sub(now)));
        let rounds = self.rounds.values();
        let rounds = rounds.map(|round| round.until.saturating_duration_since(Instant::now()));
        asked.chain(rounds).min().map_or(measure, |due| due.min(measure))
    }

    fn say(&self, to: NodeId, say: &Say) {
        if let Some(address) = self.network.nodes.get(&to) {
            let bytes = say::encode(&self.network.system, self.network.me, say);
            // If a datagram is lost, its answer is missing and the snapshot is skipped.
            let _ = self.socket.send_to(&bytes, address);
        }
    }

    /// Pings all peers. The node with the lowest number keeps the time: it also corrects all
    /// clocks, including its own.
    fn measure_if_due(&mut self) {
        if self.measured.elapsed() < self.network.period {
            return;
        }
        self.measured = Instant::now();
        let largest = self.peers.values().map(Peer::largest).max().unwrap_or(0);
        self.shared.largest_rtt.store(largest, Ordering::Relaxed);
        if self.network.nodes.keys().next() == Some(&self.network.me) {
            self.keep_time();
        }
        self.pings.clear();
        let peers: Vec<_> = self.peers.keys().copied().collect();
        for peer in peers {
            self.counter += 1;
            self.pings.insert(self.counter, (peer, self.shared.now()));
            self.say(peer, &Say::Ping { number: self.counter });
        }
    }

    fn keep_time(&mut self) {
        let corrections = corrections(self.network.me, &self.peers);
        for (node, by) in corrections {
            // A difference below 0.1 ms is within the error of the measurement.
            if by.abs() < 100 {
                continue;
            }
            if node == self.network.me {
                self.adjust(by);
            } else {
                self.say(node, &Say::Adjust { by });
            }
        }
        self.peers.values_mut().for_each(|peer| peer.ahead = None);
    }

    fn adjust(&mut self, by: i64) {
        self.shared.correction.fetch_add(by, Ordering::Relaxed);
        self.pings.clear();
        self.peers.values_mut().for_each(Peer::forget_clock);
    }

    fn said(&mut self, bytes: &[u8], from: SocketAddr) {
        let Some((who, say)) = say::decode(&self.network.system, bytes) else {
            if !bytes.is_empty() {
                let text =
                    format!("assertions ignore datagrams from {from} that are not Everhold's");
                self.network.report.tell(&text);
            }
            return;
        };
        match say {
            Say::Ping { number } => self.say(who, &Say::Pong { number, clock: self.shared.now() }),
            Say::Pong { number, clock } => {
                let now = self.shared.now();
                if let Some((peer, sent)) = self.pings.remove(&number)
                    && peer == who
                    && let Some(peer) = self.peers.get_mut(&who)
                {
                    peer.heard(sent, now, clock);
                }
            }
            Say::Adjust { by } => self.adjust(by),
            Say::Ask { round, at, fields } => {
                self.asked.push(Asked { at, round, by: who, fields });
            }
            Say::Shown { round, part, parts, bytes } => self.shown(round, who, part, parts, bytes),
        }
    }

    fn check(&mut self, question: Arc<Question>, tell: Box<dyn FnOnce(Outcome) + Send>) {
        self.counter += 1;
        let round = self.counter;
        let ahead = self.peers.values().map(Peer::largest).max().unwrap_or(0) + MARGIN;
        let at = self.shared.now() + ahead;
        let fields = question.fields.clone();
        for peer in self.peers.keys() {
            self.say(*peer, &Say::Ask { round, at, fields: fields.clone() });
        }
        self.asked.push(Asked { at, round, by: self.network.me, fields });
        let until = Instant::now() + 2 * Duration::from_micros(ahead) + PATIENCE;
        let (parts, shown) = (BTreeMap::new(), BTreeMap::new());
        self.rounds.insert(round, Round { question, tell, until, parts, shown });
    }

    /// Answers the questions whose moment has come.
    fn answer_if_due(&mut self) {
        let now = self.shared.now();
        let (due, later) = std::mem::take(&mut self.asked).into_iter().partition(|a| a.at <= now);
        self.asked = later;
        for Asked { at, round, by, fields } in due {
            let (state, channels) = (self.look)().map_or_else(Default::default, |(state, seen)| {
                (say::put_state(&state, &fields).unwrap_or_default(), seen)
            });
            let answer = Answer { state, channels, late: now - at };
            for say in say::parts(round, &answer) {
                if by == self.network.me {
                    if let Say::Shown { part, parts, bytes, .. } = say {
                        self.shown(round, by, part, parts, bytes);
                    }
                } else {
                    self.say(by, &say);
                }
            }
        }
    }

    fn shown(&mut self, number: u64, who: NodeId, part: u32, parts: u32, bytes: Vec<u8>) {
        let Some(round) = self.rounds.get_mut(&number) else { return };
        let of = round.parts.entry(who).or_default();
        // At most 64 parts of 32 KiB: two mebibytes.
        of.resize((parts as usize).min(64), None);
        if let Some(place) = of.get_mut(part as usize) {
            *place = Some(bytes);
        }
        let Some(answer) = say::whole(of) else { return };
        let state = say::take_state(&answer.state);
        round.shown.insert(who, Showed { state, channels: answer.channels });
        if round.shown.len() == self.network.nodes.len() {
            self.conclude(number);
        }
    }

    fn give_up_if_due(&mut self) {
        let now = Instant::now();
        let late: Vec<_> =
            self.rounds.iter().filter(|(_, round)| round.until <= now).map(|(at, _)| *at).collect();
        late.into_iter().for_each(|round| self.conclude(round));
    }

    fn conclude(&mut self, number: u64) {
        let Some(round) = self.rounds.remove(&number) else { return };
        let silent: Vec<_> =
            self.network.nodes.keys().filter(|node| !round.shown.contains_key(node)).collect();
        let outcome = if silent.is_empty() {
            let nodes = self.network.nodes.keys().copied();
            let now = self.shared.now().saturating_mul(1_000);
            judge(&round.question, &self.network.kind, nodes, &round.shown, now)
        } else {
            let silent: Vec<_> = silent.iter().map(ToString::to_string).collect();
            Outcome::Skipped(format!(
                "assertion \"{}\" is skipped: no answer from {} in time; tried again next time",
                round.question.rule.property().name,
                silent.join(", ")
            ))
        };
        (round.tell)(outcome);
    }
}
