//! Frames to bytes.

use std::collections::BTreeMap;
use std::fmt;

use super::code::{MAGIC, frame, value, what};
use super::{Batch, FRAME_MAX, Frame, Greeting, Hello, NAMES_MAX, Name, Ordering, Record, Stamp};
use super::{Tuple, What};
use crate::event::EventKind;
use crate::{NodeId, Value};

/// Turns the frames of one direction of one connection into bytes.
///
/// A fresh one writes frames that stand alone: with it a batch can be kept in a file and read by
/// a fresh [`Decoder`](super::Decoder).
#[derive(Debug, Default)]
pub struct Encoder {
    names: BTreeMap<Name, u32>,
}

/// A frame that would be longer than [`FRAME_MAX`]. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// How long it would be.
    pub bytes: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { bytes } = self;
        write!(f, "a frame of {bytes} bytes is over {FRAME_MAX}; send fewer or smaller records")
    }
}

impl std::error::Error for TooLarge {}

impl Encoder {
    /// Adds a frame to `out`.
    ///
    /// # Errors
    ///
    /// If it is too large; `out` is then as before.
    pub fn frame(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let (start, known) = (out.len(), self.names.len());
        out.extend_from_slice(&[0; 4]);
        self.body(frame, out);
        let bytes = out.len() - start - 4;
        if bytes > FRAME_MAX {
            out.truncate(start);
            // The other side will not hear of the names that this frame introduced.
            self.names.retain(|_, number| (*number as usize) < known);
            return Err(TooLarge { bytes });
        }
        out[start..start + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
        Ok(())
    }

    fn body(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        match frame {
            Frame::Greeting(greeting) => put_greeting(out, greeting),
            Frame::Hello(hello) => {
                out.push(frame::HELLO);
                put_hello(out, hello);
            }
            Frame::Batch(batch) => self.batch(out, batch),
            Frame::Heartbeat { at } => put_stamped(out, frame::HEARTBEAT, *at),
            Frame::Bye { at } => put_stamped(out, frame::BYE, *at),
            Frame::Ping { sent } => put_stamped(out, frame::PING, *sent),
            Frame::Pong { sent, at } => {
                put_stamped(out, frame::PONG, *sent);
                put_number(out, at.0);
            }
            Frame::Clock { ahead, error } => {
                out.push(frame::CLOCK);
                put_signed(out, *ahead);
                put_number(out, *error);
            }
            Frame::Ack { batch } => {
                out.push(frame::ACK);
                put_number(out, *batch);
            }
            Frame::Refuse { reason, text } => {
                out.extend_from_slice(&[frame::REFUSE, reason.code()]);
                put_text(out, text);
            }
        }
    }

    fn batch(&mut self, out: &mut Vec<u8>, batch: &Batch) {
        out.push(frame::BATCH);
        put_number(out, batch.number);
        put_number(out, batch.dropped);
        put_number(out, batch.records.len() as u64);
        let mut last = Stamp(0);
        for record in &batch.records {
            self.record(out, record, last);
            last = record.at;
        }
    }

    /// A record; its stamp is written as the distance from the one before.
    fn record(&mut self, out: &mut Vec<u8>, record: &Record, last: Stamp) {
        let kind_at = out.len();
        out.push(0);
        put_signed(out, record.at.0.wrapping_sub(last.0).cast_signed());
        if !record.cursors.is_empty() {
            put_number(out, record.cursors.len() as u64);
            for cursor in &record.cursors {
                put_number(out, cursor.stream);
                put_number(out, cursor.sent);
                put_number(out, cursor.received);
            }
        }
        let cursors = if record.cursors.is_empty() { 0 } else { what::CURSORS };
        out[kind_at] = self.what(out, &record.what) | cursors;
    }

    /// Writes the contents of a record and returns its kind.
    fn what(&mut self, out: &mut Vec<u8>, what: &What) -> u8 {
        match what {
            What::Observe(values) => {
                self.values(out, values);
                what::OBSERVE
            }
            What::State(values) => {
                self.values(out, values);
                what::STATE
            }
            What::Add(tuple) => {
                self.tuple(out, tuple);
                what::ADD
            }
            What::Remove(tuple) => {
                self.tuple(out, tuple);
                what::REMOVE
            }
            What::Send { to, seq, label } => {
                put_number(out, to.map_or(0, |NodeId(to)| u64::from(to) + 1));
                put_number(out, *seq);
                self.name(out, label);
                what::SEND
            }
            What::Note(text) => {
                put_text(out, text);
                what::NOTE
            }
            What::Refresh => what::REFRESH,
            What::Whole => what::WHOLE,
            What::Event(kind) => self.event(out, kind),
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, kind: &EventKind) -> u8 {
        if let Some(name) = kind.name() {
            self.text_as_name(out, name);
        }
        match kind {
            EventKind::Start => what::START,
            EventKind::Deliver { message } => {
                put_number(out, message.sender.0.into());
                put_number(out, message.seq);
                what::DELIVER
            }
            EventKind::Timer { .. } => what::TIMER,
            EventKind::Input { .. } => what::INPUT,
            EventKind::Crash => what::CRASH,
            EventKind::Restart => what::RESTART,
            EventKind::Local { .. } => what::LOCAL,
        }
    }

    fn tuple(&mut self, out: &mut Vec<u8>, tuple: &Tuple) {
        self.name(out, &tuple.relation);
        self.value(out, &tuple.key);
        self.value(out, &tuple.value);
    }

    fn values(&mut self, out: &mut Vec<u8>, values: &[(Name, Value)]) {
        put_number(out, values.len() as u64);
        for (name, value) in values {
            self.name(out, name);
            self.value(out, value);
        }
    }

    fn text_as_name(&mut self, out: &mut Vec<u8>, text: &str) {
        match self.names.get(text) {
            Some(number) => put_number(out, u64::from(*number) + 2),
            None => self.new_name(out, Name::from(text)),
        }
    }

    fn name(&mut self, out: &mut Vec<u8>, name: &Name) {
        match self.names.get(name) {
            Some(number) => put_number(out, u64::from(*number) + 2),
            None => self.new_name(out, Name::clone(name)),
        }
    }

    fn new_name(&mut self, out: &mut Vec<u8>, name: Name) {
        let number = self.names.len();
        out.push(u8::from(number < NAMES_MAX));
        put_text(out, &name);
        if number < NAMES_MAX {
            self.names.insert(name, number as u32);
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null => out.push(value::NULL),
            Value::Bool(false) => out.push(value::FALSE),
            Value::Bool(true) => out.push(value::TRUE),
            Value::Int(number) => {
                out.push(value::INT);
                put_signed(out, *number);
            }
            Value::Float(number) => {
                out.push(value::FLOAT);
                out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Value::Text(text) => {
                out.push(value::TEXT);
                put_text(out, text);
            }
            Value::Bytes(bytes) => {
                out.push(value::BYTES);
                put_bytes(out, bytes);
            }
            Value::Node(node) => {
                out.push(value::NODE);
                put_number(out, node.0.into());
            }
            nested => self.nested(out, nested),
        }
    }

    fn nested(&mut self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::List(items) => self.items(out, value::LIST, items),
            Value::Set(items) => self.items(out, value::SET, items),
            Value::Map(entries) => {
                out.push(value::MAP);
                put_number(out, entries.len() as u64);
                for (key, value) in entries {
                    self.value(out, key);
                    self.value(out, value);
                }
            }
            Value::Record(fields) => {
                out.push(value::RECORD);
                put_number(out, fields.len() as u64);
                for (name, value) in fields {
                    self.text_as_name(out, name);
                    self.value(out, value);
                }
            }
            Value::Variant { name, payload } => {
                out.push(value::VARIANT);
                self.text_as_name(out, name);
                self.value(out, payload);
            }
            flat => unreachable!("{} does not nest", flat.type_name()),
        }
    }

    fn items<'v>(
        &mut self,
        out: &mut Vec<u8>,
        kind: u8,
        items: impl IntoIterator<Item = &'v Value, IntoIter: ExactSizeIterator>,
    ) {
        let items = items.into_iter();
        out.push(kind);
        put_number(out, items.len() as u64);
        items.for_each(|item| self.value(out, item));
    }
}

fn put_stamped(out: &mut Vec<u8>, kind: u8, at: Stamp) {
    out.push(kind);
    put_number(out, at.0);
}

fn put_greeting(out: &mut Vec<u8>, greeting: &Greeting) {
    out.push(frame::GREETING);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&greeting.version.to_le_bytes());
    out.extend_from_slice(&greeting.nonce);
}

/// The body of a hello; the proof comes last, so that it can cover what is before it.
pub(super) fn put_hello(out: &mut Vec<u8>, hello: &Hello) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&hello.version.to_le_bytes());
    put_text(out, &hello.system);
    put_number(out, hello.node.0.into());
    put_text(out, &hello.name);
    put_text(out, &hello.kind);
    put_number(out, hello.incarnation);
    out.push(match hello.order {
        Ordering::Clocks => 0,
        Ordering::Cursors => 1,
    });
    put_bytes(out, hello.proof.as_ref().map_or(&[], |proof| &proof[..]));
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}
