//! Properties inferred from recorded executions.

use std::fs;

use serde_json::Value as Json;

use crate::check::{ETCD, ETCD_MAPPING};
use crate::program::{check, everhold, screen, temporary};

#[test]
fn etcd_raft_tells_what_raft_promises() {
    screen(&["infer", ETCD, "--mapping", ETCD_MAPPING], 0, "infer-etcd.txt");
}

/// Inferred properties form a file of properties that hold on the same trace.
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
    why(&format!("{ahead}b.commit"), 0, &["it holds, and is hidden: "]);
    why("forall n in nodes: n.term >=", 64, &["error: expected", "--why:1"]);
    // The trace has one leader of one term; the inferred line states that and nothing about all
    // terms.
    let one = r#"forall a, b in nodes where a != b: a.role == "StateLeader" and a.term == b.term
                 implies b.role != "StateLeader""#;
    why(one, 0, &["it holds, and is hidden: says no more than", "there is not enough evidence"]);
}

/// Earlier properties are compared with; rejected ones disappear, and the next lines move up.
#[test]
fn lines_are_compared_and_decided() {
    let (old, decisions) = (temporary("always-old.prop"), temporary("always.decisions"));
    let _ = fs::remove_file(&decisions);
    let (old, decisions) = (old.to_str().expect("UTF-8"), decisions.to_str().expect("UTF-8"));
    let infer = |more: &[&str], code: i32, prints: &[&str]| {
        check(&[&["infer", ETCD, "--mapping", ETCD_MAPPING], more].concat(), code, prints);
    };
    infer(&["--out", old], 0, &["6 lines"]);
    infer(&["--diff", old], 0, &["the same as in"]);
    infer(&["--decisions", decisions, "--reject", "1", "--accept", "2"], 0, &["6 lines"]);
    let kept = fs::read_to_string(decisions).expect("it was written");
    let decided = kept.lines().filter(|line| !line.starts_with('#')).map(|line| &line[..6]);
    assert_eq!(decided.collect::<Vec<_>>(), ["accept", "reject"]);
    infer(&["--decisions", decisions, "--diff", old], 0, &["- always \"a's log is at least b's"]);
    infer(&["--decisions", decisions, "--all"], 0, &["5 lines", "it was rejected"]);
    infer(&["--decisions", decisions, "--reject", "40"], 64, &["no line 40", "numbered 1 to 5"]);
    infer(&["--reject", "1"], 64, &["--decisions"]);
    infer(&["--diff", "missing.prop"], 64, &["missing.prop"]);
}

/// The bound on memory is respected, and parts that did not fit are reported; nonsense is refused.
#[test]
fn memory_is_bounded() {
    let path = temporary("apart.csv");
    let mut text = String::from("node,x,y\n");
    for step in 0..800_u64 {
        text += &format!("n{},{},{}\n", step % 4, step * 7919 % 1009, step * 31 % 997);
    }
    fs::write(&path, text).expect("the file can be written");
    let path = path.to_str().expect("it is UTF-8");
    check(&["infer", path], 2, &["not enough evidence"]);
    let told = ["note: looked at ", "pairs of states", "raise with --max-memory (now 1 MiB)"];
    check(&["infer", path, "--max-memory", "1"], 2, &told);
    for wrong in ["0", "-1", "many", "99999999999"] {
        let bound = format!("--max-memory={wrong}");
        check(&["infer", path, &bound], 64, &["--max-memory", wrong]);
    }
}

/// Input with too little data, or without anything comparable, gives an honest answer and no line.
#[test]
fn bad_input_is_told() {
    let infer = |name: &str, text: &str, code: i32, prints: &[&str]| {
        let path = temporary(name);
        fs::write(&path, text).expect("the file can be written");
        check(&["infer", path.to_str().expect("it is UTF-8")], code, prints);
    };
    infer("empty.csv", "", 64, &["empty.csv"]);
    infer("one.csv", "node,x\na,1\n", 2, &["not enough evidence", "`x`: it is always 1"]);
    infer("types.csv", "node,x\na,1\na,up\na,2\n", 2, &["`x`: its values are of different types"]);
    infer("apart2.csv", "node,x,y\na,1,\nb,,7\na,2,\nb,,9\n", 2, &["not enough evidence"]);
    infer("noise.csv", "node,x\na,5\nb,3\na,9\nb,4\n", 2, &["not enough evidence"]);
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

/// A log of texts has no variables: nothing is inferred, and the message contains a remedy.
#[test]
fn no_variables_no_lines() {
    let chord = "../../everhold-trace/testdata/chord.log";
    check(&["infer", chord], 2, &["not enough evidence", "no node shows a state"]);
    check(&["infer", "missing.trace"], 64, &["missing.trace"]);
}

/// A table of snapshots is read directly into columns.
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
    let told = ["a.term == b.term", "n.commit <= n.len", "300 snapshots · 3 nodes"];
    check(&["infer", path], 0, &told);
    // The content says what it is, not the name; and no option is ignored.
    let unnamed = temporary("snapshots.data");
    fs::copy(path, &unnamed).expect("it can be copied");
    check(&["infer", unnamed.to_str().expect("it is UTF-8")], 0, &told);
    check(&["infer", path, "--scope", "quiet"], 0, &["when quiet", "a.term == b.term"]);
    check(&["infer", path, "--executions", "x"], 64, &["--executions is for ShiViz logs"]);
    check(&["infer", path, "--together"], 64, &["snapshots.csv"]);
    check(&["infer", path, "--mapping", "none.json"], 64, &["none.json"]);
}

/// Two counters on three nodes; in one run of ten a node counts one event twice.
fn counters() -> String {
    let path = temporary("almost.csv");
    let mut text = String::from("run,node,done,asked,load\n");
    for run in 0..30_u64 {
        for step in 0..40_u64 {
            let asked = step / 3 + 1;
            let twice = run % 10 == 4 && step % 3 == 1 && step > 30;
            let done = if twice { asked + 1 } else { asked - step * 7 % 2 };
            text +=
                &format!("{run},n{},{done},{asked},{}\n", step % 3, (run * 40 + step) * 31 % 97);
        }
    }
    fs::write(&path, text).expect("the file can be written");
    path.to_str().expect("it is UTF-8").to_owned()
}

/// Covers the list, an explanation of one line, a page, decisions, and a comparison.
#[test]
fn almost_invariants() {
    let traces = counters();
    let file = |name: &str| temporary(name).to_str().expect("it is UTF-8").to_owned();
    let (old, page, decisions) =
        (file("almost.prop"), file("almost.html"), file("almost.decisions"));
    let _ = fs::remove_file(&decisions);
    let almost = |more: &[&str], code: i32, prints: &[&str]| {
        check(
            &[&["infer", "--almost", &traces, "--max-literals", "1"], more].concat(),
            code,
            prints,
        );
    };
    let claim = "n.asked >= n.done";
    almost(&["--out", &old], 0, &["# 1. held in ", claim, "in 3 of 30 runs"]);
    check(&["check", &old, &traces], 1, &[claim]);
    almost(&["--explain", "1"], 0, &["n.done = ", "n.asked = ", "Shared by the exceptions"]);
    almost(&["--explain", "99"], 64, &["no line 99", "numbered 1 to "]);
    almost(&["--html", &page], 0, &["# report: "]);
    assert!(fs::read_to_string(&page).expect("it was written").starts_with("<!doctype html>"));
    almost(&["--diff", &old], 0, &["the same as in"]);
    almost(&["--decisions", &decisions, "--reject", "1"], 0, &[claim]);
    almost(&["--decisions", &decisions, "--diff", &old], 0, &["- always", claim]);
    almost(&["--scope", "chains"], 64, &["--almost looks at snapshots"]);
    almost(&["--only", "aksed"], 64, &["no variable `aksed`; did you mean `asked`?"]);
    almost(&["--only", "nothing"], 64, &["there are asked, done, load"]);
    almost(&["--subtype", "done"], 64, &["VARIABLE=NAME"]);
    check(&["infer", &traces, "--explain", "1"], 64, &["--almost"]);
}
