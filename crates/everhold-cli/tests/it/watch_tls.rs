//! A watch that speaks TLS: probes, page, control and webhook, with certificates that are right and
//! wrong, and strangers who stall.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use everhold_live::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, Stream};
use everhold_live::{NodeId, Probe, Report};
use everhold_watch::export;
use serde_json::Value as Json;

use crate::certificates::{Ca, folder};
use crate::program::check;
use crate::watch_probe::Watch;

const LONG: Duration = Duration::from_secs(30);

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

fn trusting(ca: &Path, own: Option<&(PathBuf, PathBuf)>, name: Option<&str>) -> ClientTls {
    let (cert, key) = own.cloned().unzip();
    let (ca, name) = (Some(ca.to_owned()), name.map(str::to_owned));
    ClientTls::read(&ClientFiles { ca, cert, key, name }).expect("the files are right")
}

/// A probe, and what it reports.
fn probe(node: u32, checker: &str, tls: Option<ClientTls>) -> (Probe, Receiver<String>) {
    let (tell, told) = channel();
    let checker: SocketAddr = checker.parse().expect("an address");
    let probe = Probe::to_checkers([checker])
        .system("booking")
        .node(NodeId(node), &format!("n{node}"), "teller")
        .report(Report::to(move |line| drop(tell.send(line.to_owned()))));
    (tls.into_iter().fold(probe, everhold_live::probe::Builder::tls).start(), told)
}

fn rules(folder: &Path) -> PathBuf {
    let rules = folder.join("rules.prop");
    let rule = "always \"no debt\": forall n in teller nodes: n.balance >= 0\n";
    fs::write(&rules, rule).expect("it can be written");
    rules
}

/// A watch with this certificate; on `address`, which is free if it ends with `:0`.
fn watch(address: &str, folder: &Path, own: &(PathBuf, PathBuf), more: &[&str]) -> Watch {
    let rules = rules(folder);
    let own = ["--tls-cert", text(&own.0), "--tls-key", text(&own.1)];
    Watch::start_on(address, text(&rules), &folder.join("watch"), &[&own, more].concat())
}

fn status(control: &str, tls: &ClientTls) -> Json {
    let answer = export::ask_over(Some(tls), control, "GET", "/status.json", "", "");
    serde_json::from_str(&answer.expect("it answers")).expect("it is JSON")
}

fn wait_for(control: &str, tls: &ClientTls, wanted: impl Fn(&Json) -> bool) {
    let end = Instant::now() + LONG;
    while !wanted(&status(control, tls)) {
        assert!(Instant::now() < end, "{:#}", status(control, tls));
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Shows a debt until it is an alarm: what is shown before the probe has measured the watch's clock is
/// nobody's.
fn fall_into_debt(running: &Watch, probe: &Probe, tls: &ClientTls, debt: i64) -> Json {
    let balance = probe.var("balance");
    wait_for(&running.control, tls, |status| {
        probe.observe(balance, debt);
        status["rules"][0]["verdict"] == "violated"
    });
    running.next("fired")
}

#[test]
fn probes_are_watched_over_tls_and_come_back_after_a_kill() {
    let folder = folder("watched");
    let ours = Ca::new(&folder, "ours");
    let own = ours.sign("watch", &["127.0.0.1"]);
    let running = watch("127.0.0.1:0", &folder, &own, &[]);
    let tls = trusting(&ours.file, None, None);
    let (probe, _told) = probe(1, &running.probes, Some(tls.clone()));
    let balance = probe.var("balance");
    wait_for(&running.control, &tls, |status| status["connections"] == 1);
    assert_eq!(fall_into_debt(&running, &probe, &tls, -1)["rule"], "no debt");
    probe.observe(balance, 5);
    running.next("resolved");

    let address = running.probes.clone();
    running.kill();
    let again = watch(&address, &folder, &own, &[]);
    wait_for(&again.control, &tls, |status| status["connections"] == 1);
    let before = status(&again.control, &tls)["records"].as_u64().expect("a number");
    wait_for(&again.control, &tls, |status| {
        probe.observe(balance, 5);
        status["records"].as_u64() > Some(before + 5)
    });
}

#[test]
fn whoever_is_wrong_is_told_why_and_the_rest_goes_on() {
    let folder = folder("wrong");
    let (ours, theirs) = (Ca::new(&folder, "ours"), Ca::new(&folder, "theirs"));
    let own = ours.sign("watch", &["127.0.0.1"]);
    let client_ca = ["--tls-client-ca", text(&ours.file)];
    let running = watch("127.0.0.1:0", &folder, &own, &client_ca);
    let good = ours.sign("n1", &["n1"]);
    let (known, strange) = (ours.sign_expired("late", &["n1"]), theirs.sign("n1-x", &["n1"]));
    let tls = trusting(&ours.file, Some(&good), None);
    let wrong = [
        (None, "says nothing; one that asks for TLS"),
        (Some(trusting(&theirs.file, Some(&good), None)), "no CA that is known here"),
        (Some(trusting(&ours.file, Some(&good), Some("b.example"))), "not for b.example"),
        (Some(trusting(&ours.file, None, None)), "asks for a certificate"),
        (Some(trusting(&ours.file, Some(&known), None)), "is expired"),
        (Some(trusting(&ours.file, Some(&strange), None)), "does not know the CA"),
    ];
    for (node, (tls, expected)) in wrong.into_iter().enumerate() {
        let (_probe, told) = probe(node as u32 + 2, &running.probes, tls);
        let line = told.recv_timeout(LONG).expect("it is told");
        assert!(line.contains(expected), "{line:?} does not say {expected:?}");
    }
    let (probe, _told) = probe(1, &running.probes, Some(tls.clone()));
    wait_for(&running.control, &tls, |status| status["connections"] == 1);
    fall_into_debt(&running, &probe, &tls, -1);

    // Control and page have the same certificate, and ask nobody for one.
    let at = format!("https://{}", running.control);
    check(&["watch", "--at", &at, "--tls-ca", text(&ours.file)], 0, &["no debt"]);
    let unknown = "no CA that is known here";
    check(&["watch", "--at", &at, "--tls-ca", text(&theirs.file)], 64, &[unknown]);
    check(&["watch", "--at", &running.control], 64, &["speaks TLS: ask https://"]);
    let other = running.control.replace("127.0.0.1", "https://localhost");
    let not_for = "not for localhost";
    check(&["watch", "--at", &other, "--tls-ca", text(&ours.file)], 64, &[not_for]);
}

#[test]
fn an_expired_certificate_and_a_watch_without_tls_are_told_apart() {
    let folder = folder("expired");
    let ours = Ca::new(&folder, "ours");
    let tls = trusting(&ours.file, None, None);
    let expired = ours.sign_expired("watch", &["127.0.0.1"]);
    let running = watch("127.0.0.1:0", &folder, &expired, &[]);
    let (_probe, told) = probe(1, &running.probes, Some(tls.clone()));
    let line = told.recv_timeout(LONG).expect("it is told");
    assert!(line.contains("its certificate is expired; renew it"), "{line}");

    let plain = Watch::start_on("127.0.0.1:0", text(&rules(&folder)), &folder.join("plain"), &[]);
    let (_probe, told) = probe(1, &plain.probes, Some(tls));
    let line = told.recv_timeout(LONG).expect("it is told");
    assert!(line.contains("does not speak TLS"), "{line}");
    let at = format!("https://{}", plain.control);
    check(&["watch", "--at", &at, "--tls-ca", text(&ours.file)], 64, &["does it speak TLS?"]);
}

#[test]
fn strangers_who_stall_in_the_handshake_cost_no_threads_and_keep_nobody_out() {
    let folder = folder("stall");
    let ours = Ca::new(&folder, "ours");
    let own = ours.sign("watch", &["127.0.0.1"]);
    let running = watch("127.0.0.1:0", &folder, &own, &[]);
    let tls = trusting(&ours.file, None, None);
    let before = running.threads();
    // The beginning of a handshake, of which the rest never comes.
    let begun = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut stalled: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(&running.probes).expect("it listens");
            stream.write_all(&begun).expect("it is open");
            stream
        })
        .collect();
    let (probe, _told) = probe(1, &running.probes, Some(tls.clone()));
    wait_for(&running.control, &tls, |status| status["connections"] == 1);
    let during = running.threads();
    assert!(during < before + 20, "{during} threads, {before} before {} strangers", stalled.len());
    fall_into_debt(&running, &probe, &tls, -1);
    // Five seconds are theirs, no more.
    for stream in &mut stalled {
        stream.set_read_timeout(Some(LONG)).expect("a limit");
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    wait_for(&running.control, &tls, |status| status["refused"].as_u64() >= Some(500));
}

#[test]
fn a_checker_that_stalls_in_the_handshake_holds_up_nobody() {
    let folder = folder("slow");
    let ours = Ca::new(&folder, "ours");
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = silent.local_addr().expect("it listens").to_string();
    let (probe, told) = probe(1, &address, Some(trusting(&ours.file, None, None)));
    let balance = probe.var("balance");
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(3) {
        let now = Instant::now();
        (0..1_000).for_each(|value| probe.observe(balance, value));
        longest = longest.max(now.elapsed());
    }
    assert!(longest < Duration::from_millis(500), "1,000 observations took {longest:?}");
    let line = told.recv_timeout(LONG).expect("it is told");
    assert!(line.contains("does not answer the handshake of TLS in time"), "{line}");
    let begun = Instant::now();
    drop(probe);
    assert!(begun.elapsed() < Duration::from_secs(5), "the end took {:?}", begun.elapsed());
}

#[test]
fn alerts_go_to_https() {
    let folder = folder("webhook");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("receiver", &["localhost"]);
    let receiver = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = receiver.local_addr().expect("it listens").port();
    let files = ServerFiles { cert, key, client_ca: None };
    let tls = ServerTls::read(&files).expect("the files are right");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for socket in receiver.incoming().flatten() {
            let Ok(mut stream) = Stream::accept(socket, Some(&tls)) else { continue };
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            while !text.contains("\"version\"") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => text += &String::from_utf8_lossy(&buffer[..count]),
                    _ => break,
                }
            }
            // It goes without the farewell of TLS, as many do.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            let _ = tell.send(text);
        }
    });
    let url = format!("https://localhost:{port}/alerts");
    let rules = rules(&folder);
    let more = ["--webhook", &url, "--tls-ca", text(&ours.file)];
    let running = Watch::start_on("127.0.0.1:0", text(&rules), &folder.join("watch"), &more);
    let (probe, _told) = probe(1, &running.probes, None);
    let balance = probe.var("balance");
    // Until it is connected, observations are nobody's.
    let end = Instant::now() + LONG;
    let alert = loop {
        probe.observe(balance, -1);
        if let Ok(alert) = told.recv_timeout(Duration::from_millis(50)) {
            break alert;
        }
        assert!(Instant::now() < end, "the alert arrives");
    };
    assert!(alert.contains("\"status\":\"firing\"") && alert.contains("no debt"), "{alert}");
}

#[test]
fn wrong_files_end_the_program_with_the_remedy() {
    let folder = folder("options");
    let ours = Ca::new(&folder, "ours");
    let (cert, key) = ours.sign("watch", &["127.0.0.1"]);
    let (_, other) = ours.sign("other", &["127.0.0.1"]);
    let rules = rules(&folder);
    let place = folder.join("watch");
    let start = ["watch", "--rules", text(&rules), "--listen", "127.0.0.1:0", "--folder"];
    let with = |more: &[&str], expected: &str| {
        check(&[&start[..], &[text(&place)], more].concat(), 64, &[expected]);
    };
    with(&["--tls-cert", "none.pem", "--tls-key", text(&key)], "none.pem: No such file");
    with(&["--tls-cert", text(&cert), "--tls-key", text(&other)], "not the key of the first");
    with(&["--tls-cert", text(&cert)], "--tls-key");
    with(&["--engine-cert", text(&cert)], "--engine");
    let no_ca = ["--webhook", "https://localhost:1/", "--tls-ca", "none.pem"];
    with(&no_ca, "none.pem: No such file");
}
