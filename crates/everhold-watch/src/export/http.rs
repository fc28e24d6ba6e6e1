//! The HTTP listener of a watch: metrics, status and control; and a client for it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use everhold_tls::{ClientTls, ServerTls, Stream};

use super::server::{Request, RequestBounds, each_connection, send};
use super::{access, metrics, status};
use crate::engine::Watch;
use crate::intake::IntakeCounts;
use crate::notice::ViolationId;
use crate::rule::{BadRules, edited};

/// Further pages: returns the content type and the body of the page at a path, if there is one.
pub type Pages = Box<dyn Fn(&str) -> Option<(&'static str, String)> + Send + Sync>;

/// The content of the listener.
pub struct Served {
    /// The checkers.
    pub watch: Arc<Watch>,
    /// The counts of the intake in this process, if there is one.
    pub intake: Option<Arc<IntakeCounts>>,
    /// The shared secret that a client must present; empty for none.
    pub secret: Vec<u8>,
    /// The pages at all other paths.
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
pub fn serve(listener: TcpListener, served: Served) -> io::Result<SocketAddr> {
    serve_over(None, listener, served)
}

/// Serves like [`serve`], over TLS if it is given.
///
/// # Errors
///
/// If the socket cannot be asked for its address.
pub fn serve_over(
    tls: Option<ServerTls>,
    listener: TcpListener,
    served: Served,
) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    thread::Builder::new().name("http".into()).spawn(move || {
        each_connection(&listener, REQUESTS_MAX, move |stream| {
            let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
            let _ = Stream::accept(stream, tls.as_ref()).map(|stream| answer(&stream, &served));
        });
    })?;
    Ok(address)
}

/// The largest number of requests that are answered at a time.
const REQUESTS_MAX: usize = 32;

/// The largest size of a request, and so of the text of all rules, in bytes.
const BODY_MAX: usize = 1 << 20;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// The time within which a request must arrive.
const PATIENCE: Duration = Duration::from_secs(4);

fn answer(stream: &Stream, served: &Served) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let bounds = RequestBounds { end, bytes_max: BODY_MAX, body_max: BODY_MAX };
    let request = match Request::read(stream, bounds) {
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
    let ask = if status.starts_with("401") { access::ASK } else { "" };
    send(stream, status, kind, ask, &body)?;
    stream.finish();
    Ok(())
}

/// The answer to a client that does not speak TLS although it must.
const NOT_PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
                         \r\nthis address speaks TLS: ask https://, or give --tls-ca with --at\n";

/// Ends a connection so that the answer still arrives: the rest of the request is read first, because
/// closing a socket with unread bytes discards what was sent.
fn hang_up(stream: &Stream) -> io::Result<()> {
    let socket = stream.socket();
    socket.shutdown(std::net::Shutdown::Write)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    socket.take(BODY_MAX as u64).read_to_end(&mut Vec::new())?;
    Ok(())
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

/// The reasons for which a watch does not answer as asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum AskError {
    /// The watch cannot be reached, or the connection broke.
    Unreachable {
        /// The address that was asked.
        address: String,
        /// The problem with the connection.
        error: io::Error,
    },
    /// The watch refused, or there is nothing at the path.
    Refused {
        /// The status of the answer, such as `401`; empty if the answer has none.
        status: String,
        /// The answer, which says why.
        text: String,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unreachable { address, error } => write!(f, "{address}: {error}"),
            AskError::Refused { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for AskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AskError::Unreachable { error, .. } => Some(error),
            AskError::Refused { .. } => None,
        }
    }
}

/// Asks a watch that runs elsewhere, with a method such as `GET`, a path, the shared secret if it has
/// one, and a body. Returns the body of the answer.
///
/// ```no_run
/// use everhold_watch::export::{AskError, ask};
///
/// match ask("127.0.0.1:9464", "GET", "/rules", "", "") {
///     Ok(rules) => print!("{rules}"),
///     Err(AskError::Refused { status, text }) => eprintln!("refused with {status}: {text}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
///
/// # Errors
///
/// If the watch cannot be reached, or its status is not a success.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    secret: &str,
    body: &str,
) -> Result<String, AskError> {
    ask_over(None, address, method, path, secret, body)
}

/// Asks like [`ask`], over TLS if it is given. The certificate must be for the name in the address.
///
/// # Errors
///
/// If the watch cannot be reached, or its status is not a success.
pub fn ask_over(
    tls: Option<&ClientTls>,
    address: &str,
    method: &str,
    path: &str,
    secret: &str,
    body: &str,
) -> Result<String, AskError> {
    let answer = || -> io::Result<String> {
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
    let text = answer().map_err(|error| {
        let address = address.to_owned();
        AskError::Unreachable { address, error }
    })?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split_whitespace().nth(1).unwrap_or("");
    if code.starts_with('2') {
        return Ok(body.to_owned());
    }
    Err(AskError::Refused { status: code.to_owned(), text: body.to_owned() })
}

/// Connects to the first of a name's addresses that answers.
fn dial(tls: Option<&ClientTls>, address: &str) -> io::Result<Stream> {
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    let tls = tls.map(|tls| tls.clone().for_name(name));
    let mut last = io::Error::other("this name has no address");
    for at in address.to_socket_addrs()? {
        match Stream::connect(&at, tls.as_ref(), Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads the whole answer. Many servers end a connection without the closing message of TLS: then the
/// length that they announced tells whether the answer is complete.
fn read_answer(stream: &mut Stream) -> io::Result<String> {
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
