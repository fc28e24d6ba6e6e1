//! An HTTP server for pages, sufficient for a browser on the same machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use everhold_watch::export::is_address;

use crate::exit::BadInput;

/// The largest size of a request line with its headers.
const HEAD_MAX: u64 = 16 * 1024;
/// The time after which a silent browser is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest number of connections that are served at a time; a page that follows a trace holds one.
const CONNECTIONS_MAX: usize = 64;
/// The interval at which a page is told of changes.
const BEAT: Duration = Duration::from_millis(500);

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A page.
    Html(String),
    /// There is nothing at this path.
    Missing,
}

/// The content of a server.
pub(crate) trait Site: Send + Sync + 'static {
    /// The content at a path.
    fn get(&self, path: &str) -> Answer;
    /// A text that changes when the page should be loaded again.
    fn version(&self) -> String;
}

/// Listens, or returns an error that names the address in use.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, BadInput> {
    TcpListener::bind(address).map_err(|error| {
        BadInput(format!(
            "cannot listen on {address}: {error}; give another address with --listen, or port 0 \
             for any free port"
        ))
    })
}

/// Serves until the program ends.
pub(crate) fn serve(listener: &TcpListener, site: Arc<impl Site>) {
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        if busy.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            busy.fetch_sub(1, Relaxed);
            continue;
        }
        let (site, done) = (Arc::clone(&site), Arc::clone(&busy));
        std::thread::spawn(move || {
            // A failed connection to one browser does not concern the others.
            let _ = answer(&stream, &*site);
            done.fetch_sub(1, Relaxed);
        });
    }
}

/// A connection of which nothing is read after a moment, however slowly it comes.
struct Until<'a>(&'a TcpStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))?;
        self.0.read(buffer)
    }
}

fn answer(stream: &TcpStream, site: &impl Site) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = BufReader::new(Until(stream, Instant::now() + PATIENCE).take(HEAD_MAX));
    let mut request = String::new();
    head.read_line(&mut request)?;
    let mut line = String::new();
    let mut host = None;
    while head.read_line(&mut line)? > 2 {
        let header = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        host = header.map(|(_, value)| value.trim().to_owned()).or(host);
        line.clear();
    }
    if host.is_some_and(|host| !is_address(&host)) {
        let text = "this page is at its address or at localhost, not at a name\n";
        return send(stream, "421 Misdirected Request", "text/plain", text);
    }
    let mut words = request.split_whitespace();
    let (method, path) = (words.next(), words.next().unwrap_or("/"));
    if method != Some("GET") {
        return send(stream, "405 Method Not Allowed", "text/plain", "only GET is answered\n");
    }
    let path = path.split(['?', '#']).next().unwrap_or("/");
    if path == "/events" {
        return follow(stream, site);
    }
    match site.get(path) {
        Answer::Html(page) => send(stream, "200 OK", "text/html; charset=utf-8", &page),
        Answer::Missing => send(stream, "404 Not Found", "text/plain", "there is no such page\n"),
    }
}

fn send(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body.as_bytes())
}

/// Notifies a page of each change, until the connection ends.
fn follow(mut stream: &TcpStream, site: &impl Site) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n",
    )?;
    let mut told = site.version();
    loop {
        std::thread::sleep(BEAT);
        let now = site.version();
        if now == told {
            stream.write_all(b": beat\n\n")?;
        } else {
            stream.write_all(b"data: changed\n\n")?;
            told = now;
        }
    }
}

/// Adds a script to a page that loads it again when its content changes.
pub(crate) fn following(page: &str) -> String {
    let page = page.replacen("default-src 'none'", "default-src 'none'; connect-src 'self'", 1);
    let (head, tail) = page.rsplit_once("</body>").unwrap_or((&page, ""));
    format!(
        "{head}<script>new EventSource('/events').onmessage = () => location.reload();</script>\
         </body>{tail}"
    )
}
