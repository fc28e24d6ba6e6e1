//! Addresses of sockets, and the bytes in which programs give them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::abi::Errno;
use crate::abi::family::{AF_INET, AF_INET6, AF_UNIX};

/// The bytes of a path in the address of a Unix socket, its final zero included.
const PATH: usize = 108;

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// An address and port of IPv4 or IPv6.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(UnixAddress),
}

/// The address of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnixAddress {
    /// It has none.
    Unnamed,
    /// A path in the file system.
    Path(Vec<u8>),
    /// A name of the abstract kind, without the zero before it.
    Abstract(Vec<u8>),
}

impl Address {
    /// Reads a `sockaddr`.
    ///
    /// ```
    /// use everhold_os::Address;
    /// let address = Address::Ip("10.0.0.1:80".parse().unwrap());
    /// assert_eq!(Address::parse(&address.encode()), Ok(address));
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Address, Errno> {
        let family = bytes.get(..2).ok_or(Errno::EINVAL)?;
        let family = i32::from(u16::from_ne_bytes([family[0], family[1]]));
        let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
        let ip = match family {
            AF_UNIX => return parse_unix(&bytes[2..]).map(Address::Unix),
            AF_INET if bytes.len() >= 16 => {
                let octets: Option<[u8; 4]> = bytes[4..8].try_into().ok();
                octets.map(|octets| IpAddr::V4(Ipv4Addr::from(octets)))
            }
            AF_INET6 if bytes.len() >= 24 => {
                let octets: Option<[u8; 16]> = bytes[8..24].try_into().ok();
                octets.map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
            }
            AF_INET | AF_INET6 => None,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        match (ip, port()) {
            (Some(ip), Some(port)) => Ok(Address::Ip(SocketAddr::new(ip, port))),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The bytes of a `sockaddr`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let family = |family: i32| (family as u16).to_ne_bytes().to_vec();
        match self {
            Address::Ip(SocketAddr::V4(address)) => {
                let mut bytes = family(AF_INET);
                bytes.extend(address.port().to_be_bytes());
                bytes.extend(address.ip().octets());
                bytes.extend([0; 8]);
                bytes
            }
            Address::Ip(SocketAddr::V6(address)) => {
                let mut bytes = family(AF_INET6);
                bytes.extend(address.port().to_be_bytes());
                bytes.extend(address.flowinfo().to_ne_bytes());
                bytes.extend(address.ip().octets());
                bytes.extend(address.scope_id().to_ne_bytes());
                bytes
            }
            Address::Unix(address) => {
                let mut bytes = family(AF_UNIX);
                match address {
                    UnixAddress::Unnamed => {}
                    UnixAddress::Path(path) => {
                        bytes.extend(path);
                        bytes.push(0);
                    }
                    UnixAddress::Abstract(name) => {
                        bytes.push(0);
                        bytes.extend(name);
                    }
                }
                bytes
            }
        }
    }
}

fn parse_unix(name: &[u8]) -> Result<UnixAddress, Errno> {
    match name {
        _ if name.len() > PATH => Err(Errno::EINVAL),
        [] => Ok(UnixAddress::Unnamed),
        [0, name @ ..] => Ok(UnixAddress::Abstract(name.to_vec())),
        path => {
            let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
            Ok(UnixAddress::Path(path[..end].to_vec()))
        }
    }
}

/// An address of IPv4 that is written as one of IPv6 becomes one of IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An address as a socket of IPv6 shows it.
pub(crate) fn shown(address: SocketAddr, is_v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_v6 => {
            let mapped = match v4.ip() {
                &Ipv4Addr::UNSPECIFIED => Ipv6Addr::UNSPECIFIED,
                ip => ip.to_ipv6_mapped(),
            };
            SocketAddr::V6(SocketAddrV6::new(mapped, v4.port(), 0, 0))
        }
        other => other,
    }
}
