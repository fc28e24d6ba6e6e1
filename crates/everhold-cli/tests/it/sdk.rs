//! The probes in Go and Python (`sdk/`): their own tests, and both against the real watch and the
//! real reader of recordings. They need `go` (Debian: golang-go) and `python3`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::program::{check, temporary};
use crate::watch_probe::Watch;

/// Returns whether a program is installed. In CI it has to be; elsewhere the test says that it is
/// left out.
pub(crate) fn is_installed(program: &str, word: &str) -> bool {
    let installed = Command::new(program).arg(word).output().is_ok_and(|run| run.status.success());
    assert!(installed || std::env::var_os("CI").is_none(), "install {program}");
    if !installed {
        eprintln!("left out: {program} is not installed");
    }
    installed
}

fn sdk(language: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk")).join(language)
}

/// The example of a language as a process.
struct Office {
    process: Child,
}

impl Drop for Office {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Office {
    fn start(mut command: Command, number: u32, checker: &str, secret: &[&str]) -> Office {
        command.arg(number.to_string()).arg(checker).args(secret);
        let process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Office { process: process.expect("the language is installed") }
    }

    fn go(number: u32, checker: &str, secret: &[&str]) -> Office {
        // Tests run side by side, and each builds its own.
        let program = temporary(&format!("office-go-{}", checker.replace(':', "-")));
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg("./examples/office");
        let built = build.current_dir(sdk("go")).status().expect("Go is installed (golang-go)");
        assert!(built.success());
        Office::start(Command::new(program), number, checker, secret)
    }

    fn python(number: u32, checker: &str, secret: &[&str]) -> Office {
        let mut command = Command::new("python3");
        command.arg(sdk("python").join("examples/office.py"));
        Office::start(command, number, checker, secret)
    }

    fn tell(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("it was asked for");
        writeln!(input, "{line}").expect("it listens");
        let output = self.process.stdout.as_mut().expect("it was asked for");
        let mut answer = [0; 5];
        std::io::Read::read_exact(&mut BufReader::new(output), &mut answer).expect("it answers");
        assert_eq!(&answer, b"done\n");
    }
}

const RULE: &str = r#"always "a seat is sold once": forall a, b in nodes where a != b:
  a.sold[key] == null or b.sold[key] == null
"#;

/// A double sale across the two languages is a violation as soon as it happens, ends when a seat is
/// given back, and a node that says goodbye leaves.
#[test]
fn probes_in_go_and_python_are_watched_together() {
    if !is_installed("go", "version") || !is_installed("python3", "--version") {
        return;
    }
    let rules = temporary("sdk.prop");
    fs::write(&rules, RULE).expect("it can be written");
    let folder = temporary("sdk");
    let _ = fs::remove_dir_all(&folder);
    let rules = rules.display().to_string();
    let watch = Watch::start(&rules, &folder);
    let mut go = Office::go(0, &watch.probes, &[]);
    go.tell("sell 3 ada");
    let mut python = Office::python(1, &watch.probes, &[]);
    watch.status_when(|status| status["connections"] == 2);
    go.tell("sell 6 ada");
    python.tell("sell 7 ada");
    // What was sold before the connection is refreshed.
    let status =
        watch.status_when(|status| status["keys"] == 3 && status["rules"][0]["verdict"] == "holds");
    for node in status["nodes"].as_array().expect("nodes") {
        assert!(node["clock_error_ms"].as_f64().is_some_and(|error| error < 500.0), "{status:#}");
    }
    python.tell("sell 6 bob");
    let fired = watch.next("fired");
    assert_eq!((&fired["rule"], &fired["key"]), (&"a seat is sold once".into(), &6.into()));
    let trace = folder.join(format!("violations/{}.trace", fired["id"].as_str().expect("text")));
    let trace = trace.to_str().expect("it is UTF-8");
    check(&["check", &rules, trace], 1, &["a seat is sold once", "key = 6", "bob"]);
    python.tell("cancel 6 bob");
    assert_eq!(watch.next("resolved")["id"], fired["id"]);
    drop(go.process.stdin.take());
    assert_eq!(watch.next("gone")["name"], "office-0");
}

/// A watch with a secret hears those who know it. Others are refused, are told so, and go on.
#[test]
fn probes_prove_a_secret_or_are_refused() {
    if !is_installed("go", "version") || !is_installed("python3", "--version") {
        return;
    }
    let rules = temporary("sdk-secret.prop");
    fs::write(&rules, RULE).expect("it can be written");
    let (folder, secret) = (temporary("sdk-secret"), temporary("sdk.secret"));
    let _ = fs::remove_dir_all(&folder);
    fs::write(&secret, "open sesame").expect("it can be written");
    let more = ["--secret-file", secret.to_str().expect("it is text")];
    let rules = rules.display().to_string();
    let watch = Watch::start_on("127.0.0.1:0", &rules, &folder, &more);
    let mut go = Office::go(0, &watch.probes, &["open sesame"]);
    let mut python = Office::python(1, &watch.probes, &["open sesame"]);
    go.tell("sell 6 ada");
    python.tell("sell 6 bob");
    assert_eq!(watch.next("fired")["key"], 6);
    for mut stranger in
        [Office::go(2, &watch.probes, &["wrong"]), Office::python(3, &watch.probes, &[])]
    {
        let said = stranger.process.stderr.take().expect("it was asked for");
        let line = BufReader::new(said).lines().next().expect("a line").expect("it is text");
        assert!(line.contains("it refuses"), "{line}");
        stranger.tell("sell 7 eve");
    }
}

/// Runs the tests of a language in its folder.
#[track_caller]
fn tests_of(language: &str, program: &str, arguments: &[&str]) {
    let run = Command::new(program).args(arguments).current_dir(sdk(language)).output();
    let run = run.unwrap_or_else(|error| panic!("install {program}: {error}"));
    let text = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn the_probes_pass_their_own_tests() {
    if !is_installed("go", "version") || !is_installed("python3", "--version") {
        return;
    }
    tests_of("go", "go", &["vet", "./..."]);
    tests_of("go", "go", &["test", "./..."]);
    tests_of("python", "python3", &["-B", "-m", "unittest", "-q"]);
}

/// A recording of each language is a trace that is read without a complaint.
#[test]
fn recordings_of_the_probes_are_traces() {
    if !is_installed("go", "version") || !is_installed("python3", "--version") {
        return;
    }
    let script = r#"
import sys
sys.path.insert(0, sys.argv[1])
from everhold import Probe
with Probe(system="bank", node=1, name="teller", recording=sys.argv[2]) as probe:
    for balance in range(1200):
        probe.step("pay")
        probe.observe_all(balance=balance, paid=balance)
        probe.add("holds", balance % 3, {"mode": "shared", "until": 1.5})
"#;
    let folder = temporary("sdk-recording");
    let _ = fs::remove_dir_all(&folder);
    let mut command = Command::new("python3");
    command.args(["-B", "-c", script]).arg(sdk("python")).arg(&folder);
    assert!(command.status().expect("Python is installed").success());
    let traces: Vec<PathBuf> =
        fs::read_dir(&folder).expect("it was made").flatten().map(|entry| entry.path()).collect();
    assert_eq!(traces.len(), 1);
    let trace = traces[0].display().to_string();
    check(&["infer", &trace], 0, &["n.balance == n.paid"]);
    let first = BufReader::new(fs::File::open(&traces[0]).expect("it is there")).lines().next();
    assert!(first.expect("a line").expect("text").contains("\"everhold\""));
}
