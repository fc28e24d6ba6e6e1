//! The program, as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program in the folder of its test data, so that file names on screens are short.
pub(crate) fn everhold(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
        .env_remove("NO_COLOR")
        .output()
        .expect("the program starts")
}

/// The path of a temporary file of this test run.
pub(crate) fn temporary(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("everhold-cli");
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder.join(name)
}

/// Runs the program, and checks its exit code and that it prints each of these texts.
#[track_caller]
pub(crate) fn check(arguments: &[&str], code: i32, prints: &[&str]) {
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

/// Runs the program and compares its whole standard output with a file in `testdata/golden`.
#[track_caller]
pub(crate) fn screen(arguments: &[&str], code: i32, golden: &str) {
    let output = everhold(arguments);
    let actual = String::from_utf8(output.stdout).expect("output is UTF-8");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{actual}{said}");
    let path = format!("{}/testdata/golden/{golden}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("EVERHOLD_UPDATE").is_some() {
        fs::write(&path, &actual).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{path} (EVERHOLD_UPDATE=1 accepts it)");
}

#[test]
fn help_has_topics_and_commands() {
    check(&["help"], 0, &["properties", "traces", "exit-codes", "convert"]);
    check(&["help", "properties"], 0, &["# The property language", "when quiet"]);
    check(&["help", "traces"], 0, &["# The trace format"]);
    check(&["help", "logs"], 0, &["### The mapping"]);
    check(&["help", "exit-codes"], 0, &["| 64 |"]);
    check(&["help", "check"], 0, &["--mapping", "--cases-max"]);
    check(&["help", "propreties"], 64, &["did you mean `properties`?"]);
}

/// Runs a tour in a folder in which it may write its report; the README's test runs all of them.
#[test]
fn the_demo_finds_both_bugs_and_is_silent_without() {
    let folder = temporary("demo");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["demo", "find"])
        .current_dir(&folder)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for expected in [
        "monitor \"an ack means three replicas\"",
        "eventually \"every request is acknowledged\"",
        "EVERHOLD_REPLAY=eh1-",
        "✓ no violation",
        "Report     target/everhold/demo-find/report.html",
    ] {
        assert!(text.contains(expected), "the demo does not print {expected:?}:\n{text}");
    }
    assert!(folder.join("target/everhold/demo-find/report.html").is_file());
}

/// The chance of a good end falls at one event, and the headline says what is usual.
#[test]
fn the_demo_of_slow_executions_shows_where_one_is_lost() {
    let folder = temporary("demo-perf");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["demo", "perf"])
        .current_dir(&folder)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for expected in ["✗ SLOW      1.01 s instead of", "falls from 0.9", "because Inform"] {
        assert!(text.contains(expected), "the demo does not print {expected:?}:\n{text}");
    }
}

/// The same for a program on a simulated host; elsewhere the tour says that it cannot be taken.
#[test]
fn the_demo_of_hosts_finds_what_was_not_synced() {
    let folder = temporary("demo-hosts");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args(["demo", "hosts"])
        .current_dir(&folder)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let here = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));
    let expected: &[&str] = match here {
        true => &["was acknowledged", "! crash", "EVERHOLD_REPLAY=eh1-", "✓ no violation"],
        false => &["Not here"],
    };
    for expected in expected {
        assert!(text.contains(expected), "the demo does not print {expected:?}:\n{text}");
    }
    assert_eq!(folder.join("target/everhold/demo-hosts/report.html").is_file(), here);
}

#[test]
fn wrong_use_is_64_and_help_is_not() {
    check(&["--help"], 0, &["Exit codes: 0 holds"]);
    check(&["--version"], 0, &[env!("CARGO_PKG_VERSION")]);
    check(&[], 64, &["Usage"]);
    check(&["dmeo"], 64, &["demo"]);
    check(&["demo", "--seed", "soon"], 64, &["soon"]);
    check(&["demo", "swim"], 64, &["find", "hosts", "infer", "perf", "watch"]);
}
