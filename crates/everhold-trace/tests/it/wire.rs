//! The protocol between probes and checkers: round trips, and bytes that are not frames.

use everhold_trace::wire::{
    Batch, Cursor, Decoder, Encoder, FRAME_MAX, Frame, Greeting, Hello, Ordering, Record, Refusal,
    Stamp, Tuple, VERSION, What, WireError,
};
use everhold_trace::{EventKind, MessageId, NodeId, Value};

use crate::random::Random;

fn name(random: &mut Random) -> std::sync::Arc<str> {
    ["term", "role", "locks", "größe", ""][random.below(5)].into()
}

fn node(random: &mut Random) -> NodeId {
    NodeId(random.next() as u32 >> random.below(32))
}

fn tuple(random: &mut Random) -> Tuple {
    Tuple { relation: name(random), key: random.value(1), value: random.value(2) }
}

fn kind(random: &mut Random) -> EventKind {
    let text = name(random).to_string();
    let message = MessageId { sender: node(random), seq: random.next() };
    match random.below(7) {
        0 => EventKind::Start,
        1 => EventKind::Deliver { message },
        2 => EventKind::Timer { name: text },
        3 => EventKind::Input { name: text },
        4 => EventKind::Crash,
        5 => EventKind::Restart,
        _ => EventKind::Local { name: text },
    }
}

fn what(random: &mut Random) -> What {
    let count = random.below(4);
    match random.below(7) {
        0 => What::Observe((0..count).map(|_| (name(random), random.value(2))).collect()),
        1 => What::State((0..count).map(|_| (name(random), random.value(2))).collect()),
        2 => What::Add(tuple(random)),
        3 => What::Remove(tuple(random)),
        4 => What::Send {
            to: random.chance(50).then(|| node(random)),
            seq: random.next(),
            label: name(random),
        },
        5 => What::Note(name(random).to_string()),
        6 => What::Refresh,
        7 => What::Whole,
        _ => What::Event(kind(random)),
    }
}

fn record(random: &mut Random) -> Record {
    let count = if random.chance(80) { 0 } else { random.below(3) };
    let cursor = |random: &mut Random| Cursor {
        stream: random.next(),
        sent: random.next() >> 32,
        received: random.next() >> 16,
    };
    Record {
        at: Stamp(random.next()),
        cursors: (0..count).map(|_| cursor(random)).collect(),
        what: what(random),
    }
}

fn frame(random: &mut Random) -> Frame {
    let at = Stamp(random.next());
    match random.below(10) {
        0 => Frame::Greeting(Greeting { version: VERSION, nonce: [random.below(256) as u8; 16] }),
        1 => Frame::Hello(Hello {
            version: VERSION,
            system: name(random).to_string(),
            node: node(random),
            name: name(random).to_string(),
            kind: name(random).to_string(),
            incarnation: random.next(),
            order: if random.chance(50) { Ordering::Clocks } else { Ordering::Cursors },
            proof: random.chance(50).then_some([9; 32]),
        }),
        2 => Frame::Heartbeat { at },
        3 => Frame::Bye { at },
        4 => Frame::Ack { batch: random.next() },
        6 => Frame::Ping { sent: at },
        7 => Frame::Pong { sent: at, at: Stamp(random.next()) },
        8 => Frame::Clock { ahead: random.next().cast_signed(), error: random.next() },
        5 => Frame::Refuse { reason: Refusal::NodeInUse, text: name(random).to_string() },
        _ => {
            let count = random.below(6);
            let records = (0..count).map(|_| record(random)).collect();
            Frame::Batch(Batch { number: random.next(), dropped: random.next(), records })
        }
    }
}

fn conversation(random: &mut Random) -> (Vec<Frame>, Vec<u8>) {
    let frames: Vec<_> = (0..random.below(8)).map(|_| frame(random)).collect();
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    frames.iter().for_each(|frame| encoder.frame(frame, &mut bytes).expect("it is small"));
    (frames, bytes)
}

/// Feeds the bytes in pieces of random size.
fn decode(bytes: &[u8], random: &mut Random) -> Result<Vec<Frame>, WireError> {
    let (mut decoder, mut frames, mut rest) = (Decoder::default(), Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(1 + random.below(rest.len()));
        decoder.feed(piece);
        rest = later;
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

#[test]
fn frames_come_back_as_they_went() {
    let mut random = Random(1);
    for _ in 0..2_000 {
        let (frames, bytes) = conversation(&mut random);
        assert_eq!(decode(&bytes, &mut random), Ok(frames));
    }
}

/// Whatever the bytes are, there is an answer. Half of the inputs begin as a real conversation.
#[test]
fn bytes_that_are_no_frames_are_errors_and_never_panic() {
    let mut random = Random(2);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = if random.chance(50) {
            conversation(&mut random).1
        } else {
            let mut noise: Vec<_> =
                (0..random.below(80)).map(|_| random.next() as u8 >> random.below(8)).collect();
            // A length that fits lets the noise through to the body.
            if let Some((length, body)) = noise.split_first_chunk_mut::<4>() {
                *length = (body.len() as u32).to_le_bytes();
            }
            noise
        };
        for _ in 0..random.below(4) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
        }
        match decode(&bytes, &mut random) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 2_000 && taken > 2_000, "refused {refused}, taken {taken}: one-sided");
}

#[track_caller]
fn check_error(bytes: &[u8], expected: &WireError) {
    assert_eq!(decode(bytes, &mut Random(3)).as_ref(), Err(expected));
}

#[test]
fn what_is_wrong_is_named() {
    check_error(b"GET / HTTP/1.1\r\n", &WireError::Foreign);
    check_error(&[0xff; 8], &WireError::TooLarge { bytes: 0xffff_ffff });
    check_error(&[1, 0, 0, 0, 99], &WireError::Malformed { reason: "no frame is of this kind" });
    check_error(&[1, 0, 0, 0, 6], &WireError::Malformed { reason: "it ends too early" });
    let mut other = Vec::new();
    let greeting = Frame::Greeting(Greeting { version: VERSION, nonce: [0; 16] });
    Encoder::default().frame(&greeting, &mut other).unwrap();
    other[9] = 3;
    check_error(&other, &WireError::Version { found: 3 });
    other[5] = b'X';
    check_error(&other, &WireError::Foreign);
}

#[test]
fn a_frame_that_is_too_large_leaves_the_connection_usable() {
    let batch = |text: String| {
        let values = vec![("fresh name".into(), Value::Text(text))];
        let records = vec![Record::new(Stamp(1), What::Observe(values))];
        Frame::Batch(Batch { number: 1, dropped: 0, records })
    };
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    encoder.frame(&batch("x".repeat(FRAME_MAX)), &mut bytes).unwrap_err();
    assert!(bytes.is_empty());
    let small = batch("x".to_owned());
    encoder.frame(&small, &mut bytes).unwrap();
    assert_eq!(decode(&bytes, &mut Random(4)), Ok(vec![small]));
}

/// The cost that DESIGN promises: an observation of a number is a few bytes.
#[test]
fn observations_are_small() {
    let observe = |at: u64, term: i64| {
        Record::new(Stamp(at), What::Observe(vec![("term".into(), Value::Int(term))]))
    };
    let records: Vec<_> = (0..100).map(|n| observe((1 << 60) + n, n.cast_signed())).collect();
    let mut bytes = Vec::new();
    let batch = Frame::Batch(Batch { number: 1, dropped: 0, records });
    Encoder::default().frame(&batch, &mut bytes).unwrap();
    assert!(bytes.len() < 700, "{} bytes for 100 observations", bytes.len());
}
