//! Every benchmark still runs, at its smallest size.

use std::process::{Command, Output};

fn benches(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_everhold-benches");
    Command::new(program).args(args).output().expect("the program starts")
}

#[test]
fn explore_still_runs() {
    let output = benches(&["explore", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Bars:"));
}

#[test]
fn bugs_still_runs() {
    let output = benches(&["bugs", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("| storage, CountsReports, random"));
}

#[test]
fn papers_still_runs() {
    let output = benches(&["papers", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("| migrating_table, DeletePrimaryKey, portfolio"), "{printed}");
}

#[test]
fn liveness_still_runs() {
    let output = benches(&["liveness", "--smoke", "--executions", "20", "--seeds", "2", "--check"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    for system in ["heartbeats", "gossip", "election", "retry", "lease", "trylock"] {
        for clocks in ["independent", "shared"] {
            let row = |line: &&str| {
                let mut cells = line.split('|').map(str::trim);
                cells.nth(1) == Some(system) && cells.next() == Some(clocks)
            };
            let mut rows = printed.lines().filter(row);
            assert!(rows.all(|line| line.contains("2/2")), "{system}, {clocks}\n{printed}");
            assert_eq!(printed.lines().filter(row).count(), 2, "{system}, {clocks}\n{printed}");
        }
    }
    assert!(printed.contains("alarms on correct systems"), "{printed}");
}

#[test]
fn cuts_still_runs() {
    let output = benches(&["cuts", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    for title in ["Files", "Slices", "Enumeration", "Evaluation", "Raft", "Bars:"] {
        assert!(printed.contains(&format!("### {title}")), "{title} is missing in\n{printed}");
    }
}

#[test]
fn infer_still_runs() {
    let output = benches(&["infer", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    for title in ["Snapshots", "Nodes", "Bars:"] {
        assert!(printed.contains(&format!("### {title}")), "{title} is missing in\n{printed}");
    }
}

#[test]
fn quality_still_runs() {
    let output = benches(&["quality", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    let titles = ["Quality: protocols in development", "Quality: protocols held out"];
    for title in titles.into_iter().chain(["| bank", "| auction", "| barrier", "| shards"]) {
        assert!(printed.contains(title), "{title} is missing in\n{printed}");
    }
}

#[test]
fn watch_still_runs() {
    let output = benches(&["watch", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Bars:"));
}

/// Without its bars: the rows run in real time, beside the other tests on the same processors.
#[test]
fn faults_still_runs() {
    let output = benches(&["faults", "--smoke"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    for row in ["watch killed", "node stopped", "full disk", "clock -5 s", "idle strangers"] {
        assert!(printed.contains(&format!("| {row} ")), "{row} is missing in\n{printed}");
    }
}

#[test]
fn timed_still_runs() {
    let output = benches(&["timed", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    for title in ["Token passing, with", "Token passing, from", "Forks", "Bars:"] {
        assert!(printed.contains(&format!("### {title}")), "{title} is missing in\n{printed}");
    }
}

#[test]
fn hosts_still_runs() {
    let output = benches(&["hosts", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    for title in ["Three hosts", "Two threads", "Memory", "Repeats", "Bars:"] {
        assert!(printed.contains(&format!("### {title}")), "{title} is missing in\n{printed}");
    }
}

#[test]
fn build_still_runs() {
    let output = benches(&["build", "--smoke"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_unknown_area_is_a_usage_error() {
    assert_eq!(benches(&["nonsense"]).status.code(), Some(64));
    assert_eq!(benches(&["explore", "--nonsense"]).status.code(), Some(64));
}
