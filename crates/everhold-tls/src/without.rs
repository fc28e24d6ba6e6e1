//! Placeholders for builds without TLS: neither side can be made, so no method here is ever called.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;

use crate::{ClientFiles, ServerFiles, TlsError};

fn missing() -> TlsError {
    TlsError(
        "this program was built without TLS; build it with the feature `tls` of everhold-live, \
         everhold-watch or everhold-cli"
            .to_owned(),
    )
}

/// The TLS settings of the side that connects; not available in this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls(Infallible);

impl ClientTls {
    /// Returns an error: this build has no TLS.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn read(_: &ClientFiles) -> Result<ClientTls, TlsError> {
        Err(missing())
    }

    /// Sets the name; never called.
    #[must_use]
    pub fn for_name(self, _: &str) -> ClientTls {
        self
    }

    pub(crate) fn begin(&self, _: IpAddr) -> Result<Session, TlsError> {
        match self.0 {}
    }
}

/// The TLS settings of the side that accepts; not available in this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls(Infallible);

impl ServerTls {
    /// Returns an error: this build has no TLS.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn read(_: &ServerFiles) -> Result<ServerTls, TlsError> {
        Err(missing())
    }

    pub(crate) fn begin(&self) -> Result<Session, TlsError> {
        match self.0 {}
    }
}

pub(crate) struct Session(Infallible);

impl Session {
    pub(crate) fn is_server(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn receive(&mut self, _: &[u8]) -> Result<usize, TlsError> {
        match self.0 {}
    }

    pub(crate) fn read(&mut self, _: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0 {}
    }

    pub(crate) fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn finish(&mut self) {
        match self.0 {}
    }

    pub(crate) fn take_out(&mut self, _: &mut Vec<u8>) {
        match self.0 {}
    }
}

/// Returns the TLS problem behind an error; always `None` in this build.
#[must_use]
pub fn reason(_: &(dyn std::error::Error + 'static), _: &str) -> Option<TlsError> {
    None
}
