//! Those who have not said hello yet.
//!
//! All of them are listened to by one thread, which also does their part of the handshake of TLS; each
//! costs a place in a list.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use everhold_tls::Stream;
use everhold_trace::wire::{Decoder, Encoder, Frame, Greeting, Hello, Refusal, VERSION};

use super::{CONNECTIONS_MAX, Connection, Door, End, is_timeout, nonce, refuse, serve, vouch};

/// The largest number of connections without a hello, and the time for which each may be without one.
const STRANGERS_MAX: usize = 512;
const HELLO_MAX: Duration = Duration::from_secs(5);

/// How much of a hello is read at once.
const HELLO_BYTES: usize = 1 << 10;

/// The longest hello.
const HELLO_BYTES_MAX: usize = 16 << 10;

/// How TLS begins.
const TLS_HELLO: [u8; 2] = [0x16, 0x03];

const SPEAKS_TLS: &str =
    "it speaks TLS, but this watch was started without; give it --tls-cert and --tls-key";

/// The interval at which connections without a hello are read and new ones are accepted.
const POLL: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_millis(10);

/// Lets probes in, until the intake ends.
pub(super) fn accept(listener: &TcpListener, door: &Arc<Door>, stop: &Arc<AtomicBool>) {
    if listener.set_nonblocking(true).is_err() {
        return (door.trouble)("the listening socket cannot be polled".to_owned());
    }
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    while !stop.load(Relaxed) {
        while let Ok((stream, peer)) = listener.accept() {
            strangers.extend(Stranger::greet(stream, peer, door));
            if strangers.len() > STRANGERS_MAX {
                // A probe says hello at once: whoever has waited for longest is none.
                strangers.pop_front();
                door.counts.refused.fetch_add(1, Relaxed);
            }
        }
        for _ in 0..strangers.len() {
            let Some(mut stranger) = strangers.pop_front() else { break };
            match stranger.listen() {
                Ok(None) if stranger.since.elapsed() < HELLO_MAX => strangers.push_back(stranger),
                Ok(None) => stranger.turn_away(End::Silent, door),
                Ok(Some(hello)) => stranger.enter(hello, door, stop),
                Err(end) => stranger.turn_away(end, door),
            }
        }
        thread::sleep(if strangers.is_empty() { IDLE } else { POLL });
    }
}

/// A connection on which no hello was said yet.
struct Stranger {
    connection: Connection,
    greeting: Greeting,
    peer: SocketAddr,
    since: Instant,
    bytes: usize,
}

impl Stranger {
    fn greet(stream: TcpStream, peer: SocketAddr, door: &Door) -> Option<Stranger> {
        stream.set_nonblocking(true).ok()?;
        let _ = stream.set_nodelay(true);
        let greeting = Greeting { version: VERSION, nonce: nonce(&door.options) };
        let mut bytes = Vec::new();
        Encoder::default().frame(&Frame::Greeting(greeting.clone()), &mut bytes).ok()?;
        let buffer = vec![0; HELLO_BYTES];
        // Behind TLS the greeting waits for the end of the handshake.
        let stream = Stream::accept(stream, door.options.tls.as_ref()).ok()?;
        let heard = Arc::new(Mutex::new(Instant::now()));
        let mut connection = Connection { stream, decoder: Decoder::default(), buffer, heard };
        connection.stream.write_all(&bytes).ok()?;
        Some(Stranger { connection, greeting, peer, since: Instant::now(), bytes: 0 })
    }

    /// The hello, if it is there.
    fn listen(&mut self) -> Result<Option<Hello>, End> {
        let Connection { stream, decoder, buffer, heard: _ } = &mut self.connection;
        match stream.read(buffer) {
            Ok(0) => return Err(self.gone()),
            Ok(count) => {
                if self.bytes == 0 && buffer[..count].starts_with(&TLS_HELLO) {
                    return Err(End::Refused(Refusal::Garbage, SPEAKS_TLS.to_owned()));
                }
                self.bytes += count;
                decoder.feed(&buffer[..count]);
            }
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => {
                return Err(End::insecure(&error).unwrap_or_else(|| self.gone()));
            }
        }
        match decoder.next_frame()? {
            None if self.bytes > HELLO_BYTES_MAX => {
                Err(End::Refused(Refusal::Garbage, "its hello does not end".into()))
            }
            None => Ok(None),
            Some(Frame::Hello(hello)) => Ok(Some(hello)),
            Some(_) => {
                Err(End::Refused(Refusal::Garbage, "the first frame must be a hello".into()))
            }
        }
    }

    /// It went away. A probe without TLS waits for a greeting that never comes, and goes.
    fn gone(&self) -> End {
        if self.connection.stream.is_handshaking() { End::Silent } else { End::Gone }
    }

    /// It said hello: if that is right, it gets a thread.
    fn enter(self, hello: Hello, door: &Arc<Door>, stop: &Arc<AtomicBool>) {
        if let Err(end) = vouch(door, &self.greeting, &hello) {
            return self.turn_away(end, door);
        }
        if door.counts.connections.load(Relaxed) >= CONNECTIONS_MAX {
            let text = "too many probes are connected".to_owned();
            return self.turn_away(End::Refused(Refusal::Busy, text), door);
        }
        let (door, stop) = (Arc::clone(door), Arc::clone(stop));
        door.counts.connections.fetch_add(1, Relaxed);
        let counts = Arc::clone(&door.counts);
        let spawned = thread::Builder::new().name("probe".into()).spawn(move || {
            serve(self.connection, self.peer, hello, &door, &stop);
            door.counts.connections.fetch_sub(1, Relaxed);
        });
        if spawned.is_err() {
            counts.connections.fetch_sub(1, Relaxed);
        }
    }

    fn turn_away(mut self, end: End, door: &Door) {
        refuse(&mut self.connection.stream, self.peer, end, door);
    }
}
