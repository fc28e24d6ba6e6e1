//! Pages from the program: written, served, refused; and the commands `init` and `emit-test`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::{check, everhold, temporary};

const CHORD: &str = "../../everhold-trace/testdata/chord.log";

#[test]
fn a_trace_becomes_a_page() {
    let page = temporary("chord.html");
    check(&["view", CHORD, "--out", page.to_str().expect("a path is text")], 0, &["chord.html"]);
    let html = fs::read_to_string(page).expect("it was written");
    assert!(html.starts_with("<!doctype html>"));
    assert!(html.contains("data-form=\"gzip\""), "a large page is compressed");
    assert!(html.len() < 500_000, "{} bytes for 1,235 events", html.len());
}

/// A server on a free port.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(path: &Path) -> Served {
        let mut process = Command::new(env!("CARGO_BIN_EXE_everhold"))
            .args(["view", path.to_str().expect("a path is text"), "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Served { process, address }
    }

    fn get(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sockets have time-outs");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_folder_of_runs_is_served_and_followed() {
    let folder = temporary("runs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("7f3a")).expect("a folder can be made");
    fs::write(folder.join("7f3a/report.html"), "<body>the report</body>")
        .expect("it can be written");
    let served = Served::start(&folder);
    let index = served.get("GET / HTTP/1.1\r\n\r\n");
    assert!(index.starts_with("HTTP/1.1 200 OK") && index.contains("7f3a"), "{index}");
    let at = served.get("GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
    assert!(at.starts_with("HTTP/1.1 200 OK"), "{at}");
    // A page of another site that gave its name our address.
    let named = served.get("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(named.starts_with("HTTP/1.1 421") && !named.contains("7f3a"), "{named}");
    let page = served.get("GET /run/0 HTTP/1.1\r\n\r\n");
    assert!(page.contains("the report") && page.contains("EventSource"), "{page}");
    // Only the listed runs can be requested.
    for (request, status) in [
        ("GET /run/9 HTTP/1.1\r\n\r\n", "404"),
        ("GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        ("POST / HTTP/1.1\r\n\r\n", "405"),
        ("\u{7}\u{0}garbage\r\n\r\n", "405"),
    ] {
        let answer = served.get(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
    }
}

#[test]
fn what_cannot_be_viewed_is_refused() {
    let empty = temporary("no-runs");
    fs::create_dir_all(&empty).expect("a folder can be made");
    let empty = empty.to_str().expect("a path is text");
    check(&["view", empty], 64, &["has no runs", "cargo test"]);
    check(&["view", "nowhere"], 64, &["there is no nowhere", "id of a finding"]);
    check(&["view", empty, "--out", "x.html"], 64, &["is a folder of runs"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it is bound").to_string();
    check(&["view", CHORD, "--listen", &address], 64, &["cannot listen on", "--listen"]);
}

/// The token of a finding of the storage system, as a failing test writes it.
const TOKEN: &str =
    "eh1-AdFEt4AWGD69AwNHZXQFVmFsdWUDUHV0AAACAAAAAAEAAAABAAIBAAABAgIAAgAAAQAAAgICb4DWLQ";

#[test]
fn a_finding_becomes_a_test() {
    let prints = ["#[test]", "fn finding_", "Schedule::parse(\"eh1-", ".run(setup)"];
    check(&["emit-test", TOKEN], 0, &prints);
    check(&["emit-test", TOKEN, "--setup", "my_system"], 0, &[".run(my_system)"]);
    check(&["emit-test", "eh1-broken"], 64, &["is not a schedule"]);
}

#[test]
fn shells_complete_commands() {
    for shell in ["bash", "zsh", "fish"] {
        check(&["completions", shell], 0, &["everhold", "infer"]);
    }
    check(&["completions", "cobol"], 64, &["possible values"]);
}

/// The test that `init` writes is compiled and run in `crates/everhold/tests/it/first.rs`.
#[test]
fn a_first_test_is_written_once() {
    let folder = temporary("first");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src")).expect("a folder can be made");
    let manifest =
        "[package]\nname = \"first\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).expect("it can be written");
    fs::write(folder.join("src/lib.rs"), "").expect("it can be written");
    let path = folder.to_str().expect("a path is text");
    let output = everhold(&["init", path]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("it is there");
    assert!(manifest.contains("everhold = ") && manifest.contains("serde = "), "{manifest}");
    let test = fs::read_to_string(folder.join("tests/everhold.rs")).expect("it was written");
    assert!(test.lines().count() <= 25, "{} lines", test.lines().count());
    check(&["init", path], 64, &["already exists"]);
    check(&["init", "nowhere"], 64, &["there is no", "cargo new"]);
}

#[test]
fn a_member_of_a_workspace_is_asked_for_and_the_profile_goes_to_the_root() {
    let folder = temporary("workspace");
    let _ = fs::remove_dir_all(&folder);
    let member = folder.join("crates/server");
    fs::create_dir_all(member.join("src")).expect("a folder can be made");
    let root = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n";
    fs::write(folder.join("Cargo.toml"), root).expect("it can be written");
    let package = "[package]\nname = \"server\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(member.join("Cargo.toml"), package).expect("it can be written");
    fs::write(member.join("src/lib.rs"), "").expect("it can be written");
    let read = |path: &Path| fs::read_to_string(path).expect("it is there");

    let path = folder.to_str().expect("a path is text");
    check(&["init", path], 64, &["without a package of its own", "everhold init crates/server"]);
    assert_eq!(read(&folder.join("Cargo.toml")), root, "nothing was changed");

    check(&["init", member.to_str().expect("text")], 0, &["[profile.test]", "tests/everhold.rs"]);
    assert!(read(&member.join("Cargo.toml")).contains("everhold = "));
    assert!(read(&folder.join("Cargo.toml")).contains("[profile.test]\nopt-level = 1\n"));
}

#[test]
fn a_folder_without_outcomes_is_told_what_writes_them() {
    let empty = temporary("no-outcomes");
    fs::create_dir_all(&empty).expect("a folder can be made");
    let empty = empty.to_str().expect("a path is text");
    check(&["findings", empty], 64, &["has no outcomes of tests", "cargo test"]);
}
