//! TLS by rustls, without sockets.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::explain::{explain, explain_key};
use crate::files::{read_certificates, read_key, roots, system_roots};
use crate::{ClientFiles, ServerFiles, TlsError};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The TLS settings of the side that connects.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
    /// The name if it is not valid, which is reported when it is used.
    bad_name: Option<String>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &ClientTls) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for ClientTls {}

impl ClientTls {
    /// Reads certificates and keys.
    ///
    /// # Errors
    ///
    /// If a file is missing or invalid, if a key does not match its certificate, or if the name is
    /// not valid.
    pub fn read(files: &ClientFiles) -> Result<ClientTls, TlsError> {
        let trusted = match &files.ca {
            Some(path) => roots(path)?,
            None => system_roots()?,
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider());
        let verifier = verifier.build().map_err(|error| TlsError(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?
            .with_webpki_verifier(verifier);
        let config = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(read_certificates(cert)?, read_key(key)?)
                .map_err(|error| explain_key(&error, cert, key))?,
            (None, None) => builder.with_no_client_auth(),
            (Some(path), None) => {
                let text = format!("{}: a certificate needs its key as well", path.display());
                return Err(TlsError(text));
            }
            (None, Some(path)) => {
                let text = format!("{}: a key needs its certificate as well", path.display());
                return Err(TlsError(text));
            }
        };
        let tls = ClientTls { config: Arc::new(config), name: None, bad_name: None };
        let tls = files.name.iter().fold(tls, |tls, name| tls.for_name(name));
        tls.bad_name.clone().map_or(Ok(tls), |name| Err(not_a_name(&name)))
    }

    /// Returns the same settings, for a side whose certificate must have this name or address.
    #[must_use]
    pub fn for_name(mut self, name: &str) -> ClientTls {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        self.name = ServerName::try_from(bare.to_owned()).ok();
        self.bad_name = self.name.is_none().then(|| name.to_owned());
        self
    }

    pub(crate) fn begin(&self, address: IpAddr) -> Result<Session, TlsError> {
        if let Some(name) = &self.bad_name {
            return Err(not_a_name(name));
        }
        let name = self.name.clone().unwrap_or_else(|| ServerName::from(address));
        let connection = ClientConnection::new(Arc::clone(&self.config), name.clone());
        let connection = connection.map_err(|error| TlsError(error.to_string()))?;
        Ok(Session { connection: connection.into(), name: Some(name.to_str().into_owned()) })
    }
}

fn not_a_name(name: &str) -> TlsError {
    TlsError(format!("`{name}` is neither the name of a machine nor an address"))
}

/// The TLS settings of the side that accepts.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &ServerTls) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ServerTls {}

impl ServerTls {
    /// Reads certificates and keys.
    ///
    /// # Errors
    ///
    /// If a file is missing or invalid, or if the key does not match the certificate.
    pub fn read(files: &ServerFiles) -> Result<ServerTls, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?;
        let builder = match &files.client_ca {
            Some(path) => {
                let trusted = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(trusted, provider());
                let verifier = verifier.build().map_err(|error| TlsError(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder
            .with_single_cert(read_certificates(&files.cert)?, read_key(&files.key)?)
            .map_err(|error| explain_key(&error, &files.cert, &files.key))?;
        Ok(ServerTls { config: Arc::new(config) })
    }

    pub(crate) fn begin(&self) -> Result<Session, TlsError> {
        let connection = ServerConnection::new(Arc::clone(&self.config));
        let connection = connection.map_err(|error| TlsError(error.to_string()))?;
        Ok(Session { connection: connection.into(), name: None })
    }
}

/// One side of a connection: encrypted bytes on one end, bytes of the application on the other.
pub(crate) struct Session {
    connection: Connection,
    /// The expected name of the other side, if this side connects.
    name: Option<String>,
}

impl Session {
    pub(crate) fn is_server(&self) -> bool {
        self.name.is_none()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes in bytes from the socket; returns how many were accepted. The rest must wait until
    /// decrypted bytes have been read.
    pub(crate) fn receive(&mut self, mut raw: &[u8]) -> Result<usize, TlsError> {
        let all = raw.len();
        while !raw.is_empty() {
            match self.connection.read_tls(&mut raw) {
                // The buffer of rustls is full.
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let processed = self.connection.process_new_packets();
            processed.map_err(|error| explain(&error, self.name.as_deref()))?;
        }
        Ok(all - raw.len())
    }

    /// Reads decrypted bytes: `None` if there are none yet, `Some(0)` if the other side has ended.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.connection.reader().read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Accepts bytes to be encrypted; before the end of the handshake they are kept.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes)
    }

    pub(crate) fn finish(&mut self) {
        self.connection.send_close_notify();
    }

    /// Moves the bytes that must be sent to `out`.
    pub(crate) fn take_out(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() && self.connection.write_tls(out).is_ok() {}
    }
}

/// Returns the TLS problem behind an error of another library's connection, if there is one.
#[must_use]
pub fn reason(error: &(dyn std::error::Error + 'static), name: &str) -> Option<TlsError> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(explain(inner.downcast_ref()?, Some(name)))
}
