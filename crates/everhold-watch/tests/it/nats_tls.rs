//! The stream server over TLS: who is trusted, who is not, and what is said.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use everhold_watch::nats::{Nats, NatsOptions};
use everhold_watch::{Log, tls::ClientFiles};

use crate::certificates::{Ca, folder};

struct Server(Child, u16);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with this certificate, which asks for certificates of `client_ca`; `None` where there is no
/// such program, which is a failure in CI.
fn server(folder: &Path, own: Option<(&Path, &Path)>, client_ca: &Path) -> Option<Server> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tls = own.map_or_else(String::new, |(cert, key)| {
        let (cert, key) = (cert.display(), key.display());
        let ca = client_ca.display();
        format!("tls {{ cert_file: '{cert}', key_file: '{key}', ca_file: '{ca}', verify: true }}")
    });
    let store = folder.join(format!("nats-{port}"));
    let config = folder.join(format!("nats-{port}.conf"));
    let text = format!(
        "listen: 127.0.0.1:{port}\njetstream {{ store_dir: '{}' }}\n{tls}\n",
        store.display()
    );
    fs::write(&config, text).unwrap();
    let started = Command::new("nats-server")
        .arg("-c")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(child) => Some(Server(child, port)),
        Err(error) => {
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "nats-server is needed: apt install nats-server ({error})");
            eprintln!("skipped: apt install nats-server");
            None
        }
    }
}

fn options(
    server: &Server,
    host: &str,
    ca: &Path,
    own: Option<&(PathBuf, PathBuf)>,
) -> NatsOptions {
    let (cert, key) = own.cloned().unzip();
    let tls = ClientFiles { ca: Some(ca.to_owned()), cert, key, name: None };
    let url = format!("tls://{host}:{}", server.1);
    NatsOptions { partitions: 1, tls, ..NatsOptions::new(&url) }
}

/// Connects once the server listens.
fn connect(options: &NatsOptions) -> Result<Nats, String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match Nats::connect(options).map_err(|error| error.to_string()) {
            Err(error) if error.contains("refused (os") && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(100));
            }
            ended => return ended,
        }
    }
}

#[test]
fn only_the_right_server_is_spoken_to_and_the_others_are_explained() {
    let folder = folder("nats");
    let (ours, theirs) = (Ca::new(&folder, "ours"), Ca::new(&folder, "theirs"));
    let (cert, key) = ours.sign("server", &["127.0.0.1"]);
    let watch = ours.sign("watch", &["watch"]);
    let Some(running) = server(&folder, Some((&cert, &key)), &ours.file) else { return };
    let nats = connect(&options(&running, "127.0.0.1", &ours.file, Some(&watch))).unwrap();
    nats.log().append(0, &[b"an entry"]).unwrap();

    let check = |options: &NatsOptions, expected: &str| {
        let error = connect(options).expect_err("it is refused");
        assert!(error.contains(expected), "{error}");
    };
    let unknown = "no CA that is known here";
    check(&options(&running, "127.0.0.1", &theirs.file, Some(&watch)), unknown);
    check(&options(&running, "localhost", &ours.file, Some(&watch)), "not for localhost");
    let missing = folder.join("none.pem");
    check(&options(&running, "127.0.0.1", &missing, None), "none.pem: No such file");
    let stranger = theirs.sign("stranger", &["watch"]);
    for own in [None, Some(&stranger)] {
        let refused = connect(&options(&running, "127.0.0.1", &ours.file, own));
        assert!(refused.is_err(), "the server wants a certificate of its CA");
    }
    let (late, late_key) = ours.sign_expired("late", &["127.0.0.1"]);
    let expired = server(&folder, Some((&late, &late_key)), &ours.file).unwrap();
    check(&options(&expired, "127.0.0.1", &ours.file, Some(&watch)), "is expired; renew it");
    let plain = server(&folder, None, &ours.file).unwrap();
    check(&options(&plain, "127.0.0.1", &ours.file, None), "does it speak TLS there?");
}
