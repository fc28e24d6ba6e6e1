//! The messages between nodes about snapshots: datagrams, which may be lost.

use everhold_trace::NodeId;
use everhold_trace::Value;
use everhold_trace::wire::{Batch, Decoder, Encoder, Frame, Name, Record, Stamp, What};
use serde::{Deserialize, Serialize};

use crate::host::Channels;

const MAGIC: &[u8; 5] = b"EVHA\x01";

/// The number of bytes of an answer in one datagram.
const PART: usize = 32 << 10;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Say {
    /// Asks for the clock, to measure the round trip and the difference.
    Ping { number: u64 },
    /// Answers with the clock.
    Pong { number: u64, clock: u64 },
    /// Corrects the clock; sent by the node that keeps the time.
    Adjust { by: i64 },
    /// Asks for these fields as of this moment.
    Ask { round: u64, at: u64, fields: Vec<String> },
    /// A part of the answer.
    Shown { round: u64, part: u32, parts: u32, bytes: Vec<u8> },
}

/// The answer to [`Say::Ask`], before it is split into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// A frame of the tuple protocol with one state; empty if there is none.
    pub(super) state: Vec<u8>,
    pub(super) channels: Channels,
    /// The delay after the requested moment, in microseconds.
    pub(super) late: u64,
}

#[derive(Serialize, Deserialize)]
struct Letter {
    system: String,
    from: NodeId,
    say: Say,
}

pub(super) fn encode(system: &str, from: NodeId, say: &Say) -> Vec<u8> {
    let letter = Letter { system: system.to_owned(), from, say: say.clone() };
    let mut bytes = MAGIC.to_vec();
    bytes.extend(postcard::to_allocvec(&letter).expect("a letter can be serialised"));
    bytes
}

/// Decodes a datagram; returns `None` if it is not from this system or cannot be decoded.
pub(super) fn decode(system: &str, bytes: &[u8]) -> Option<(NodeId, Say)> {
    let letter: Letter = postcard::from_bytes(bytes.strip_prefix(MAGIC)?).ok()?;
    (letter.system == system).then_some((letter.from, letter.say))
}

pub(super) fn parts(round: u64, answer: &Answer) -> Vec<Say> {
    let bytes = postcard::to_allocvec(answer).expect("an answer can be serialised");
    let parts = bytes.len().div_ceil(PART) as u32;
    let say = |(part, bytes): (usize, &[u8])| Say::Shown {
        round,
        part: part as u32,
        parts,
        bytes: bytes.to_owned(),
    };
    bytes.chunks(PART).enumerate().map(say).collect()
}

pub(super) fn whole(parts: &[Option<Vec<u8>>]) -> Option<Answer> {
    let parts: Option<Vec<_>> = parts.iter().map(Option::as_deref).collect();
    postcard::from_bytes(&parts?.concat()).ok()
}

/// Encodes the requested fields of a state.
pub(super) fn put_state(state: &Value, fields: &[String]) -> Option<Vec<u8>> {
    let values = match state {
        Value::Record(all) => {
            let asked = all.iter().filter(|(name, _)| fields.contains(name));
            asked.map(|(name, value)| (Name::from(name.as_str()), value.clone())).collect()
        }
        other => vec![(Name::from("state"), other.clone())],
    };
    let records = vec![Record::new(Stamp(0), What::State(values))];
    let mut bytes = Vec::new();
    let batch = Frame::Batch(Batch { number: 0, dropped: 0, records });
    Encoder::default().frame(&batch, &mut bytes).ok().map(|()| bytes)
}

pub(super) fn take_state(bytes: &[u8]) -> Option<Value> {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    let Ok(Some(Frame::Batch(mut batch))) = decoder.next_frame() else { return None };
    match batch.records.pop()?.what {
        What::State(values) => Some(Value::record(
            values.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value)),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_large_answers_come_back() {
        let ask = Say::Ask { round: 3, at: 9, fields: vec!["x".to_owned()] };
        let bytes = encode("bank", NodeId(2), &ask);
        assert_eq!(decode("bank", &bytes), Some((NodeId(2), ask)));
        assert_eq!(decode("other", &bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(decode("bank", &bytes[..length]), None);
        }
        let state = Value::record([("x", "long ".repeat(30_000)), ("y", "no".to_owned())]);
        let state = put_state(&state, &["x".to_owned()]).unwrap();
        let answer = Answer { state, channels: Channels::default(), late: 0 };
        let mut received = Vec::new();
        for say in parts(1, &answer) {
            let Say::Shown { part, parts, bytes, .. } = say else { panic!("{say:?}") };
            received.resize(parts as usize, None);
            assert_eq!(whole(&received), None);
            received[part as usize] = Some(bytes);
        }
        assert!(received.len() > 3);
        let shown = take_state(&whole(&received).unwrap().state).unwrap();
        assert_eq!(shown, Value::record([("x", "long ".repeat(30_000))]));
    }
}
