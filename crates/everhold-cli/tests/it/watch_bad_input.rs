//! A watch with malformed and hostile connections: any input on its ports is refused with a reason
//! or ignored, and well-behaved probes are judged as before.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Hello, Ordering, Record, Stamp, VERSION, What,
};
use everhold_trace::{NodeId, Value};
use serde_json::Value as Json;

use crate::program::temporary;
use crate::watch_probe::Watch;

fn hello(node: u32, change: impl FnOnce(&mut Hello)) -> Frame {
    let mut hello = Hello {
        version: VERSION,
        system: "booking".into(),
        node: NodeId(node),
        name: format!("n{node}"),
        kind: "office".into(),
        incarnation: 5,
        order: Ordering::Clocks,
        proof: None,
    };
    change(&mut hello);
    Frame::Hello(hello)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

/// One connection to the port for probes.
struct Wire {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
}

impl Wire {
    fn dial(address: &str) -> Wire {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut wire = Wire { stream, encoder: Encoder::default(), decoder: Decoder::default() };
        assert!(matches!(wire.read(), Some(Frame::Greeting(_))), "it greets");
        wire
    }

    fn write(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        self.encoder.frame(frame, &mut bytes).expect("it is small");
        let _ = self.stream.write_all(&bytes);
    }

    fn read(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4_096];
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("it speaks the protocol") {
                return Some(frame);
            }
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => self.decoder.feed(&buffer[..count]),
                _ => return None,
            }
        }
    }

    /// The text of its refusal.
    fn refusal(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.read()).find_map(|frame| match frame {
            Frame::Refuse { text, .. } => Some(text),
            _ => None,
        })
    }

    /// Speaks while another connection is refused: who is silent on one may come back on another.
    fn speak_until(&mut self, refused: JoinHandle<String>) -> String {
        while !refused.is_finished() {
            self.write(&Frame::Heartbeat { at: Stamp::from_micros(now()) });
            thread::sleep(Duration::from_millis(50));
        }
        refused.join().expect("it reads")
    }

    fn show(&mut self, number: u64, at: u64, balance: i64) {
        let what = What::Observe(vec![("balance".into(), Value::Int(balance))]);
        let records = vec![Record::new(Stamp::from_micros(at), what)];
        self.write(&Frame::Batch(Batch { number, dropped: 0, records }));
        self.write(&Frame::Heartbeat { at: Stamp::from_micros(at + 1) });
    }
}

/// A malformed conversation, and the reason with which it is refused.
type Stranger = (fn(&mut Wire), &'static str);

const STRANGERS: [Stranger; 6] = [
    (|wire| wire.write(&hello(9, |hello| hello.version = 77)), "version 77"),
    (|wire| wire.write(&hello(9, |hello| hello.system = "other".into())), "not other"),
    (|wire| wire.write(&hello(1, |_| ())), "connected already"),
    (|wire| wire.write(&hello(1, |hello| hello.incarnation = 4)), "a later life"),
    (|wire| wire.write(&Frame::Heartbeat { at: Stamp(7) }), "must be a hello"),
    (
        |wire| {
            let _ = wire.stream.write_all(&[0xff; 64]);
        },
        "frame",
    ),
];

/// Bytes from a fixed seed: noise, noise after a plausible length, and the beginning of a
/// conversation with some bytes changed.
fn noise(round: u64, seed: &mut u64) -> Vec<u8> {
    let mut random = || {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    };
    let mut bytes: Vec<u8> = (0..random() % 400).map(|_| random() as u8).collect();
    match round % 3 {
        0 => {}
        1 => {
            let length = bytes.len() as u32;
            bytes.splice(..0, length.to_le_bytes());
        }
        _ => {
            bytes.clear();
            let mut encoder = Encoder::default();
            encoder
                .frame(
                    &hello(8, |hello| (hello.incarnation, hello.kind) = (round, "noise".into())),
                    &mut bytes,
                )
                .unwrap();
            let what = What::Observe(vec![("balance".into(), Value::Int(1))]);
            let records = vec![Record::new(Stamp::from_micros(now()), what)];
            encoder
                .frame(&Frame::Batch(Batch { number: 1, dropped: 0, records }), &mut bytes)
                .unwrap();
            for _ in 0..=random() % 4 {
                let place = (random() % bytes.len() as u64) as usize;
                bytes[place] = random() as u8;
            }
        }
    }
    bytes
}

#[test]
fn strangers_are_told_why_and_the_rest_goes_on() {
    let rules = temporary("strangers.prop");
    fs::write(&rules, "always \"no debt\": forall n in office nodes: n.balance >= 0\n").unwrap();
    let folder = temporary("strangers");
    let _ = fs::remove_dir_all(&folder);
    let more = ["--silence-ms", "20000", "--wait-ms", "3000"];
    let watch = Watch::start_on("127.0.0.1:0", &rules.display().to_string(), &folder, &more);
    let mut good = Wire::dial(&watch.probes);
    good.write(&hello(1, |_| ()));
    good.show(1, now(), 5);
    assert!(matches!(good.read(), Some(Frame::Ack { .. })), "who speaks well is let in");
    for (say, expected) in STRANGERS {
        let mut stranger = Wire::dial(&watch.probes);
        let refusal = thread::spawn(move || {
            say(&mut stranger);
            stranger.refusal().unwrap_or_default()
        });
        let text = good.speak_until(refusal);
        assert!(text.contains(expected), "{text:?} does not say {expected:?}");
    }
    let mut seed = 11;
    for round in 0..150 {
        for port in [&watch.probes, &watch.control] {
            let mut stream = TcpStream::connect(port).expect("it still listens");
            let _ = stream.write_all(&noise(round, &mut seed));
        }
    }
    // Text that is not a request, a body that never arrives, and a head without an end.
    for request in ["GET\r\n\r\n", "PUT /rules HTTP/1.1\r\ncontent-length: 9999999999\r\n\r\nx"] {
        let mut stream = TcpStream::connect(&watch.control).expect("it still listens");
        let _ = stream.write_all(request.as_bytes());
    }
    let endless =
        TcpStream::connect(&watch.control).map(|mut stream| stream.write_all(&[b'a'; 1 << 16]));
    assert!(endless.is_ok(), "it still listens");

    // A name that would clear the screen is told, and not obeyed.
    let mut evil = Wire::dial(&watch.probes);
    evil.write(&hello(7, |hello| hello.name = "evil\u{1b}[2J\u{9b}1m\"} 9".into()));
    evil.show(1, now(), 5);
    let is_evil = |json: &Json| json["name"].as_str().is_some_and(|name| name.starts_with("evil"));
    let up = std::iter::repeat_with(|| watch.next("up")).find(is_evil).expect("it is told");
    let has_controls = |text: &str| text.chars().any(char::is_control);
    assert!(!has_controls(up["name"].as_str().expect("text")), "{up}");
    let status = watch.status();
    let nodes = status["nodes"].as_array().expect("a list");
    let names = nodes.iter().filter_map(|node| node["name"].as_str());
    assert!(!names.into_iter().any(has_controls), "{status:#}");
    let metrics = everhold_watch::export::ask(&watch.control, "GET", "/metrics", "", "");
    assert!(!metrics.expect("it answers").replace('\n', "").chars().any(char::is_control));

    // A node whose clock jumps an hour is distrusted by name; the other node is not affected.
    let mut mad = Wire::dial(&watch.probes);
    mad.write(&hello(2, |_| ()));
    mad.show(1, now(), 5);
    mad.show(2, now() + 3_600_000_000, -5);
    good.show(2, now(), 5);
    // Some of the noise was well formed, and may contain a clock of its own.
    let is_mad = |json: &Json| json["name"] == "n2" && json["reason"].to_string().contains("clock");
    while !is_mad(&watch.next("incomplete")) {}
    good.show(3, now(), -1);
    good.show(4, now(), -1);
    let fired = watch.next("fired");
    assert!(fired["witness"].to_string().contains("n1"), "{fired}");
    let status = watch.status();
    assert!(status["refused"].as_u64() >= Some(STRANGERS.len() as u64), "{status:#}");
}
