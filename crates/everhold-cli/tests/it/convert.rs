//! From one format to another, and back.

use std::fs;

use crate::check::{ETCD, ETCD_MAPPING, EWD998, EWD998_PARSER, EWD998_RUNS};
use crate::program::{check, everhold, temporary};

#[test]
fn a_log_becomes_a_trace_that_says_the_same() {
    let file = temporary("etcd.trace.zst");
    let output = file.to_str().unwrap();
    check(
        &["convert", ETCD, output, "--mapping", ETCD_MAPPING],
        0,
        &["1 run, 4,888 events, 1,787 messages"],
    );
    assert!(fs::read(&file).unwrap().starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "zstd");
    let before = everhold(&["show", ETCD, "--mapping", ETCD_MAPPING, "--as", "stats"]);
    let after = everhold(&["show", output, "--as", "stats"]);
    assert_eq!(before.stdout, after.stdout);
}

#[test]
fn every_format_is_written_and_what_it_drops_is_said() {
    let to = |format: &str, prints: &[&str]| {
        check(&["convert", "ping.trace", "-", "--to", format], 0, prints);
    };
    to("native", &["{\"everhold\":\"trace\"", "wrote -: 1 run, 7 events, 3 messages"]);
    to(
        "shiviz",
        &["(?<host>", "dropped 6 states: shiviz has no place for them", "dropped 1 payload"],
    );
    to("chrome", &["\"traceEvents\""]);
    to("mermaid", &["sequenceDiagram", "Ping"]);
    to("csv", &["run,node,kind", "dropped 1 mark"]);
    to("text", &["step", "crash"]);
    let output = everhold(&["convert", "ping.trace", "-", "--to", "csv"]);
    let file = temporary("ping.csv");
    fs::write(&file, output.stdout).unwrap();
    check(&["show", file.to_str().unwrap()], 0, &["pings: 0 -> 1"]);
}

#[test]
fn the_name_of_the_output_tells_the_format() {
    let file = temporary("ewd998.csv");
    let output = file.to_str().unwrap();
    let read = ["--parser", EWD998_PARSER, "--executions", EWD998_RUNS];
    check(&[&["convert", EWD998, output], &read[..]].concat(), 0, &["3 runs, 990 events"]);
    check(&["show", output, "--as", "stats", "--run", "2"], 0, &["events          248:"]);
    let diagram = [&["convert", EWD998, "-", "--to", "mermaid"], &read[..]].concat();
    check(&diagram, 64, &["3 runs, and mermaid takes one; choose it with --run"]);
    check(&[&diagram[..], &["--run", "1"]].concat(), 0, &["sequenceDiagram"]);
    check(&["convert", "ping.trace", "x.unknown"], 64, &["the name does not tell the format"]);
}

/// A failed conversion does not change an existing output.
#[test]
fn a_failure_leaves_the_output_alone() {
    let file = temporary("kept.trace");
    fs::write(&file, "precious").unwrap();
    check(&["convert", "truncated.trace", file.to_str().unwrap()], 64, &["ends in the middle"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let folder = temporary("missing/x.trace");
    check(&["convert", "ping.trace", folder.to_str().unwrap()], 64, &["cannot be written"]);
    let lenient = ["convert", "truncated.trace", file.to_str().unwrap(), "--lenient"];
    check(&lenient, 0, &["left out: truncated.trace: line", "left out 1 broken part"]);
    check(&["show", file.to_str().unwrap()], 0, &["Ping"]);
}
