//! Certificates and keys from PEM files.

use std::fs;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::TlsError;

/// The places where operating systems keep the certificates that they trust.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn fail<T>(path: &Path, text: &str) -> Result<T, TlsError> {
    Err(TlsError(format!("{}: {text}", path.display())))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).or_else(|error| fail(path, &error.to_string()))
}

pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => fail(
            path,
            "there is no certificate in it; it must be a PEM file with `BEGIN CERTIFICATE` (`openssl \
             x509 -inform der -in FILE` makes one of a DER file)",
        ),
        Err(error) => fail(path, &format!("it is no PEM file ({error})")),
    }
}

pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).or_else(|_| {
        if text.windows(9).any(|word| word == b"ENCRYPTED") {
            return fail(
                path,
                "the key is encrypted; `openssl pkey -in FILE -out NEW` makes a file without a \
                 passphrase, which nobody else should be able to read",
            );
        }
        fail(path, "there is no key in it; it must be a PEM file with `BEGIN PRIVATE KEY`")
    })
}

/// Reads the certificates of a file, all of which are trusted.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut trusted = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        trusted.add(certificate).or_else(|error| {
            fail(path, &format!("a certificate in it cannot be used ({error})"))
        })?;
    }
    Ok(trusted)
}

/// Reads the certificates that the system trusts.
pub(crate) fn system_roots() -> Result<RootCertStore, TlsError> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let places = named.iter().map(String::as_str).chain(SYSTEM);
    let found = places.map(Path::new).find(|path| path.exists());
    let path = found.ok_or_else(|| {
        TlsError("this system has no file of trusted certificates; name the CA's".to_owned())
    })?;
    let mut trusted = RootCertStore::empty();
    // Such files may contain certificates of obsolete kinds, which are skipped.
    trusted.add_parsable_certificates(read_certificates(path)?);
    Ok(trusted)
}
