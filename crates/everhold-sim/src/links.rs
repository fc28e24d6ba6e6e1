//! Links and kinds of messages with network rules of their own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::fault::FaultKind;
use crate::record::NodeRecord;
use crate::system::Network;

/// The most rules of a system, a rule in both directions counted twice.
const RULES_MAX: usize = 64;

/// Rules that give links, and kinds of messages, a [`Channel`] of their own.
///
/// The *last* rule that fits a message decides alone, whether it names nodes, a kind of message or
/// both ([`between_of`](Self::between_of)), so write the general ones first. A message
/// that no rule fits travels as the system's [`Network`] says. Nodes are named by their kinds,
/// messages by the names of their enum's variants. The report names each rule that fitted no
/// message of any execution.
///
/// ```
/// use everhold_sim::{Channel, Faults, Links, System};
/// # fn setup(system: &mut System<u32>) {
/// // Requests travel on connections that never break, only heartbeats are lost.
/// system.links(
///     Links::new()
///         .between("client", "server", Channel::streams().reliable())
///         .of("Heartbeat", Channel::datagrams())
///         .mailbox("server", 16),
/// );
/// system.faults(Faults::none().lose(2));
/// # }
/// ```
///
/// Order is kept among the messages that the same rule fits. Two nodes have at most one connection,
/// which all streams between them share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    rules: Vec<Rule>,
    mailboxes: Vec<(String, u32)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    from: Option<String>,
    to: Option<String>,
    kind: Option<String>,
    channel: Channel,
}

/// The way in which messages travel: their order, the faults that may strike them, the number that
/// may be under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channel {
    network: Option<Network>,
    spared: Spared,
    capacity: Option<u32>,
    /// The settings of another engine for this channel.
    remark: Option<Remark>,
}

/// A setting of any type.
#[derive(Clone)]
struct Remark(Arc<dyn Setting>);

trait Setting: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is(&self, other: &dyn Any) -> bool;
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<T: Any + fmt::Debug + PartialEq + Send + Sync> Setting for T {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn is(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self == other)
    }
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt(f)
    }
}

impl PartialEq for Remark {
    fn eq(&self, other: &Remark) -> bool {
        self.0.is(other.0.as_any())
    }
}

impl fmt::Debug for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

impl Channel {
    /// A channel as the system's [`Network`] says.
    #[must_use]
    pub fn new() -> Self {
        Channel::default()
    }

    /// Messages arrive in any order: [`Network::Datagrams`].
    #[must_use]
    pub fn datagrams() -> Self {
        Channel { network: Some(Network::Datagrams), ..Channel::default() }
    }

    /// Messages arrive in the order of sending: [`Network::Fifo`].
    #[must_use]
    pub fn fifo() -> Self {
        Channel { network: Some(Network::Fifo), ..Channel::default() }
    }

    /// Messages travel on connections: [`Network::Streams`].
    #[must_use]
    pub fn streams() -> Self {
        Channel { network: Some(Network::Streams), ..Channel::default() }
    }

    /// No message is lost, doubled or held back here, and no connection is reset, whatever the
    /// [budget](crate::Faults). Partitions hold up messages as elsewhere, and a crash breaks
    /// streams.
    #[must_use]
    pub fn reliable(self) -> Self {
        let kinds = [FaultKind::Lose, FaultKind::Duplicate, FaultKind::Delay, FaultKind::Reset];
        self.without(kinds)
    }

    /// Faults of these kinds do not strike here. Those that concern messages are
    /// [`Lose`](FaultKind::Lose), [`Duplicate`](FaultKind::Duplicate), [`Delay`](FaultKind::Delay),
    /// [`Reset`](FaultKind::Reset), [`Partition`](FaultKind::Partition) and
    /// [`OneWay`](FaultKind::OneWay).
    #[must_use]
    pub fn without(mut self, kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        kinds.into_iter().for_each(|kind| self.spared.add(kind));
        self
    }

    /// At most this many messages are under way from one node to another. A message that finds no
    /// room is refused by [`Cx::try_send`](everhold_node::Cx::try_send), and lost by
    /// [`Cx::send`](everhold_node::Cx::send).
    #[must_use]
    pub fn capacity(self, messages: u32) -> Self {
        Channel { capacity: Some(messages), ..self }
    }

    /// Adds a setting of another engine, which exploring does not look at.
    #[doc(hidden)]
    #[must_use]
    pub fn with_remark<T: Any + fmt::Debug + PartialEq + Send + Sync>(self, setting: T) -> Self {
        Channel { remark: Some(Remark(Arc::new(setting))), ..self }
    }
}

impl Links {
    /// No rule: every message travels as the system's [`Network`] says.
    #[must_use]
    pub fn new() -> Self {
        Links::default()
    }

    /// All messages.
    #[must_use]
    pub fn all(self, channel: Channel) -> Self {
        self.rule(None, None, None, channel)
    }

    /// Messages between nodes of two kinds, in both directions; each direction is a channel of its
    /// own.
    #[must_use]
    pub fn between(self, one: &str, other: &str, channel: Channel) -> Self {
        let there = self.one_way(one, other, channel.clone());
        if one == other { there } else { there.one_way(other, one, channel) }
    }

    /// Messages from nodes of one kind to nodes of another.
    #[must_use]
    pub fn one_way(self, from: &str, to: &str, channel: Channel) -> Self {
        self.rule(Some(from), Some(to), None, channel)
    }

    /// Messages of a kind, between any two nodes.
    #[must_use]
    pub fn of(self, kind: &str, channel: Channel) -> Self {
        self.rule(None, None, Some(kind), channel)
    }

    /// Messages of a kind between nodes of two kinds, in both directions; each direction is a channel
    /// of its own.
    ///
    /// ```
    /// use everhold_sim::{Channel, Links};
    /// // Of the messages between servers only votes can be lost.
    /// let links = Links::new()
    ///     .between("server", "server", Channel::fifo().reliable())
    ///     .between_of("server", "server", "Vote", Channel::datagrams());
    /// # assert!(links != Links::new());
    /// ```
    #[must_use]
    pub fn between_of(self, one: &str, other: &str, kind: &str, channel: Channel) -> Self {
        let there = self.one_way_of(one, other, kind, channel.clone());
        if one == other { there } else { there.one_way_of(other, one, kind, channel) }
    }

    /// Messages of a kind from nodes of one kind to nodes of another.
    #[must_use]
    pub fn one_way_of(self, from: &str, to: &str, kind: &str, channel: Channel) -> Self {
        self.rule(Some(from), Some(to), Some(kind), channel)
    }

    /// Nodes of a kind have room for this many messages, from any sender, that they have not
    /// handled yet. A message that finds no room is refused by
    /// [`Cx::try_send`](everhold_node::Cx::try_send), and lost by
    /// [`Cx::send`](everhold_node::Cx::send).
    #[must_use]
    pub fn mailbox(mut self, kind: &str, messages: u32) -> Self {
        self.mailboxes.push((kind.to_owned(), messages));
        self
    }

    fn rule(
        mut self,
        from: Option<&str>,
        to: Option<&str>,
        kind: Option<&str>,
        channel: Channel,
    ) -> Self {
        assert!(self.rules.len() < RULES_MAX, "a system has at most {RULES_MAX} rules for links");
        let owned = |name: Option<&str>| name.map(str::to_owned);
        let (from, to, kind) = (owned(from), owned(to), owned(kind));
        self.rules.push(Rule { from, to, kind, channel });
        self
    }

    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    #[doc(hidden)]
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        !self.mailboxes.is_empty() || self.rules.iter().any(|rule| rule.channel.capacity.is_some())
    }

    /// The rules that fit the messages that a node of this kind sends, and those that it receives,
    /// as bits.
    #[doc(hidden)]
    #[must_use]
    pub fn of_node(&self, kind: &str) -> (u64, u64) {
        let fits = |name: &Option<String>| name.as_ref().is_none_or(|name| name == kind);
        let bits = |side: &dyn Fn(&Rule) -> bool| {
            let rules = self.rules.iter().enumerate().filter(|(_, rule)| side(rule));
            rules.fold(0, |bits, (at, _)| bits | 1 << at)
        };
        (bits(&|rule| fits(&rule.from)), bits(&|rule| fits(&rule.to)))
    }

    /// Those of some rules that fit a kind of message.
    #[doc(hidden)]
    #[must_use]
    pub fn of_message(&self, mut rules: u64, kind: &str) -> u64 {
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.kind.as_ref().is_some_and(|name| name != kind) {
                rules &= !(1 << at);
            }
        }
        rules
    }

    /// The number of messages for which a node of this kind has room.
    #[doc(hidden)]
    #[must_use]
    pub fn room(&self, kind: &str) -> u32 {
        let mut rooms = self.mailboxes.iter().rev().filter(|(name, _)| name == kind);
        rooms.next().map_or(u32::MAX, |(_, room)| *room)
    }

    /// All channels: that of the messages that no rule fits, and one for each rule.
    #[doc(hidden)]
    #[must_use]
    pub fn lines(&self, network: Network) -> Vec<Line> {
        let usual = Channel::default();
        let channels = self.rules.iter().map(|rule| &rule.channel);
        std::iter::once(&usual).chain(channels).map(|channel| Line::new(channel, network)).collect()
    }

    /// The settings of a type that [were added](Channel::with_remark), for each rule.
    #[doc(hidden)]
    pub fn remarks<T: Any>(&self) -> impl Iterator<Item = Option<&T>> {
        self.rules.iter().map(|rule| rule.channel.remark.as_ref()?.0.as_any().downcast_ref())
    }

    /// The kinds of nodes that the rules name.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &String> {
        let sides = self.rules.iter().flat_map(|rule| rule.from.iter().chain(&rule.to));
        sides.chain(self.mailboxes.iter().map(|(kind, _)| kind))
    }

    /// Describes the rules that are useless, if only those in `fitted` fitted any message.
    pub(crate) fn problems(&self, fitted: u64, nodes: &[NodeRecord]) -> Vec<String> {
        let both = |rule: &Rule| {
            let back = |other: &Rule| other.from == rule.to && other.to == rule.from;
            let mut others = self.rules.iter().enumerate();
            others
                .any(|(at, other)| back(other) && rule.kind == other.kind && fitted >> at & 1 == 1)
        };
        let unused = self.rules.iter().enumerate().filter(|(at, _)| fitted >> at & 1 == 0);
        let unused = unused.filter(|(_, rule)| !both(rule)).map(|(_, rule)| {
            format!("the rule for {} fitted no message of any execution", rule.name())
        });
        let mailboxes =
            self.mailboxes.iter().filter(|(kind, _)| nodes.iter().all(|info| info.kind != *kind));
        let mailboxes = mailboxes.map(|(kind, _)| {
            format!("the rule for mailboxes of `{kind}` fits no node that is there from the start")
        });
        let mut problems: Vec<String> = unused.chain(mailboxes).collect();
        problems.dedup();
        problems
    }
}

impl Rule {
    fn name(&self) -> String {
        match (&self.from, &self.to, &self.kind) {
            (Some(from), Some(to), Some(kind)) => {
                format!("messages of kind `{kind}` from `{from}` to `{to}`")
            }
            (_, _, Some(kind)) => format!("messages of kind `{kind}`"),
            (Some(from), Some(to), _) => format!("links from `{from}` to `{to}`"),
            _ => "all messages".to_owned(),
        }
    }
}

/// A channel in the form that executions use.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The order in which messages arrive.
    pub network: Network,
    /// The faults that do not strike.
    pub spared: Spared,
    /// The number of messages that may be under way.
    pub capacity: u32,
}

impl Line {
    fn new(channel: &Channel, network: Network) -> Line {
        let network = channel.network.unwrap_or(network);
        let spared = Spared(channel.spared.0 | Spared::of(network).0);
        Line { network, spared, capacity: channel.capacity.unwrap_or(u32::MAX) }
    }
}

/// Kinds of faults that do not strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared(u16);

impl Spared {
    /// The faults that do not exist on a network: a stream never brings anything twice.
    #[must_use]
    pub fn of(network: Network) -> Spared {
        let mut spared = Spared::default();
        if network == Network::Streams {
            spared.add(FaultKind::Duplicate);
        }
        spared
    }

    fn add(&mut self, kind: FaultKind) {
        self.0 |= 1 << kind as u16;
    }

    /// Whether a fault of this kind does not strike.
    #[must_use]
    #[inline]
    pub fn contains(self, kind: FaultKind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The channel of a message is that of the last rule that fits it.
    #[test]
    fn the_last_rule_that_fits_decides() {
        let links = Links::new()
            .all(Channel::new())
            .between("client", "server", Channel::fifo())
            .of("Beat", Channel::datagrams())
            .one_way("server", "server", Channel::streams())
            .between_of("client", "server", "Vote", Channel::fifo())
            .of("Last", Channel::new())
            .one_way_of("client", "client", "Last", Channel::fifo());
        let cases = [
            ("client", "server", "Ask", 2),
            ("server", "client", "Ask", 3),
            ("client", "server", "Beat", 4),
            ("server", "server", "Beat", 5),
            ("client", "client", "Ask", 1),
            ("client", "server", "Vote", 6),
            ("server", "client", "Vote", 7),
            ("client", "client", "Vote", 1),
            ("client", "server", "Last", 8),
            ("client", "client", "Last", 9),
        ];
        for (from, to, kind, channel) in cases {
            let rules = links.of_node(from).0 & links.of_node(to).1;
            let fits = links.of_message(rules, kind);
            assert_eq!(u64::BITS - fits.leading_zeros(), channel, "{kind} from {from} to {to}");
        }
    }
}
