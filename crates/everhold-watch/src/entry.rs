//! The content of an entry of the log.
//!
//! Everything that a check depends on is in the log: what the nodes sent, when it arrived, which
//! rules were in force. So a checker that reads a range again comes to the same answers.
//!
//! ```text
//! entry   arrival (u64 LE, microseconds since 1970), kind (u8), body
//! frames  any number of: node (u32 LE), incarnation (u64 LE), a frame of the tuple protocol
//! rules   UTF-8, the text of all rules from here on
//! disable UTF-8, the name of a rule that is not judged from here on
//! shared  what the checker of another partition sends, as `checker::exchange` writes it
//! ```

use std::fmt;

use everhold_trace::NodeId;
use everhold_trace::wire::{Decoder, Encoder, Frame, TooLarge};

const FRAMES: u8 = 0;
const RULES: u8 = 1;
const DISABLE: u8 = 2;
const SHARED: u8 = 3;

/// One life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: u64,
}

/// The content of a log entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When it arrived, by the clock of whoever took it in, in microseconds since 1970.
    pub micros: u64,
    /// The content.
    pub what: Arrived,
}

/// The kinds of content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Arrived {
    /// Frames of nodes; none just says that time passes.
    Frames(Vec<(Origin, Frame)>),
    /// The rules from here on.
    Rules(String),
    /// This rule is not judged from here on.
    Disable(String),
    /// A message from the checker of another partition.
    Shared(Vec<u8>),
}

/// Collects frames into one entry.
#[derive(Debug)]
pub struct EntryWriter {
    bytes: Vec<u8>,
    encoder: Encoder,
}

impl EntryWriter {
    /// An entry that arrives now.
    #[must_use]
    pub fn new(micros: u64) -> EntryWriter {
        EntryWriter { bytes: head(micros, FRAMES), encoder: Encoder::default() }
    }

    /// Adds a frame.
    ///
    /// # Errors
    ///
    /// If it is too large; the entry is then as before.
    pub fn push(&mut self, origin: Origin, frame: &Frame) -> Result<(), TooLarge> {
        let start = self.bytes.len();
        self.bytes.extend(origin.node.0.to_le_bytes());
        self.bytes.extend(origin.incarnation.to_le_bytes());
        let result = self.encoder.frame(frame, &mut self.bytes);
        if result.is_err() {
            self.bytes.truncate(start);
        }
        result
    }

    /// Returns the present length of the entry in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEAD
    }

    /// Sets the time at which it arrives: not before its last frame.
    pub fn arrives(&mut self, micros: u64) {
        self.bytes[..TIME].copy_from_slice(&micros.to_le_bytes());
    }

    /// The entry.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

const TIME: usize = 8;
const HEAD: usize = TIME + 1;

fn head(micros: u64, kind: u8) -> Vec<u8> {
    let mut bytes = micros.to_le_bytes().to_vec();
    bytes.push(kind);
    bytes
}

/// An entry that puts these rules in force.
#[must_use]
pub fn rules_entry(micros: u64, text: &str) -> Vec<u8> {
    let mut bytes = head(micros, RULES);
    bytes.extend(text.as_bytes());
    bytes
}

/// An entry after which a rule is not judged.
#[must_use]
pub fn disable_entry(micros: u64, rule: &str) -> Vec<u8> {
    let mut bytes = head(micros, DISABLE);
    bytes.extend(rule.as_bytes());
    bytes
}

/// An entry with what a checker sends to the checker of another partition.
#[must_use]
pub fn shared_entry(micros: u64, message: &[u8]) -> Vec<u8> {
    let mut bytes = head(micros, SHARED);
    bytes.extend(message);
    bytes
}

/// An entry that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry(String);

impl BadEntry {
    pub(crate) fn new(reason: String) -> BadEntry {
        BadEntry(reason)
    }
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an entry of a watched log: {}", self.0)
    }
}

impl std::error::Error for BadEntry {}

fn bad(reason: impl fmt::Display) -> BadEntry {
    BadEntry(reason.to_string())
}

/// Reads an entry.
///
/// # Errors
///
/// If the bytes are no entry.
pub fn read_entry(bytes: &[u8]) -> Result<Arrival, BadEntry> {
    let (time, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| bad("it is too short"))?;
    let (kind, body) = rest.split_first().ok_or_else(|| bad("it is too short"))?;
    let text = || String::from_utf8(body.to_vec()).map_err(bad);
    let what = match *kind {
        FRAMES => Arrived::Frames(frames(body)?),
        RULES => Arrived::Rules(text()?),
        DISABLE => Arrived::Disable(text()?),
        SHARED => Arrived::Shared(body.to_vec()),
        other => return Err(bad(format_args!("nothing is of kind {other}"))),
    };
    Ok(Arrival { micros: u64::from_le_bytes(*time), what })
}

fn frames(mut bytes: &[u8]) -> Result<Vec<(Origin, Frame)>, BadEntry> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (node, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("it ends early"))?;
        let (life, rest) = rest.split_first_chunk::<8>().ok_or_else(|| bad("it ends early"))?;
        let (length, _) = rest.split_first_chunk::<4>().ok_or_else(|| bad("it ends early"))?;
        let length = 4 + u32::from_le_bytes(*length) as usize;
        let frame = rest.get(..length).ok_or_else(|| bad("it ends early"))?;
        decoder.feed(frame);
        let frame = decoder.next_frame().map_err(bad)?.ok_or_else(|| bad("it ends early"))?;
        let node = NodeId(u32::from_le_bytes(*node));
        found.push((Origin { node, incarnation: u64::from_le_bytes(*life) }, frame));
        bytes = &rest[length..];
    }
    Ok(found)
}
