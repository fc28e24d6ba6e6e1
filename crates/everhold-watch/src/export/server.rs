//! A small HTTP server: bounded connections, requests that arrive before a deadline, answers after
//! which the connection ends. The listener of a watch and the pages of the program are built on it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use everhold_tls::Stream;

use super::access;

/// Handles every connection in a thread of its own, and at most `connections_max` at a time: a
/// further one is closed, so that a client that connects and sends nothing does not keep others
/// waiting for long. Returns when the listener fails.
pub fn each_connection(
    listener: &TcpListener,
    connections_max: usize,
    handle: impl Fn(TcpStream) + Send + Sync + 'static,
) {
    let (handle, busy) = (Arc::new(handle), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming().flatten() {
        if busy.fetch_add(1, Relaxed) >= connections_max {
            busy.fetch_sub(1, Relaxed);
            continue;
        }
        let (handle, done) = (Arc::clone(&handle), Arc::clone(&busy));
        let spawned = thread::Builder::new().name("request".into()).spawn(move || {
            handle(stream);
            done.fetch_sub(1, Relaxed);
        });
        if spawned.is_err() {
            busy.fetch_sub(1, Relaxed);
        }
    }
}

/// The bounds on a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestBounds {
    /// The moment by which the request must have arrived, however slowly it is sent.
    pub end: Instant,
    /// The largest number of bytes that are read.
    pub bytes_max: usize,
    /// The largest size of a body in bytes; with 0, bodies are not read.
    pub body_max: usize,
}

/// A request, reduced to the headers that matter here.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The secret that the client presents, in whichever header; empty if there is none.
    pub secret: String,
    /// The `Host` header: the name under which the client reached the server.
    pub host: Option<String>,
    /// The `Origin` header: the site whose page makes the request, if a browser's page does.
    pub origin: Option<String>,
    /// The body.
    pub body: String,
}

impl Request {
    /// Reads a request. Returns `None` if its first line has no method and path.
    ///
    /// # Errors
    ///
    /// If the connection fails, or the request does not arrive in time.
    pub fn read(stream: &Stream, bounds: RequestBounds) -> io::Result<Option<Request>> {
        let until = Until { stream, end: bounds.end };
        let mut reader = BufReader::new(until).take(bounds.bytes_max as u64);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
        let mut request = Request { method, path, ..Request::default() };
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
                break;
            }
            let Some((name, value)) = header.split_once(':') else { continue };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "x-everhold-secret" => value.trim().clone_into(&mut request.secret),
                "authorization" => {
                    request.secret = access::claimed(value.trim()).unwrap_or_default();
                }
                "host" => request.host = Some(value.trim().to_owned()),
                "origin" => request.origin = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length.min(bounds.body_max)];
        reader.read_exact(&mut body)?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Ok(Some(request))
    }
}

/// A connection that is not read after a moment.
struct Until<'a> {
    stream: &'a Stream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read_before(buffer, self.end)
    }
}

/// Writes an answer with its status, such as `200 OK`, the type of its content, and further header
/// lines, each with its line end.
///
/// # Errors
///
/// If the connection fails.
pub fn send(
    mut out: impl Write,
    status: &str,
    kind: &str,
    headers: &str,
    body: &str,
) -> io::Result<()> {
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
