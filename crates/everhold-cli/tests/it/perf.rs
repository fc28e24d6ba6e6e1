//! `everhold perf`: slow executions of bundled systems.

use std::fs;

use crate::program::{check, everhold, temporary};

#[test]
fn systems_are_listed() {
    check(&["perf"], 0, &["randtree", "chord", "forgets-join, none"]);
    check(&["help", "perf"], 0, &["# Slow executions", "findings[].good_curve"]);
    check(&["help", "timed"], 0, &["# Timed simulation", "everhold durations 1"]);
}

#[test]
fn a_slow_tree_is_explained_and_the_fixed_one_is_not_blamed() {
    let replay = "everhold perf randtree --bug forgets-join --executions 100 --replay eh1t-";
    let prints = ["SLOW", "timer recovery", "because", "arrived after Join", replay];
    check(&["perf", "randtree", "--executions", "100"], 1, &prints);
    check(
        &["perf", "randtree", "--bug", "none", "--executions", "100"],
        0,
        &[
            "✓ no slow execution found",
            "with 95 % confidence fewer than 3.0 % of executions are slow",
        ],
    );
}

/// Chord is slow in every execution, so it is compared with a smaller ring and with the fixed
/// system.
#[test]
fn versions_are_compared() {
    let few = ["perf", "chord", "--nodes", "16", "--executions", "20"];
    let slower = ["SLOWER", "chord (tells-nobody) takes", "chord (none)", "slower on 20 of 20"];
    check(&[&few[..], &["--against", "none"]].concat(), 1, &slower);
    let fixed = ["--bug", "none", "--against", "tells-nobody"];
    check(
        &[&few[..], &fixed].concat(),
        0,
        &["not slower", "times less than", "with 95 % confidence"],
    );
    let three = ["perf", "chord", "--nodes", "8", "--executions", "3", "--against", "none"];
    check(&three, 2, &["UNKNOWN", "8 pairs at least"]);
}

#[test]
fn the_baseline_is_there() {
    let arguments = ["perf", "randtree", "--mace", "--executions", "60"];
    check(&arguments, 2, &["trained on 50 executions", "correlated with the time: timer recovery"]);
}

#[test]
fn handlers_are_measured_edited_and_used() {
    let file = temporary("handlers.txt");
    let name = file.to_str().expect("a plain name");
    let few = ["perf", "randtree", "--bug", "none", "--executions", "60"];
    check(
        &[&few[..], &["--train", name]].concat(),
        0,
        &["the durations of handlers (CPU time) are in"],
    );
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(text.contains("Join: 0%="), "{text}");
    fs::write(&file, text.replace("Join: ", "Joint: ")).expect("it can be written");
    let untrained = "no durations for Join";
    check(&[&few[..], &["--durations", name]].concat(), 0, &[untrained]);
    fs::write(&file, text).expect("it can be written");
    let what_if = ["--durations", name, "--what-if", "Join=5000%", "--what-if", "0->1=50%"];
    check(&[&few[..], &what_if].concat(), 0, &["what if", "Join=5000%", "0->1=50%"]);
}

#[test]
fn an_execution_is_replayed() {
    let few = ["perf", "randtree", "--executions", "100"];
    let fixed = [&few[..], &["--bug", "none", "--replay", "7"]].concat();
    check(&fixed, 2, &["replayed one execution, which is not slow", "Path"]);
    // The slow execution fails again, with the same finding.
    let printed = everhold(&few);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let token = text.split_whitespace().find(|word| word.starts_with("eh1t-")).expect("a token");
    let because = text.lines().find(|line| line.contains("because")).expect("a cause");
    check(&[&few[..], &["--replay", token]].concat(), 1, &["SLOW", "(replay,", because]);
}

#[test]
fn data_is_json() {
    let output = everhold(&["perf", "randtree", "--executions", "40", "--json"]);
    let data: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(data["version"], 1);
    assert_eq!(data["verdict"], "slow");
    assert!(data["findings"][0]["good_curve"].is_array(), "{data}");
}

#[test]
fn what_cannot_be_used_is_refused() {
    let broken = temporary("broken-handlers.txt");
    fs::write(&broken, "everhold durations 1\nJoin: 0%=3ms 100%=1ms\n").expect("it can be written");
    let broken = broken.to_str().expect("a plain name");
    check(&["perf", "pond"], 64, &["no system `pond`", "randtree"]);
    check(&["perf", "randtree", "--bug", "none-such"], 64, &["no bug `none-such`", "forgets-join"]);
    check(&["perf", "randtree", "--nodes", "1"], 64, &["at least 2 nodes"]);
    check(&["perf", "randtree", "--against", "pond"], 64, &["no bug `pond`", "forgets-join"]);
    check(&["perf", "randtree", "--durations", broken], 64, &["line 2", "100%=1ms"]);
    check(&["perf", "randtree", "--durations", "no-such-file"], 64, &["no-such-file"]);
    check(&["perf", "randtree", "--what-if", "Join"], 64, &["Join=200%"]);
    check(&["perf", "randtree", "--replay", "nonsense"], 64, &["nonsense"]);
}
