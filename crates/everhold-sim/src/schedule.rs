//! The recorded choices that produced an execution, and their printable form.
//!
//! A schedule names steps by node and label, not by position, so it still fits after an edit: when
//! a choice is removed, as shrinking does, the others keep their meaning.
//!
//! A token is `eh1-` and the base64url form of: a version byte, the seed (8 bytes, little
//! endian), a table of names (timers and labels), the choices as variable-length numbers, and a
//! 32-bit checksum.

use std::fmt;

use everhold_node::fingerprint::mix;
use everhold_node::{NodeId, Time};

use crate::fault::{Fault, MessageName, Side};
use crate::record::EventRecord;

/// The version of the token format.
const VERSION: u8 = 1;
/// The beginning of every token.
const PREFIX: &str = "eh1-";

/// The choices of one execution; with the program they determine it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The seed of the nodes' random streams and of the fair tail.
    pub seed: u64,
    /// The choices, in order.
    pub choices: Vec<Choice>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// A message arrived.
    Deliver {
        /// The receiver.
        to: NodeId,
        /// The message.
        message: MessageName,
        /// The sort of the message, by which one is looked for if this very message does not exist.
        kind: String,
    },
    /// A timer fired.
    Timer {
        /// The node.
        node: NodeId,
        /// The timer.
        timer: String,
    },
    /// A task continued.
    Poll {
        /// The node.
        node: NodeId,
        /// The task.
        task: u32,
    },
    /// A crashed node restarted.
    Restart(NodeId),
    /// The partition ended.
    Heal,
    /// A fault struck.
    Fault(Fault),
    /// A node chose a value.
    Choose {
        /// The node.
        node: NodeId,
        /// The purpose of the choice.
        label: String,
        /// The number of possibilities.
        domain: u32,
        /// The answer.
        value: u32,
    },
    /// From here on the execution is fair and without faults.
    Tail,
    /// A node's clock showed at least this much: in schedules of real executions, whose timers
    /// fired at times of their own.
    Clock {
        /// The node.
        node: NodeId,
        /// The time that the clock showed, in nanoseconds.
        nanos: u64,
    },
    /// A node was told that its connection to a peer ended.
    Disconnected {
        /// The node that was told.
        node: NodeId,
        /// The other end.
        peer: NodeId,
    },
    /// A fault struck the node's disk in the middle of an event, or the node crashed there.
    Upset {
        /// The node.
        node: NodeId,
        /// The fault and its operation, such as `crash before put vote`.
        place: String,
        /// The number of earlier operations of the same name in the event.
        nth: u32,
    },
}

impl Choice {
    pub(crate) fn of_event(node: NodeId, event: &EventRecord) -> Choice {
        match event {
            EventRecord::Deliver { message, kind, .. } => {
                Choice::Deliver { to: node, message: *message, kind: (*kind).to_owned() }
            }
            EventRecord::Timer(timer) => Choice::Timer { node, timer: timer.clone() },
            EventRecord::Poll(task) => Choice::Poll { node, task: *task },
            EventRecord::Restart => Choice::Restart(node),
            EventRecord::Heal => Choice::Heal,
            EventRecord::Disconnected(peer) => Choice::Disconnected { node, peer: *peer },
            EventRecord::Fault(fault) => Choice::Fault(*fault),
            EventRecord::Start => unreachable!("starting is not a choice"),
        }
    }

    /// The node at which it happens, if it is a step of a node.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Choice::Deliver { to: node, .. }
            | Choice::Timer { node, .. }
            | Choice::Poll { node, .. }
            | Choice::Disconnected { node, .. }
            | Choice::Restart(node) => Some(*node),
            Choice::Heal
            | Choice::Fault(_)
            | Choice::Choose { .. }
            | Choice::Upset { .. }
            | Choice::Tail
            | Choice::Clock { .. } => None,
        }
    }

    /// True if this choice is a step of the execution, not an answer within one.
    #[must_use]
    pub fn is_step(&self) -> bool {
        !matches!(
            self,
            Choice::Choose { .. } | Choice::Tail | Choice::Clock { .. } | Choice::Upset { .. }
        )
    }

    /// True if this choice is a fault.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        matches!(self, Choice::Fault(_) | Choice::Upset { .. })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Deliver { to, message, kind } => {
                write!(f, "deliver {kind} from {} (message {message}) to {to}", message.from)
            }
            Choice::Timer { node, timer } => write!(f, "timer {timer} at {node}"),
            Choice::Poll { node, task } => write!(f, "task {task} of {node}"),
            Choice::Restart(node) => write!(f, "restart {node}"),
            Choice::Heal => f.write_str("heal the partition"),
            Choice::Fault(fault) => write!(f, "fault {fault:?}"),
            Choice::Choose { node, label, domain, value } => {
                write!(f, "{node} chooses {value} of {domain} for \"{label}\"")
            }
            Choice::Tail => f.write_str("begin the fair tail"),
            Choice::Disconnected { node, peer } => {
                write!(f, "{node} learns that its connection to {peer} ended")
            }
            Choice::Clock { node, nanos } => write!(f, "the clock of {node} at {}", Time(*nanos)),
            Choice::Upset { node, place, nth: 0 } => write!(f, "{node}: {place}"),
            Choice::Upset { node, place, nth } => {
                write!(f, "{node}: {place}, after {nth} of the same name")
            }
        }
    }
}

impl Schedule {
    /// The number of steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.choices.iter().filter(|choice| choice.is_step()).count()
    }

    /// Whether the schedule follows the clocks of a real execution.
    #[must_use]
    pub fn follows_clocks(&self) -> bool {
        self.choices.iter().any(|choice| matches!(choice, Choice::Clock { .. }))
    }

    /// Whether a node crashes, between two events or in the middle of one.
    pub(crate) fn has_crash(&self) -> bool {
        let is_crash = |choice: &Choice| {
            matches!(choice, Choice::Fault(Fault::Crash(_)) | Choice::Upset { .. })
        };
        self.choices.iter().any(is_crash)
    }

    /// The number of faults.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.choices.iter().filter(|choice| choice.is_fault()).count()
    }

    /// The printable form.
    #[must_use]
    pub fn token(&self) -> String {
        format!("{PREFIX}{}", seal(encode(self)))
    }

    /// A short name for this schedule: eight hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:08x}", checksum(&encode(self)))
    }

    /// Reads a token.
    ///
    /// # Errors
    ///
    /// If the text is not a token, is damaged, or is of another version.
    pub fn parse(token: &str) -> Result<Schedule, TokenError> {
        let token = token.trim();
        let Some(body) = token.strip_prefix(PREFIX) else {
            return Err(TokenError::Foreign { text: token.chars().take(24).collect() });
        };
        decode(&unseal(body)?)
    }
}

/// The reason why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// It does not begin like a token.
    Foreign {
        /// The beginning of the text.
        text: String,
    },
    /// It begins like a token, but the rest is invalid.
    Damaged {
        /// The defect.
        reason: &'static str,
    },
    /// Another version of Everhold wrote it.
    Version {
        /// The version of the token.
        found: u8,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::Foreign { text } => {
                write!(f, "`{text}` is not a schedule token; tokens begin with `{PREFIX}`")
            }
            TokenError::Damaged { reason } => write!(
                f,
                "the schedule token is damaged: {reason}; copy the whole token again from the \
                 failing run"
            ),
            TokenError::Version { found } => write!(
                f,
                "the schedule token has version {found}, this Everhold reads version {VERSION}; \
                 replay it with the Everhold that wrote it, or search again"
            ),
        }
    }
}

impl std::error::Error for TokenError {}

/// The text of a token's content, with a checksum.
#[must_use]
pub fn seal(mut bytes: Vec<u8>) -> String {
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    base64(&bytes)
}

/// The content of a token's text.
///
/// # Errors
///
/// If it is damaged.
pub fn unseal(text: &str) -> Result<Vec<u8>, TokenError> {
    let mut bytes = unbase64(text)?;
    let Some((content, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(TokenError::Damaged { reason: "it is too short" });
    };
    if checksum(content) != u32::from_le_bytes(*sum) {
        return Err(TokenError::Damaged { reason: "its checksum does not match" });
    }
    bytes.truncate(bytes.len() - sum.len());
    Ok(bytes)
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = 0xE7E2_401D;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = mix(sum, u64::from_le_bytes(word) ^ ((chunk.len() as u64) << 56));
    }
    (sum >> 32) as u32
}

fn encode(schedule: &Schedule) -> Vec<u8> {
    let mut out = Encoder::default();
    out.byte(VERSION);
    out.word(schedule.seed);
    let mut body = Encoder::default();
    schedule.choices.iter().for_each(|choice| body.choice(choice));
    out.number(body.names.len() as u64);
    for name in &body.names {
        out.text(name);
    }
    out.bytes.extend_from_slice(&body.bytes);
    out.bytes
}

/// Writes the parts of a token.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    names: Vec<String>,
}

impl Encoder {
    /// The bytes that were written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes eight bytes, little endian.
    pub fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Writes a text with its length.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a number of variable length.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Writes a node's id.
    pub fn node(&mut self, node: NodeId) {
        self.number(u64::from(node.0));
    }

    fn message(&mut self, message: MessageName) {
        self.node(message.from);
        // Rotated, so that the mark of a duplicate is the lowest bit and numbers stay short.
        self.number(u64::from(message.sequence.rotate_left(1)));
    }

    fn name(&mut self, name: &str) {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.number(at as u64);
    }

    fn choice(&mut self, choice: &Choice) {
        match choice {
            Choice::Deliver { to, message, kind } => {
                self.bytes.push(0);
                self.node(*to);
                self.message(*message);
                self.name(kind);
            }
            Choice::Timer { node, timer } => {
                self.bytes.push(1);
                self.node(*node);
                self.name(timer);
            }
            Choice::Poll { node, task } => {
                self.bytes.push(2);
                self.node(*node);
                self.number(u64::from(*task));
            }
            Choice::Restart(node) => {
                self.bytes.push(3);
                self.node(*node);
            }
            Choice::Heal => self.bytes.push(4),
            Choice::Choose { node, label, domain, value } => {
                self.bytes.push(5);
                self.node(*node);
                self.name(label);
                self.number(u64::from(*domain));
                self.number(u64::from(*value));
            }
            Choice::Tail => self.bytes.push(6),
            Choice::Clock { node, nanos } => {
                self.bytes.push(7);
                self.node(*node);
                self.number(*nanos);
            }
            Choice::Disconnected { node, peer } => {
                self.bytes.push(8);
                self.node(*node);
                self.node(*peer);
            }
            Choice::Upset { node, place, nth } => {
                self.bytes.push(12);
                self.node(*node);
                self.name(place);
                self.number(u64::from(*nth));
            }
            Choice::Fault(fault) => self.fault(*fault),
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) => {
                self.bytes.push(16);
                self.node(node);
            }
            Fault::Stop(node) => {
                self.bytes.push(17);
                self.node(node);
            }
            Fault::Lose(message) => {
                self.bytes.push(18);
                self.message(message);
            }
            Fault::Duplicate(message) => {
                self.bytes.push(19);
                self.message(message);
            }
            Fault::Delay(message) => {
                self.bytes.push(20);
                self.message(message);
            }
            Fault::Partition(side) => self.partition(side),
            Fault::Skew(node, quarters) => {
                self.bytes.push(23);
                self.node(node);
                self.bytes.push(quarters as u8);
            }
            Fault::Mute(side) => self.side(25, side),
            Fault::Deafen(side) => self.side(26, side),
            Fault::Reset(one, other) => {
                self.bytes.push(27);
                self.node(one);
                self.node(other);
            }
        }
    }

    /// Writes a side as a mask where its nodes fit into one, otherwise as their numbers.
    fn partition(&mut self, side: Side) {
        if side.nodes().iter().any(|node| node.0 >= u64::BITS) {
            return self.side(24, side);
        }
        self.bytes.push(21);
        self.number(side.nodes().iter().fold(0, |mask, node| mask | (1 << node.0)));
    }

    fn side(&mut self, code: u8, side: Side) {
        self.bytes.push(code);
        self.number(side.nodes().len() as u64);
        side.nodes().iter().for_each(|node| self.node(*node));
    }
}

fn decode(bytes: &[u8]) -> Result<Schedule, TokenError> {
    let mut input = Decoder::new(bytes);
    let found = input.byte()?;
    if found != VERSION {
        return Err(TokenError::Version { found });
    }
    let seed = input.word()?;
    for _ in 0..input.number()? {
        let name = input.text()?;
        input.names.push(name);
    }
    let mut choices = Vec::new();
    while !input.is_empty() {
        choices.push(input.choice()?);
    }
    Ok(Schedule { seed, choices })
}

/// Reads the parts of a token.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    names: Vec<String>,
}

const ENDS: TokenError = TokenError::Damaged { reason: "it ends in the middle of a choice" };
/// The error for a token that decodes to an impossible value.
pub const MAKES_NO_SENSE: TokenError =
    TokenError::Damaged { reason: "it has a choice of an unknown kind" };

impl<'a> Decoder<'a> {
    /// Reads from the beginning.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, names: Vec::new() }
    }

    /// Whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn word(&mut self) -> Result<u64, TokenError> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or(ENDS)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }

    /// Reads a byte.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn byte(&mut self) -> Result<u8, TokenError> {
        let (first, rest) = self.bytes.split_first().ok_or(ENDS)?;
        self.bytes = rest;
        Ok(*first)
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn number(&mut self) -> Result<u64, TokenError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MAKES_NO_SENSE)
    }

    /// Reads a number of 32 bits.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn small(&mut self) -> Result<u32, TokenError> {
        u32::try_from(self.number()?).map_err(|_| MAKES_NO_SENSE)
    }

    /// Reads a node's id.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn node(&mut self) -> Result<NodeId, TokenError> {
        self.small().map(NodeId)
    }

    fn message(&mut self) -> Result<MessageName, TokenError> {
        Ok(MessageName { from: self.node()?, sequence: self.small()?.rotate_right(1) })
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// If something else is there, or nothing.
    pub fn text(&mut self) -> Result<String, TokenError> {
        let length = usize::try_from(self.number()?).map_err(|_| MAKES_NO_SENSE)?;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(ENDS)?;
        self.bytes = rest;
        String::from_utf8(text.to_owned()).map_err(|_| MAKES_NO_SENSE)
    }

    fn name(&mut self) -> Result<String, TokenError> {
        let at = usize::try_from(self.number()?).map_err(|_| MAKES_NO_SENSE)?;
        self.names.get(at).cloned().ok_or(MAKES_NO_SENSE)
    }

    fn mask(&mut self) -> Result<Side, TokenError> {
        let mask = self.number()?;
        let nodes = (0..u64::BITS).filter(|node| (mask >> node) & 1 == 1);
        Side::of(nodes.map(NodeId)).ok_or(MAKES_NO_SENSE)
    }

    fn side(&mut self) -> Result<Side, TokenError> {
        let length = self.number()?.min(Side::MAX as u64 + 1);
        let nodes = (0..length).map(|_| self.node()).collect::<Result<Vec<_>, _>>()?;
        Side::of(nodes).ok_or(MAKES_NO_SENSE)
    }

    fn choice(&mut self) -> Result<Choice, TokenError> {
        Ok(match self.byte()? {
            0 => Choice::Deliver { to: self.node()?, message: self.message()?, kind: self.name()? },
            1 => Choice::Timer { node: self.node()?, timer: self.name()? },
            2 => Choice::Poll { node: self.node()?, task: self.small()? },
            3 => Choice::Restart(self.node()?),
            4 => Choice::Heal,
            5 => Choice::Choose {
                node: self.node()?,
                label: self.name()?,
                domain: self.small()?,
                value: self.small()?,
            },
            6 => Choice::Tail,
            7 => Choice::Clock { node: self.node()?, nanos: self.number()? },
            8 => Choice::Disconnected { node: self.node()?, peer: self.node()? },
            12 => {
                let (node, place) = (self.node()?, self.name()?);
                let nth = u32::try_from(self.number()?).map_err(|_| MAKES_NO_SENSE)?;
                Choice::Upset { node, place, nth }
            }
            16 => Choice::Fault(Fault::Crash(self.node()?)),
            17 => Choice::Fault(Fault::Stop(self.node()?)),
            18 => Choice::Fault(Fault::Lose(self.message()?)),
            19 => Choice::Fault(Fault::Duplicate(self.message()?)),
            20 => Choice::Fault(Fault::Delay(self.message()?)),
            21 => Choice::Fault(Fault::Partition(self.mask()?)),
            23 => Choice::Fault(Fault::Skew(self.node()?, self.byte()? as i8)),
            24 => Choice::Fault(Fault::Partition(self.side()?)),
            25 => Choice::Fault(Fault::Mute(self.side()?)),
            26 => Choice::Fault(Fault::Deafen(self.side()?)),
            27 => Choice::Fault(Fault::Reset(self.node()?, self.node()?)),
            _ => return Err(MAKES_NO_SENSE),
        })
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for sextet in 0..=chunk.len() {
            text.push(ALPHABET[(word >> (18 - 6 * sextet)) as usize & 63] as char);
        }
    }
    text
}

fn unbase64(text: &str) -> Result<Vec<u8>, TokenError> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for byte in chunk {
            let sextet = ALPHABET.iter().position(|letter| letter == byte);
            let sextet = sextet.ok_or(TokenError::Damaged {
                reason: "it has a character that does not occur in tokens",
            })?;
            word = (word << 6) | sextet as u32;
        }
        if chunk.len() == 1 {
            return Err(ENDS);
        }
        let word = word << (6 * (4 - chunk.len()));
        for octet in 0..chunk.len() - 1 {
            bytes.push((word >> (16 - 8 * octet)) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    fn any_choice(rng: &mut Rng) -> Choice {
        let node = NodeId(rng.below(300));
        let message = MessageName { from: NodeId(rng.below(9)), sequence: rng.next() as u32 };
        let few = |rng: &mut Rng, most| {
            let nodes: BTreeSet<u32> = (0..=rng.below(5)).map(|_| rng.below(most)).collect();
            Side::of(nodes.into_iter().map(NodeId)).expect("few nodes")
        };
        match rng.below(20) {
            0 => Choice::Deliver { to: node, message, kind: "Vote".to_owned() },
            1 => Choice::Timer { node, timer: "election".to_owned() },
            2 => Choice::Poll { node, task: rng.below(5) },
            3 => Choice::Restart(node),
            4 => Choice::Heal,
            5 => Choice::Choose { node, label: "größe".to_owned(), domain: 9, value: 8 },
            6 => Choice::Tail,
            7 => Choice::Fault(Fault::Crash(node)),
            8 => Choice::Fault(Fault::Stop(node)),
            9 => Choice::Fault(Fault::Lose(message)),
            10 => Choice::Fault(Fault::Duplicate(message)),
            11 => Choice::Fault(Fault::Delay(message)),
            12 => Choice::Fault(Fault::Partition(few(rng, 64))),
            13 => Choice::Clock { node, nanos: rng.next() },
            14 => Choice::Fault(Fault::Partition(few(rng, 200))),
            15 => Choice::Fault(Fault::Mute(few(rng, 200))),
            16 => Choice::Fault(Fault::Deafen(few(rng, 70))),
            17 => Choice::Fault(Fault::Reset(node, NodeId(3))),
            18 => Choice::Disconnected { node, peer: NodeId(200) },
            19 => Choice::Upset { node, place: "crash before sync".to_owned(), nth: 3 },
            _ => Choice::Fault(Fault::Skew(node, -4)),
        }
    }

    fn any_schedule(rng: &mut Rng) -> Schedule {
        let length = rng.below(40);
        Schedule { seed: rng.next(), choices: (0..length).map(|_| any_choice(rng)).collect() }
    }

    #[test]
    fn a_token_is_read_back() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let schedule = any_schedule(&mut rng);
            assert_eq!(Schedule::parse(&schedule.token()), Ok(schedule));
        }
    }

    /// A changed letter is noticed unless the 32-bit checksum agrees by chance: 2,000 tries, each
    /// missed with probability 2^-32.
    #[test]
    fn a_damaged_token_is_refused() {
        let mut rng = Rng::new(2);
        for _ in 0..2_000 {
            let token = any_schedule(&mut rng).token();
            let at = PREFIX.len() + rng.below((token.len() - PREFIX.len()) as u32) as usize;
            let mut damaged = token.clone().into_bytes();
            damaged[at] = ALPHABET[(rng.next() % 64) as usize];
            let damaged = String::from_utf8(damaged).unwrap();
            if damaged != token {
                assert!(Schedule::parse(&damaged).is_err() || same_bytes(&damaged, &token));
            }
        }
    }

    /// The last letter of a base64 text may have unused bits.
    fn same_bytes(a: &str, b: &str) -> bool {
        unbase64(&a[PREFIX.len()..]) == unbase64(&b[PREFIX.len()..])
    }

    #[test]
    fn noise_is_refused_without_a_panic() {
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.next() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = decode(&bytes);
        }
        assert!(matches!(Schedule::parse("hello"), Err(TokenError::Foreign { .. })));
        assert!(matches!(Schedule::parse("eh1-"), Err(TokenError::Damaged { .. })));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = encode(&Schedule::default());
        bytes[0] = 9;
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let token = format!("{PREFIX}{}", base64(&bytes));
        assert_eq!(Schedule::parse(&token), Err(TokenError::Version { found: 9 }));
    }
}
