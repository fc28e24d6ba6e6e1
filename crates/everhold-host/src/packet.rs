//! Packets between hosts, as the explorer shows them.

use std::fmt;

use everhold_os::{Body, Segment};
use serde::Serialize;

use crate::operator::Control;

/// The longest text of a message that is shown.
const SHOWN_MAX: usize = 60;

/// A message between two hosts.
#[derive(Clone, Serialize)]
pub enum Packet {
    /// A part of a TCP connection. Connections keep their order and lose nothing.
    Segment(everhold_os::Packet),
    /// A datagram, which may be lost.
    Datagram(everhold_os::Packet),
    /// The action of an operator on a host, which no fault of the network touches.
    #[doc(hidden)]
    Control(Control),
}

impl From<everhold_os::Packet> for Packet {
    fn from(packet: everhold_os::Packet) -> Packet {
        match packet.body {
            Body::Segment(_) => Packet::Segment(packet),
            Body::Datagram(_) | Body::Unreachable => Packet::Datagram(packet),
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = match self {
            Packet::Segment(packet) | Packet::Datagram(packet) => packet,
            Packet::Control(control) => return control.fmt(f),
        };
        match &packet.body {
            Body::Segment(segment) => f.write_str(&of_segment(segment, packet.to.port())),
            Body::Datagram(bytes) => write!(f, "{} to port {}", contents(bytes), packet.to.port()),
            Body::Unreachable => write!(f, "port {} is unreachable", packet.from.port()),
        }
    }
}

fn of_segment(segment: &Segment, port: u16) -> String {
    let flag = format!("{:?}", segment.flag).to_lowercase();
    match (segment.bytes.is_empty(), flag.as_str()) {
        (false, "data") => contents(&segment.bytes),
        (false, flag) => format!("{} and {flag}", contents(&segment.bytes)),
        (true, flag) => format!("{flag} (port {port})"),
    }
}

/// The first line of a text, such as the request line of HTTP, or else the number of bytes.
fn contents(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = std::str::from_utf8(line).map(|line| line.trim_end_matches('\r'));
    let is_text = |line: &str| !line.is_empty() && !line.chars().any(char::is_control);
    match text {
        Ok(line) if is_text(line) => {
            let shown: String = line.chars().take(SHOWN_MAX).collect();
            let more =
                if line.len() + 2 < bytes.len() || shown.len() < line.len() { ".." } else { "" };
            format!("\"{shown}{more}\"")
        }
        _ if bytes.len() == 1 => "1 byte".to_owned(),
        _ => format!("{} bytes", bytes.len()),
    }
}
