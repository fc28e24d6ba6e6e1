//! Files that are missing or invalid, and the messages about them.

use std::fs;
use std::path::{Path, PathBuf};

use everhold_tls::{ClientFiles, ClientTls, ServerFiles, ServerTls};

use crate::certificates::{Ca, folder};

fn server(cert: &Path, key: &Path) -> String {
    let (cert, key) = (cert.to_owned(), key.to_owned());
    let error = ServerTls::read(&ServerFiles { cert, key, client_ca: None });
    error.unwrap_err().to_string()
}

#[test]
fn files_are_named_with_what_is_wrong() {
    let folder = folder("files");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("one", &["127.0.0.1"]);
    let (_, other_key) = ours.sign("two", &["127.0.0.1"]);
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let der = write("one.der", b"\x30\x82\x01\x02\x00");
    let broken =
        write("broken.pem", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted = write("secret.pem", encrypted.as_bytes());
    let check = |cert: &Path, key: &Path, named: &Path, text: &str| {
        let error = server(cert, key);
        assert!(error.starts_with(&named.display().to_string()) && error.contains(text), "{error}");
    };
    let missing = folder.join("missing.pem");
    check(&missing, &key, &missing, "No such file");
    check(&cert, &missing, &missing, "No such file");
    check(&folder, &key, &folder, "directory");
    check(&der, &key, &der, "no certificate in it");
    check(&key, &key, &key, "no certificate in it");
    check(&broken, &key, &broken, "no PEM file");
    check(&cert, &cert, &cert, "no key in it");
    check(&cert, &encrypted, &encrypted, "the key is encrypted; `openssl pkey");
    check(&cert, &other_key, &other_key, "not the key of the first certificate");

    let of = |ca: &Path, cert: Option<&Path>, key: Option<&Path>| {
        let (cert, key) = (cert.map(Path::to_owned), key.map(Path::to_owned));
        let files = ClientFiles { ca: Some(ca.to_owned()), cert, key, name: None };
        ClientTls::read(&files).unwrap_err().to_string()
    };
    assert!(of(&missing, None, None).contains("No such file"));
    assert!(of(&der, None, None).contains("no certificate in it"));
    assert!(of(&ours.file, Some(&cert), None).contains("needs its key"));
    assert!(of(&ours.file, None, Some(&key)).contains("needs its certificate"));
    assert!(of(&ours.file, Some(&cert), Some(&other_key)).contains("not the key"));
    let name = Some("two words".to_owned());
    let files = ClientFiles { ca: Some(ours.file), name, ..ClientFiles::default() };
    assert!(ClientTls::read(&files).unwrap_err().to_string().contains("neither the name"));
}
