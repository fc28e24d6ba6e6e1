//! Connections with or without TLS.
//!
//! A [`Stream`] is read and written like a socket, from two threads at once if need be. Whether it is
//! encrypted is decided when it is made: with a [`ClientTls`] by whoever connects, with a [`ServerTls`] by
//! whoever accepts. Both are read from PEM files, and every error names the file or the other side, and
//! the remedy.
//!
//! The feature `rustls` brings TLS itself. Without it both cannot be made, and everything is plain; so
//! other crates need no conditional code.

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

/// The files of a side that connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Certificates that are trusted, and those that they signed; the system's own, if not given.
    pub ca: Option<PathBuf>,
    /// The certificate to show if asked for one, with those between it and its CA.
    pub cert: Option<PathBuf>,
    /// The key of `cert`.
    pub key: Option<PathBuf>,
    /// The name that the other side's certificate must have; the address, if not given.
    pub name: Option<String>,
}

/// The files of a side that accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate to show, with those between it and its CA.
    pub cert: PathBuf,
    /// The key of `cert`.
    pub key: PathBuf,
    /// Only those are let in who show a certificate that this CA signed; anybody, if not given.
    pub client_ca: Option<PathBuf>,
}

/// Why a connection is not secure, or cannot be made so.
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
