//! Packages that have never heard of Everhold: listed, copied, run, and their properties inferred.
//! The packages are in `crates/everhold-instrument/testdata`; those in Go need `go` (golang-go).

use std::fs;
use std::path::PathBuf;

use crate::program::{check, temporary};
use crate::sdk::is_installed;

fn package(name: &str) -> String {
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhold-instrument/testdata");
    PathBuf::from(base).join(name).display().to_string()
}

/// Copies a package to where nothing else is, runs a command in its instrumented copy, and checks
/// what is printed.
#[track_caller]
fn run(name: &str, command: &[&str], prints: &[&str]) {
    let out = temporary(&format!("instrument-{name}"));
    let _ = fs::remove_dir_all(&out);
    let (package, out) = (package(name), out.display().to_string());
    let mut arguments = vec!["instrument", &package, "--out", &out, "--run", "--"];
    arguments.extend(command);
    check(&arguments, 0, prints);
}

#[test]
fn the_variables_are_listed_with_their_ways() {
    if !is_installed("go", "version") {
        return;
    }
    let ways = ["Replica.total", "argument of ask", "sent by writeln!", "received by read_line"];
    check(&["instrument", &package("tally"), "--list"], 0, &ways);
    check(&["instrument", &package("ricart"), "--list"], 0, &["Node.critical", "decides"]);
    check(&["instrument", &package("chain"), "--count"], 0, &["package", "interacting", "chain"]);
}

/// One command from a package in Go to mutual exclusion, which nothing in its source states.
#[test]
fn mutual_exclusion_is_inferred_from_a_package_in_go() {
    if !is_installed("go", "version") {
        return;
    }
    let prints = ["each `Node`, told apart by `id`", "a.critical implies not b.critical"];
    run("ricart", &["go", "test", "./..."], &prints);
}

#[test]
fn a_chain_in_go_is_recorded() {
    if !is_installed("go", "version") {
        return;
    }
    run("chain", &["go", "test", "./..."], &["each `Link`", "n.received <= n.sent"]);
}

/// The same for a package in Rust, whose copy is compiled with the probe.
#[test]
fn a_package_in_rust_is_recorded_and_its_properties_inferred() {
    let prints = ["each `Replica`, told apart by `id`", "n.applied"];
    run("tally", &["cargo", "test", "--offline"], &prints);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let empty = temporary("instrument-empty");
    fs::create_dir_all(&empty).expect("it can be made");
    let empty = empty.display().to_string();
    check(&["instrument", &empty], 64, &["neither a package of Cargo"]);
    check(&["instrument", "no/such/folder"], 64, &["no/such/folder"]);
    check(&["instrument", &package("tally"), "--run"], 64, &["--run"]);
    let entries = temporary("instrument-entries");
    fs::write(&entries, "get f\n").expect("it can be written");
    let entries = entries.display().to_string();
    check(&["instrument", &package("tally"), "--list", "--entries", &entries], 64, &["line 1"]);
}
