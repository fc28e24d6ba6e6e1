//! Connections with or without TLS.
//!
//! A [`Stream`] is read and written like a socket, by two threads at once if necessary. Whether it
//! is encrypted is decided when it is made: with a [`ClientTls`] by the side that connects, with a
//! [`ServerTls`] by the side that accepts. Both are read from PEM files, and every error names the
//! file or the other side, and the remedy.
//!
//! The feature `rustls` provides TLS itself. Without it neither of the two can be made, and every
//! connection is plain; so other crates need no conditional code.

use std::fmt;
use std::io;
use std::path::PathBuf;

#[cfg(feature = "rustls")]
mod explain;
#[cfg(feature = "rustls")]
mod files;
#[cfg(feature = "rustls")]
mod session;
#[cfg(not(feature = "rustls"))]
#[path = "without.rs"]
mod session;
mod stream;

pub use session::{ClientTls, ServerTls, reason};
pub use stream::{Stream, trouble};

/// The files of the side that connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The CA certificates that are trusted; by default those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate to show if one is requested, with the intermediate ones up to its CA.
    pub cert: Option<PathBuf>,
    /// The key of `cert`.
    pub key: Option<PathBuf>,
    /// The name that the other side's certificate must have; by default its address.
    pub name: Option<String>,
}

/// The files of the side that accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate to show, with the intermediate ones up to its CA.
    pub cert: PathBuf,
    /// The key of `cert`.
    pub key: PathBuf,
    /// The CA that must have signed the certificates of clients; without it, clients need no
    /// certificate.
    pub client_ca: Option<PathBuf>,
}

/// The reason for which a connection is not secure or cannot be secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(pub(crate) String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}
