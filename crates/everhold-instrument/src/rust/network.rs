//! The names by which Rust programs reach the network.

use crate::facts::Direction;

/// Types that are connections, listeners or clients.
const HANDLES: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "OwnedReadHalf",
    "OwnedWriteHalf",
    "ReadHalf",
    "WriteHalf",
    "TlsStream",
    "Framed",
    "FramedRead",
    "FramedWrite",
    "WebSocketStream",
    "WebSocket",
    "TcpSocket",
    "SendRequest",
    "Incoming",
    "Connection",
    "Endpoint",
    "RecvStream",
    "SendStream",
    "Socket",
];

/// Crates and modules whose clients and functions reach the network.
const CRATES: &[&str] =
    &["reqwest", "ureq", "hyper", "tonic", "tungstenite", "quinn", "surf", "isahc"];

/// Types of parameters in which frameworks hand over what was received.
const RECEIVED: &[&str] = &[
    "Json",
    "Query",
    "Form",
    "Path",
    "Bytes",
    "Request",
    "Multipart",
    "Streaming",
    "Protobuf",
    "ServiceRequest",
    "HttpRequest",
];

/// Types of results that frameworks send.
const SENT: &[&str] =
    &["Json", "Response", "IntoResponse", "Html", "Sse", "HttpResponse", "Responder", "Protobuf"];

/// Methods of connections that receive.
const READS: &[&str] = &[
    "accept",
    "read",
    "read_buf",
    "read_exact",
    "read_line",
    "read_until",
    "read_to_end",
    "read_to_string",
    "read_vectored",
    "read_u8",
    "read_u16",
    "read_u32",
    "read_u64",
    "read_i32",
    "read_i64",
    "recv",
    "recv_from",
    "recv_msg",
    "try_recv",
    "try_recv_from",
    "try_read",
    "peek",
    "peek_from",
    "lines",
    "next_line",
    "next",
    "try_next",
    "fill_buf",
    "bytes",
    "chunk",
    "chunks",
    "text",
    "json",
    "incoming",
    "get",
    "into_string",
    "into_json",
    "collect",
    "to_bytes",
];

/// Methods of connections that send.
const WRITES: &[&str] = &[
    "write",
    "write_all",
    "write_buf",
    "write_vectored",
    "write_fmt",
    "write_u8",
    "write_u16",
    "write_u32",
    "write_u64",
    "write_i32",
    "write_i64",
    "write_str",
    "send",
    "send_to",
    "send_all",
    "send_request",
    "send_msg",
    "try_send",
    "try_send_to",
    "try_write",
    "feed",
    "start_send",
    "json",
    "body",
    "query",
    "form",
    "header",
    "execute",
    "send_json",
    "send_string",
    "call",
    "post",
    "put",
    "request",
];

/// Methods of containers and channels that put their arguments into them.
const PUTS: &[&str] = &[
    "push",
    "push_back",
    "push_front",
    "push_str",
    "insert",
    "extend",
    "extend_from_slice",
    "append",
    "set",
    "store",
    "replace",
    "send",
    "try_send",
    "blocking_send",
    "send_replace",
    "or_insert",
    "or_insert_with",
    "get_or_insert",
    "get_or_insert_with",
    "merge",
    "copy_from_slice",
    "clone_from",
    "clone_from_slice",
    "fill",
    "swap",
    "put",
    "put_slice",
    "put_u8",
    "put_u16",
    "put_u32",
    "put_u64",
    "resize",
    "fetch_add",
    "fetch_sub",
    "fetch_max",
    "fetch_min",
    "write_str",
    "write_fmt",
    "write_all",
    "write",
    "add_assign",
    "compare_exchange",
    "retain",
    "start_send",
    "feed",
    "modify",
    "update",
    "splice",
    "union_with",
];

/// Methods whose arguments select and do not become a part of the result.
const SELECTS: &[&str] = &[
    "get",
    "get_mut",
    "contains",
    "contains_key",
    "remove",
    "entry",
    "starts_with",
    "ends_with",
    "nth",
    "take",
    "skip",
    "truncate",
    "split_off",
    "split_at",
    "recv_timeout",
    "wait_timeout",
    "expect",
    "with_capacity",
    "reserve",
    "binary_search",
    "find",
    "filter",
    "retain",
    "position",
    "any",
    "all",
    "split",
    "splitn",
    "trim_matches",
    "drain",
    "range",
    "chunks",
    "windows",
    "load",
    "sort_by",
    "sort_by_key",
    "timeout",
    "set_read_timeout",
    "context",
    "with_context",
];

/// Methods of the standard library that are too common to be taken for one of the package when the
/// type of the receiver is unknown.
const COMMON: &[&str] = &[
    "new",
    "len",
    "is_empty",
    "clone",
    "iter",
    "iter_mut",
    "into_iter",
    "map",
    "and_then",
    "unwrap",
    "expect",
    "unwrap_or",
    "unwrap_or_default",
    "ok",
    "err",
    "as_ref",
    "as_mut",
    "lock",
    "to_string",
    "to_owned",
    "into",
    "from",
    "push",
    "pop",
    "get",
    "get_mut",
    "insert",
    "remove",
    "contains",
    "contains_key",
    "keys",
    "values",
    "next",
    "collect",
    "read",
    "write",
    "flush",
    "send",
    "recv",
    "join",
    "spawn",
    "drop",
    "eq",
    "cmp",
    "hash",
    "fmt",
    "default",
    "take",
    "replace",
    "min",
    "max",
    "filter",
    "find",
    "any",
    "all",
    "extend",
    "clear",
    "as_str",
    "as_bytes",
    "parse",
    "trim",
    "split",
    "push_str",
    "accept",
    "connect",
    "bind",
    "close",
    "wait",
    "poll",
    "entry",
    "first",
    "last",
    "to_vec",
    "retain",
    "drain",
    "sort",
    "rev",
    "chain",
    "sum",
    "count",
];

/// Constructors that only wrap their argument.
const WRAPPERS: &[&str] = &[
    "Arc",
    "Rc",
    "Box",
    "Mutex",
    "RwLock",
    "RefCell",
    "Cell",
    "Some",
    "Ok",
    "BufReader",
    "BufWriter",
    "Pin",
    "LineWriter",
    "BufStream",
];

/// Types of values that are no connections.
const PLAIN: &[&str] = &[
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "bool",
    "char",
    "f32",
    "f64",
    "str",
    "String",
    "Vec",
    "VecDeque",
    "HashMap",
    "BTreeMap",
    "HashSet",
    "BTreeSet",
    "SocketAddr",
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
    "Duration",
    "Instant",
    "SystemTime",
    "Bytes",
    "BytesMut",
    "PathBuf",
    "Path",
    "File",
    "Uuid",
];

/// Returns whether a type of this name is no connection.
pub(super) fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name)
}

/// Returns whether the name is that of a connection or the like.
pub(super) fn is_handle(name: &str) -> bool {
    HANDLES.contains(&name)
}

/// Returns whether the path leads into a crate of clients.
pub(super) fn is_client(path: &[String]) -> bool {
    path.len() > 1 && path.first().is_some_and(|first| CRATES.contains(&first.as_str()))
}

/// Returns whether a parameter of this type was received by a framework.
pub(super) fn is_received(name: &str) -> bool {
    RECEIVED.contains(&name)
}

/// Returns whether a result of this type is sent by a framework.
pub(super) fn is_sent(name: &str) -> bool {
    SENT.contains(&name)
}

/// Returns the directions in which a method of a connection with so many arguments communicates.
pub(super) fn directions(method: &str, arguments: usize) -> Vec<Direction> {
    let mut found = Vec::new();
    let reads = READS.contains(&method) && (method != "json" || arguments == 0);
    if reads {
        found.push(Direction::In);
    }
    if WRITES.contains(&method) && arguments > 0 {
        found.push(Direction::Out);
    }
    found
}

/// Returns the direction in which a function communicates that is given a connection.
pub(super) fn direction_of(function: &str) -> Option<Direction> {
    let has = |words: &[&str]| words.iter().any(|word| function.contains(word));
    if has(&["write", "send", "serialize_into", "encode", "to_writer", "reply", "respond"]) {
        return Some(Direction::Out);
    }
    let reads = ["read", "recv", "receive", "deserialize", "decode", "from_reader", "parse"];
    has(&reads).then_some(Direction::In)
}

pub(super) fn puts(method: &str) -> bool {
    PUTS.contains(&method)
}

pub(super) fn selects(method: &str) -> bool {
    SELECTS.contains(&method)
}

pub(super) fn is_common(method: &str) -> bool {
    COMMON.contains(&method)
}

pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&name)
}
