//! Pairs of a client and a server, and the errors that both report.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use everhold_tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, Stream, trouble};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::certificates::{Ca, folder};

const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn server(files: (&Path, &Path), client_ca: Option<&Path>) -> ServerTls {
    let (cert, key) = (files.0.to_owned(), files.1.to_owned());
    ServerTls::read(&ServerFiles { cert, key, client_ca: client_ca.map(Path::to_owned) }).unwrap()
}

pub(crate) fn client(ca: &Path, own: Option<(&Path, &Path)>, name: Option<&str>) -> ClientTls {
    let (cert, key) = own.map(|(cert, key)| (cert.to_owned(), key.to_owned())).unzip();
    let (ca, name) = (Some(ca.to_owned()), name.map(str::to_owned));
    ClientTls::read(&ClientFiles { ca, cert, key, name }).unwrap()
}

/// Answers one connection in capitals; the thread returns the error, if any.
fn shout(tls: Option<ServerTls>) -> (SocketAddr, thread::JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ended = thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        let mut stream = Stream::accept(socket, tls.as_ref())?;
        let mut buffer = [0; 100];
        let end = Instant::now() + PATIENCE;
        let count = stream.read_before(&mut buffer, end)?;
        stream.write_all(buffer[..count].to_ascii_uppercase().as_slice())?;
        stream.finish();
        Ok(())
    });
    (address, ended)
}

/// Returns what a client that says `hello` hears, or its error, and the error of the server.
fn converse(
    server: Option<ServerTls>,
    client: Option<&ClientTls>,
) -> (Result<String, String>, String) {
    let (address, ended) = shout(server);
    let talk = || -> io::Result<String> {
        let mut stream = Stream::connect(&address, client, PATIENCE)?;
        stream.socket().set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"hello")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let told = |error: io::Error| trouble(&error).map_or(error.to_string(), ToString::to_string);
    let heard = talk().map_err(told);
    (heard, ended.join().unwrap().err().map(told).unwrap_or_default())
}

#[test]
fn only_the_right_certificate_is_spoken_to_and_the_others_are_explained() {
    let folder = folder("pairs");
    let (ours, theirs) = (Ca::new(&folder, "ours"), Ca::new(&folder, "theirs"));
    let good = ours.sign("good", &["127.0.0.1", "watch.example"]);
    let expired = ours.sign_expired("expired", &["127.0.0.1"]);
    let other = ours.sign("other", &["10.1.2.3", "other.example"]);
    let trusting = client(&ours.file, None, None);
    let check = |files: &(_, _), client: &ClientTls, expected: Result<&str, &str>, told: &str| {
        let (cert, key): &(std::path::PathBuf, std::path::PathBuf) = files;
        let (heard, server_told) = converse(Some(server((cert, key), None)), Some(client));
        match expected {
            Ok(text) => assert_eq!(heard.as_deref(), Ok(text)),
            Err(text) => assert!(heard.as_ref().is_err_and(|e| e.contains(text)), "{heard:?}"),
        }
        assert!(server_told.contains(told), "{server_told}");
    };
    check(&good, &trusting, Ok("HELLO"), "");
    check(&good, &trusting.clone().for_name("watch.example"), Ok("HELLO"), "");
    let unknown = client(&theirs.file, None, None);
    check(&good, &unknown, Err("no CA that is known here"), "does not know the CA");
    check(&expired, &trusting, Err("is expired; renew it"), "expired");
    let wrong = "not for 127.0.0.1 but for";
    check(&other, &trusting, Err(wrong), "another name");
    check(&good, &trusting.clone().for_name("b.example"), Err("not for b.example"), "another name");
    check(&good, &trusting.clone().for_name("no name"), Err("neither the name"), "");
}

#[test]
fn a_certificate_of_a_ca_is_no_certificate_of_a_server() {
    let folder = folder("self");
    let (cert, key) = (folder.join("self.pem"), folder.join("self.key.pem"));
    // A certificate like those of `openssl req -x509`.
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pair = KeyPair::generate().unwrap();
    fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    let (heard, _) = converse(Some(server((&cert, &key), None)), Some(&client(&cert, None, None)));
    assert!(heard.as_ref().is_err_and(|e| e.contains("CA's certificate; let the CA")), "{heard:?}");
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let folder = folder("clients");
    let (ours, theirs) = (Ca::new(&folder, "ours"), Ca::new(&folder, "theirs"));
    let (cert, key) = ours.sign("watch", &["127.0.0.1"]);
    let check = |own: Option<(&Path, &Path)>, expected: &str, told: &str| {
        let strict = server((&cert, &key), Some(&ours.file));
        let (heard, server_told) = converse(Some(strict), Some(&client(&ours.file, own, None)));
        let heard = heard.unwrap_or_else(|error| error);
        assert!(heard.contains(expected), "{heard}");
        assert!(server_told.contains(told), "{server_told}");
    };
    let probe = ours.sign("probe", &["probe"]);
    let stranger = theirs.sign("stranger", &["probe"]);
    let expired = ours.sign_expired("late", &["probe"]);
    check(Some((&probe.0, &probe.1)), "HELLO", "");
    check(None, "asks for a certificate; give one", "shows no certificate");
    let unknown = "does not know the CA that signed";
    check(Some((&stranger.0, &stranger.1)), unknown, "no CA that is known here");
    check(Some((&expired.0, &expired.1)), "is expired; renew it", "is expired");
}

#[test]
fn plain_text_and_tls_are_told_apart() {
    let folder = folder("mixed");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("watch", &["127.0.0.1"]);
    let tls = server((&cert, &key), None);
    let (_, told) = converse(Some(tls), None);
    assert!(told.contains("does not speak TLS, but this address does"), "{told}");
    let trusting = client(&ours.file, None, None);
    // The other side answers in capitals, as if the bytes were text.
    let (heard, _) = converse(None, Some(&trusting));
    assert!(heard.as_ref().is_err_and(|e| e.contains("TLS")), "{heard:?}");
    // The other side sends something first, as a watch does, or nothing at all.
    for (said, expected) in [(&b"\x17\0\0\0\x01EVHD"[..], "does not speak TLS"), (b"", "in time")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            socket.write_all(said).unwrap();
            socket
        });
        let begun = Instant::now();
        let error = Stream::connect(&address, Some(&trusting), PATIENCE / 4).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(begun.elapsed() < PATIENCE, "a checker that is stuck is given up");
        drop(other.join());
    }
}

/// A peer that sends a few bytes at a time never ends the handshake, but the deadline does.
#[test]
fn a_handshake_that_trickles_is_given_up_at_its_deadline() {
    let folder = folder("trickle");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("watch", &["127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dripping = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        let hello = [&[0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb][..], &[0; 5_000]].concat();
        for byte in hello {
            if dripping.write_all(&[byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let (socket, _) = listener.accept().unwrap();
    let stream = Stream::accept(socket, Some(&server((&cert, &key), None))).unwrap();
    let begun = Instant::now();
    let error = stream.read_before(&mut [0; 10], begun + PATIENCE / 4).unwrap_err();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
}

/// Both sides write more than the buffers hold while both read: neither waits for the other
/// forever, and nothing is lost or reordered.
#[test]
fn both_directions_flow_at_once() {
    const BYTES: usize = 8 << 20;
    let folder = folder("flow");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("watch", &["127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tls = server((&cert, &key), None);
    let accepting = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        Stream::accept(socket, Some(&tls)).unwrap()
    });
    let trusting = client(&ours.file, None, None);
    let connecting = thread::spawn(move || Stream::connect(&address, Some(&trusting), PATIENCE));
    // The handshake is a part of reading.
    let accepted = accepting.join().unwrap();
    let pattern = |at: usize| (at * 31 % 251) as u8;
    let write = |stream: Stream| {
        thread::spawn(move || {
            let bytes: Vec<u8> = (0..BYTES).map(pattern).collect();
            (&stream).write_all(&bytes).unwrap();
            stream.finish();
        })
    };
    let read = |stream: Stream| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            (&stream).read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), BYTES);
            assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(at)));
        })
    };
    let reading = read(accepted.clone());
    let connected = connecting.join().unwrap().unwrap();
    let threads = [reading, write(accepted), read(connected.clone()), write(connected)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
