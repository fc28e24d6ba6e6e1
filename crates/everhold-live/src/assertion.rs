//! Properties that a node asserts over the whole system while it runs.
//!
//! The method is that of Dinv (Grant, Cech and Beschastnikh, 2018, section 3.5). Nodes estimate
//! round trips and synchronise their clocks by the Berkeley method. To check an assertion, a node
//! picks a moment one largest round trip ahead and asks all nodes for their state at that moment.
//! Since clocks agree only approximately, the states may be inconsistent: one of them shows a
//! message as received that its sender has not sent yet. The message counts of the channels reveal
//! this; such a snapshot is skipped and logged, and the next check tries again. The property is
//! text in the property language, so an inferred property can be asserted without further code.
//!
//! ```no_run
//! use everhold_live::assertion::{Assertions, Network};
//! use everhold_live::NodeId;
//! # fn look() -> everhold_live::assertion::Look { std::sync::Arc::new(|| None) }
//!
//! let network = Network::new("bank", NodeId(0), [
//!     (NodeId(0), "127.0.0.1:7200".parse()?),
//!     (NodeId(1), "127.0.0.1:7201".parse()?),
//! ]);
//! let assertions = Assertions::start(network, look())?;
//! let one_leader = assertions.assert(
//!     r#"always "one leader": forall a, b in nodes where a != b: not (a.leads and b.leads)"#,
//!     0.1, // of the times that it is reached
//! )?;
//! one_leader.check(); // returns at once; a violation is reported
//! let outcome = one_leader.check_blocking(); // waits for the answer
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhold_node::fingerprint::mix;
use everhold_property::{
    ExprKind, Library, Modality, Property, Rule, Scope, parse, render_all, sampling_text,
};
use everhold_trace::{NodeId, Value};

use crate::host::Channels;
use crate::probe::lock;
use crate::report::Report;

mod clock;
mod judge;
mod say;
mod worker;

use worker::{Order, Worker};

/// Returns the state of the node between two events, and the message counts of its channels; `None`
/// if there is no state yet.
pub type Look = Arc<dyn Fn() -> Option<(Value, Channels)> + Send + Sync>;

/// The addresses at which the nodes listen for each other's questions, over UDP.
#[derive(Clone, Debug)]
pub struct Network {
    /// The system's name; nodes of other systems are not answered.
    pub system: String,
    /// This node.
    pub me: NodeId,
    /// The addresses of all nodes, including this one.
    pub nodes: BTreeMap<NodeId, SocketAddr>,
    /// The kind of the nodes, as properties see it.
    pub kind: String,
    /// The interval at which round trips and clocks are measured.
    pub period: Duration,
    /// An offset added to this machine's clock, in microseconds, for tests of clocks that disagree.
    pub clock_error: i64,
    /// The report to which violations and problems are sent.
    pub report: Report,
}

impl Network {
    /// Makes a network of nodes at these addresses, measured five times a second.
    #[must_use]
    pub fn new(
        system: &str,
        me: NodeId,
        nodes: impl IntoIterator<Item = (NodeId, SocketAddr)>,
    ) -> Network {
        Network {
            system: system.to_owned(),
            me,
            nodes: nodes.into_iter().collect(),
            kind: "node".to_owned(),
            period: Duration::from_millis(200),
            clock_error: 0,
            report: Report::default(),
        }
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The property holds.
    Holds,
    /// The property is violated; the text names the values.
    Violated(String),
    /// The states of the nodes do not determine whether the property holds; the text gives the
    /// reason.
    Unknown(String),
    /// There was no consistent snapshot: the states contradict each other, or some did not arrive.
    Skipped(String),
    /// The check was not made, by the random choice of [`Assertions::assert`].
    NotThisTime,
}

/// The numbers of outcomes of the checks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// The number of checks in which the property held.
    pub holds: u64,
    /// The number of checks in which the property was violated.
    pub violated: u64,
    /// The number of checks without an answer.
    pub unknown: u64,
    /// The number of checks without a consistent snapshot.
    pub skipped: u64,
}

/// The reasons for which assertions cannot be started or made.
#[derive(Debug)]
#[non_exhaustive]
pub enum AssertionError {
    /// This node is not in its own network.
    NotConfigured(NodeId),
    /// The socket cannot be opened.
    Io(SocketAddr, io::Error),
    /// The text is not a suitable property; the message gives the place of the mistake.
    Property(String),
}

impl fmt::Display for AssertionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssertionError::NotConfigured(node) => {
                write!(f, "{node} has no address for assertions; add it to the network")
            }
            AssertionError::Io(address, error) => {
                write!(f, "assertions cannot listen on {address}: {error}")
            }
            AssertionError::Property(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for AssertionError {}

/// A node's part in the snapshots of its system, and its own assertions.
#[derive(Clone, Debug)]
pub struct Assertions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    orders: Mutex<Option<Sender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    address: SocketAddr,
    report: Report,
    state: Arc<worker::Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        drop(lock(&self.orders).take());
        // Wakes the receiving thread.
        if let Ok(socket) = UdpSocket::bind((self.address.ip(), 0)) {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Assertions {
    /// Listens for questions, and measures round trips and clocks.
    ///
    /// # Errors
    ///
    /// If the node's address cannot be used.
    pub fn start(network: Network, look: Look) -> Result<Assertions, AssertionError> {
        let address = network.nodes.get(&network.me).copied();
        let address = address.ok_or(AssertionError::NotConfigured(network.me))?;
        let socket =
            UdpSocket::bind(address).map_err(|error| AssertionError::Io(address, error))?;
        Assertions::start_on(socket, network, look)
    }

    /// Starts with a socket that is bound already.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used.
    pub fn start_on(
        socket: UdpSocket,
        network: Network,
        look: Look,
    ) -> Result<Assertions, AssertionError> {
        let address = network.nodes.get(&network.me).copied();
        let address = address.ok_or(AssertionError::NotConfigured(network.me))?;
        let io = |error| AssertionError::Io(address, error);
        let (orders, taken) = mpsc::channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let state = Arc::new(worker::Shared::default());
        let report = network.report.clone();
        let receiver = socket.try_clone().map_err(io)?;
        let (said, ends) = (orders.clone(), Arc::clone(&stopping));
        let listening = thread::Builder::new()
            .name("everhold-assert".to_owned())
            .spawn(move || worker::receive(&receiver, &said, &ends))
            .map_err(io)?;
        let worker = Worker::new(socket, network, look, Arc::clone(&state));
        let thread = thread::Builder::new()
            .name("everhold-assert".to_owned())
            .spawn(move || {
                worker.run(&taken);
                let _ = listening.join();
            })
            .map_err(io)?;
        Ok(Assertions(Arc::new(Inner {
            orders: Mutex::new(Some(orders)),
            thread: Mutex::new(Some(thread)),
            stopping,
            address,
            report,
            state,
        })))
    }

    /// Returns the largest round trip to expect.
    #[must_use]
    pub fn largest_round_trip(&self) -> Duration {
        Duration::from_micros(self.0.state.largest_rtt.load(Ordering::Relaxed))
    }

    /// Returns the time of day in microseconds on which the nodes agree.
    #[must_use]
    pub fn now_micros(&self) -> u64 {
        self.0.state.now()
    }

    /// Parses a property that each check evaluates with this probability.
    ///
    /// # Errors
    ///
    /// If the text is not exactly one property, or is one that a single snapshot cannot decide.
    pub fn assert(&self, text: &str, probability: f64) -> Result<Assertion, AssertionError> {
        let property = read(text).map_err(AssertionError::Property)?;
        let fields = judge::fields(&property);
        let rule = Rule::new(&property, &Library::new());
        if rule.counts_messages() {
            let name = property.name;
            return Err(AssertionError::Property(format!(
                "\"{name}\" counts messages in flight, which assertions do not; check it on \
                 recordings, with `everhold check`"
            )));
        }
        let threshold = (probability.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        Ok(Assertion {
            inner: Arc::new(Asserted {
                assertions: self.clone(),
                question: Arc::new(judge::Question { rule, fields }),
                threshold,
                coin: AtomicU64::new(crate::time::micros()),
                busy: Arc::new(AtomicBool::new(false)),
                tally: Arc::default(),
            }),
        })
    }
}

fn read(text: &str) -> Result<Property, String> {
    let properties = parse(text).into_result();
    let properties = properties.map_err(|found| render_all(&found, "assertion", text))?;
    let [property] = <[Property; 1]>::try_from(properties)
        .map_err(|all| format!("an assertion is one property, here are {}", all.len()))?;
    let part = sampling_text(property.sampling);
    if !part.is_empty() {
        let name = property.name;
        return Err(format!(
            "\"{name}\": `{part}` is for a watch; an assertion is judged where it stands, with the \
             probability that the code gives"
        ));
    }
    if property.modality != Modality::Always {
        let name = property.name;
        return Err(format!(
            "\"{name}\" is no `always`: one snapshot does not decide it; watch it"
        ));
    }
    if matches!(property.scope, Scope::Delivery | Scope::Chains) {
        let name = property.name;
        return Err(format!(
            "\"{name}\" is about deliveries or chains, and an assertion sees states at one time; check \
             it on recordings, with `everhold check`"
        ));
    }
    if property.body.any(&mut |expr| matches!(expr.kind, ExprKind::History { .. })) {
        let name = property.name;
        return Err(format!(
            "\"{name}\" looks back, and an assertion sees one moment; watch it, or let the nodes show \
             what they have seen"
        ));
    }
    Ok(property)
}

/// A property that is asserted at a place in the code. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Assertion {
    inner: Arc<Asserted>,
}

#[derive(Debug)]
struct Asserted {
    assertions: Assertions,
    question: Arc<judge::Question>,
    threshold: u64,
    coin: AtomicU64,
    busy: Arc<AtomicBool>,
    tally: Arc<Mutex<OutcomeCounts>>,
}

impl Assertion {
    /// Starts a check with the assertion's probability, and returns at once. While one check is in
    /// progress no other one is started.
    pub fn check(&self) {
        let inner = &*self.inner;
        if !self.is_chosen() || inner.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let (busy, tally) = (Arc::clone(&inner.busy), Arc::clone(&inner.tally));
        let report = inner.assertions.0.report.clone();
        self.order(Box::new(move |outcome| {
            count(&tally, &report, &outcome);
            busy.store(false, Ordering::Release);
        }));
    }

    /// Makes a check with the assertion's probability and waits for the outcome, which takes about
    /// one and a half of the largest round trips. It must not be called from a handler of the node,
    /// whose event has to end first.
    #[must_use]
    pub fn check_blocking(&self) -> Outcome {
        if !self.is_chosen() {
            return Outcome::NotThisTime;
        }
        let (answer, answered) = mpsc::channel();
        let (tally, report) =
            (Arc::clone(&self.inner.tally), self.inner.assertions.0.report.clone());
        self.order(Box::new(move |outcome| {
            count(&tally, &report, &outcome);
            let _ = answer.send(outcome);
        }));
        let ended = |_| Outcome::Skipped("the assertions have ended".to_owned());
        answered.recv().unwrap_or_else(ended)
    }

    /// Returns the numbers of outcomes so far.
    #[must_use]
    pub fn tally(&self) -> OutcomeCounts {
        *lock(&self.inner.tally)
    }

    /// Makes the random choice: returns true with the assertion's probability.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        let toss = self.inner.coin.fetch_add(1, Ordering::Relaxed);
        self.inner.threshold == u64::MAX || mix(toss, 0x5eed) < self.inner.threshold
    }

    fn order(&self, tell: Box<dyn FnOnce(Outcome) + Send>) {
        let order = Order::Check { question: Arc::clone(&self.inner.question), tell };
        if let Some(orders) = &*lock(&self.inner.assertions.0.orders) {
            let _ = orders.send(order);
        }
    }
}

fn count(tally: &Mutex<OutcomeCounts>, report: &Report, outcome: &Outcome) {
    let mut tally = lock(tally);
    match outcome {
        Outcome::Holds => tally.holds += 1,
        Outcome::Violated(text) => {
            tally.violated += 1;
            report.tell(text);
        }
        Outcome::Unknown(text) => {
            tally.unknown += 1;
            report.tell(text);
        }
        Outcome::Skipped(text) => {
            tally.skipped += 1;
            report.tell(text);
        }
        Outcome::NotThisTime => {}
    }
}
