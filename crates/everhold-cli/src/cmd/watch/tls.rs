//! TLS, as the options ask for it.

use std::path::Path;

use everhold_tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, TlsError};

use crate::args::TlsArgs;
use crate::exit::BadInput;

fn bad(error: TlsError) -> BadInput {
    BadInput(error.to_string())
}

/// For those who connect to this watch; nothing if it is to be plain.
pub(super) fn server(args: &TlsArgs) -> Result<Option<ServerTls>, BadInput> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let client_ca = args.tls_client_ca.clone();
    let files = ServerFiles { cert: cert.clone(), key: key.clone(), client_ca };
    warn_of_readers(key);
    ServerTls::read(&files).map(Some).map_err(bad)
}

/// For the page and for control: nobody's certificate is asked for, since the secret is.
pub(super) fn page(args: &TlsArgs) -> Result<Option<ServerTls>, BadInput> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let files = ServerFiles { cert: cert.clone(), key: key.clone(), client_ca: None };
    ServerTls::read(&files).map(Some).map_err(bad)
}

/// For an address that may begin with a scheme: TLS if it is `https://`, and the rest of it.
pub(super) fn client<'a>(
    args: &TlsArgs,
    address: &'a str,
) -> Result<(Option<ClientTls>, &'a str), BadInput> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let rest = rest.trim_end_matches('/');
    match scheme {
        "https" => Ok((Some(trusting(args)?), rest)),
        "" if args.tls_ca.is_some() => Ok((Some(trusting(args)?), rest)),
        "" | "http" => Ok((None, rest)),
        _ => Err(BadInput(format!("{address}: an address is HOST:PORT or https://HOST:PORT"))),
    }
}

/// For a webhook.
pub(super) fn webhook(args: &TlsArgs, url: &str) -> Result<Option<ClientTls>, BadInput> {
    url.starts_with("https://").then(|| trusting(args)).transpose()
}

fn trusting(args: &TlsArgs) -> Result<ClientTls, BadInput> {
    let ca = args.tls_ca.clone();
    ClientTls::read(&ClientFiles { ca, ..ClientFiles::default() }).map_err(bad)
}

/// The key of a watch is for nobody else.
#[cfg(unix)]
fn warn_of_readers(key: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(key).map_or(0, |data| data.permissions().mode());
    if mode & 0o007 != 0 {
        super::complain(format!("{}: everybody on this machine can read the key", key.display()));
    }
}

#[cfg(not(unix))]
fn warn_of_readers(_: &Path) {}
