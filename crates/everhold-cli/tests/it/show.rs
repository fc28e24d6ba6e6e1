//! A trace as text, picture and statistics.

use std::fs;

use crate::check::{ETCD, ETCD_MAPPING, EWD998, EWD998_PARSER, EWD998_RUNS};
use crate::program::{check, everhold, screen, temporary};

const CHORD: &str = "../../everhold-trace/testdata/chord.log";

#[test]
fn a_trace_is_shown_as_text_picture_and_statistics() {
    screen(&["show", "ping.trace"], 0, "show-text.txt");
    screen(&["show", "ping.trace", "--as", "picture"], 0, "show-picture.txt");
    screen(&["show", "ping.trace", "--as", "stats"], 0, "show-stats.txt");
}

/// The statistics match those that the study of this log gives.
#[test]
fn the_chord_log_has_its_known_numbers() {
    check(
        &["show", CHORD, "--as", "stats"],
        0,
        &[
            "nodes           8\n",
            "events          1,235:",
            "messages        541:",
            "components      681, the largest of 4 events",
            "quiet cuts      52,745\n",
        ],
    );
    screen(&["show", CHORD, "--as", "picture", "--from", "60", "--to", "80"], 0, "show-chord.txt");
}

#[test]
fn the_etcd_trace_has_a_schema_and_message_kinds() {
    check(
        &["show", ETCD, "--mapping", ETCD_MAPPING, "--as", "stats"],
        0,
        &["667 MsgAppResp, 568 MsgApp", "126 in flight at the end", "commit: int", "role: text"],
    );
}

#[test]
fn a_part_is_shown() {
    let log = [EWD998, "--parser", EWD998_PARSER, "--executions", EWD998_RUNS];
    let with = |more: &[&'static str]| {
        let show: &[&'static str] = &["show"];
        [show, &log, more].concat()
    };
    check(&with(&["--run", "2", "--from", "3", "--to", "4"]), 0, &["SendMsg"]);
    check(&with(&["--run", "249 actions", "--node", "n1", "--to", "9"]), 0, &["n1"]);
    check(&with(&["--run", "4"]), 64, &["no run `4`", "it has 3 runs"]);
    check(&with(&["--run", "2", "--node", "n9"]), 64, &["no node `n9`; did you mean"]);
    check(&with(&["--run", "2", "--from", "9", "--to", "3"]), 64, &["--from 9 is after --to 3"]);
    check(&with(&["--run", "2", "--from", "9000"]), 64, &["the run has 248 events"]);
    check(&with(&["--as", "stats", "--from", "1"]), 64, &["statistics are of whole runs"]);
}

/// The logs of one run, one for each node: read together, with the points of Dinv, or each on its
/// own.
#[test]
fn logs_of_one_run_are_read_together() {
    check(&["show", "dinv", "--format", "dinv"], 0, &["local L1", "{x: 5}", "x: 5 -> 7", "{x: 6}"]);
    check(
        &["show", "dinv", "--format", "dinv", "--as", "stats"],
        0,
        &["messages        2:", "x: int"],
    );
    let logs = ["check", "etcd-raft-false.prop", "dinv/a.log", "dinv/b.log", "--together"];
    check(&logs, 2, &["1 run · 3 events"]);
    check(&["show", "dinv/b.log", "--format", "govector"], 64, &["line 1"]);
}

#[test]
fn only_the_end_of_a_cut_recording_says_so() {
    let shown = |more: &[&str]| {
        let output = everhold(&[&["show", "truncated.trace", "--lenient"], more].concat());
        String::from_utf8(output.stdout).unwrap().contains("the recording stops here")
    };
    assert!(shown(&[]) && shown(&["--from", "2"]) && !shown(&["--to", "2"]));
}

#[test]
fn a_trace_may_come_from_a_pipe() {
    let file = fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/ping.trace"));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["show", "-", "--as", "stats"])
        .stdin(file.unwrap())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("messages        3:"));
}

/// Names and values that would clear the screen or set its title are shown and not obeyed, whoever
/// prints them; as JSON they stay what they are.
#[test]
fn nothing_in_a_trace_is_obeyed_by_a_terminal() {
    let evil = r#"\u001b[2J\u001b]0;x\u0007\u009b1m"#;
    let trace = format!(
        r#"{{"everhold":"trace","version":1}}
{{"is":"run","name":"r{evil}"}}
{{"is":"node","name":"a{evil}","kind":"k{evil}"}}
{{"is":"node","name":"b","kind":"k{evil}"}}
{{"is":"event","node":"a{evil}","kind":"start","state":{{"x{evil}":1,"y":"v{evil}"}},"sends":[{{"to":"b","seq":0,"label":"L{evil}"}}]}}
{{"is":"event","node":"b","kind":"deliver","from":"a{evil}","seq":0,"state":{{"x{evil}":2,"y":"w{evil}"}},"text":"t{evil}"}}
{{"is":"end","events":2}}
"#
    );
    let (path, rules) = (temporary("evil.trace"), temporary("evil.prop"));
    fs::write(&path, trace).expect("it can be written");
    let rule = "always \"r\u{1b}[2J\": forall n in nodes: n.y == \"a\"\n";
    fs::write(&rules, rule).expect("it can be written");
    let (path, rules) = (path.display().to_string(), rules.display().to_string());
    for arguments in [
        &["show", &path][..],
        &["show", &path, "--as", "picture"],
        &["show", &path, "--as", "stats"],
        &["check", &rules, &path],
        &["check", &rules, &path, "--json"],
        &["check", &rules, &path, "--color", "always"],
        &["check", "none\u{1b}[2J.prop", &path],
        &["infer", &path],
        &["infer", &path, "--almost"],
    ] {
        let output = everhold(arguments);
        let text = String::from_utf8(output.stdout).expect("it is text");
        let text = text + &String::from_utf8_lossy(&output.stderr);
        let bare = ["[1m", "[31m", "[32m", "[33m", "[0m"]
            .iter()
            .fold(text.clone(), |text, ours| text.replace(&format!("\u{1b}{ours}"), ""));
        let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!bare.chars().any(is_obeyed), "{arguments:?}: {bare:?}");
        if arguments.contains(&"--json") {
            let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
            let json: Vec<_> = lines.map(|line| line.expect("it is JSON").to_string()).collect();
            assert!(json.concat().contains('\u{9b}'), "{json:?}");
        }
    }
}
