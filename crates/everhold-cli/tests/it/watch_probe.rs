//! The whole way from the processes of a service to evidence: offices that are not built from
//! Everhold's nodes (`examples/office.rs`), each with a probe, and `everhold watch` as a separate
//! process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use everhold_live::{NodeId, Probe};
use serde_json::Value as Json;

use crate::program::{check, temporary};

const RULE: &str = r#"always "a seat is sold once": forall a, b in nodes where a != b:
  a.sold[key] == null or b.sold[key] == null
"#;

/// A process that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Watch {
    _process: Process,
    /// The lines of its output, one JSON object each.
    lines: Receiver<Json>,
    pub(crate) probes: String,
    pub(crate) control: String,
}

/// Reads the output until its end even if nobody uses it: a full pipe would block the watch.
fn follow(said: ChildStdout) -> Receiver<Json> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            let _ = tell.send(serde_json::from_str(&line).expect("it is JSON"));
        }
    });
    lines
}

impl Watch {
    pub(crate) fn start(rules: &str, folder: &Path) -> Watch {
        Watch::start_on("127.0.0.1:0", rules, folder, &[])
    }

    pub(crate) fn start_on(address: &str, rules: &str, folder: &Path, more: &[&str]) -> Watch {
        let mut process = Command::new(env!("CARGO_BIN_EXE_everhold"))
            .args(["watch", "--rules", rules, "--json", "--system", "booking"])
            .args(["--listen", address, "--metrics", "127.0.0.1:0", "--folder"])
            .arg(folder)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut said = BufReader::new(process.stderr.take().expect("it was asked for")).lines();
        let mut place = |before: &str| {
            let line = said.find_map(|line| {
                line.expect("it is text").split_once(before).map(|(_, place)| place.to_owned())
            });
            line.expect("it says where it listens")
        };
        let bare = |place: String| {
            let place = place.trim_end_matches(" (TLS)");
            place.trim_start_matches("http://").trim_start_matches("https://").to_owned()
        };
        let (probes, control) = (bare(place("for probes on ")), bare(place("control on ")));
        // The rest of the output must be read too, so that the pipe never fills.
        std::thread::spawn(move || said.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        let lines = follow(process.stdout.take().expect("it was asked for"));
        Watch { _process: Process(process), lines, probes, control }
    }

    /// The next line of its output of this kind.
    pub(crate) fn next(&self, event: &str) -> Json {
        loop {
            let json = self.lines.recv_timeout(Duration::from_secs(60)).expect("it is told");
            if json["event"] == event {
                return json;
            }
        }
    }

    /// Waits until the watch ends by itself; its exit code, and the rest of its output.
    fn end(&mut self, mut meanwhile: impl FnMut()) -> (Option<i32>, Vec<Json>) {
        let status = loop {
            if let Some(status) = self._process.0.try_wait().expect("it was started") {
                break status;
            }
            meanwhile();
            sleep(Duration::from_millis(20));
        };
        (status.code(), self.lines.iter().collect())
    }

    /// Kills the watch without a chance to shut down.
    pub(crate) fn kill(self) {}

    pub(crate) fn threads(&self) -> usize {
        let path = format!("/proc/{}/status", self._process.0.id());
        let status = fs::read_to_string(path).expect("Linux says it");
        let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        line.expect("it is there").trim().parse().expect("a number")
    }

    pub(crate) fn status(&self) -> Json {
        let mut stream = TcpStream::connect(&self.control).expect("it listens");
        write!(stream, "GET /status.json HTTP/1.1\r\n\r\n").unwrap();
        let answer = std::io::read_to_string(stream).expect("it answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str(body).expect("it is JSON")
    }

    /// The status, as soon as it meets the condition.
    pub(crate) fn status_when(&self, wanted: impl Fn(&Json) -> bool) -> Json {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "{status:#}");
            sleep(Duration::from_millis(30));
        }
    }
}

struct Office {
    process: Process,
    address: String,
}

impl Office {
    fn start(number: usize, checker: &str, more: &[&str]) -> Office {
        let program: PathBuf = Path::new(env!("CARGO_BIN_EXE_everhold")).with_file_name("examples");
        let mut process = Command::new(program.join("office"))
            .args([&number.to_string(), checker])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`cargo test -p everhold-cli` builds the example `office`");
        let said = process.stdout.take().expect("it was asked for");
        let address = BufReader::new(said).lines().next().expect("a line").expect("it is text");
        Office { process: Process(process), address }
    }

    fn signal(&self, name: &str) {
        let id = self.process.0.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("there is `kill`").success());
    }

    fn meet(&mut self, other: &str) {
        let input = self.process.0.stdin.as_mut().expect("it was asked for");
        writeln!(input, "{other}").expect("it listens");
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        writeln!(stream, "{request}").unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("it answers");
        reply.trim_end().to_owned()
    }
}

fn rules_and_folder(name: &str) -> (String, PathBuf) {
    let rules = temporary(&format!("{name}.prop"));
    fs::write(&rules, RULE).expect("it can be written");
    let folder = temporary(name);
    let _ = fs::remove_dir_all(&folder);
    (rules.display().to_string(), folder)
}

#[test]
fn a_service_with_probes_is_watched_and_its_mistake_is_evidence() {
    let (rules, folder) = rules_and_folder("booking");
    let watch = Watch::start(&rules, &folder);
    let mut honest = Office::start(0, &watch.probes, &[]);
    let mut careless = Office::start(1, &watch.probes, &["--careless"]);
    honest.meet(&careless.address);
    careless.meet(&honest.address);
    watch.status_when(|status| status["connections"] == 2);

    // Each office sells its own seats; customers of the other office are passed on.
    for seat in 0..20 {
        let office = if seat % 2 == 0 { &honest } else { &careless };
        assert_eq!(office.ask(&format!("sell {seat} ada")), "sold");
    }
    assert_eq!(honest.ask("sell 21 ada"), "sold");
    assert_eq!(honest.ask("sell 1 bob"), "taken");
    let status = watch
        .status_when(|status| status["keys"] == 21 && status["rules"][0]["verdict"] == "holds");
    assert!(status["violations"].as_array().is_some_and(Vec::is_empty), "{status:#}");

    assert_eq!(careless.ask("sell 6 bob"), "sold");
    let fired = watch.next("fired");
    assert_eq!((&fired["rule"], &fired["key"]), (&"a seat is sold once".into(), &6.into()));
    let trace = folder.join(format!("violations/{}.trace", fired["id"].as_str().expect("text")));
    let trace = trace.to_str().expect("it is UTF-8");
    check(&["show", trace], 0, &["office-0", "office-1", "sold"]);
    check(&["check", &rules, trace], 1, &["a seat is sold once", "key = 6", "bob"]);
    check(&["check", &rules, trace, "--define", "key=6"], 1, &["a seat is sold once", "bob"]);

    assert_eq!(careless.ask("cancel 6"), "cancelled");
    assert_eq!(watch.next("resolved")["id"], fired["id"]);

    // A killed process leaves the snapshots together with its seats: no false alarm.
    drop(careless);
    assert_eq!(watch.next("down")["name"], "office-1");
    assert_eq!(honest.ask("cancel 6"), "cancelled");
    let gone = |status: &Json| status["nodes"][1]["up"] == false && status["keys"] == 9;
    let status = watch.status_when(gone);
    assert_eq!(status["rules"][0]["violations"], 1, "{status:#}");
}

/// After a pause of the process, the watch knows again what it sold before, and what it no longer
/// holds.
#[test]
fn a_process_that_was_stopped_for_a_while_is_known_again() {
    let (rules, folder) = rules_and_folder("stopped");
    let watch = Watch::start(&rules, &folder);
    let mut honest = Office::start(0, &watch.probes, &[]);
    let mut careless = Office::start(1, &watch.probes, &["--careless"]);
    honest.meet(&careless.address);
    careless.meet(&honest.address);
    watch.status_when(|status| status["connections"] == 2);
    for seat in (0..20).step_by(2) {
        assert_eq!(honest.ask(&format!("sell {seat} ada")), "sold");
    }
    watch.status_when(|status| status["keys"] == 10);
    honest.signal("STOP");
    assert_eq!(watch.next("down")["name"], "office-0");
    watch.status_when(|status| status["nodes"][0]["known"] == false && status["keys"] == 0);
    sleep(Duration::from_secs(1));
    honest.signal("CONT");
    let all = |status: &Json| {
        let known = |node: usize| status["nodes"][node]["known"] == true;
        known(0) && known(1) && status["keys"] == 10
    };
    let status = watch.status_when(all);
    assert_eq!(status["rules"][0]["verdict"], "holds", "{status:#}");
    assert_eq!(careless.ask("sell 6 bob"), "sold");
    assert_eq!(watch.next("fired")["key"], 6);
    assert_eq!(honest.ask("cancel 8"), "cancelled");
    watch.status_when(|status| status["keys"] == 9);
}

/// Changes while the watch is down are not reported to it; after its restart it knows them
/// nevertheless.
#[test]
fn what_happened_while_the_watch_was_away_is_known_when_it_is_back() {
    let (rules, folder) = rules_and_folder("away");
    let patient = ["--silence-ms", "10000", "--wait-ms", "20000"];
    let watch = Watch::start_on("127.0.0.1:0", &rules, &folder, &patient);
    let address = watch.probes.clone();
    let mut honest = Office::start(0, &address, &[]);
    let mut careless = Office::start(1, &address, &["--careless"]);
    honest.meet(&careless.address);
    careless.meet(&honest.address);
    watch.status_when(|status| status["connections"] == 2);
    for seat in (0..20).step_by(2) {
        assert_eq!(honest.ask(&format!("sell {seat} ada")), "sold");
    }
    watch.status_when(|status| status["keys"] == 10);
    sleep(Duration::from_secs(3)); // a checkpoint contains it by now
    watch.kill();
    sleep(Duration::from_millis(500)); // nobody listens, and the probes have noticed
    assert_eq!(honest.ask("cancel 4"), "cancelled");
    assert_eq!(careless.ask("sell 4 bob"), "sold");
    assert_eq!(careless.ask("sell 6 bob"), "sold");
    let watch = Watch::start_on(&address, &rules, &folder, &patient);
    let fired = watch.next("fired");
    assert_eq!(fired["key"], 6, "seat 4 was given back before it was sold again");
    watch.status_when(|status| {
        status["nodes"][0]["known"] == true && status["rules"][0]["violations"] == 1
    });
}

/// An office in this process that sells every seat up to a count, and sends all of them to a new
/// checker.
fn seller(number: u32, checker: &str, sold: &Arc<AtomicI64>) -> Probe {
    let sold = Arc::clone(sold);
    Probe::to_checkers([checker.parse().expect("an address")])
        .system("booking")
        .node(NodeId(number), &format!("office-{number}"), "office")
        .report(everhold_live::Report::to(|_| {}))
        .refresh(move |probe| {
            let relation = probe.var("sold");
            (0..sold.load(Ordering::SeqCst)).for_each(|seat| probe.add(relation, seat, "ada"));
        })
        .start()
}

/// The watch is killed at random moments, again and again, and restarted in the same folder:
/// wherever its files end, each violation is reported exactly once.
#[test]
fn a_watch_that_is_killed_loses_nothing_and_tells_nothing_twice() {
    let (rules, folder) = rules_and_folder("killed");
    // A loaded machine must not be mistaken for a crash.
    let patient = ["--silence-ms", "10000", "--wait-ms", "20000"];
    let mut watch = Watch::start_on("127.0.0.1:0", &rules, &folder, &patient);
    let address = watch.probes.clone();
    let sold = Arc::new(AtomicI64::new(0));
    let offices = [0, 1].map(|number| seller(number, &address, &sold));
    let relations = offices.each_ref().map(|office| office.var("sold"));
    let sell = |moments: u64| {
        for _ in 0..moments {
            let seat = sold.fetch_add(1, Ordering::SeqCst);
            for (office, relation) in offices.iter().zip(relations) {
                office.add(relation, seat, "ada");
            }
            sleep(Duration::from_millis(5));
        }
    };
    // The lengths of the pauses come from a fixed seed.
    let mut seed = 7_u64;
    for _ in 0..6 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sell(40 + (seed >> 33) % 80);
        watch.kill();
        sell(5);
        watch = Watch::start_on(&address, &rules, &folder, &patient);
    }
    sell(20);
    let planted = sold.load(Ordering::SeqCst) as usize;
    let told = || {
        let text = fs::read_to_string(folder.join("violations.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        let fired = lines.filter(|json| json["event"] == "fired");
        fired.map(|json| json["key"].as_i64().expect("a seat")).collect::<Vec<_>>()
    };
    let end = Instant::now() + Duration::from_secs(60);
    while told().len() < planted {
        assert!(Instant::now() < end, "{} of {planted} are told", told().len());
        sleep(Duration::from_millis(50));
    }
    let mut keys = told();
    keys.sort_unstable();
    assert_eq!(keys, (0..planted as i64).collect::<Vec<_>>());
}

/// A watch that is killed and started again reads its log once more: a violation that had begun and
/// ended before is not told again, neither under its own identity nor under a new one.
#[test]
fn a_watch_that_was_killed_does_not_tell_of_the_past_again() {
    let (rules, folder) = rules_and_folder("past");
    fs::write(&rules, "always \"no debt\": forall n in nodes: n.balance >= 0\n").unwrap();
    let watch = Watch::start_on("127.0.0.1:0", &rules, &folder, &[]);
    let probe = Probe::to_checkers([watch.probes.parse().expect("an address")])
        .system("booking")
        .node(NodeId(1), "n1", "account")
        .report(everhold_live::Report::to(|_| {}))
        .start();
    let balance = probe.var("balance");
    // Without a refresh, a value counts once it is shown after the probe was heard.
    let show = |watch: &Watch, value: i64, verdict: &str| {
        watch.status_when(|status| {
            probe.observe(balance, value);
            status["rules"][0]["verdict"] == verdict
        });
    };
    show(&watch, -1, "violated");
    show(&watch, 5, "holds");
    watch.next("resolved");
    let address = watch.probes.clone();
    watch.kill();
    let watch = Watch::start_on(&address, &rules, &folder, &[]);
    watch.status_when(|status| status["connections"] == 1);
    show(&watch, 5, "holds");
    show(&watch, -2, "violated");
    let text = fs::read_to_string(folder.join("violations.jsonl")).expect("it was written");
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let fired: Vec<Json> = lines.filter(|json| json["event"] == "fired").collect();
    let values: Vec<String> = fired.iter().map(|json| json["witness"].to_string()).collect();
    assert_eq!(values.len(), 2, "{text}");
    assert!(values[0].contains("-1") && values[1].contains("-2"), "{text}");
    // The next process tells nothing, but what goes on is still violated when it ends.
    watch.kill();
    let mut watch = Watch::start_on(&address, &rules, &folder, &["--seconds", "4"]);
    let (code, told) = watch.end(|| probe.observe(balance, -2));
    assert!(told.iter().all(|line| line["event"] != "fired"), "{told:?}");
    assert_eq!(code, Some(1), "{told:?}");
}
