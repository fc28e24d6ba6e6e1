//! A connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::session::Session;
use crate::{ClientTls, ServerTls, TlsError};

/// The first byte of every TLS conversation: the type of a handshake record.
const HANDSHAKE: u8 = 0x16;
/// The other possible first byte of an answer: the type of an alert record.
const ALERT: u8 = 0x15;

/// The largest size of the content of a TLS record.
const RECORD: usize = 16 << 10;

/// A connection, with or without TLS. Its clones share the connection: one thread may read while
/// another writes.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    socket: TcpStream,
    secured: Option<Secured>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tls = self.0.secured.is_some();
        f.debug_struct("Stream").field("socket", &self.0.socket).field("tls", &tls).finish()
    }
}

/// The state of TLS. Locks are taken in the order of the fields. While a thread waits for the
/// socket, it holds only the lock of its direction, so a peer that does not read does not block
/// reading from it.
struct Secured {
    incoming: Mutex<Incoming>,
    /// Encrypted bytes to be sent.
    outgoing: Mutex<Vec<u8>>,
    session: Mutex<Session>,
    /// Whether the other side began with something other than TLS.
    is_plain: AtomicBool,
}

/// Bytes from the socket that were not decrypted yet.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    from: usize,
    until: usize,
    /// Whether any bytes have arrived.
    begun: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the TLS problem behind an error of reading or writing, if there is one.
#[must_use]
pub fn trouble(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

impl Stream {
    /// Makes a connection without TLS.
    #[must_use]
    pub fn plain(socket: TcpStream) -> Stream {
        Stream(Arc::new(Inner { socket, secured: None }))
    }

    fn secured(socket: TcpStream, session: Session) -> Stream {
        let secured = Secured {
            incoming: Mutex::default(),
            outgoing: Mutex::default(),
            session: Mutex::new(session),
            is_plain: AtomicBool::new(false),
        };
        Stream(Arc::new(Inner { socket, secured: Some(secured) }))
    }

    /// Connects; the handshake, if there is one, ends or fails within twice the patience.
    ///
    /// # Errors
    ///
    /// If no one listens at the address, or the other side is not the expected one; see
    /// [`trouble`].
    pub fn connect(
        address: &SocketAddr,
        tls: Option<&ClientTls>,
        patience: Duration,
    ) -> io::Result<Stream> {
        let socket = TcpStream::connect_timeout(address, patience)?;
        socket.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Stream::plain(socket)) };
        socket.set_write_timeout(Some(patience))?;
        let stream = Stream::secured(socket, tls.begin(address.ip())?);
        stream.shake_hands(Instant::now() + 2 * patience)?;
        stream.0.socket.set_read_timeout(None)?;
        stream.0.socket.set_write_timeout(None)?;
        Ok(stream)
    }

    /// Takes an accepted connection. The handshake, if there is one, happens during the first
    /// reads.
    ///
    /// # Errors
    ///
    /// If TLS cannot begin.
    pub fn accept(socket: TcpStream, tls: Option<&ServerTls>) -> io::Result<Stream> {
        match tls {
            Some(tls) => Ok(Stream::secured(socket, tls.begin()?)),
            None => Ok(Stream::plain(socket)),
        }
    }

    /// Returns the socket, for its settings.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.0.socket
    }

    /// Returns whether the other side sent something other than TLS where TLS is required.
    #[must_use]
    pub fn is_plain_by_mistake(&self) -> bool {
        self.0.secured.as_ref().is_some_and(|secured| secured.is_plain.load(Relaxed))
    }

    /// Returns whether a handshake is in progress.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.0.secured.as_ref().is_some_and(|secured| lock(&secured.session).is_handshaking())
    }

    /// Announces that nothing more will be sent.
    pub fn finish(&self) {
        if let Some(secured) = &self.0.secured {
            lock(&secured.session).finish();
            let _ = secured.flush(&self.0.socket);
        }
        let _ = self.0.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection in both directions.
    pub fn shutdown(&self) {
        let _ = self.0.socket.shutdown(Shutdown::Both);
    }

    /// Reads, but not beyond the deadline `end`, however slowly bytes arrive.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or an error of the socket; see [`trouble`].
    pub fn read_before(&self, buffer: &mut [u8], end: Instant) -> io::Result<usize> {
        self.read_until(buffer, Some(end))
    }

    fn read_until(&self, buffer: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
        let Inner { socket, secured } = &*self.0;
        match secured {
            Some(secured) => secured.read(socket, buffer, end),
            None => wait_for(socket, buffer, end),
        }
    }

    fn shake_hands(&self, end: Instant) -> io::Result<()> {
        let Inner { socket, secured } = &*self.0;
        let Some(secured) = secured else { return Ok(()) };
        secured.flush(socket)?;
        let mut incoming = lock(&secured.incoming);
        while lock(&secured.session).is_handshaking() {
            secured.receive(socket, &mut incoming, Some(end)).map_err(|error| {
                if !is_timeout(&error) {
                    return error;
                }
                let text = "it does not answer the handshake of TLS in time; does it speak TLS?";
                TlsError(text.to_owned()).into()
            })?;
        }
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reads from the socket within the remaining time.
fn wait_for(mut socket: &TcpStream, buffer: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
    if let Some(end) = end {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
    }
    socket.read(buffer)
}

impl Secured {
    fn read(
        &self,
        socket: &TcpStream,
        buffer: &mut [u8],
        end: Option<Instant>,
    ) -> io::Result<usize> {
        let mut incoming = lock(&self.incoming);
        loop {
            let read = lock(&self.session).read(buffer)?;
            if let Some(count) = read {
                return Ok(count);
            }
            self.receive(socket, &mut incoming, end)?;
        }
    }

    /// Processes some bytes of TLS, from the socket if none are left, and sends the necessary
    /// answers.
    fn receive(
        &self,
        socket: &TcpStream,
        incoming: &mut Incoming,
        end: Option<Instant>,
    ) -> io::Result<()> {
        if incoming.from == incoming.until {
            self.fetch(socket, incoming, end)?;
        }
        let waiting = &incoming.bytes[incoming.from..incoming.until];
        let taken = lock(&self.session).receive(waiting);
        // This also sends the alert that names the problem.
        let flushed = self.flush(socket);
        let taken = taken?;
        if taken == 0 {
            return Err(io::Error::other("a TLS record exceeds the buffer"));
        }
        incoming.from += taken;
        match flushed {
            Err(error) if !is_timeout(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn fetch(
        &self,
        socket: &TcpStream,
        incoming: &mut Incoming,
        end: Option<Instant>,
    ) -> io::Result<()> {
        incoming.bytes.resize(RECORD, 0);
        let count = wait_for(socket, &mut incoming.bytes, end)?;
        (incoming.from, incoming.until) = (0, count);
        if count == 0 {
            return Err(self.ended(incoming.begun));
        }
        let first = incoming.bytes[0];
        if !incoming.begun && first != HANDSHAKE && first != ALERT {
            self.is_plain.store(true, Relaxed);
            return Err(TlsError(if lock(&self.session).is_server() {
                "it does not speak TLS, but this address does; enable it (`everhold help security`)"
                    .to_owned()
            } else {
                "it does not speak TLS; remove the TLS settings here, or give it a certificate"
                    .to_owned()
            })
            .into());
        }
        incoming.begun = true;
        Ok(())
    }

    /// Returns the error for a connection that ended without the closing alert of TLS.
    fn ended(&self, begun: bool) -> io::Error {
        let session = lock(&self.session);
        if session.is_server() || !session.is_handshaking() {
            return io::ErrorKind::UnexpectedEof.into();
        }
        let text = match begun {
            false => "it ended the connection at the handshake of TLS; does it speak TLS?",
            true => "it ended the connection during the handshake of TLS",
        };
        TlsError(text.to_owned()).into()
    }

    /// Sends the pending bytes. If another thread is sending at the moment, that thread sends them
    /// too.
    fn flush(&self, socket: &TcpStream) -> io::Result<()> {
        let mut outgoing = match self.outgoing.try_lock() {
            Ok(outgoing) => outgoing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        lock(&self.session).take_out(&mut outgoing);
        send(socket, &mut outgoing)
    }

    fn write(&self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        // The rest of a write that timed out must be sent first.
        send(socket, &mut outgoing)?;
        let count = {
            let mut session = lock(&self.session);
            let count = session.write(&bytes[..bytes.len().min(RECORD)])?;
            session.take_out(&mut outgoing);
            count
        };
        send(socket, &mut outgoing)?;
        Ok(count)
    }
}

/// Sends bytes and removes those that were sent.
fn send(mut socket: &TcpStream, outgoing: &mut Vec<u8>) -> io::Result<()> {
    let mut sent = 0;
    let result = loop {
        if sent == outgoing.len() {
            break Ok(());
        }
        match socket.write(&outgoing[sent..]) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    outgoing.drain(..sent);
    result
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_until(buffer, None)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_until(buffer, None)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Inner { socket, secured } = &*self.0;
        match secured {
            Some(secured) => secured.write(socket, bytes),
            None => (&*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
