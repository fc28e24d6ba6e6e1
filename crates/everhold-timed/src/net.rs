//! The settings of the network: the links between nodes, and how they share bandwidth.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use everhold_node::NodeId;
use everhold_sim::Links;
use everhold_sim::Network;
use everhold_sim::engine::Spared;

use super::durations::{Quantiles, nanoseconds};

/// The delay of a message from a node to itself.
const LOOPBACK: Duration = Duration::from_micros(10);
/// The longest queueing delay of a message.
const QUEUEING_MAX: Duration = Duration::from_secs(60);
/// The default threshold: a flow with more bytes under way counts towards the sender's flows.
const HEAVY_BYTES: u64 = 300;

/// The network between nodes. By default that of MacePC: 1 ms, 8 Mbit/s shared among the heavy
/// flows of the sender, and queueing delays with a Pareto tail of shape 3.
///
/// The delay of a message is transmission + propagation + queueing. The random parts are keyed by
/// link and index on the link.
///
/// ```
/// use std::time::Duration;
/// use everhold_sim::NodeId;
/// use everhold_timed::{Link, Net};
///
/// let wide = Link::default().propagation(Duration::from_millis(40)).mbits(100.0);
/// let net = Net::default()
///     .group("eu", [NodeId(0), NodeId(1)])
///     .group("us", [NodeId(2)])
///     .between("eu", "us", wide);
/// assert!(net.check().is_ok());
/// let none = Net::default().link(Link::default().mbits(0.0)).check().unwrap_err();
/// assert!(none.to_string().contains("more than zero"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Net {
    link: Link,
    pairs: BTreeMap<(NodeId, NodeId), Link>,
    groups: BTreeMap<String, Vec<NodeId>>,
    between: BTreeMap<(String, String), Link>,
    access: BTreeMap<NodeId, Access>,
    sharing: Sharing,
    transports: Vec<Transport>,
    overhead: u64,
}

/// The properties of the path between two nodes, in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The minimum time from one end to the other.
    pub propagation: Duration,
    /// The bandwidth in megabits per second; `None` for no limit.
    pub mbits: Option<f64>,
    /// The queueing delay in routers.
    pub queueing: Queueing,
    /// The share of datagrams that is lost, 0 to 1. A stream retransmits instead: see
    /// [`Transport`].
    pub loss: f64,
}

/// The random part of a message's delay.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Queueing {
    /// No random delay.
    None,
    /// A Pareto variable minus its minimum `scale`; at most a minute.
    Pareto {
        /// The minimum of the variable.
        scale: Duration,
        /// The exponent: the smaller, the heavier the tail.
        shape: f64,
    },
    /// A measured distribution, given by quantiles.
    Measured(Quantiles),
}

/// How messages share bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// As in MacePC: a message is transmitted at the link's bandwidth divided by the number of
    /// heavy flows that leave its sender when it is sent.
    Counted {
        /// The number of bytes under way above which a flow is heavy.
        threshold: u64,
    },
    /// Max-min fair shares of the capacities of sender and receiver, recomputed at every change.
    /// Exact, and slower.
    MaxMin,
}

impl Default for Sharing {
    fn default() -> Self {
        Sharing::Counted { threshold: HEAVY_BYTES }
    }
}

/// The total capacity of a node, where sharing is [max-min](Sharing::MaxMin).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// The upload capacity in megabits per second.
    pub up_mbits: f64,
    /// The download capacity in megabits per second.
    pub down_mbits: f64,
}

/// The way in which a class of messages is carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    name: String,
    network: Network,
    messages_max: Option<u32>,
    bytes_max: Option<u64>,
    kinds: Vec<String>,
}

impl Transport {
    /// Makes a transport on which messages arrive in the order of sending, and none is lost: a loss
    /// costs another round trip instead.
    #[must_use]
    pub fn stream(name: &str) -> Self {
        Transport::new(name, Network::Streams)
    }

    /// Makes a transport on which messages arrive in any order, or not at all.
    #[must_use]
    pub fn datagrams(name: &str) -> Self {
        Transport::new(name, Network::Datagrams)
    }

    fn new(name: &str, network: Network) -> Self {
        let (messages_max, bytes_max) = (None, None);
        Transport { name: name.to_owned(), network, messages_max, bytes_max, kinds: Vec::new() }
    }

    /// Refuses a message while this many messages to the same node have not arrived.
    #[must_use]
    pub fn messages_max(self, messages: u32) -> Self {
        Transport { messages_max: Some(messages), ..self }
    }

    /// Refuses a message if more than this many bytes would be under way to the same node, unless
    /// none are.
    #[must_use]
    pub fn bytes_max(self, bytes: u64) -> Self {
        Transport { bytes_max: Some(bytes), ..self }
    }

    /// Carries messages of these kinds; the first transport carries all kinds that no other
    /// carries.
    #[must_use]
    pub fn carries<K: Into<String>>(self, kinds: impl IntoIterator<Item = K>) -> Self {
        Transport { kinds: kinds.into_iter().map(Into::into).collect(), ..self }
    }
}

impl Default for Link {
    fn default() -> Self {
        let propagation = Duration::from_millis(1);
        Link {
            propagation,
            mbits: Some(8.0),
            queueing: Queueing::Pareto { scale: propagation, shape: 3.0 },
            loss: 0.0,
        }
    }
}

impl Link {
    /// Makes a link without bandwidth limit, queues or loss.
    #[must_use]
    pub fn ideal(propagation: Duration) -> Self {
        Link { propagation, mbits: None, queueing: Queueing::None, loss: 0.0 }
    }

    /// Sets the minimum time; queues that are relative to it keep their shape.
    #[must_use]
    pub fn propagation(self, propagation: Duration) -> Self {
        let queueing = match self.queueing {
            Queueing::Pareto { shape, .. } => Queueing::Pareto { scale: propagation, shape },
            other => other,
        };
        Link { propagation, queueing, ..self }
    }

    /// Sets the bandwidth in megabits per second.
    #[must_use]
    pub fn mbits(self, mbits: f64) -> Self {
        Link { mbits: Some(mbits), ..self }
    }

    /// Sets the random part of the delay.
    #[must_use]
    pub fn queueing(self, queueing: Queueing) -> Self {
        Link { queueing, ..self }
    }

    /// Sets the share of messages that is lost.
    #[must_use]
    pub fn loss(self, loss: f64) -> Self {
        Link { loss, ..self }
    }

    pub(crate) fn check(&self, place: &str) -> Result<(), NetError> {
        if let Some(mbits) = self.mbits {
            check_mbits(mbits, place)?;
        }
        if !(0.0..=1.0).contains(&self.loss) {
            let problem = format!("loses {} of its messages; write a share from 0 to 1", self.loss);
            return Err(NetError { place: place.to_owned(), problem });
        }
        if let Queueing::Pareto { shape, .. } = self.queueing
            && !(shape.is_finite() && shape >= 0.1)
        {
            let problem = format!("has queues of Pareto shape {shape}; it must be at least 0.1");
            return Err(NetError { place: place.to_owned(), problem });
        }
        Ok(())
    }
}

fn check_mbits(mbits: f64, place: &str) -> Result<(), NetError> {
    if mbits.is_finite() && mbits > 0.0 {
        return Ok(());
    }
    let problem = format!(
        "has a bandwidth of {mbits} Mbit/s; it must be more than zero (leave it out for no limit)"
    );
    Err(NetError { place: place.to_owned(), problem })
}

impl Net {
    /// Makes a network in which every message takes exactly this long.
    #[must_use]
    pub fn ideal(propagation: Duration) -> Self {
        Net::default().link(Link::ideal(propagation))
    }

    /// Sets the link between nodes for which no other is set.
    #[must_use]
    pub fn link(self, link: Link) -> Self {
        Net { link, ..self }
    }

    /// Sets the link between two nodes, in both directions.
    #[must_use]
    pub fn pair(self, a: NodeId, b: NodeId, link: Link) -> Self {
        self.one_way(a, b, link.clone()).one_way(b, a, link)
    }

    /// Sets the link from one node to another.
    #[must_use]
    pub fn one_way(mut self, from: NodeId, to: NodeId, link: Link) -> Self {
        self.pairs.insert((from, to), link);
        self
    }

    /// Names a group of nodes.
    #[must_use]
    pub fn group(mut self, name: &str, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        self.groups.entry(name.to_owned()).or_default().extend(nodes);
        self
    }

    /// Sets the link between the nodes of two groups, or within one if both names are the same.
    #[must_use]
    pub fn between(mut self, a: &str, b: &str, link: Link) -> Self {
        self.between.insert((a.to_owned(), b.to_owned()), link.clone());
        self.between.insert((b.to_owned(), a.to_owned()), link);
        self
    }

    /// Sets the total capacity of a node, under [`Sharing::MaxMin`]. By default it is the bandwidth
    /// of the default link.
    #[must_use]
    pub fn access(mut self, node: NodeId, access: Access) -> Self {
        self.access.insert(node, access);
        self
    }

    /// Sets how messages share bandwidth.
    #[must_use]
    pub fn sharing(self, sharing: Sharing) -> Self {
        Net { sharing, ..self }
    }

    /// Adds a transport. Without any, the system's [`Network`] determines how messages are carried.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transports.push(transport);
        self
    }

    /// Sets the number of bytes that every message has in addition to its content.
    #[must_use]
    pub fn overhead(self, bytes: u64) -> Self {
        Net { overhead: bytes, ..self }
    }

    /// Checks the settings for contradictions and impossible values.
    ///
    /// # Errors
    ///
    /// Returns the first problem found.
    pub fn check(&self) -> Result<(), NetError> {
        self.link.check("the default link")?;
        for ((from, to), link) in &self.pairs {
            link.check(&format!("the link from {from} to {to}"))?;
        }
        for ((a, b), link) in &self.between {
            link.check(&format!("the link between groups `{a}` and `{b}`"))?;
            let unknown = [a, b].into_iter().find(|name| !self.groups.contains_key(*name));
            if let Some(name) = unknown {
                let problem = "is not a group; name its nodes with `group`".to_owned();
                return Err(NetError { place: format!("`{name}`"), problem });
            }
        }
        for (node, access) in &self.access {
            check_mbits(access.up_mbits, &format!("the uplink of {node}"))?;
            check_mbits(access.down_mbits, &format!("the downlink of {node}"))?;
        }
        let no_room = |t: &&Transport| t.messages_max == Some(0) || t.bytes_max == Some(0);
        if let Some(transport) = self.transports.iter().find(no_room) {
            let place = format!("transport `{}`", transport.name);
            let problem = "has a send buffer of zero, so it would refuse everything".to_owned();
            return Err(NetError { place, problem });
        }
        Ok(())
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetError {
    /// The place of the setting.
    pub place: String,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.problem)
    }
}

impl std::error::Error for NetError {}

/// The settings in the form that executions use.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) ways: Vec<Way>,
    pub(crate) transports: Vec<Carrier>,
    /// The rules of the system's links, and the number of the transport of the first of them.
    pub(crate) links: Links,
    first_rule: u8,
    pub(crate) threshold: u64,
    pub(crate) overhead: u64,
    /// The capacities of nodes, if sharing is max-min.
    pub(crate) fair: Option<Fair>,
    pairs: BTreeMap<(NodeId, NodeId), u32>,
    group_of: BTreeMap<NodeId, u32>,
    between: BTreeMap<(u32, u32), u32>,
}

/// The upload and download capacities of nodes, in bytes per nanosecond.
#[derive(Clone, Debug)]
pub(crate) struct Fair {
    /// The capacities of nodes that have none of their own.
    pub(crate) default: (f64, f64),
    pub(crate) nodes: BTreeMap<NodeId, (f64, f64)>,
}

/// A link's settings, with times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) propagation: u64,
    /// The nanoseconds for 2^20 bytes; zero for no limit.
    pub(crate) per_byte: u64,
    /// The bandwidth in bytes per nanosecond, for fair sharing; infinite for no limit.
    pub(crate) rate: f64,
    pub(crate) jitter: Jitter,
    /// The bound on a 32-bit draw below which a message is lost.
    pub(crate) loss: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Jitter {
    None,
    Pareto { scale: u64, variable: super::draw::Pareto },
    Table(Vec<u64>),
}

impl Jitter {
    #[inline]
    pub(crate) fn sample(&self, draw: u64) -> u64 {
        match self {
            Jitter::None => 0,
            Jitter::Pareto { scale, variable } => {
                variable.excess(*scale, draw).min(QUEUEING_MAX.as_nanos() as u64)
            }
            Jitter::Table(table) => super::draw::look_up(table, draw),
        }
    }
}

/// A transport with the kinds of messages that it carries.
#[derive(Clone, Debug)]
pub(crate) struct Carrier {
    pub(crate) streams: bool,
    /// Whether messages arrive in the order of sending.
    pub(crate) ordered: bool,
    /// The faults that do not strike here.
    pub(crate) spared: Spared,
    /// The way that its messages take, if it differs from that between their nodes.
    pub(crate) way: Option<u32>,
    pub(crate) messages_max: u32,
    pub(crate) bytes_max: u64,
    kinds: Vec<String>,
}

/// The number of the default link; the way from a node to itself is the next.
const DEFAULT_WAY: u32 = 0;
const LOOPBACK_WAY: u32 = 1;

impl Ways {
    pub(crate) fn new(net: &Net, network: Network, links: &Links) -> Ways {
        let mut ways = vec![Way::new(&net.link), Way::new(&Link::ideal(LOOPBACK))];
        let mut add = |link: &Link| {
            ways.push(Way::new(link));
            ways.len() as u32 - 1
        };
        let pairs = net.pairs.iter().map(|(pair, link)| (*pair, add(link))).collect();
        let number = |name: &String| net.groups.keys().position(|known| known == name);
        let groups = |(a, b): &(String, String)| Some((number(a)? as u32, number(b)? as u32));
        let between =
            net.between.iter().filter_map(|(names, link)| Some((groups(names)?, add(link))));
        let between = between.collect();
        let mut transports = carriers(net, network);
        let first_rule = transports.len() as u8;
        let lines = links.lines(usual_network(net, network));
        transports.extend(lines.iter().skip(1).zip(links.remarks::<Link>()).map(|(line, link)| {
            Carrier {
                streams: line.network == Network::Streams,
                ordered: line.network != Network::Datagrams,
                spared: line.spared,
                way: link.map(&mut add),
                messages_max: line.capacity,
                bytes_max: u64::MAX,
                kinds: Vec::new(),
            }
        }));
        let members = net.groups.values().enumerate();
        let group_of =
            members.flat_map(|(at, nodes)| nodes.iter().map(move |node| (*node, at as u32)));
        let threshold = match net.sharing {
            Sharing::Counted { threshold } => threshold,
            Sharing::MaxMin => u64::MAX,
        };
        Ways {
            transports,
            first_rule,
            links: links.clone(),
            threshold,
            overhead: net.overhead,
            fair: (net.sharing == Sharing::MaxMin).then(|| Fair::new(net)),
            pairs,
            group_of: group_of.collect(),
            between,
            ways,
        }
    }

    /// Returns the number of the way between two nodes.
    pub(crate) fn between(&self, from: NodeId, to: NodeId) -> u32 {
        if let Some(way) = self.pairs.get(&(from, to)) {
            return *way;
        }
        if from == to {
            return LOOPBACK_WAY;
        }
        let groups = self.group_of.get(&from).zip(self.group_of.get(&to));
        let between = groups.and_then(|(a, b)| self.between.get(&(*a, *b)));
        between.copied().unwrap_or(DEFAULT_WAY)
    }

    /// Returns the transport of the last of some rules that matches a kind of message.
    pub(crate) fn transport_of(&self, rules: u64, kind: &str) -> Option<u8> {
        let fits = self.links.of_message(rules, kind);
        (fits != 0).then(|| self.first_rule + (u64::BITS - 1 - fits.leading_zeros()) as u8)
    }

    /// Returns the transport that carries a kind of message.
    pub(crate) fn transport(&self, kind: &str) -> u8 {
        let carries = |carrier: &Carrier| carrier.kinds.iter().any(|known| known == kind);
        self.transports.iter().position(carries).unwrap_or(0) as u8
    }
}

impl Fair {
    fn new(net: &Net) -> Fair {
        let default = net.link.mbits.map_or(f64::INFINITY, rate);
        let node = |(node, access): (&NodeId, &Access)| {
            (*node, (rate(access.up_mbits), rate(access.down_mbits)))
        };
        Fair { default: (default, default), nodes: net.access.iter().map(node).collect() }
    }

    pub(crate) fn of(&self, node: NodeId) -> (f64, f64) {
        self.nodes.get(&node).copied().unwrap_or(self.default)
    }
}

/// Converts megabits per second to bytes per nanosecond.
fn rate(mbits: f64) -> f64 {
    mbits / 8_000.0
}

/// Returns the network model for messages that no transport or rule covers.
fn usual_network(net: &Net, network: Network) -> Network {
    net.transports.first().map_or(network, |transport| transport.network)
}

fn carriers(net: &Net, network: Network) -> Vec<Carrier> {
    let usual = [Transport::new("default", network)];
    let transports = if net.transports.is_empty() { &usual[..] } else { &net.transports };
    let carrier = |transport: &Transport| Carrier {
        streams: transport.network == Network::Streams,
        ordered: transport.network != Network::Datagrams,
        spared: Spared::of(transport.network),
        way: None,
        messages_max: transport.messages_max.unwrap_or(u32::MAX),
        bytes_max: transport.bytes_max.unwrap_or(u64::MAX),
        kinds: transport.kinds.clone(),
    };
    transports.iter().map(carrier).collect()
}

impl Way {
    fn new(link: &Link) -> Way {
        let jitter = match &link.queueing {
            Queueing::None => Jitter::None,
            Queueing::Pareto { scale, shape } => Jitter::Pareto {
                scale: nanoseconds(*scale),
                variable: super::draw::Pareto::new(*shape),
            },
            Queueing::Measured(quantiles) => Jitter::Table(quantiles.table()),
        };
        let per_byte = link.mbits.map_or(0.0, |mbits| 8_000.0 / mbits * f64::from(1 << 20));
        Way {
            propagation: nanoseconds(link.propagation),
            per_byte: per_byte as u64,
            rate: link.mbits.map_or(f64::INFINITY, rate),
            jitter,
            loss: (link.loss * f64::from(u32::MAX)) as u64,
        }
    }

    /// Returns the nanoseconds that the transmission of these bytes takes, shared with other flows.
    #[inline]
    pub(crate) fn transmission(&self, bytes: u64, flows: u32) -> u64 {
        ((u128::from(bytes * u64::from(flows)) * u128::from(self.per_byte)) >> 20) as u64
    }
}
