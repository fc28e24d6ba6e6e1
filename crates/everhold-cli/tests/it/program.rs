//! The program, as a user runs it.

use std::process::{Command, Output};

fn everhold(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// Runs the program and checks its exit code and that it prints these.
#[track_caller]
fn check(arguments: &[&str], code: i32, prints: &[&str]) {
    let output = everhold(arguments);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{text}");
    for expected in prints {
        assert!(text.contains(expected), "{arguments:?} does not print {expected:?}:\n{text}");
    }
}

#[test]
fn the_demo_finds_both_bugs_and_is_silent_without() {
    check(
        &["demo"],
        0,
        &[
            "monitor \"an ack means three replicas\"",
            "eventually \"every request is acknowledged\"",
            "EVERHOLD_REPLAY=eh1-",
            "✓ no violation",
        ],
    );
}

#[test]
fn wrong_use_is_64_and_help_is_not() {
    check(&["--help"], 0, &["Exit codes: 0 holds"]);
    check(&["--version"], 0, &[env!("CARGO_PKG_VERSION")]);
    check(&[], 64, &["Usage"]);
    check(&["dmeo"], 64, &["demo"]);
    check(&["demo", "--seed", "soon"], 64, &["soon"]);
}
