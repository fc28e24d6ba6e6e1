//! Options of sockets: those that have an effect, and those that are kept and answered.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::abi::Errno;
use crate::abi::option as name;
use crate::host::Settings;

/// The smallest buffers, as Linux has them.
const LEAST_BUFFER: usize = 4608;

/// The largest buffers that a program can ask for.
const LARGEST_BUFFER: usize = 212_992;

/// Options that only have to be remembered: level, name and the value before it is set.
const KEPT: &[(i32, i32, i32)] = &[
    (name::SOL_SOCKET, 10, 0),   // SO_OOBINLINE
    (name::SOL_SOCKET, 12, 0),   // SO_PRIORITY
    (name::IPPROTO_TCP, 2, 536), // TCP_MAXSEG
    (name::IPPROTO_TCP, 3, 0),   // TCP_CORK
    (name::IPPROTO_TCP, 9, 0),   // TCP_DEFER_ACCEPT
    (name::IPPROTO_TCP, 12, 1),  // TCP_QUICKACK
    (name::IPPROTO_TCP, name::TCP_USER_TIMEOUT, 0),
    (0, 1, 0),                    // IP_TOS
    (0, 2, 64),                   // IP_TTL
    (0, 8, 0),                    // IP_PKTINFO
    (0, 10, 1),                   // IP_MTU_DISCOVER
    (0, 11, 0),                   // IP_RECVERR
    (0, 12, 0),                   // IP_RECVTTL
    (0, 13, 0),                   // IP_RECVTOS
    (0, 15, 0),                   // IP_FREEBIND
    (0, 24, 0),                   // IP_BIND_ADDRESS_NO_PORT
    (0, 33, 1),                   // IP_MULTICAST_TTL
    (0, 34, 1),                   // IP_MULTICAST_LOOP
    (name::IPPROTO_IPV6, 16, 64), // IPV6_UNICAST_HOPS
    (name::IPPROTO_IPV6, 19, 1),  // IPV6_MULTICAST_LOOP
    (name::IPPROTO_IPV6, 23, 1),  // IPV6_MTU_DISCOVER
    (name::IPPROTO_IPV6, 25, 0),  // IPV6_RECVERR
    (name::IPPROTO_IPV6, 49, 0),  // IPV6_RECVPKTINFO
    (name::IPPROTO_IPV6, 62, 0),  // IPV6_DONTFRAG
    (name::IPPROTO_IPV6, 66, 0),  // IPV6_RECVTCLASS
    (name::IPPROTO_IPV6, 67, 0),  // IPV6_TCLASS
];

/// Questions to a peer that has been silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlive {
    pub(crate) is_on: bool,
    /// The silence after which the first is asked.
    pub(crate) idle: Duration,
    /// The time between them.
    pub(crate) interval: Duration,
    /// How many remain without an answer before the connection fails.
    pub(crate) count: u32,
}

/// The options of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    pub(crate) v6_only: bool,
    pub(crate) broadcast: bool,
    no_delay: bool,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) linger: Option<Duration>,
    pub(crate) send_buffer: usize,
    pub(crate) receive_buffer: usize,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) receive_timeout: Option<Duration>,
    kept: BTreeMap<(i32, i32), i32>,
}

impl Options {
    pub(crate) fn new(settings: &Settings) -> Self {
        let keep_alive = KeepAlive {
            is_on: false,
            idle: Duration::from_secs(7200),
            interval: Duration::from_secs(75),
            count: 9,
        };
        Options {
            reuse_address: false,
            reuse_port: false,
            v6_only: false,
            broadcast: false,
            no_delay: false,
            keep_alive,
            linger: None,
            send_buffer: settings.send_buffer,
            receive_buffer: settings.receive_buffer,
            send_timeout: None,
            receive_timeout: None,
            kept: BTreeMap::new(),
        }
    }

    pub(crate) fn set(&mut self, level: i32, option: i32, value: &[u8]) -> Result<(), Errno> {
        let number = int(value)?;
        let is_on = number != 0;
        match (level, option) {
            (name::SOL_SOCKET, _) => return self.set_general(option, number, value),
            (name::IPPROTO_IPV6, name::IPV6_V6ONLY) => self.v6_only = is_on,
            (name::IPPROTO_TCP, name::TCP_NODELAY) => self.no_delay = is_on,
            (name::IPPROTO_TCP, name::TCP_KEEPIDLE) => self.keep_alive.idle = seconds(number)?,
            (name::IPPROTO_TCP, name::TCP_KEEPINTVL) => self.keep_alive.interval = seconds(number)?,
            (name::IPPROTO_TCP, name::TCP_KEEPCNT) => {
                let count = u32::try_from(number).ok().filter(|count| (1..=127).contains(count));
                self.keep_alive.count = count.ok_or(Errno::EINVAL)?;
            }
            _ => return self.keep(level, option, number),
        }
        Ok(())
    }

    fn set_general(&mut self, option: i32, number: i32, value: &[u8]) -> Result<(), Errno> {
        let is_on = number != 0;
        match option {
            name::SO_REUSEADDR => self.reuse_address = is_on,
            name::SO_REUSEPORT => self.reuse_port = is_on,
            name::SO_BROADCAST => self.broadcast = is_on,
            name::SO_KEEPALIVE => self.keep_alive.is_on = is_on,
            name::SO_SNDBUF => self.send_buffer = buffer(number, LEAST_BUFFER),
            name::SO_RCVBUF => self.receive_buffer = buffer(number, LEAST_BUFFER / 2),
            name::SO_LINGER => {
                let time = int(value.get(4..).ok_or(Errno::EINVAL)?)?;
                self.linger = is_on.then(|| Duration::from_secs(u64::from(time as u32)));
            }
            name::SO_RCVTIMEO => self.receive_timeout = time(value)?,
            name::SO_SNDTIMEO => self.send_timeout = time(value)?,
            name::SO_TYPE | name::SO_ERROR | name::SO_ACCEPTCONN => return Err(Errno::ENOPROTOOPT),
            name::SO_DOMAIN | name::SO_PROTOCOL => return Err(Errno::ENOPROTOOPT),
            _ => return self.keep(name::SOL_SOCKET, option, number),
        }
        Ok(())
    }

    fn keep(&mut self, level: i32, option: i32, number: i32) -> Result<(), Errno> {
        let is_known = KEPT.iter().any(|kept| (kept.0, kept.1) == (level, option));
        if !is_known {
            return Err(Errno::ENOPROTOOPT);
        }
        self.kept.insert((level, option), number);
        Ok(())
    }

    pub(crate) fn get(&self, level: i32, option: i32) -> Result<Vec<u8>, Errno> {
        let whole = |time: Duration| time.as_secs() as i32;
        let number = match (level, option) {
            (name::SOL_SOCKET, name::SO_REUSEADDR) => i32::from(self.reuse_address),
            (name::SOL_SOCKET, name::SO_REUSEPORT) => i32::from(self.reuse_port),
            (name::SOL_SOCKET, name::SO_BROADCAST) => i32::from(self.broadcast),
            (name::SOL_SOCKET, name::SO_KEEPALIVE) => i32::from(self.keep_alive.is_on),
            (name::SOL_SOCKET, name::SO_SNDBUF) => self.send_buffer as i32,
            (name::SOL_SOCKET, name::SO_RCVBUF) => self.receive_buffer as i32,
            (name::SOL_SOCKET, name::SO_LINGER) => {
                let on = i32::from(self.linger.is_some());
                let time = self.linger.map_or(0, whole);
                return Ok([on.to_ne_bytes(), time.to_ne_bytes()].concat());
            }
            (name::SOL_SOCKET, name::SO_RCVTIMEO) => return Ok(time_bytes(self.receive_timeout)),
            (name::SOL_SOCKET, name::SO_SNDTIMEO) => return Ok(time_bytes(self.send_timeout)),
            (name::IPPROTO_IPV6, name::IPV6_V6ONLY) => i32::from(self.v6_only),
            (name::IPPROTO_TCP, name::TCP_NODELAY) => i32::from(self.no_delay),
            (name::IPPROTO_TCP, name::TCP_KEEPIDLE) => whole(self.keep_alive.idle),
            (name::IPPROTO_TCP, name::TCP_KEEPINTVL) => whole(self.keep_alive.interval),
            (name::IPPROTO_TCP, name::TCP_KEEPCNT) => self.keep_alive.count as i32,
            _ => {
                let known = KEPT.iter().find(|kept| (kept.0, kept.1) == (level, option));
                let before = known.ok_or(Errno::ENOPROTOOPT)?.2;
                self.kept.get(&(level, option)).copied().unwrap_or(before)
            }
        };
        Ok(number.to_ne_bytes().to_vec())
    }
}

/// A number that a program gives as an `int`, or as a byte.
fn int(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.get(..4).ok_or(Errno::EINVAL)?;
    Ok(i32::from_ne_bytes(bytes.try_into().expect("there are four bytes")))
}

fn seconds(number: i32) -> Result<Duration, Errno> {
    match number {
        1..=32_767 => Ok(Duration::from_secs(number as u64)),
        _ => Err(Errno::EINVAL),
    }
}

/// Linux doubles what is asked for.
fn buffer(asked: i32, least: usize) -> usize {
    let asked = usize::try_from(asked).unwrap_or(LARGEST_BUFFER).min(LARGEST_BUFFER);
    (asked * 2).max(least)
}

/// A `timeval`.
fn time(value: &[u8]) -> Result<Option<Duration>, Errno> {
    let part = |at: usize| {
        let bytes = value.get(at..at + 8).ok_or(Errno::EINVAL)?;
        Ok(i64::from_ne_bytes(bytes.try_into().expect("there are eight bytes")))
    };
    let (seconds, micros) = (part(0)?, part(8)?);
    // EDOM.
    let micros =
        u32::try_from(micros).ok().filter(|micros| *micros < 1_000_000).ok_or(Errno(33))?;
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let time = Duration::new(seconds, micros * 1000);
    Ok((!time.is_zero()).then_some(time))
}

fn time_bytes(time: Option<Duration>) -> Vec<u8> {
    let time = time.unwrap_or_default();
    let (seconds, micros) = (time.as_secs() as i64, i64::from(time.subsec_micros()));
    [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat()
}
