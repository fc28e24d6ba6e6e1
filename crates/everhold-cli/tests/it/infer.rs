//! Properties inferred from recorded executions.

use std::fs;

use serde_json::Value as Json;

use crate::check::{ETCD, ETCD_MAPPING};
use crate::program::{check, everhold, screen, temporary};

#[test]
fn etcd_raft_tells_what_raft_promises() {
    screen(&["infer", ETCD, "--mapping", ETCD_MAPPING], 0, "infer-etcd.txt");
}

/// What is inferred is a file of properties that hold on the same trace.
#[test]
fn lines_are_properties_that_check_reads() {
    let out = temporary("inferred.prop");
    let path = out.to_str().expect("it is UTF-8");
    check(&["infer", ETCD, "--mapping", ETCD_MAPPING, "--out", path], 0, &["pairs of compatible"]);
    check(&["check", path, ETCD, "--mapping", ETCD_MAPPING], 0, &["0 violated, 0 unknown"]);
}

#[test]
fn why_shows_the_counterexample_or_the_reason() {
    let why = |property: &str, code: i32, prints: &[&str]| {
        check(&["infer", ETCD, "--mapping", ETCD_MAPPING, "--why", property], code, prints);
    };
    why("forall a, b in nodes: a.term == b.term", 1, &["it is false at event", "a.term = "]);
    let ahead = r#"forall a, b in nodes where a != b: a.role == "StateLeader" implies a.log >= "#;
    why(&format!("{ahead}b.log"), 0, &["it is line 1"]);
    why(&format!("{ahead}b.commit"), 0, &["it holds, and is hidden: follows from"]);
    why("forall n in nodes: n.term >=", 64, &["--why:1"]);
}

#[test]
fn all_shows_what_is_hidden_and_json_is_for_programs() {
    check(&["infer", ETCD, "--mapping", ETCD_MAPPING, "--all"], 0, &["hidden: ", "follows from"]);
    let arguments =
        ["infer", ETCD, "--mapping", ETCD_MAPPING, "--json", "--lines", "3", "--scope", "delivery"];
    let output = everhold(&arguments);
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    let lines: Vec<Json> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines.iter().all(|line| line["confidence"].as_f64() > Some(0.99)), "{text}");
}

/// A log of texts has no variables: nothing is inferred, and the message says what to do.
#[test]
fn no_variables_no_lines() {
    let chord = "../../everhold-trace/testdata/chord.log";
    check(&["infer", chord], 2, &["not enough evidence", "no node shows a state"]);
    check(&["infer", "missing.trace"], 64, &["missing.trace"]);
}

/// A table of snapshots goes straight into columns.
#[test]
fn tables_of_snapshots() {
    let path = temporary("snapshots.csv");
    let mut text = String::from("snapshot,node,term,commit,len\n");
    for snapshot in 0..300_u64 {
        for node in 0..3_u64 {
            let len = snapshot * 7919 % 97 + node;
            let commit = len.saturating_sub(snapshot * 31 % 11);
            text += &format!("{snapshot},n{node},{},{commit},{len}\n", snapshot * 37 % 53);
        }
    }
    fs::write(&path, text).expect("the file can be written");
    let path = path.to_str().expect("it is UTF-8");
    check(
        &["infer", path],
        0,
        &["a.term == b.term", "n.commit <= n.len", "300 snapshots · 3 nodes"],
    );
}
