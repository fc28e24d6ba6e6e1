//! Enough of HTTP for metrics, status and control.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use everhold_tls::{ClientTls, ServerTls, Stream};

use super::{access, metrics, status};
use crate::engine::Watch;
use crate::intake::IntakeCounts;
use crate::notice::ViolationId;
use crate::rule::{BadRules, edited};

/// More pages: what is at a path, as a content type and a body.
pub type Pages = Box<dyn Fn(&str) -> Option<(&'static str, String)> + Send + Sync>;

/// What is served.
pub struct Served {
    /// The checkers.
    pub watch: Arc<Watch>,
    /// What is taken in here, if anything is.
    pub intake: Option<Arc<IntakeCounts>>,
    /// Only those who know it are answered, if it is not empty.
    pub secret: Vec<u8>,
    /// Asked for every other path.
    pub pages: Pages,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("watch", &self.watch).finish_non_exhaustive()
    }
}

/// Serves metrics, status and control until the process ends.
///
/// # Errors
///
/// If the socket cannot be asked for its address.
pub fn serve(listener: TcpListener, served: Served) -> std::io::Result<SocketAddr> {
    serve_over(None, listener, served)
}

/// The same, over TLS if it is given.
///
/// # Errors
///
/// If the socket cannot be asked for its address.
pub fn serve_over(
    tls: Option<ServerTls>,
    listener: TcpListener,
    served: Served,
) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let served = Arc::new(served);
    let busy = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("http".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Somebody who connects and says nothing must not keep others waiting.
            if busy.fetch_add(1, Relaxed) >= REQUESTS_MAX {
                busy.fetch_sub(1, Relaxed);
                continue;
            }
            let (served, done, tls) = (Arc::clone(&served), Arc::clone(&busy), tls.clone());
            let spawned = thread::Builder::new().name("request".into()).spawn(move || {
                let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
                let _ = Stream::accept(stream, tls.as_ref()).map(|s| answer(&s, &served));
                done.fetch_sub(1, Relaxed);
            });
            if spawned.is_err() {
                busy.fetch_sub(1, Relaxed);
            }
        }
    })?;
    Ok(address)
}

/// So many requests are answered at a time.
const REQUESTS_MAX: usize = 32;

/// The longest text of rules.
const BODY_MAX: usize = 1 << 20;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// So long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(4);

fn answer(mut stream: &Stream, served: &Served) -> std::io::Result<()> {
    let request = match read_request(stream) {
        Err(_) if stream.is_plain_by_mistake() => {
            stream.socket().write_all(NOT_PLAIN.as_bytes())?;
            return hang_up(stream);
        }
        request => request?,
    };
    let Some(request) = request else { return Ok(()) };
    let refused = access::refusal(&request, &served.secret);
    let (status, kind, body) = match refused {
        Some((status, text)) => (status, TEXT, format!("{text}\n")),
        None => respond(&request, served),
    };
    let length = body.len();
    let ask = if status.starts_with("401") { access::ASK } else { "" };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{ask}\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    stream.finish();
    Ok(())
}

/// What is told to those who speak no TLS though they have to.
const NOT_PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
                         \r\nthis address speaks TLS: ask https://, or give --tls-ca with --at\n";

/// Ends a connection so that the answer still arrives: what was asked has to be read before.
fn hang_up(stream: &Stream) -> std::io::Result<()> {
    let socket = stream.socket();
    socket.shutdown(std::net::Shutdown::Write)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    socket.take(BODY_MAX as u64).read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A connection of which nothing is read after a moment.
struct Until<'a>(&'a Stream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_before(buffer, self.1)
    }
}

fn respond(request: &Request, served: &Served) -> (&'static str, &'static str, String) {
    let Served { watch, intake, pages, .. } = served;
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match (request.method.as_str(), path) {
        ("GET", "/metrics") => ("200 OK", TEXT, metrics(watch, intake.as_deref())),
        ("GET", "/status.json") => {
            let since = query.strip_prefix("since=").and_then(|number| number.parse().ok());
            let status = status(watch, intake.as_deref(), since.unwrap_or(0));
            ("200 OK", JSON, status.to_string())
        }
        ("GET", "/rules") => match watch.rules() {
            Some(text) => ("200 OK", TEXT, text),
            None => ("503 Service Unavailable", TEXT, "no partition is checked here".to_owned()),
        },
        ("PUT" | "PATCH", "/rules") => match change(request, watch) {
            Ok(()) => ("200 OK", TEXT, "in force\n".to_owned()),
            Err(error) => ("422 Unprocessable Content", TEXT, error.to_string()),
        },
        ("GET", path) => match trace(path, watch).or_else(|| pages(path)) {
            Some((kind, body)) => ("200 OK", kind, body),
            None => {
                let text = "there are /metrics, /status.json, /rules and /violations/ID.trace\n";
                ("404 Not Found", TEXT, text.to_owned())
            }
        },
        _ => ("405 Method Not Allowed", TEXT, "GET, or PUT or PATCH of /rules\n".to_owned()),
    }
}

/// `PUT`: the body is the text of all rules. `PATCH`: it is JSON, `{"remove": [NAME..], "add": TEXT}`.
fn change(request: &Request, watch: &Watch) -> Result<(), BadRules> {
    if request.method == "PUT" {
        return watch.change_rules(|_| Ok(request.body.clone()));
    }
    let change: serde_json::Value = serde_json::from_str(&request.body)
        .map_err(|error| BadRules::NotAChange(format!("not JSON: {error}")))?;
    let names = change["remove"].as_array().map_or(&[][..], Vec::as_slice);
    let remove: Vec<String> = names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect();
    let add = change["add"].as_str().unwrap_or_default();
    watch.change_rules(|text| edited(text, &remove, add))
}

/// The trace at `/violations/ID.trace`.
fn trace(path: &str, watch: &Watch) -> Option<(&'static str, String)> {
    let id = path.strip_prefix("/violations/")?.strip_suffix(".trace")?;
    let id = ViolationId(u64::from_str_radix(id, 16).ok()?);
    Some(("application/jsonl", String::from_utf8(watch.trace(id)?).ok()?))
}

#[derive(Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// What the asker claims to be the secret, in whichever header.
    pub(super) secret: String,
    pub(super) host: Option<String>,
    /// The page that asks, if it is one in a browser.
    pub(super) origin: Option<String>,
    pub(super) body: String,
}

fn read_request(stream: &Stream) -> std::io::Result<Option<Request>> {
    let until = Until(stream, Instant::now() + PATIENCE);
    let mut reader = BufReader::new(until).take(BODY_MAX as u64);
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
    let mut body = vec![0; length.min(BODY_MAX)];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

/// Asks a watch that runs elsewhere: `GET` or `PUT`, a path, a body; returns the answer.
///
/// # Errors
///
/// What the watch says if it is not `200`, or why it cannot be reached.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    secret: &str,
    body: &str,
) -> Result<String, String> {
    ask_over(None, address, method, path, secret, body)
}

/// The same, over TLS if it is given. The certificate must be for the name in the address.
///
/// # Errors
///
/// What the watch says if it is not `200`, or why it cannot be reached.
pub fn ask_over(
    tls: Option<&ClientTls>,
    address: &str,
    method: &str,
    path: &str,
    secret: &str,
    body: &str,
) -> Result<String, String> {
    let answer = || -> std::io::Result<String> {
        let mut stream = dial(tls, address)?;
        stream.socket().set_read_timeout(Some(Duration::from_secs(20)))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\nx-everhold-secret: {secret}\r\n\
             Connection: close\r\n\r\n{body}"
        )?;
        read_answer(&mut stream)
    };
    let text = answer().map_err(|error| format!("{address}: {error}"))?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split_whitespace().nth(1).unwrap_or("");
    if code.starts_with('2') { Ok(body.to_owned()) } else { Err(body.to_owned()) }
}

/// Connects to the first of a name's addresses that answers.
fn dial(tls: Option<&ClientTls>, address: &str) -> std::io::Result<Stream> {
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    let tls = tls.map(|tls| tls.clone().for_name(name));
    let mut last = std::io::Error::other("this name has no address");
    for at in address.to_socket_addrs()? {
        match Stream::connect(&at, tls.as_ref(), Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The whole answer. Many servers end a connection without the farewell of TLS: then the length that
/// they gave says whether it is whole.
fn read_answer(stream: &mut Stream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match read {
        Err(error) if !is_whole(&text) => Err(error),
        _ => Ok(text),
    }
}

fn is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_none_or(|length| body.len() >= length)
}
