//! The connection to one checker, on a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Hello, Record, Stamp, WireError, secret,
};

use crate::backoff::Backoff;
use crate::report::Report;

/// How many batches may wait for a slow checker.
const WAITING: usize = 64;

/// How long a checker may take for its next words or bytes.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a checker that refused is left alone.
const OFFENDED: Duration = Duration::from_secs(5);

enum Item {
    Batch { records: Arc<[Record]>, dropped: u64 },
    Heartbeat(Stamp),
    Bye(Stamp),
}

/// The end that the draining thread holds.
pub(super) struct Link {
    queue: SyncSender<Item>,
    state: Arc<State>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    connected: AtomicBool,
    connections: AtomicU64,
    /// Records that this checker will never get.
    lost: AtomicU64,
}

impl Link {
    pub(super) fn start(
        address: SocketAddr,
        hello: Hello,
        secret: Option<Vec<u8>>,
        report: Report,
    ) -> Link {
        let (queue, items) = mpsc::sync_channel(WAITING);
        let state = Arc::new(State::default());
        let worker = Worker { address, hello, secret, report, items, state: Arc::clone(&state) };
        let thread = thread::Builder::new()
            .name("everhold-link".to_owned())
            .spawn(move || worker.run())
            .expect("the system has a thread to spare");
        Link { queue, state, thread }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state.connected.load(Ordering::Acquire)
    }

    pub(super) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Acquire)
    }

    /// Hands over a batch if there is room; returns how many records are lost if not.
    pub(super) fn offer(&self, records: &Arc<[Record]>, dropped: u64) -> u64 {
        let count = records.len() as u64;
        let item = Item::Batch { records: Arc::clone(records), dropped };
        if self.is_connected() && self.queue.try_send(item).is_ok() {
            return 0;
        }
        self.state.lost.fetch_add(count + dropped, Ordering::Relaxed);
        // Nobody was promised anything while nobody was connected.
        if self.is_connected() { count } else { 0 }
    }

    pub(super) fn heartbeat(&self, at: Stamp) {
        if self.is_connected() {
            // A full queue has news enough.
            let _ = self.queue.try_send(Item::Heartbeat(at));
        }
    }

    pub(super) fn close(self, at: Stamp) {
        let _ = self.queue.try_send(Item::Bye(at));
        drop(self.queue);
        let _ = self.thread.join();
    }
}

struct Worker {
    address: SocketAddr,
    hello: Hello,
    secret: Option<Vec<u8>>,
    report: Report,
    items: Receiver<Item>,
    state: Arc<State>,
}

impl Worker {
    fn run(self) {
        let mut backoff = Backoff::new();
        let mut number = 0;
        loop {
            let wait = match self.connect() {
                Ok(connection) => {
                    backoff.reset();
                    self.state.connected.store(true, Ordering::Release);
                    self.state.connections.fetch_add(1, Ordering::Release);
                    let ended = self.serve(connection, &mut number);
                    self.state.connected.store(false, Ordering::Release);
                    if ended {
                        return;
                    }
                    backoff.wait()
                }
                Err(Trouble::Refused(text)) => {
                    self.report.tell(&format!("checker {} refuses: {text}", self.address));
                    OFFENDED
                }
                Err(Trouble::Io(error)) => {
                    self.report.tell(&format!(
                        "checker {} cannot be reached ({error}); nothing is sent to it until it can",
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

    /// Waits while nothing should come; true when the probe ended.
    fn rest(&self, wait: Duration) -> bool {
        loop {
            match self.items.recv_timeout(wait) {
                Ok(Item::Batch { records, dropped }) => {
                    let lost = records.len() as u64 + dropped;
                    self.state.lost.fetch_add(lost, Ordering::Relaxed);
                }
                Ok(Item::Heartbeat(_) | Item::Bye(_)) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn connect(&self) -> Result<Connection, Trouble> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Connection {
            stream,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            bytes: Vec::new(),
        };
        let Frame::Greeting(greeting) = connection.read()? else {
            return Err(Trouble::Refused("it does not greet as a checker does".to_owned()));
        };
        let mut hello = self.hello.clone();
        if let Some(secret) = &self.secret {
            hello.proof = Some(secret::prove(secret, &greeting, &hello));
        }
        connection.write(&Frame::Hello(hello))?;
        match connection.read()? {
            Frame::Ack { .. } => Ok(connection),
            Frame::Refuse { text, .. } => Err(Trouble::Refused(text)),
            _ => Err(Trouble::Refused("it answers a hello with neither yes nor no".to_owned())),
        }
    }

    /// Sends until the probe ends, which is true, or the connection does.
    fn serve(&self, mut connection: Connection, number: &mut u64) -> bool {
        let open = Arc::new(AtomicBool::new(true));
        let listener = connection.listen(Arc::clone(&open), self.report.clone());
        let mut ended = false;
        while open.load(Ordering::Acquire) && !ended {
            let sent = match self.items.recv_timeout(Duration::from_millis(100)) {
                Ok(item) => {
                    ended = matches!(item, Item::Bye(_));
                    self.send(&mut connection, item, number)
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
        let _ = connection.stream.shutdown(Shutdown::Both);
        if let Ok(listener) = listener {
            let _ = listener.join();
        }
        ended
    }

    fn send(&self, connection: &mut Connection, item: Item, number: &mut u64) -> io::Result<()> {
        match item {
            Item::Batch { records, dropped } => {
                let dropped = dropped + self.state.lost.swap(0, Ordering::Relaxed);
                self.batch(connection, &records, dropped, number)
            }
            Item::Heartbeat(at) | Item::Bye(at) if self.state.lost.load(Ordering::Relaxed) > 0 => {
                // A promise that everything was sent would not be true: say first what was not.
                let dropped = self.state.lost.swap(0, Ordering::Relaxed);
                self.batch(connection, &[], dropped, number)?;
                connection.write(&Frame::Heartbeat { at })
            }
            Item::Heartbeat(at) => connection.write(&Frame::Heartbeat { at }),
            Item::Bye(at) => connection.write(&Frame::Bye { at }),
        }
    }

    /// Sends a batch, in halves if it is too large for a frame; a record that alone is too large
    /// is dropped.
    fn batch(
        &self,
        connection: &mut Connection,
        records: &[Record],
        dropped: u64,
        number: &mut u64,
    ) -> io::Result<()> {
        *number += 1;
        let batch = Batch { number: *number, dropped, records: records.to_vec() };
        if connection.encode(&Frame::Batch(batch)) {
            return connection.flush();
        }
        *number -= 1;
        if records.len() <= 1 {
            self.report.tell("an observation is too large to be sent; observe less of it");
            return self.batch(connection, &[], dropped + records.len() as u64, number);
        }
        let (first, second) = records.split_at(records.len() / 2);
        self.batch(connection, first, dropped, number)?;
        self.batch(connection, second, 0, number)
    }
}

enum Trouble {
    Refused(String),
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<WireError>()) {
            Some(wire) => Trouble::Refused(wire.to_string()),
            None => Trouble::Io(error),
        }
    }
}

struct Connection {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    bytes: Vec<u8>,
}

impl Connection {
    fn read(&mut self) -> io::Result<Frame> {
        read_frame(&mut self.stream, &mut self.decoder)
    }

    /// False if it is too large.
    fn encode(&mut self, frame: &Frame) -> bool {
        self.bytes.clear();
        self.encoder.frame(frame, &mut self.bytes).is_ok()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.bytes)
    }

    fn write(&mut self, frame: &Frame) -> io::Result<()> {
        assert!(self.encode(frame), "only batches grow");
        self.flush()
    }

    /// Takes in what the checker says, so that it never waits for us, until it says goodbye.
    fn listen(&mut self, open: Arc<AtomicBool>, report: Report) -> io::Result<JoinHandle<()>> {
        let mut stream = self.stream.try_clone()?;
        stream.set_read_timeout(None)?;
        let mut decoder = std::mem::take(&mut self.decoder);
        Ok(thread::spawn(move || {
            loop {
                match read_frame(&mut stream, &mut decoder) {
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
}

fn read_frame(stream: &mut TcpStream, decoder: &mut Decoder) -> io::Result<Frame> {
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
