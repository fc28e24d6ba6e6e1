//! The connection to one checker, on a thread of its own.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhold_tls::{ClientTls, Stream};
use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Hello, Record, Stamp, VERSION_CLOCKS, WireError, secret,
};

use super::drain::CLOCK_BEATS;
use super::trips::{Estimate, Trips};
use super::{Timer, lock};
use crate::backoff::Backoff;
use crate::report::Report;

/// The number of batches that may wait for a slow checker.
const WAITING: usize = 64;

/// The time that a checker may take for its next message or bytes.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of times that a checker's clock is read before anything is sent to it.
const FIRST_PINGS: usize = 8;

/// The wait before a checker that refused is contacted again.
const OFFENDED: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Item {
    /// A batch, after what has to be known of the clock that made its stamps.
    Batch(Numbered, Option<Reading>),
    Heartbeat(Stamp, Option<Reading>),
    Bye(Stamp),
}

/// What a checker is told of a node's clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The lead of the node's wall clock over that of the checker.
    pub(super) ahead: i64,
    /// The largest error of the node's stamps.
    pub(super) error: u64,
}

/// A batch in the form in which every checker gets it. A checker that misses one sees the gap in
/// the numbers; checkers that share a log take each number once, from the first connection that
/// delivers it.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    pub(super) number: u64,
    /// The number of records that were dropped because the rings were full.
    pub(super) dropped: u64,
    pub(super) records: Arc<[Record]>,
}

/// The credentials for a checker, in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    pub(super) secret: Option<Vec<u8>>,
    pub(super) tls: Option<ClientTls>,
}

/// The end of the connection that the draining thread holds.
#[derive(Debug)]
pub(super) struct Link {
    /// What is to be sent, each with the connection for which it is.
    queue: SyncSender<(u64, Item)>,
    state: Arc<State>,
    thread: JoinHandle<()>,
    /// The connection on which the last batch was handed over, if it was. A checker that may have
    /// missed a batch gets no promise before the next batch shows the gap.
    sound: Option<u64>,
    /// The turns when the draining thread last looked. On a newer connection nothing is sent before it
    /// has looked again, since a checker must first be told of the clock.
    seen: u64,
    /// What the checker is told of the clock ahead of the next batch or heartbeat.
    untold: Option<Reading>,
    /// The error that the checker knows, or gets to know before any other stamp.
    error: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Counts each beginning and each end of a connection: it is odd while there is one. One number
    /// says both whether there is a connection and which one it is.
    turns: AtomicU64,
    trips: Mutex<Trips>,
}

impl Link {
    pub(super) fn start(
        address: SocketAddr,
        hello: Hello,
        knows: Credentials,
        report: Report,
        timer: Arc<Timer>,
    ) -> Link {
        let (queue, items) = mpsc::sync_channel(WAITING);
        let state = Arc::new(State::default());
        let worker =
            Worker { address, hello, knows, report, items, timer, state: Arc::clone(&state) };
        let thread = thread::Builder::new()
            .name("everhold-link".to_owned())
            .spawn(move || worker.run())
            .expect("the system has a thread to spare");
        Link { queue, state, thread, sound: None, seen: 0, untold: None, error: 0 }
    }

    /// Looks whether there is a new connection; returns the number of connections so far.
    pub(super) fn look(&mut self) -> u64 {
        let turns = self.turns();
        if turns != self.seen {
            (self.seen, self.untold, self.error) = (turns, None, 0);
        }
        turns.div_ceil(2)
    }

    /// Returns whether there was a connection when the draining thread last looked.
    pub(super) fn was_connected(&self) -> bool {
        !self.seen.is_multiple_of(2)
    }

    /// Returns whether there is a connection that the draining thread has seen.
    pub(super) fn is_connected(&self) -> bool {
        self.was_connected() && self.seen == self.turns()
    }

    fn turns(&self) -> u64 {
        self.state.turns.load(Ordering::Acquire)
    }

    /// Returns whether the checker has every batch, or is not connected.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_connected() || self.sound == Some(self.seen)
    }

    /// Returns the lead of the checker's clock over the probe's own time, if the checker supports
    /// it.
    pub(super) fn estimate(&self, own: Stamp) -> Option<Estimate> {
        lock(&self.state.trips).best(own)
    }

    /// Tells the checker about the node's clock, before the next batch or heartbeat.
    pub(super) fn tell_clock(&mut self, reading: Reading) {
        (self.untold, self.error) = (Some(reading), reading.error);
    }

    /// Returns whether the checker takes stamps with this error for more exact than they are.
    pub(super) fn underestimates(&self, error: u64) -> bool {
        error > self.error
    }

    /// Hands over a batch if there is room; returns the number of lost records otherwise.
    pub(super) fn offer(&mut self, batch: &Numbered) -> u64 {
        let item = Item::Batch(batch.clone(), self.untold);
        let sent = self.is_connected() && self.queue.try_send((self.seen, item)).is_ok();
        self.sound = sent.then_some(self.seen);
        if sent {
            self.untold = None;
        }
        // Without a connection nothing was promised, so nothing counts as lost.
        if sent || !self.is_connected() { 0 } else { batch.records.len() as u64 }
    }

    pub(super) fn heartbeat(&mut self, at: Stamp) {
        // If the queue is full, the checker gets other messages soon enough.
        if self.is_connected()
            && self.is_sound()
            && self.queue.try_send((self.seen, Item::Heartbeat(at, self.untold))).is_ok()
        {
            self.untold = None;
        }
    }

    pub(super) fn close(self, at: Stamp) {
        // This waits for room: the thread empties the queue, or ends, within its time limits.
        let _ = self.queue.send((self.seen, Item::Bye(at)));
        drop(self.queue);
        let _ = self.thread.join();
    }
}

struct Worker {
    address: SocketAddr,
    hello: Hello,
    knows: Credentials,
    report: Report,
    items: Receiver<(u64, Item)>,
    timer: Arc<Timer>,
    state: Arc<State>,
}

impl Worker {
    fn run(self) {
        let mut backoff = Backoff::new();
        loop {
            let wait = match self.connect() {
                Ok(connection) => {
                    backoff.reset();
                    let turn = self.state.turns.fetch_add(1, Ordering::Release) + 1;
                    let ended = self.serve(connection, turn);
                    self.state.turns.fetch_add(1, Ordering::Release);
                    if ended {
                        return;
                    }
                    backoff.wait()
                }
                Err(Trouble::Refused(text)) => {
                    self.report.tell(&format!("checker {} refuses: {text}", self.address));
                    OFFENDED
                }
                Err(Trouble::Insecure(text)) => {
                    self.report.tell(&format!("no TLS with checker {}: {text}", self.address));
                    OFFENDED
                }
                Err(Trouble::Silent) => {
                    self.report.tell(&format!(
                        "checker {} says nothing; one that asks for TLS does not greet a probe \
                         without (`Builder::tls`, or \"tls\" in the configuration of a host)",
                        self.address
                    ));
                    backoff.wait()
                }
                Err(Trouble::Timeless) => {
                    self.report.tell(&format!(
                        "checker {} does not answer when it is asked for its time; nothing is sent to \
                         it until it does",
                        self.address
                    ));
                    backoff.wait()
                }
                Err(Trouble::Io(error)) => {
                    self.report.tell(&format!(
                        "checker {} cannot be reached ({error}); nothing is sent to it until it answers",
                        self.address
                    ));
                    backoff.wait()
                }
            };
            if self.rest(wait) {
                return;
            }
        }
    }

    /// Waits while nothing is to be sent; returns true when the probe has ended.
    fn rest(&self, wait: Duration) -> bool {
        loop {
            match self.items.recv_timeout(wait) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn connect(&self) -> Result<Connection, Trouble> {
        let stream = Stream::connect(&self.address, self.knows.tls.as_ref(), PATIENCE)?;
        stream.socket().set_read_timeout(Some(PATIENCE))?;
        stream.socket().set_write_timeout(Some(PATIENCE))?;
        let mut connection = Connection {
            stream,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            bytes: Vec::new(),
            has_clock: false,
            beats: 0,
        };
        let greeting = connection.read().map_err(|error| match is_timeout(&error) {
            true => Trouble::Silent,
            false => error.into(),
        });
        let Frame::Greeting(greeting) = greeting? else {
            return Err(Trouble::Refused("it does not greet as a checker does".to_owned()));
        };
        let mut hello = self.hello.clone();
        // A checker of an earlier version is addressed in that version.
        hello.version = greeting.version;
        connection.has_clock = greeting.version >= VERSION_CLOCKS;
        if let Some(secret) = &self.knows.secret {
            hello.proof = Some(secret::prove(secret, &greeting, &hello));
        }
        connection.write(&Frame::Hello(hello))?;
        match connection.read()? {
            Frame::Ack { .. } => {
                self.measure(&mut connection).map_err(|error| match is_timeout(&error) {
                    true => Trouble::Timeless,
                    false => error.into(),
                })?;
                Ok(connection)
            }
            Frame::Refuse { text, .. } => Err(Trouble::Refused(text)),
            _ => Err(Trouble::Refused("it neither accepts nor refuses the hello".to_owned())),
        }
    }

    /// Measures the checker's clock a few times, before anything is stamped with it.
    fn measure(&self, connection: &mut Connection) -> io::Result<()> {
        for _ in 0..if connection.has_clock { FIRST_PINGS } else { 0 } {
            connection.write(&Frame::Ping { sent: self.timer.own() })?;
            loop {
                if let Frame::Pong { sent, at } = connection.read()? {
                    lock(&self.state.trips).heard(sent, at, self.timer.own());
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends until the probe ends (returns true) or the connection does (returns false). What was meant
    /// for an earlier connection is not sent: it would promise what was lost with that one.
    fn serve(&self, mut connection: Connection, turn: u64) -> bool {
        let open = Arc::new(AtomicBool::new(true));
        let listener = self.listen(&mut connection, Arc::clone(&open));
        let mut ended = false;
        while open.load(Ordering::Acquire) && !ended {
            let sent = match self.items.recv_timeout(Duration::from_millis(100)) {
                Ok((meant, item)) => {
                    ended = matches!(item, Item::Bye(_));
                    if meant == turn { self.send(&mut connection, item) } else { Ok(()) }
                }
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    ended = true;
                    Ok(())
                }
            };
            if let Err(error) = sent {
                self.report.tell(&format!("checker {} is lost ({error})", self.address));
                break;
            }
        }
        connection.stream.shutdown();
        if let Ok(listener) = listener {
            let _ = listener.join();
        }
        ended
    }

    /// Reads the checker's messages, so that it never blocks on sending, until it says goodbye.
    fn listen(
        &self,
        connection: &mut Connection,
        open: Arc<AtomicBool>,
    ) -> io::Result<JoinHandle<()>> {
        let mut stream = connection.stream.clone();
        stream.socket().set_read_timeout(None)?;
        let mut decoder = std::mem::take(&mut connection.decoder);
        let (report, state) = (self.report.clone(), Arc::clone(&self.state));
        let timer = Arc::clone(&self.timer);
        Ok(thread::spawn(move || {
            loop {
                match read_frame(&mut stream, &mut decoder) {
                    Ok(Frame::Pong { sent, at }) => {
                        lock(&state.trips).heard(sent, at, timer.own());
                    }
                    Ok(Frame::Refuse { text, .. }) => {
                        report.tell(&format!("the checker ends the connection: {text}"));
                        break;
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
            open.store(false, Ordering::Release);
        }))
    }

    fn send(&self, connection: &mut Connection, item: Item) -> io::Result<()> {
        match item {
            Item::Batch(batch, reading) => {
                connection.clock(reading)?;
                self.batch(connection, &batch)
            }
            Item::Heartbeat(at, reading) => {
                connection.clock(reading)?;
                connection.beats += 1;
                connection.write(&Frame::Heartbeat { at })?;
                if connection.has_clock && connection.beats.is_multiple_of(CLOCK_BEATS) {
                    connection.write(&Frame::Ping { sent: self.timer.own() })?;
                }
                Ok(())
            }
            Item::Bye(at) => connection.write(&Frame::Bye { at }),
        }
    }

    fn batch(&self, connection: &mut Connection, batch: &Numbered) -> io::Result<()> {
        let Numbered { number, dropped, records } = batch;
        let (number, dropped) = (*number, *dropped);
        if connection.encode(&Frame::Batch(Batch { number, dropped, records: records.to_vec() })) {
            return connection.flush();
        }
        self.report.tell("an observation is too large to be sent; observe less of it");
        let dropped = dropped + records.len() as u64;
        connection.write(&Frame::Batch(Batch { number, dropped, records: Vec::new() }))
    }
}

enum Trouble {
    Refused(String),
    /// TLS with the checker failed.
    Insecure(String),
    /// The checker accepts connections but does not send a greeting.
    Silent,
    /// The checker lets the probe in but does not tell its time.
    Timeless,
    Io(io::Error),
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        if let Some(tls) = everhold_tls::trouble(&error) {
            return Trouble::Insecure(tls.to_string());
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<WireError>()) {
            Some(wire) => Trouble::Refused(wire.to_string()),
            None => Trouble::Io(error),
        }
    }
}

struct Connection {
    stream: Stream,
    encoder: Encoder,
    decoder: Decoder,
    bytes: Vec<u8>,
    /// Whether the checker supports questions about its clock.
    has_clock: bool,
    beats: u64,
}

impl Connection {
    fn read(&mut self) -> io::Result<Frame> {
        read_frame(&mut self.stream, &mut self.decoder)
    }

    /// Encodes a frame; returns false if it is too large.
    fn encode(&mut self, frame: &Frame) -> bool {
        self.bytes.clear();
        self.encoder.frame(frame, &mut self.bytes).is_ok()
    }

    fn clock(&mut self, reading: Option<Reading>) -> io::Result<()> {
        let Some(Reading { ahead, error }) = reading else { return Ok(()) };
        self.write(&Frame::Clock { ahead, error })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.bytes)
    }

    fn write(&mut self, frame: &Frame) -> io::Result<()> {
        assert!(self.encode(frame), "only batches grow");
        self.flush()
    }
}

fn read_frame(stream: &mut Stream, decoder: &mut Decoder) -> io::Result<Frame> {
    let mut bytes = [0; 4_096];
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => {}
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        match stream.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => decoder.feed(&bytes[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use everhold_trace::NodeId;
    use everhold_trace::wire::{Ordering as Order, VERSION};

    use super::*;

    /// Nothing is sent on a connection that was not seen, nor on one that is taken for another.
    #[test]
    fn a_connection_counts_from_the_look_that_sees_it_to_its_end() {
        let hello = Hello {
            version: VERSION,
            system: String::new(),
            node: NodeId(1),
            name: String::new(),
            kind: String::new(),
            incarnation: 1,
            order: Order::Clocks,
            proof: None,
        };
        let (nobody, knows) = (([127, 0, 0, 1], 1).into(), Credentials::default());
        let timer = Arc::new(Timer::new(0));
        let mut link = Link::start(nobody, hello, knows, Report::to(|_| ()), timer);
        let turn = |link: &Link| link.state.turns.fetch_add(1, Ordering::Release);
        let stands = |link: &Link| (link.was_connected(), link.is_connected());
        assert_eq!((link.look(), stands(&link)), (0, (false, false)));
        turn(&link);
        assert_eq!(stands(&link), (false, false));
        assert_eq!((link.look(), stands(&link)), (1, (true, true)));
        turn(&link);
        turn(&link);
        assert_eq!(stands(&link), (true, false), "it is another one");
        assert_eq!((link.look(), stands(&link)), (2, (true, true)));
        turn(&link);
        assert_eq!((link.look(), stands(&link)), (2, (false, false)));
        turn(&link);
        turn(&link);
        assert_eq!((link.look(), stands(&link)), (3, (false, false)), "it came and went");
    }
}
