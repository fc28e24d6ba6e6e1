//! Explanations of errors, with their remedies.

use std::path::Path;

use rustls::{AlertDescription, CertificateError, Error};

use crate::TlsError;

/// Explains why a key and a certificate do not match.
pub(crate) fn explain_key(error: &Error, cert: &Path, key: &Path) -> TlsError {
    let (cert, key) = (cert.display(), key.display());
    TlsError(match error {
        Error::InconsistentKeys(_) => format!(
            "{key}: this is not the key of the first certificate in {cert}; the certificate that was \
             made with the key has to be the first"
        ),
        other => format!("{key}: the key cannot be used with {cert} ({other})"),
    })
}

/// Explains why TLS with the other side failed. `name` is the expected name of the other side, if
/// this side connected.
pub(crate) fn explain(error: &Error, name: Option<&str>) -> TlsError {
    TlsError(match error {
        Error::InvalidCertificate(error) => of_certificate(error, name),
        Error::NoCertificatesPresented => {
            "it shows no certificate; give it one that the watch's --tls-client-ca signed"
                .to_owned()
        }
        Error::AlertReceived(alert) => of_alert(*alert, name.is_some()),
        Error::InvalidMessage(_) => "its answer is not TLS; does it speak TLS there?".to_owned(),
        Error::PeerIncompatible(_) => format!("it has no version of TLS in common ({error})"),
        other => other.to_string(),
    })
}

fn of_certificate(error: &CertificateError, name: Option<&str>) -> String {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => {
            "its certificate is expired; renew it (if it is not, this machine's clock is wrong)"
                .into()
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "its certificate is not valid yet; wait, or set the clock of this machine".into()
        }
        E::UnknownIssuer | E::BadSignature => {
            "no CA that is known here signed its certificate; name the file of the CA that did"
                .into()
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => format!(
            "its certificate is not for {}{}; make one for that name (subjectAltName), or say which \
             name is expected",
            name.unwrap_or("this name"),
            names_in(error),
        ),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose (extendedKeyUsage)".to_owned()
        }
        E::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it shows a CA's certificate; let the CA sign another one for the address".to_owned()
        }
        other => format!("its certificate cannot be used ({other})"),
    }
}

fn names_in(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!(" but for {}", presented.join(", "))
        }
        _ => String::new(),
    }
}

/// Explains an alert with which the other side ended the connection. `is_client` tells whether this
/// side connected.
fn of_alert(alert: AlertDescription, is_client: bool) -> String {
    use AlertDescription as A;
    let whose = "the certificate that was shown to it";
    match alert {
        A::CertificateRequired => "it asks for a certificate; give one, and its key".to_owned(),
        A::UnknownCA if is_client => format!(
            "it does not know the CA that signed {whose}; its --tls-client-ca must name that CA"
        ),
        A::UnknownCA => format!("it does not know the CA that signed {whose}; add it there"),
        A::CertificateExpired => format!("{whose} is expired; renew it"),
        A::BadCertificate => {
            format!("it does not accept {whose}: most likely it is for another name")
        }
        other => format!("it ended the connection: {other:?}"),
    }
}
