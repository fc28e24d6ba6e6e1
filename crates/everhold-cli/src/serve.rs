//! An HTTP server for pages, sufficient for a browser on the same machine.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everhold_tls::Stream;
use everhold_watch::export::is_address;
use everhold_watch::export::server::{Request, RequestBounds, each_connection, send};

use crate::exit::BadInput;

/// The largest size of a request line with its headers.
const HEAD_MAX: usize = 16 * 1024;
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
    each_connection(listener, CONNECTIONS_MAX, move |stream| {
        // A failed connection to one browser does not concern the others.
        let _ = answer(stream, &*site);
    });
}

fn answer(stream: TcpStream, site: &impl Site) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let stream = Stream::accept(stream, None)?;
    let end = Instant::now() + PATIENCE;
    let bounds = RequestBounds { end, bytes_max: HEAD_MAX, body_max: 0 };
    let request = Request::read(&stream, bounds)?.unwrap_or_default();
    let text = |status, text| send(&stream, status, "text/plain", "", text);
    if request.host.is_some_and(|host| !is_address(&host)) {
        let refusal = "this page is at its address or at localhost, not at a name\n";
        return text("421 Misdirected Request", refusal);
    }
    if request.method != "GET" {
        return text("405 Method Not Allowed", "only GET is answered\n");
    }
    let path = request.path.split(['?', '#']).next().unwrap_or("/");
    if path == "/events" {
        return follow(stream.socket(), site);
    }
    match site.get(path) {
        Answer::Html(page) => send(&stream, "200 OK", "text/html; charset=utf-8", "", &page),
        Answer::Missing => text("404 Not Found", "there is no such page\n"),
    }
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
