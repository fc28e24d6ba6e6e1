//! Free ports for a cluster on one machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// A range below the ports that operating systems give to outgoing connections.
const PORTS: Range<u16> = 20_000..32_000;

/// Returns addresses on loopback that are free now, for streams and for datagrams.
///
/// They are meant for tests whose nodes are processes of their own. A port that the operating
/// system chooses could be given to an outgoing connection before its node listens; these ports are
/// not.
///
/// ```
/// use everhold_live::{Config, NodeId, host::loopback};
/// let config = Config::new("bank", (0..).map(NodeId).zip(loopback(3)?));
/// assert_eq!(config.nodes.len(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If there are not enough free ports.
pub fn loopback(addresses: usize) -> io::Result<Vec<SocketAddr>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(PORTS.end - PORTS.start);
    // Processes started shortly after each other begin at distant ports.
    let begin = std::process::id().wrapping_mul(97);
    let next = || {
        let step = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % ports;
        SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + step as u16))
    };
    let is_free = |address: &SocketAddr| {
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    let found: Vec<_> = (0..ports).map(|_| next()).filter(is_free).take(addresses).collect();
    if found.len() < addresses {
        let text = format!("fewer than {addresses} ports of {PORTS:?} are free on loopback");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
    }
    Ok(found)
}
