//! A minimal checker: accepts or refuses, and keeps what it receives.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Greeting, Hello, Record, Refusal, Stamp, VERSION, secret,
};

/// The lead of its clock over that of this machine.
pub(crate) const AHEAD: Duration = Duration::from_secs(40);

pub(crate) struct Checker {
    pub(crate) address: SocketAddr,
    frames: Receiver<Frame>,
    open: Arc<Open>,
}

/// Its connections, and whether it accepts more.
#[derive(Debug, Default)]
struct Open {
    away: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// The combined content of the received frames.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) records: Vec<Record>,
    pub(crate) dropped: u64,
    pub(crate) passed: Stamp,
    pub(crate) numbers: Vec<u64>,
    pub(crate) bye: bool,
    /// The reported leads of the node's wall clock, with the errors of its stamps.
    pub(crate) clocks: Vec<(i64, u64)>,
}

impl Checker {
    pub(crate) fn start(password: Option<&'static [u8]>) -> Checker {
        Checker::on(TcpListener::bind("127.0.0.1:0").expect("loopback is there"), password)
    }

    pub(crate) fn on(listener: TcpListener, password: Option<&'static [u8]>) -> Checker {
        let address = listener.local_addr().expect("it is bound");
        let (tell, frames) = mpsc::channel();
        let open = Arc::new(Open::default());
        thread::spawn({
            let open = Arc::clone(&open);
            move || {
                for stream in listener.incoming().flatten() {
                    if open.away.load(SeqCst) {
                        continue;
                    }
                    open.streams.lock().unwrap().extend(stream.try_clone());
                    let tell = tell.clone();
                    thread::spawn(move || converse(stream, password, &tell));
                }
            }
        });
        Checker { address, frames, open }
    }

    /// Ends its connections, and accepts no others until it is back.
    pub(crate) fn go_away(&self) {
        self.open.away.store(true, SeqCst);
        for stream in self.open.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn come_back(&self) {
        self.open.away.store(false, SeqCst);
    }

    /// Returns the frames after the next hello, up to the first promise that everything was sent.
    pub(crate) fn before_promises(&self) -> Vec<Frame> {
        while !matches!(self.next(), Frame::Hello(_)) {}
        let frames = std::iter::from_fn(|| Some(self.next()));
        frames.take_while(|frame| !matches!(frame, Frame::Heartbeat { .. })).collect()
    }

    pub(crate) fn hello(&self) -> Hello {
        match self.next() {
            Frame::Hello(hello) => hello,
            other => panic!("a hello comes first, not {other:?}"),
        }
    }

    fn next(&self) -> Frame {
        self.frames.recv_timeout(Duration::from_secs(10)).expect("the probe speaks within 10 s")
    }

    /// Listens to several nodes until `enough`; only the records are meaningful then.
    pub(crate) fn listen_past_hellos(&self, enough: impl Fn(&Heard) -> bool) -> Vec<Record> {
        let mut heard = Heard::default();
        while !enough(&heard) {
            if let Frame::Batch(batch) = self.next() {
                heard.records.extend(batch.records);
            }
        }
        heard.records
    }

    /// Passes on every batch until the end.
    pub(crate) fn listen_to_batches(&self, mut take: impl FnMut(Batch)) {
        loop {
            match self.next() {
                Frame::Batch(batch) => take(batch),
                Frame::Bye { .. } => return,
                _ => {}
            }
        }
    }

    /// Listens to one node until `enough`.
    pub(crate) fn listen(&self, enough: impl Fn(&Heard) -> bool) -> Heard {
        let mut heard = Heard::default();
        while !enough(&heard) {
            match self.next() {
                Frame::Batch(batch) => {
                    for record in &batch.records {
                        assert!(record.at >= heard.passed, "a record comes after its time");
                    }
                    heard.numbers.push(batch.number);
                    heard.dropped += batch.dropped;
                    heard.records.extend(batch.records);
                }
                Frame::Heartbeat { at } => heard.passed = at,
                Frame::Clock { ahead, error } => heard.clocks.push((ahead, error)),
                Frame::Bye { .. } => heard.bye = true,
                other => panic!("{other:?} is not expected"),
            }
        }
        heard
    }
}

fn converse(mut stream: TcpStream, password: Option<&[u8]>, tell: &Sender<Frame>) -> Option<()> {
    let greeting =
        Greeting { version: VERSION, nonce: [if password.is_some() { 7 } else { 0 }; 16] };
    let say = |stream: &mut TcpStream, frame| {
        let mut bytes = Vec::new();
        Encoder::default().frame(&frame, &mut bytes).expect("it is small");
        stream.write_all(&bytes).ok()
    };
    say(&mut stream, Frame::Greeting(greeting.clone()))?;
    let (mut decoder, mut bytes) = (Decoder::default(), [0; 1 << 16]);
    loop {
        while let Some(frame) = decoder.next_frame().expect("probes send frames") {
            if let Frame::Ping { sent } = frame {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let at = Stamp::from_nanos(now.as_nanos() as u64 + AHEAD.as_nanos() as u64);
                say(&mut stream, Frame::Pong { sent, at })?;
                continue;
            }
            if let Frame::Hello(hello) = &frame {
                let known = password.is_none_or(|p| secret::is_proven(p, &greeting, hello));
                if known {
                    say(&mut stream, Frame::Ack { batch: 0 })?;
                } else {
                    let text = "the secret is missing or wrong".to_owned();
                    say(&mut stream, Frame::Refuse { reason: Refusal::Secret, text })?;
                    return None;
                }
            }
            tell.send(frame).ok()?;
        }
        match stream.read(&mut bytes).ok()? {
            0 => return None,
            read => decoder.feed(&bytes[..read]),
        }
    }
}
