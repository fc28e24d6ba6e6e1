//! The random numbers of an execution: a seed and the changes to its draws.

use std::fmt;
use std::time::Duration;

use everhold_node::NodeId;
use everhold_sim::TokenError;
use everhold_sim::engine::{Decoder, Encoder, MAKES_NO_SENSE, Token, seal, unseal};

use super::durations::{nanoseconds, scaled};

/// The prefix of every token of a timed execution.
const PREFIX: &str = "eh1t-";
const VERSION: u8 = 1;

/// The identity of a timed execution: together with the program and the settings it determines
/// everything.
///
/// ```
/// use std::time::Duration;
/// use everhold_sim::NodeId;
/// use everhold_timed::{Delay, Draws, OnLink};
///
/// let late = OnLink::new(NodeId(2), NodeId(1), 0);
/// let draws = Draws::seed(7).message(late, Delay::Plus(Duration::from_millis(3)));
/// assert_eq!(Draws::parse(&draws.token()).unwrap(), draws);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// The seed of all draws that are not changed.
    pub seed: u64,
    /// The changes to the draws.
    pub changes: Vec<Change>,
}

/// A message, identified by its link and its index on the link, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OnLink {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The number of the transport; zero if there is only one.
    pub transport: u8,
    /// The number of messages sent on the link before it.
    pub index: u32,
}

impl OnLink {
    /// Returns a message on the first transport.
    #[must_use]
    pub fn new(from: NodeId, to: NodeId, index: u32) -> Self {
        OnLink { from, to, transport: 0, index }
    }
}

impl fmt::Display for OnLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} from {} to {}", self.index, self.from, self.to)?;
        if self.transport > 0 {
            write!(f, " on transport {}", self.transport)?;
        }
        Ok(())
    }
}

/// One difference from the draws of the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Draws everything with another seed after a number of events.
    Reseed {
        /// The number of events that stay as they were.
        after: u64,
        /// The seed of the remaining draws.
        seed: u64,
    },
    /// Changes the delay of one message: propagation and queueing, not transmission.
    Message(OnLink, Delay),
    /// Changes the duration of one event, identified by its index at its node.
    Event {
        /// The node.
        node: NodeId,
        /// The number of events at the node before it.
        index: u32,
        /// The new duration.
        duration: Delay,
    },
    /// Scales all delays from one node to another.
    Link {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The factor in percent; 100 changes nothing.
        percent: u32,
    },
    /// Scales the durations of all events of a kind.
    Kind {
        /// The kind; see [`Durations`](super::Durations).
        kind: String,
        /// The factor in percent; 100 changes nothing.
        percent: u32,
    },
}

/// A time that replaces or extends the drawn one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The smallest time that can be drawn.
    Least,
    /// Exactly this time.
    Exactly(Duration),
    /// The drawn time plus this.
    Plus(Duration),
}

impl Delay {
    #[inline]
    pub(crate) fn apply(self, drawn: u64, least: u64) -> u64 {
        match self {
            Delay::Least => least,
            Delay::Exactly(time) => nanoseconds(time),
            Delay::Plus(time) => drawn.saturating_add(nanoseconds(time)),
        }
    }
}

impl From<u64> for Draws {
    fn from(seed: u64) -> Draws {
        Draws::seed(seed)
    }
}

impl From<&Draws> for Draws {
    fn from(draws: &Draws) -> Draws {
        draws.clone()
    }
}

impl Draws {
    /// Returns the unchanged draws of a seed.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Draws { seed, changes: Vec::new() }
    }

    /// Adds a change.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Changes the delay of one message.
    #[must_use]
    pub fn message(self, message: OnLink, delay: Delay) -> Self {
        self.change(Change::Message(message, delay))
    }

    /// Scales the durations of a kind of event.
    #[must_use]
    pub fn scale_kind(self, kind: &str, percent: u32) -> Self {
        self.change(Change::Kind { kind: kind.to_owned(), percent })
    }

    /// Scales the delays from one node to another.
    #[must_use]
    pub fn scale_link(self, from: NodeId, to: NodeId, percent: u32) -> Self {
        self.change(Change::Link { from, to, percent })
    }

    /// Draws everything anew after this number of events.
    #[must_use]
    pub fn reseed(self, after: u64, seed: u64) -> Self {
        self.change(Change::Reseed { after, seed })
    }

    /// Returns the printable form, for `EVERHOLD_REPLAY` and for reports.
    #[must_use]
    pub fn token(&self) -> String {
        let mut out = Encoder::default();
        out.byte(VERSION);
        out.word(self.seed);
        self.changes.iter().for_each(|change| encode(&mut out, change));
        format!("{PREFIX}{}", seal(out.finish()))
    }

    /// Reads a token, or a plain seed.
    ///
    /// # Errors
    ///
    /// If the text is neither a token nor a number.
    pub fn parse(token: &str) -> Result<Draws, TokenError> {
        let token = token.trim();
        let Some(body) = token.strip_prefix(PREFIX) else {
            let foreign = || TokenError::Foreign { text: token.chars().take(24).collect() };
            return token.parse().map(Draws::seed).map_err(|_| foreign());
        };
        let bytes = unseal(body)?;
        let mut input = Decoder::new(&bytes);
        let found = input.byte()?;
        if found != VERSION {
            return Err(TokenError::Version { found });
        }
        let mut draws = Draws::seed(input.word()?);
        while !input.is_empty() {
            draws.changes.push(decode(&mut input)?);
        }
        Ok(draws)
    }

    /// Returns true if the text looks like a token of a timed execution.
    #[must_use]
    pub fn is_token(text: &str) -> bool {
        text.trim().starts_with(PREFIX)
    }

    /// Returns whether some message of a link is changed.
    pub(crate) fn has_link(&self, from: NodeId, to: NodeId, transport: u8) -> bool {
        self.changes.iter().any(|change| match change {
            Change::Message(at, _) => (at.from, at.to, at.transport) == (from, to, transport),
            Change::Link { from: a, to: b, .. } => (*a, *b) == (from, to),
            _ => false,
        })
    }

    pub(crate) fn has_event(&self, node: NodeId) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Event { node: at, .. } if *at == node))
    }

    pub(crate) fn kind_percent(&self, kind: &str) -> u32 {
        let percent = self.changes.iter().rev().find_map(|change| match change {
            Change::Kind { kind: changed, percent } if changed == kind => Some(*percent),
            _ => None,
        });
        percent.unwrap_or(100)
    }

    /// Returns the delay of a message on a link with changes.
    #[cold]
    pub(crate) fn delay(&self, message: OnLink, drawn: u64, least: u64) -> u64 {
        self.changes.iter().fold(drawn, |delay, change| match change {
            Change::Link { from, to, percent } if (*from, *to) == (message.from, message.to) => {
                scaled(delay, *percent)
            }
            Change::Message(at, change) if *at == message => change.apply(delay, least),
            _ => delay,
        })
    }

    /// Returns the duration of an event at a node with changes.
    #[cold]
    pub(crate) fn duration(&self, node: NodeId, event: u32, drawn: u64) -> u64 {
        let mut time = drawn;
        for change in &self.changes {
            if let Change::Event { node: at, index, duration } = change
                && (*at, *index) == (node, event)
            {
                time = duration.apply(time, 0);
            }
        }
        time
    }

    /// Returns the next change of seed after this number of events.
    pub(crate) fn next_reseed(&self, events: u64) -> Option<(u64, u64)> {
        let reseeds = self.changes.iter().filter_map(|change| match change {
            Change::Reseed { after, seed } if *after >= events => Some((*after, *seed)),
            _ => None,
        });
        reseeds.min_by_key(|(after, _)| *after)
    }
}

fn encode(out: &mut Encoder, change: &Change) {
    match change {
        Change::Reseed { after, seed } => {
            out.byte(0);
            out.number(*after);
            out.word(*seed);
        }
        Change::Message(at, delay) => {
            out.byte(1);
            out.node(at.from);
            out.node(at.to);
            out.byte(at.transport);
            out.number(u64::from(at.index));
            encode_delay(out, *delay);
        }
        Change::Event { node, index, duration } => {
            out.byte(2);
            out.node(*node);
            out.number(u64::from(*index));
            encode_delay(out, *duration);
        }
        Change::Link { from, to, percent } => {
            out.byte(3);
            out.node(*from);
            out.node(*to);
            out.number(u64::from(*percent));
        }
        Change::Kind { kind, percent } => {
            out.byte(4);
            out.text(kind);
            out.number(u64::from(*percent));
        }
    }
}

fn encode_delay(out: &mut Encoder, delay: Delay) {
    match delay {
        Delay::Least => out.byte(0),
        Delay::Exactly(time) => {
            out.byte(1);
            out.number(nanoseconds(time));
        }
        Delay::Plus(time) => {
            out.byte(2);
            out.number(nanoseconds(time));
        }
    }
}

fn decode(input: &mut Decoder<'_>) -> Result<Change, TokenError> {
    Ok(match input.byte()? {
        0 => Change::Reseed { after: input.number()?, seed: input.word()? },
        1 => {
            let (from, to) = (input.node()?, input.node()?);
            let (transport, index) = (input.byte()?, input.small()?);
            Change::Message(OnLink { from, to, transport, index }, decode_delay(input)?)
        }
        2 => Change::Event {
            node: input.node()?,
            index: input.small()?,
            duration: decode_delay(input)?,
        },
        3 => Change::Link { from: input.node()?, to: input.node()?, percent: input.small()? },
        4 => Change::Kind { kind: input.text()?, percent: input.small()? },
        _ => return Err(MAKES_NO_SENSE),
    })
}

fn decode_delay(input: &mut Decoder<'_>) -> Result<Delay, TokenError> {
    let time = |input: &mut Decoder<'_>| input.number().map(Duration::from_nanos);
    Ok(match input.byte()? {
        0 => Delay::Least,
        1 => Delay::Exactly(time(input)?),
        2 => Delay::Plus(time(input)?),
        _ => return Err(MAKES_NO_SENSE),
    })
}

impl Token for Draws {
    const PREFIX: &str = PREFIX;
    fn parse_token(text: &str) -> Result<Self, TokenError> {
        Draws::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        let (a, b) = (NodeId(3), NodeId(900));
        let draws = Draws::seed(u64::MAX - 5)
            .reseed(1_000, 17)
            .message(OnLink { from: a, to: b, transport: 2, index: 70 }, Delay::Least)
            .message(OnLink::new(b, a, 0), Delay::Exactly(Duration::from_secs(3)))
            .change(Change::Event { node: b, index: 4, duration: Delay::Plus(Duration::ZERO) })
            .scale_link(a, b, 250)
            .scale_kind("timer recovery", 10);
        let token = draws.token();
        assert_eq!(Draws::parse(&token).unwrap(), draws);
        assert_eq!(Draws::parse("42").unwrap(), Draws::seed(42));
        assert!(Draws::is_token(&token) && !Draws::is_token("42"));
        let mut damaged = token.clone();
        damaged.pop();
        assert!(Draws::parse(&damaged).unwrap_err().to_string().contains("damaged"));
        assert!(Draws::parse("hello").unwrap_err().to_string().contains("`hello`"));
        assert!(everhold_sim::Schedule::parse(&token).is_err());
    }
}
