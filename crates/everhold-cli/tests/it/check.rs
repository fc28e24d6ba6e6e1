//! Properties judged on recorded executions.

use serde_json::Value as Json;

use crate::program::{check, everhold, screen, temporary};

pub(crate) const ETCD: &str = "../../everhold-trace/testdata/etcd-raft-example.ndjson";
pub(crate) const ETCD_MAPPING: &str = "../../everhold-trace/testdata/etcd-raft.mapping.json";
pub(crate) const EWD998: &str = "../../everhold-trace/testdata/ewd998.log";
pub(crate) const EWD998_RUNS: &str = "^=== (?<trace>.*) ===$";
pub(crate) const EWD998_PARSER: &str = concat!(
    r#"^State [0-9]+: <(?<event>\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n"#,
    r"\/\\ active = (?<active>.*)\n\/\\ color = (?<color>.*)\n",
    r"\/\\ counter = (?<all_counter>(?<counter>.*))\n\/\\ inbox = (?<all_inbox>.*)",
);

/// One leader per term, terms never decrease, and the leader is ahead, on all consistent cuts.
#[test]
fn etcd_raft_keeps_what_raft_promises() {
    screen(&["check", "etcd-raft.prop", ETCD, "--mapping", ETCD_MAPPING], 0, "etcd-raft.txt");
}

/// The first violating cut, the values that falsify the property, and the positions of the nodes.
#[test]
fn etcd_raft_does_not_keep_terms_equal() {
    screen(
        &["check", "etcd-raft-false.prop", ETCD, "--mapping", ETCD_MAPPING],
        1,
        "etcd-raft-false.txt",
    );
}

/// The property holds in each of the 990 states with a host that TLC printed, in 3 runs.
#[test]
fn ewd998_counts_the_messages_in_flight() {
    screen(
        &["check", "ewd998.prop", EWD998, "--parser", EWD998_PARSER, "--executions", EWD998_RUNS],
        0,
        "ewd998.txt",
    );
}

#[test]
fn violations_are_shown_with_their_cut() {
    screen(&["check", "ping.prop", "ping.trace"], 1, "ping.txt");
}

#[test]
fn a_bound_that_is_reached_is_unknown() {
    check(
        &["check", "etcd-raft.prop", ETCD, "--mapping", ETCD_MAPPING, "--cases-max", "1000"],
        2,
        &[
            "on 1,000 pairs of compatible states, then the bound was reached",
            "raise it with --cases-max",
        ],
    );
}

#[test]
fn what_is_not_shown_is_unknown_and_named() {
    let chord = "../../everhold-trace/testdata/chord.log";
    check(&["check", "etcd-raft-false.prop", chord], 2, &["shows no state"]);
}

#[test]
fn several_files_and_runs_are_judged_together() {
    let traces = ["check", "ping.prop", "ping.trace", "ping.trace"];
    check(&traces, 1, &["violated in 2 of 2 runs", "2 runs · 14 events"]);
}

#[test]
fn a_constant_may_be_given() {
    check(&["check", "limit.prop", "ping.trace"], 64, &["unknown name `LIMIT`"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT=1"], 0, &["1 hold"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT=0"], 1, &["n.pings = 1"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT"], 64, &["NAME=VALUE"]);
}

/// A watch looks at some moments; a recording is judged in full, and that is said.
#[test]
fn a_sampled_property_is_judged_in_full() {
    check(
        &["check", "sampled.prop", "ping.trace"],
        0,
        &["judged in full: `every 1s` is for a watch"],
    );
}

#[test]
fn programs_read_one_object_a_line() {
    let output = everhold(&["check", "ping.prop", "ping.trace", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |is: &str| lines.iter().filter(|l| l["is"] == is).collect::<Vec<_>>();
    let (results, summary) = (of("result"), of("summary"));
    assert_eq!((results.len(), of("property").len(), summary.len()), (4, 4, 1));
    assert_eq!(summary[0]["verdict"], "violated");
    let violated = results.iter().find(|result| result["verdict"] == "violated").unwrap();
    assert_eq!(violated["violation"]["cut"][0]["node"], "client");
    assert_eq!(violated["violation"]["values"][0]["text"], "a.term");
    let output = everhold(&["check", "three-errors.prop", "ping.trace", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["is"], &first["line"], &first["column"]),
        (&"error".into(), &1.into(), &47.into())
    );
}

#[test]
fn colour_is_used_when_asked_for() {
    check(&["check", "ping.prop", "ping.trace", "--color", "always"], 1, &["\u{1b}["]);
    let plain = everhold(&["check", "ping.prop", "ping.trace"]);
    assert!(!plain.stdout.contains(&0x1b));
}

#[test]
fn verdicts_reach_continuous_integration() {
    let junit = temporary("junit.xml");
    let summary = temporary("summary.md");
    let _ = std::fs::remove_file(&summary);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args([
            "check",
            "etcd-raft-false.prop",
            "../../everhold-trace/testdata/etcd-raft-example.ndjson",
        ])
        .args(["--mapping", "../../everhold-trace/testdata/etcd-raft.mapping.json", "--junit"])
        .arg(&junit)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let xml = std::fs::read_to_string(junit).expect("it was written");
    assert!(xml.contains("failures=\"2\"") && xml.contains("<failure"), "{xml}");
    let summary = std::fs::read_to_string(summary).expect("it was written");
    assert!(summary.contains("| violated |") && summary.contains("```text"), "{summary}");
}
