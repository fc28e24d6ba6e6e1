//! A server for pages: enough of HTTP for a browser on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use everhold_watch::export::is_address;

use crate::exit::BadInput;

/// A request line and its headers are never longer.
const HEAD_MAX: u64 = 16 * 1024;
/// A browser that says nothing is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many pages are served at a time; each that follows takes one.
const CONNECTIONS_MAX: usize = 64;
/// How often a page that follows is told whether there is something new.
const BEAT: Duration = Duration::from_millis(500);

/// What is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A page.
    Html(String),
    /// There is nothing of this name.
    Missing,
}

/// What a server shows.
pub(crate) trait Site: Send + Sync + 'static {
    /// What is at a path.
    fn get(&self, path: &str) -> Answer;
    /// A text that changes when a page should be looked at again.
    fn version(&self) -> String;
}

/// Listens, or says who is in the way.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, BadInput> {
    TcpListener::bind(address).map_err(|error| {
        BadInput(format!(
            "{address} cannot be listened on: {error}; give another with --listen, or port 0 for \
             any that is free"
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
            // A browser that went away is no concern of ours.
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

/// Tells a page whenever there is something new, until it goes away.
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

/// A page that loads itself again when there is something new.
pub(crate) fn following(page: &str) -> String {
    let page = page.replacen("default-src 'none'", "default-src 'none'; connect-src 'self'", 1);
    let (head, tail) = page.rsplit_once("</body>").unwrap_or((&page, ""));
    format!(
        "{head}<script>new EventSource('/events').onmessage = () => location.reload();</script>\
         </body>{tail}"
    )
}
