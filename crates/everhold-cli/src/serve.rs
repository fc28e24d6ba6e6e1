//! An HTTP server for pages, sufficient for a browser on the same machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::exit::BadInput;

/// The largest size of a request line with its headers.
const HEAD_MAX: u64 = 16 * 1024;
/// The time after which a silent browser is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
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
    for stream in listener.incoming().flatten() {
        let site = Arc::clone(&site);
        std::thread::spawn(move || {
            // A failed connection to one browser does not concern the others.
            let _ = answer(&stream, &*site);
        });
    }
}

fn answer(stream: &TcpStream, site: &impl Site) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = BufReader::new(stream.take(HEAD_MAX));
    let mut request = String::new();
    head.read_line(&mut request)?;
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
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
