//! Bytes to frames, whatever the bytes are.

use std::fmt;

use super::code::{MAGIC, frame, value, what};
use super::{Batch, Cursor, DEPTH_MAX, FRAME_MAX, Frame, Greeting, Hello, NAMES_MAX, Name};
use super::{Ordering, Record, Refusal, Stamp, Tuple, VERSION, VERSION_MIN, What};
use crate::event::EventKind;
use crate::{MessageId, NodeId, Value};

/// Turns the bytes of one direction of one connection into frames.
///
/// It never panics and never holds more than one frame beyond what it was fed. After an error
/// the place of the next frame is not known: close the connection.
#[derive(Debug, Default)]
pub struct Decoder {
    names: Vec<Name>,
    buffer: Vec<u8>,
    read: usize,
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The frame says that it is longer than [`FRAME_MAX`].
    TooLarge {
        /// The length that the frame states.
        bytes: usize,
    },
    /// The other side speaks another version.
    Version {
        /// Which one.
        found: u16,
    },
    /// It does not begin as this protocol does: something else is talking.
    Foreign,
    /// The frame is not right.
    Malformed {
        /// The reason why it is refused.
        reason: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::TooLarge { bytes } => {
                write!(f, "a frame of {bytes} bytes is announced, {FRAME_MAX} are allowed")
            }
            WireError::Version { found } => write!(
                f,
                "the other side speaks version {found} of the tuple protocol, this one {VERSION}; \
                 use one version of Everhold on both sides"
            ),
            WireError::Foreign => f.write_str("this is not Everhold's tuple protocol"),
            WireError::Malformed { reason } => write!(f, "a damaged frame: {reason}"),
        }
    }
}

impl std::error::Error for WireError {}

type Result<T> = std::result::Result<T, WireError>;

const fn malformed(reason: &'static str) -> WireError {
    WireError::Malformed { reason }
}

const ENDS: WireError = malformed("it ends too early");

impl Decoder {
    /// Takes in bytes as they arrive.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if it is whole.
    ///
    /// # Errors
    ///
    /// If the bytes are no frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        let waiting = &self.buffer[self.read..];
        let Some((length, rest)) = waiting.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_MAX {
            // Text of another protocol reads as a huge length.
            let text = waiting[..4].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
            let error = WireError::TooLarge { bytes: length };
            return Err(if text { WireError::Foreign } else { error });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let mut input = Input { bytes: body, names: &mut self.names };
        let frame = input.frame()?;
        if !input.bytes.is_empty() {
            return Err(malformed("it goes on after its end"));
        }
        self.read += 4 + length;
        Ok(Some(frame))
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    names: &'a mut Vec<Name>,
}

impl<'a> Input<'a> {
    fn frame(&mut self) -> Result<Frame> {
        Ok(match self.byte()? {
            frame::GREETING => {
                let version = self.version()?;
                Frame::Greeting(Greeting { version, nonce: self.array()? })
            }
            frame::HELLO => Frame::Hello(self.hello()?),
            frame::BATCH => Frame::Batch(self.batch()?),
            frame::HEARTBEAT => Frame::Heartbeat { at: Stamp(self.number()?) },
            frame::BYE => Frame::Bye { at: Stamp(self.number()?) },
            frame::PING => Frame::Ping { sent: Stamp(self.number()?) },
            frame::PONG => Frame::Pong { sent: Stamp(self.number()?), at: Stamp(self.number()?) },
            frame::CLOCK => Frame::Clock { ahead: self.signed()?, error: self.number()? },
            frame::ACK => Frame::Ack { batch: self.number()? },
            frame::REFUSE => {
                let reason = Refusal::from_code(self.byte()?);
                Frame::Refuse { reason, text: self.text()?.to_owned() }
            }
            _ => return Err(malformed("no frame is of this kind")),
        })
    }

    /// Reads the version, which begins a conversation in every version of the protocol.
    fn version(&mut self) -> Result<u16> {
        if self.array()? != MAGIC {
            return Err(WireError::Foreign);
        }
        let found = u16::from_le_bytes(self.array()?);
        let understood = (VERSION_MIN..=VERSION).contains(&found);
        if understood { Ok(found) } else { Err(WireError::Version { found }) }
    }

    fn hello(&mut self) -> Result<Hello> {
        Ok(Hello {
            version: self.version()?,
            system: self.text()?.to_owned(),
            node: self.node()?,
            name: self.text()?.to_owned(),
            kind: self.text()?.to_owned(),
            incarnation: self.number()?,
            order: match self.byte()? {
                0 => Ordering::Clocks,
                1 => Ordering::Cursors,
                _ => return Err(malformed("no order of records is of this kind")),
            },
            proof: match self.slice()? {
                [] => None,
                proof => Some(proof.try_into().map_err(|_| malformed("a proof has 32 bytes"))?),
            },
        })
    }

    fn batch(&mut self) -> Result<Batch> {
        let (number, dropped) = (self.number()?, self.number()?);
        let count = self.count()?;
        let mut records = Vec::with_capacity(count.min(1 << 12));
        let mut last = Stamp(0);
        for _ in 0..count {
            let record = self.record(last)?;
            last = record.at;
            records.push(record);
        }
        Ok(Batch { number, dropped, records })
    }

    fn record(&mut self, last: Stamp) -> Result<Record> {
        let kind = self.byte()?;
        let at = Stamp(last.0.wrapping_add_signed(self.signed()?));
        let cursors = if kind & what::CURSORS == 0 { 0 } else { self.count()? };
        let cursors = (0..cursors).map(|_| self.cursor()).collect::<Result<_>>()?;
        Ok(Record { at, cursors, what: self.what(kind & !what::CURSORS)? })
    }

    fn cursor(&mut self) -> Result<Cursor> {
        Ok(Cursor { stream: self.number()?, sent: self.number()?, received: self.number()? })
    }

    fn what(&mut self, kind: u8) -> Result<What> {
        Ok(match kind {
            what::OBSERVE => What::Observe(self.values()?),
            what::STATE => What::State(self.values()?),
            what::ADD => What::Add(self.tuple()?),
            what::REMOVE => What::Remove(self.tuple()?),
            what::SEND => What::Send {
                to: match self.number()? {
                    0 => None,
                    after => Some(NodeId(small(after - 1)?)),
                },
                seq: self.number()?,
                label: self.name()?,
            },
            what::START => What::Event(EventKind::Start),
            what::DELIVER => What::receive(MessageId { sender: self.node()?, seq: self.number()? }),
            what::TIMER => What::Event(EventKind::Timer { name: self.name_text()? }),
            what::INPUT => What::Event(EventKind::Input { name: self.name_text()? }),
            what::CRASH => What::Event(EventKind::Crash),
            what::RESTART => What::Event(EventKind::Restart),
            what::LOCAL => What::Event(EventKind::Local { name: self.name_text()? }),
            what::NOTE => What::Note(self.text()?.to_owned()),
            what::REFRESH => What::Refresh,
            what::WHOLE => What::Whole,
            _ => return Err(malformed("no record is of this kind")),
        })
    }

    fn values(&mut self) -> Result<Vec<(Name, Value)>> {
        let count = self.count()?;
        (0..count).map(|_| Ok((self.name()?, self.value(0)?))).collect()
    }

    fn tuple(&mut self) -> Result<Tuple> {
        Ok(Tuple { relation: self.name()?, key: self.value(0)?, value: self.value(0)? })
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > DEPTH_MAX {
            return Err(malformed("a value nests too deep"));
        }
        Ok(match self.byte()? {
            value::NULL => Value::Null,
            value::FALSE => Value::Bool(false),
            value::TRUE => Value::Bool(true),
            value::INT => Value::Int(self.signed()?),
            value::FLOAT => Value::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            value::TEXT => Value::Text(self.text()?.to_owned()),
            value::BYTES => Value::Bytes(self.slice()?.to_owned()),
            value::NODE => Value::Node(self.node()?),
            value::LIST => Value::List(self.items(depth)?),
            value::SET => Value::Set(self.items(depth)?),
            value::MAP => {
                let count = self.count()?;
                let entry = |_| Ok((self.value(depth + 1)?, self.value(depth + 1)?));
                Value::Map((0..count).map(entry).collect::<Result<_>>()?)
            }
            value::RECORD => {
                let count = self.count()?;
                let field = |_| Ok((self.name_text()?, self.value(depth + 1)?));
                Value::Record((0..count).map(field).collect::<Result<_>>()?)
            }
            value::VARIANT => Value::Variant {
                name: self.name_text()?,
                payload: Box::new(self.value(depth + 1)?),
            },
            _ => return Err(malformed("no value is of this kind")),
        })
    }

    fn items<C: FromIterator<Value>>(&mut self, depth: usize) -> Result<C> {
        let count = self.count()?;
        (0..count).map(|_| self.value(depth + 1)).collect()
    }

    fn name(&mut self) -> Result<Name> {
        let number = self.number()?;
        if number >= 2 {
            let known = usize::try_from(number - 2).ok().and_then(|at| self.names.get(at));
            return known.cloned().ok_or(malformed("it uses a name that was not introduced"));
        }
        let name = Name::from(self.text()?);
        if number == 1 {
            if self.names.len() == NAMES_MAX {
                return Err(malformed("it introduces too many names"));
            }
            self.names.push(Name::clone(&name));
        }
        Ok(name)
    }

    fn name_text(&mut self) -> Result<String> {
        self.name().map(|name| name.as_ref().to_owned())
    }

    fn node(&mut self) -> Result<NodeId> {
        small(self.number()?).map(NodeId)
    }

    /// A number of things of at least one byte each, so that it cannot promise what the frame
    /// does not hold.
    fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| ENDS)?;
        if count > self.bytes.len() { Err(ENDS) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.slice()?).map_err(|_| malformed("a text is not UTF-8"))
    }

    fn slice(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        let (slice, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(ENDS)?;
        self.bytes = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed("a number is too long"))
    }

    fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

fn small(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| malformed("a node's number has 32 bits"))
}
