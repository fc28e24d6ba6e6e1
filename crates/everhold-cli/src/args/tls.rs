//! The options of `everhold watch` for TLS.

use std::path::PathBuf;

/// PEM files for TLS: see `everhold help security`.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Encryption (`everhold help security`)")]
pub(crate) struct TlsArgs {
    /// The certificate of this watch: --listen and --metrics speak TLS, and nothing else
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of --tls-cert, without a passphrase
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Let in only probes with a certificate that this CA signed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// The CA that --at, --webhook and --engine must have their certificates from; those that the system
    /// trusts, if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The certificate to show to the engine, if it asks for one
    #[arg(long, value_name = "FILE", requires_all = ["engine", "engine_key"])]
    pub(crate) engine_cert: Option<PathBuf>,

    /// The key of --engine-cert
    #[arg(long, value_name = "FILE", requires = "engine_cert")]
    pub(crate) engine_key: Option<PathBuf>,
}
