//! Certificates of several kinds, as PEM files in a folder. Tests of other crates use this file as
//! well.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// A CA; its certificate is in `NAME.pem`.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

impl Ca {
    pub(crate) fn new(folder: &Path, name: &str) -> Ca {
        fs::create_dir_all(folder).expect("a folder can be made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let file = folder.join(format!("{name}.pem"));
        fs::write(&file, certificate.pem()).expect("it can be written");
        Ca { issuer: Issuer::new(params, key), folder: folder.to_owned(), file }
    }

    /// Writes a certificate for these names and addresses, and its key; returns their files.
    pub(crate) fn sign(&self, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        self.write(file, names, (1975, 4096))
    }

    /// Does the same with a certificate that expired years ago.
    pub(crate) fn sign_expired(&self, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        self.write(file, names, (1975, 2020))
    }

    fn write(&self, file: &str, names: &[&str], years: (i32, i32)) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("they are names");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let place = |ending: &str| self.folder.join(format!("{file}{ending}"));
        let paths = (place(".pem"), place(".key.pem"));
        fs::write(&paths.0, certificate.pem()).expect("it can be written");
        fs::write(&paths.1, key.serialize_pem()).expect("it can be written");
        paths
    }
}

/// Returns an empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let unique = format!("everhold-tls-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(unique);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}
