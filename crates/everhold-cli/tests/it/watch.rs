//! `everhold watch`: started, refused, and changed while it runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::check::{ETCD, ETCD_MAPPING};
use crate::program::{check, temporary};

const RULE: &str = "always \"no debt\": forall n in nodes: n.balance >= 0\n";

fn rules(name: &str, text: &str) -> String {
    let path = temporary(name);
    fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

fn folder(name: &str) -> String {
    let path = temporary(name);
    let _ = fs::remove_dir_all(&path);
    path.display().to_string()
}

#[test]
fn where_nothing_was_judged_nothing_is_known() {
    let (rules, folder) = (rules("watch-ok.prop", RULE), folder("watch-ok"));
    let here = "127.0.0.1:0";
    let arguments =
        ["watch", "--rules", &rules, "--folder", &folder, "--listen", here, "--seconds", "1"];
    let expected =
        ["rules in force: no debt", "unknown whether `no debt` held: no node is connected"];
    check(&arguments, 2, &expected);
    let expected = [r#""event":"unknown""#, r#""reason":"no node is connected""#];
    check(&[&arguments[..], &["--json"]].concat(), 2, &expected);
}

/// A file of inferred properties is accepted by `watch` unchanged.
#[test]
fn what_was_inferred_is_watched_unchanged() {
    let inferred = temporary("watch-inferred.prop").display().to_string();
    check(&["infer", ETCD, "--mapping", ETCD_MAPPING, "--out", &inferred], 0, &[]);
    let text = fs::read_to_string(&inferred).expect("it was written");
    // Lines about deliveries depend on the trace, so one is added.
    assert!(text.contains("\nalways"), "{text}");
    let delivery = "\nalways \"terms\" on delivery: sender.term <= receiver.term\n";
    fs::write(&inferred, text + delivery).expect("it can be written");
    let folder = folder("watch-inferred");
    let arguments = [
        &["watch", "--rules", &inferred, "--folder", &folder, "--seconds", "1"][..],
        &["--listen", "127.0.0.1:0"],
    ]
    .concat();
    let expected =
        ["rules in force: ", "not watched: ", "judged on recordings, with `everhold check`"];
    check(&arguments, 2, &expected);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let good = rules("watch-good.prop", RULE);
    let wrong = rules("watch-wrong.prop", "always \"x\": forall n in");
    let folder = folder("watch-refused");
    let watch = |more: &[&str], prints: &[&str]| {
        let mut arguments = vec!["watch", "--folder", &folder, "--seconds", "1"];
        arguments.extend(more);
        check(&arguments, 64, prints);
    };
    let here = ["--listen", "127.0.0.1:0"];
    let watch_here = |more: &[&str], prints: &[&str]| watch(&[more, &here].concat(), prints);
    watch(&["--rules", &good], &["no probe could connect", "--listen ADDRESS"]);
    watch_here(&["--rules", &wrong], &["expected", "watch-wrong.prop"]);
    watch_here(&["--rules", "no-such-file"], &["no-such-file"]);
    watch(&["--rules", &good, "--engine", "kafka://x"], &["nats://HOST:PORT"]);
    watch(&["--rules", &good, "--listen", "0.0.0.0:0"], &["--secret-file", "--open"]);
    watch(&["--rules", &good, "--listen", "here"], &["--listen here"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it is bound").to_string();
    watch(&["--rules", &good, "--listen", &address], &["--listen", &address, "in use"]);
    watch_here(&["--rules", &good, "--metrics", &address], &["--metrics", &address, "in use"]);
    watch_here(&["--rules", &good, "--webhook", "ftp://x"], &["http://"]);
    watch(&["--at", "127.0.0.1:1"], &["127.0.0.1:1"]);
}

#[test]
fn rules_are_shown_added_and_removed_while_it_runs() {
    let (rules, folder) = (rules("watch-live.prop", RULE), folder("watch-live"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["watch", "--rules", &rules, "--folder", &folder, "--metrics", "127.0.0.1:0"])
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
    let line = stderr.lines().map_while(Result::ok).find(|line| line.contains("http://"));
    let line = line.expect("it says where it listens");
    let at = line.split("http://").nth(1).expect("an address").to_owned();
    let more = temporary("watch-more.prop");
    fs::write(&more, "always \"named\": forall n in nodes: n.owner != null\n").unwrap();
    let more = more.display().to_string();
    let shown = |expected: &[&str]| {
        for _ in 0..100 {
            let output = crate::program::everhold(&["watch", "--at", &at]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if expected.iter().all(|words| text.contains(words)) {
                return text;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("the rules never were {expected:?}");
    };
    shown(&["no debt"]);
    let get = |path: &str| everhold_watch::export::ask(&at, "GET", path, "", "");
    let page = get("/").expect("there is a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("status.json"), "{page:.200}");
    assert!(get("/status.json").expect("there is a status").contains("no debt"));
    for nothing in ["/violations/00.html", "/violations/../x.html", "/violations/.html"] {
        assert!(get(nothing).is_err(), "{nothing} is nothing");
    }
    check(&["watch", "--at", &at, "--add", &more], 0, &[]);
    shown(&["no debt", "named"]);
    check(&["watch", "--at", &at, "--remove", "nothing"], 64, &["no rule is called"]);
    check(&["watch", "--at", &at, "--remove", "no debt"], 0, &[]);
    let mut text = shown(&["named"]);
    while text.contains("no debt") {
        text = shown(&["named"]);
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // What was changed outlives the process; a file that was changed counts again.
    let restarted = || {
        let output = crate::program::everhold(&[
            "watch",
            "--rules",
            &rules,
            "--folder",
            &folder,
            "--listen",
            "127.0.0.1:0",
            "--seconds",
            "1",
        ]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // While it reads its log again, it tells how the rules changed; the last lines are about now.
    let text = restarted();
    let judged = |name: &str| text.contains(&format!("whether `{name}` held"));
    assert!(judged("named") && !judged("no debt"), "{text}");
    fs::write(&rules, format!("{RULE}\n")).unwrap();
    let text = restarted();
    let judged = |name: &str| text.contains(&format!("whether `{name}` held"));
    assert!(judged("no debt") && !judged("named"), "{text}");
}
