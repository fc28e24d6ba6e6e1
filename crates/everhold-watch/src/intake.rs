//! Takes in what probes and agents send, and writes it to the log.
//!
//! One thread lets probes in: whoever has not said hello yet costs a place in its list and no thread, and
//! is given up after five seconds or when many others come. One thread per probe reads and checks frames;
//! whatever is wrong with one concerns nobody else. One thread writes entries: small when little comes, large when much does. A batch is
//! acknowledged when it is in the log, so that a probe can send again what was not.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use everhold_tls::{ServerTls, Stream};
use everhold_trace::NodeId;
use everhold_trace::wire::{
    Batch, Decoder, Encoder, Frame, Greeting, Hello, Record, Refusal, Stamp, What, WireError,
    secret,
};

mod stranger;

use crate::entry::{EntryWriter, Origin};
use crate::log::{Log, LogError, partition_of};
use crate::world::hash_of;

/// How probes are let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeOptions {
    /// Only this system; any, if empty.
    pub system: String,
    /// The shared secret that probes must prove to know; empty for none.
    pub secret: Vec<u8>,
    /// How connections are encrypted; they are plain, if not given.
    pub tls: Option<ServerTls>,
}

/// The counts of an intake.
#[derive(Debug, Default)]
pub struct IntakeCounts {
    /// Records written to the log.
    pub records: AtomicU64,
    /// Records that could not be written and are lost; the log shows the gap.
    pub unwritten: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections that were refused, or closed for what they said.
    pub refused: AtomicU64,
    /// Why the log cannot be written at present.
    pub failing: Mutex<Option<String>>,
}

/// A frame on its way to the log.
struct Taken {
    origin: Origin,
    frame: Frame,
    /// Where to acknowledge.
    reply: Option<Arc<Mutex<Stream>>>,
}

/// A listening socket and the threads behind it.
pub struct Intake {
    address: SocketAddr,
    counts: Arc<IntakeCounts>,
    known: Arc<Mutex<Seats>>,
    stop: Arc<AtomicBool>,
    writer: Option<thread::JoinHandle<()>>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").field("address", &self.address).finish()
    }
}

/// Frames that may wait for the log; then connections are read no further.
const QUEUE: usize = 1024;

/// Time passes in the log at least this often, also when nobody speaks.
const TICK: Duration = Duration::from_millis(50);

/// An entry is closed at about this size.
const ENTRY_BYTES: usize = 256 << 10;

/// Nobody needs more connections; more is an accident.
const CONNECTIONS_MAX: u64 = 10_000;

impl Intake {
    /// Listens, and writes to the log until it is dropped. Calls `trouble` with the problems that
    /// people should know: refusals, and a log that cannot be written.
    pub fn start(
        listener: TcpListener,
        log: Arc<dyn Log>,
        options: IntakeOptions,
        trouble: impl Fn(String) + Send + Sync + 'static,
    ) -> io::Result<Intake> {
        let address = listener.local_addr()?;
        let counts = Arc::new(IntakeCounts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let known = Arc::<Mutex<Seats>>::default();
        let (sender, receiver) = sync_channel(QUEUE);
        let trouble: Arc<dyn Fn(String) + Send + Sync> = Arc::new(trouble);
        let writer = thread::Builder::new().name("intake".into()).spawn({
            let (counts, stop, trouble) = (counts.clone(), stop.clone(), trouble.clone());
            move || write_log(&*log, &receiver, &counts, &stop, &*trouble)
        })?;
        let door = Door {
            options,
            counts: counts.clone(),
            sender,
            known: Arc::clone(&known),
            trouble,
            told_silent: Mutex::default(),
        };
        thread::Builder::new().name("door".into()).spawn({
            let stop = stop.clone();
            move || stranger::accept(&listener, &Arc::new(door), &stop)
        })?;
        Ok(Intake { address, counts, known, stop, writer: Some(writer) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a function that ends the connection of a node. Its probe comes back at once, and tells
    /// everything again. See [`Watch::ask_through`](crate::Watch::ask_through).
    pub fn asker(&self) -> impl Fn(NodeId) + Send + Sync + 'static {
        let known = Arc::clone(&self.known);
        move |node| {
            let known = lock(&known);
            let connection = known.get(&node).and_then(|seat| seat.connection.as_ref());
            connection.into_iter().for_each(|connection| connection.stream.shutdown());
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> &Arc<IntakeCounts> {
        &self.counts
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

type Seats = BTreeMap<NodeId, Seat>;

/// The newest life of a node.
struct Seat {
    incarnation: u64,
    /// `None` if it is not connected.
    connection: Option<Seated>,
}

/// The connection of a node.
struct Seated {
    stream: Stream,
    /// When something was read from it.
    heard: Arc<Mutex<Instant>>,
}

struct Door {
    options: IntakeOptions,
    counts: Arc<IntakeCounts>,
    sender: SyncSender<Taken>,
    /// The newest life of each node, and its connection.
    known: Arc<Mutex<Seats>>,
    trouble: Arc<dyn Fn(String) + Send + Sync>,
    /// The time of the last report about a silent connection.
    told_silent: Mutex<Option<Instant>>,
}

impl Seat {
    /// Whether the connection with this mark is the one that has the seat.
    fn is_taken_with(&self, heard: &Arc<Mutex<Instant>>) -> bool {
        self.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(&connection.heard, heard))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    fn known(&self) -> MutexGuard<'_, Seats> {
        lock(&self.known)
    }
}

fn refuse(stream: &mut Stream, peer: SocketAddr, end: End, door: &Door) {
    let (reason, text) = match end {
        End::Gone => return,
        End::Silent => return silent(peer, door),
        End::Deaf => {
            door.counts.refused.fetch_add(1, Relaxed);
            stream.shutdown();
            let text = "does not read what it is sent, and is cut off: acknowledgements and answers must \
                        be read";
            return (door.trouble)(format!("{peer} {text}"));
        }
        End::Insecure(text) => {
            door.counts.refused.fetch_add(1, Relaxed);
            return (door.trouble)(format!("{peer} is refused: {text}"));
        }
        End::Refused(reason, text) => (reason, text),
    };
    door.counts.refused.fetch_add(1, Relaxed);
    (door.trouble)(format!("{peer} is refused: {text}"));
    let mut bytes = Vec::new();
    if Encoder::default().frame(&Frame::Refuse { reason, text }, &mut bytes).is_ok() {
        let _ = stream.write_all(&bytes);
    }
}

/// Counts a connection that sent nothing. Where TLS is required it may be a probe without TLS, so it
/// is reported from time to time.
fn silent(peer: SocketAddr, door: &Door) {
    door.counts.refused.fetch_add(1, Relaxed);
    let mut told = door.told_silent.lock().unwrap_or_else(PoisonError::into_inner);
    if door.options.tls.is_some() && told.is_none_or(|at| at.elapsed() > SILENT_AGAIN) {
        *told = Some(Instant::now());
        (door.trouble)(format!(
            "{peer} began no TLS and is given up; a probe without TLS does the same (told once a \
             minute)"
        ));
    }
}

/// The interval between two reports about silent connections.
const SILENT_AGAIN: Duration = Duration::from_secs(60);

/// Why a connection ends.
enum End {
    /// The other side went away, or said goodbye.
    Gone,
    /// It never said anything, or not enough.
    Silent,
    /// It does not read what it is sent.
    Deaf,
    /// TLS with it failed, so it cannot be sent the reason.
    Insecure(String),
    Refused(Refusal, String),
}

impl End {
    fn insecure(error: &io::Error) -> Option<End> {
        everhold_tls::trouble(error).map(|tls| End::Insecure(tls.to_string()))
    }
}

impl From<WireError> for End {
    fn from(error: WireError) -> End {
        let reason = match error {
            WireError::Version { .. } => Refusal::Version,
            _ => Refusal::Garbage,
        };
        End::Refused(reason, error.to_string())
    }
}

fn serve(
    mut connection: Connection,
    peer: SocketAddr,
    hello: Hello,
    door: &Door,
    stop: &AtomicBool,
) {
    let stream = connection.stream.socket();
    let _ = stream.set_nonblocking(false);
    // A peer that is gone without a word must not be waited for forever.
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = stream.set_write_timeout(Some(ANSWER_MAX));
    connection.buffer.resize(64 << 10, 0);
    let mut joined = None;
    let end = converse(&mut connection, hello, door, stop, &mut joined);
    if let Some(origin) = joined {
        let mut known = door.known();
        if let Some(seat) = known.get_mut(&origin.node)
            && seat.incarnation == origin.incarnation
            && seat.is_taken_with(&connection.heard)
        {
            seat.connection = None;
        }
    }
    if let Err(end) = end {
        refuse(&mut connection.stream, peer, end, door);
    }
}

/// Answers are small, and wait for nobody: the log is written by the thread that acknowledges. If there
/// is no room for one, the other side has read nothing for long.
const ANSWER_MAX: Duration = Duration::from_millis(250);

struct Connection {
    stream: Stream,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// When something was read.
    heard: Arc<Mutex<Instant>>,
}

impl Connection {
    fn next(&mut self, stop: &AtomicBool) -> Result<Frame, End> {
        let mut silent = 0;
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame);
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => {
                    *lock(&self.heard) = Instant::now();
                    self.decoder.feed(&self.buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && !stop.load(Relaxed) && silent < 12 => {
                    silent += 1;
                }
                Err(_) => return Err(End::Gone),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn converse(
    connection: &mut Connection,
    mut hello: Hello,
    door: &Door,
    stop: &AtomicBool,
    joined: &mut Option<Origin>,
) -> Result<(), End> {
    admit(door, &hello, connection)?;
    // Names reach terminals and files of others.
    (hello.name, hello.kind) = (shown(&hello.name), shown(&hello.kind));
    let origin = Origin { node: hello.node, incarnation: hello.incarnation };
    *joined = Some(origin);
    let reply = Arc::new(Mutex::new(connection.stream.clone()));
    let send = |frame| {
        let taken = Taken { origin, frame, reply: Some(Arc::clone(&reply)) };
        door.sender.send(taken).map_err(|_| End::Gone)
    };
    send(Frame::Hello(hello))?;
    loop {
        let frame = connection.next(stop)?;
        let newest = door.known().get(&origin.node).map_or(0, |seat| seat.incarnation);
        if newest > origin.incarnation {
            let text = format!(
                "another process speaks for node {} and was started later; give each node its own \
                 number",
                origin.node
            );
            return Err(End::Refused(Refusal::NodeInUse, text));
        }
        match frame {
            frame @ (Frame::Batch(_) | Frame::Heartbeat { .. }) => send(frame)?,
            frame @ Frame::Clock { .. } => send(frame)?,
            Frame::Ping { sent } => pong(sent, &reply)?,
            frame @ Frame::Bye { .. } => return send(frame),
            Frame::Hello(_)
            | Frame::Greeting(_)
            | Frame::Ack { .. }
            | Frame::Pong { .. }
            | Frame::Refuse { .. } => {
                let text = "this frame has no place in the conversation";
                return Err(End::Refused(Refusal::Garbage, text.into()));
            }
        }
    }
}

/// A name without control characters.
fn shown(name: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    name.chars().map(escape).collect()
}

/// Whether a hello is of this system, from somebody who knows the secret.
fn vouch(door: &Door, greeting: &Greeting, hello: &Hello) -> Result<(), End> {
    let IntakeOptions { system, secret, .. } = &door.options;
    if !secret.is_empty() && !secret::is_proven(secret, greeting, hello) {
        let text = "it does not know the shared secret; give the probe the one of the watch";
        return Err(End::Refused(Refusal::Secret, text.into()));
    }
    if !system.is_empty() && *system != hello.system {
        let text = format!("this watch is for the system {system}, not {}", shown(&hello.system));
        return Err(End::Refused(Refusal::System, text));
    }
    Ok(())
}

/// A connection on which nothing was heard for so long belongs to nobody any more, if another one is
/// made in the same life: probes speak more often.
const QUIET_MAX: Duration = Duration::from_millis(900);

/// Takes note of the life of a node, unless another one is there.
fn admit(door: &Door, hello: &Hello, connection: &Connection) -> Result<(), End> {
    // A probe that reconnects at once may be faster than the end of its old connection.
    for _ in 0..20 {
        if !is_taken(&door.known(), hello) {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let mut known = door.known();
    if is_taken(&known, hello) {
        let text = format!(
            "node {} is connected already, in the same life; give each node its own number",
            hello.node
        );
        return Err(End::Refused(Refusal::NodeInUse, text));
    }
    if known.get(&hello.node).is_some_and(|seat| seat.incarnation > hello.incarnation) {
        let text = format!(
            "a later life of node {} is known; give each node its own number, and each start a \
             larger incarnation",
            hello.node
        );
        return Err(End::Refused(Refusal::NodeInUse, text));
    }
    let (stream, heard) = (connection.stream.clone(), Arc::clone(&connection.heard));
    let seat = Seat { incarnation: hello.incarnation, connection: Some(Seated { stream, heard }) };
    let old = known.insert(hello.node, seat);
    drop(known);
    // An earlier life is told when it speaks.
    let old = old.filter(|old| old.incarnation == hello.incarnation);
    if let Some(old) = old.and_then(|old| old.connection) {
        displace(old, hello.node, door);
    }
    Ok(())
}

/// Ends a connection on which nothing is heard any more, after another was made in the same life.
fn displace(mut old: Seated, node: NodeId, door: &Door) {
    let text = format!(
        "node {node} was silent on one connection and made another; if these are two processes, give \
         each node its own number"
    );
    (door.trouble)(text.clone());
    let mut bytes = Vec::new();
    let refusal = Frame::Refuse { reason: Refusal::NodeInUse, text };
    if Encoder::default().frame(&refusal, &mut bytes).is_ok() {
        let _ = old.stream.write_all(&bytes);
    }
    old.stream.shutdown();
}

/// Whether a node speaks on another connection in the same life.
fn is_taken(known: &Seats, hello: &Hello) -> bool {
    let seat = known.get(&hello.node).filter(|seat| seat.incarnation == hello.incarnation);
    let connection = seat.and_then(|seat| seat.connection.as_ref());
    connection.is_some_and(|connection| lock(&connection.heard).elapsed() < QUIET_MAX)
}

/// Says what time it is, in the time of the log's entries. It does not wait for the log: the faster
/// the answer, the better the probe knows this clock.
fn pong(sent: Stamp, reply: &Mutex<Stream>) -> Result<(), End> {
    let at = Stamp::from_nanos(now_nanos());
    let mut bytes = Vec::new();
    let _ = Encoder::default().frame(&Frame::Pong { sent, at }, &mut bytes);
    let mut stream = reply.lock().unwrap_or_else(PoisonError::into_inner);
    stream.write_all(&bytes).map_err(|error| if is_timeout(&error) { End::Deaf } else { End::Gone })
}

/// A number never used before: the operating system seeds every hasher differently.
fn nonce(options: &IntakeOptions) -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    if options.secret.is_empty() {
        return [0; 16];
    }
    let half = |salt: u64| RandomState::new().hash_one((now_micros(), salt)).to_le_bytes();
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&half(1));
    nonce[8..].copy_from_slice(&half(2));
    nonce
}

/// Microseconds since 1970.
pub(crate) fn now_micros() -> u64 {
    now_nanos() / 1_000
}

fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn write_log(
    log: &dyn Log,
    receiver: &Receiver<Taken>,
    counts: &IntakeCounts,
    stop: &AtomicBool,
    trouble: &dyn Fn(String),
) {
    while !stop.load(Relaxed) {
        let mut round = Round::new(log.partitions());
        match receiver.recv_timeout(TICK) {
            Ok(first) => {
                round.take(first);
                while round.bytes() < ENTRY_BYTES
                    && let Ok(more) = receiver.try_recv()
                {
                    round.take(more);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        match round.write(log, counts) {
            Ok(()) => *failing(counts) = None,
            Err(error) => {
                let text = format!("the log cannot be written, records are lost: {error}");
                if failing(counts).replace(text.clone()).is_none() {
                    trouble(text);
                }
            }
        }
    }
}

fn failing(counts: &IntakeCounts) -> MutexGuard<'_, Option<String>> {
    lock(&counts.failing)
}

/// Ends a connection whose records were lost here: its probe comes back and tells everything again.
fn hang_up(reply: &Mutex<Stream>) {
    let stream = reply.lock().unwrap_or_else(PoisonError::into_inner);
    stream.shutdown();
}

/// The entries that are written together, one for each partition.
struct Round {
    entries: Vec<EntryWriter>,
    acks: Vec<(Arc<Mutex<Stream>>, u64)>,
    records: u64,
}

impl Round {
    fn new(partitions: u32) -> Round {
        let entries = (0..partitions).map(|_| EntryWriter::new(0)).collect();
        Round { entries, acks: Vec::new(), records: 0 }
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(EntryWriter::len).sum()
    }

    fn take(&mut self, taken: Taken) {
        let Taken { origin, frame, reply } = taken;
        let number = match &frame {
            Frame::Batch(batch) => {
                self.records += batch.records.len() as u64;
                Some(batch.number)
            }
            Frame::Hello(_) => Some(0),
            _ => None,
        };
        match frame {
            Frame::Batch(batch) if self.entries.len() > 1 => self.split(origin, batch),
            // It was read from a frame of the same size; what names add fits too, or it is lost
            // and the next batch shows the gap.
            frame => self.entries.iter_mut().for_each(|entry| {
                let _ = entry.push(origin, &frame);
            }),
        }
        self.acks.extend(reply.zip(number));
    }

    /// Tuples go to the partition of their key; everything else to all. Every partition gets
    /// every batch, if only as a number, so that each sees gaps for itself.
    fn split(&mut self, origin: Origin, batch: Batch) {
        let count = self.entries.len();
        let Batch { number, dropped, records } = batch;
        let last = records.last().map(|record| record.at);
        let mut parts: Vec<Vec<Record>> = vec![Vec::new(); count];
        for record in records {
            match &record.what {
                What::Add(tuple) | What::Remove(tuple) => {
                    let partitions = u32::try_from(count).unwrap_or(u32::MAX);
                    parts[partition_of(hash_of(&tuple.key), partitions) as usize].push(record);
                }
                _ => parts.iter_mut().for_each(|part| part.push(record.clone())),
            }
        }
        for (entry, records) in self.entries.iter_mut().zip(parts) {
            let _ = entry.push(origin, &Frame::Batch(Batch { number, dropped, records }));
            if let Some(at) = last {
                let _ = entry.push(origin, &Frame::Heartbeat { at });
            }
        }
    }

    fn write(self, log: &dyn Log, counts: &IntakeCounts) -> Result<(), LogError> {
        // The process may have been stopped since the round began. A time before that of its frames
        // would make their stamps those of a clock that is ahead.
        let now = now_micros();
        for (partition, mut entry) in self.entries.into_iter().enumerate() {
            let partition = u32::try_from(partition).unwrap_or(u32::MAX);
            entry.arrives(now);
            if let Err(error) = log.append(partition, &[&entry.finish()]) {
                counts.unwritten.fetch_add(self.records, Relaxed);
                self.acks.iter().for_each(|(reply, _)| hang_up(reply));
                return Err(error);
            }
        }
        counts.records.fetch_add(self.records, Relaxed);
        let mut latest: Vec<(Arc<Mutex<Stream>>, u64)> = Vec::new();
        for (reply, number) in self.acks {
            match latest.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &reply)) {
                Some((_, highest)) => *highest = (*highest).max(number),
                None => latest.push((reply, number)),
            }
        }
        for (reply, batch) in latest {
            let mut bytes = Vec::new();
            let _ = Encoder::default().frame(&Frame::Ack { batch }, &mut bytes);
            let mut stream = reply.lock().unwrap_or_else(PoisonError::into_inner);
            if stream.write_all(&bytes).is_err() {
                // A part of a frame may be on its way: nothing can follow it.
                stream.shutdown();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::read_entry;
    use crate::log::{Cursor, Sequence};

    /// Keeps the last entry.
    #[derive(Debug, Default)]
    struct Last(Mutex<Vec<u8>>);

    impl Log for Last {
        fn partitions(&self) -> u32 {
            1
        }
        fn append(&self, _: u32, entries: &[&[u8]]) -> Result<Sequence, LogError> {
            *lock(&self.0) = entries.last().map_or_else(Vec::new, |entry| entry.to_vec());
            Ok(1)
        }
        fn cursor(&self, _: u32, _: Sequence) -> Result<Box<dyn Cursor>, LogError> {
            Err(LogError::Unusable("it is not read".to_owned()))
        }
        fn next_sequence(&self, _: u32) -> Result<Sequence, LogError> {
            Ok(1)
        }
        fn trim(&self, _: u32, _: Sequence) -> Result<(), LogError> {
            Ok(())
        }
    }

    /// The process may be stopped for as long as it likes between the beginning of a round and its end.
    #[test]
    fn an_entry_does_not_arrive_before_its_frames() {
        let log = Last::default();
        let mut round = Round::new(1);
        thread::sleep(Duration::from_millis(5));
        let at = Stamp::from_micros(now_micros());
        let origin = Origin { node: NodeId(1), incarnation: 1 };
        round.take(Taken { origin, frame: Frame::Heartbeat { at }, reply: None });
        round.write(&log, &IntakeCounts::default()).expect("it takes everything");
        let arrival = read_entry(&lock(&log.0)).expect("it is an entry");
        assert!(arrival.micros >= at.micros(), "{arrival:?}");
    }
}
