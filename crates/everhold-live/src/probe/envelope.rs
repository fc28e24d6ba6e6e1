//! The envelope that travels with a message: ten to twenty bytes.

use std::fmt;
use std::io::{self, Read, Write};

use everhold_trace::NodeId;
use everhold_trace::wire::{ClockJump, Stamp};

/// The header under which an envelope travels with an HTTP request or response.
pub const HEADER: &str = "everhold";

/// The longest message that [`read_framed`] takes: 16 MiB.
const MESSAGE_MAX: u32 = 16 << 20;

/// The sender of a message from an unknown node: one whose probe is [off](super::Probe::off) or has
/// no number. No node has this number.
pub const NOBODY: NodeId = NodeId(u32::MAX);

/// The stamp of a message: the sender's clock at the sending, the sender, and the sender's count of
/// messages.
///
/// ```
/// use everhold_live::{Envelope, NodeId, Stamp};
/// let envelope = Envelope { at: Stamp::from_micros(1_000_000), sender: NodeId(3), seq: 41 };
/// assert_eq!(envelope.to_bytes().len(), 11);
/// assert_eq!(envelope.to_string(), "00-00000000f4240000-00000003-29");
/// assert_eq!("00-00000000f4240000-00000003-29".parse(), Ok(envelope));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The sender's clock at the sending.
    pub at: Stamp,
    /// The sender, or [`NOBODY`] for a node without a watched probe. Such an envelope preserves
    /// order, but its message is not attributed to any node.
    pub sender: NodeId,
    /// The count of this message among those of the sender.
    pub seq: u64,
}

/// The reasons for which an envelope cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The message does not begin with one, or the header does not hold one.
    Malformed,
    /// The envelope was written by another version.
    Version(u8),
    /// The sender's clock cannot be right.
    ClockJump(ClockJump),
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnvelopeError::Malformed => f.write_str(
                "the message carries no Everhold envelope; stamp it with `Probe::send` at its sender",
            ),
            EnvelopeError::Version(found) => {
                write!(f, "the envelope has version {found}, this Everhold reads version 0")
            }
            EnvelopeError::ClockJump(jump) => jump.fmt(f),
        }
    }
}

impl std::error::Error for EnvelopeError {}

impl From<EnvelopeError> for io::Error {
    fn from(error: EnvelopeError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl Envelope {
    /// Returns the compact form, to be put in front of a message: a version byte, the stamp in
    /// eight bytes, sender and count in base 128.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20);
        bytes.push(0);
        bytes.extend_from_slice(&self.at.0.to_le_bytes());
        put_number(&mut bytes, self.sender.0.into());
        put_number(&mut bytes, self.seq);
        bytes
    }

    /// Reads the compact form from the front of a message; returns the rest.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin with an envelope.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Envelope, &[u8]), EnvelopeError> {
        let (version, rest) = bytes.split_first().ok_or(EnvelopeError::Malformed)?;
        if *version != 0 {
            return Err(EnvelopeError::Version(*version));
        }
        let (at, mut rest) = rest.split_first_chunk().ok_or(EnvelopeError::Malformed)?;
        let sender =
            u32::try_from(take_number(&mut rest)?).map_err(|_| EnvelopeError::Malformed)?;
        let seq = take_number(&mut rest)?;
        Ok((Envelope { at: Stamp(u64::from_le_bytes(*at)), sender: NodeId(sender), seq }, rest))
    }
}

/// Formats the envelope for a header, similar to `traceparent`.
impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:016x}-{:08x}-{:x}", self.at.0, self.sender.0, self.seq)
    }
}

impl std::str::FromStr for Envelope {
    type Err = EnvelopeError;

    fn from_str(text: &str) -> Result<Envelope, EnvelopeError> {
        let mut parts = text.trim().split('-');
        let mut part = || {
            let digits = parts.next().filter(|part| (1..=16).contains(&part.len()));
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.ok_or(EnvelopeError::Malformed)
        };
        match part()? {
            0 => {}
            version => return Err(EnvelopeError::Version(version as u8)),
        }
        let at = Stamp(part()?);
        let sender = u32::try_from(part()?).map_err(|_| EnvelopeError::Malformed)?;
        let envelope = Envelope { at, sender: NodeId(sender), seq: part()? };
        if parts.next().is_some() { Err(EnvelopeError::Malformed) } else { Ok(envelope) }
    }
}

/// Writes a message to a stream: its length (u32, little endian), its envelope and its content.
///
/// # Errors
///
/// If the stream fails, or the message is longer than 16 MiB.
pub fn write_framed(stream: &mut impl Write, envelope: Envelope, message: &[u8]) -> io::Result<()> {
    let mut frame = vec![0; 4];
    frame.extend_from_slice(&envelope.to_bytes());
    frame.extend_from_slice(message);
    let length = u32::try_from(frame.len() - 4).ok().filter(|length| *length <= MESSAGE_MAX);
    let length = length.ok_or_else(|| too_long(frame.len()))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&frame)
}

/// Reads a message written by [`write_framed`].
///
/// # Errors
///
/// If the stream fails or ends, or its content is not such a message.
pub fn read_framed(stream: &mut impl Read) -> io::Result<(Envelope, Vec<u8>)> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MESSAGE_MAX {
        return Err(too_long(length as usize));
    }
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame)?;
    let (envelope, message) = Envelope::from_bytes(&frame)?;
    Ok((envelope, message.to_owned()))
}

fn too_long(bytes: usize) -> io::Error {
    let text = format!("a message of {bytes} bytes is over {MESSAGE_MAX}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn take_number(bytes: &mut &[u8]) -> Result<u64, EnvelopeError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(EnvelopeError::Malformed)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(EnvelopeError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_come_back_in_every_form() {
        for (at, sender, seq) in [(0, 0, 0), (u64::MAX, u32::MAX, u64::MAX), (1 << 60, 9, 300)] {
            let envelope = Envelope { at: Stamp(at), sender: NodeId(sender), seq };
            let mut bytes = envelope.to_bytes();
            bytes.extend_from_slice(b"rest");
            assert_eq!(Envelope::from_bytes(&bytes), Ok((envelope, &b"rest"[..])));
            assert_eq!(envelope.to_string().parse(), Ok(envelope));
            let mut stream = Vec::new();
            write_framed(&mut stream, envelope, b"hello").unwrap();
            assert_eq!(read_framed(&mut &stream[..]).unwrap(), (envelope, b"hello".to_vec()));
        }
    }

    #[test]
    fn what_is_no_envelope_is_an_error() {
        let check = |header: &str| assert!(header.parse::<Envelope>().is_err(), "{header}");
        let long = "00-1-123456789-3";
        ["", "00", "00-1-2", "00-1-2-3-4", "00-g-2-3", "01-1-2-3", long, "00--2-3"]
            .into_iter()
            .for_each(check);
        for length in 0..12 {
            assert!(
                Envelope::from_bytes(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..length]).is_err()
            );
            assert!(Envelope::from_bytes(&[0; 11][..length.min(10)]).is_err());
        }
        assert!(read_framed(&mut &[0xff; 64][..]).is_err());
    }
}
