//! Slow executions are replayed from a token, from the id of a finding, from the regressions file,
//! and in another process; environment variables set the budget unless the code does.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use everhold_timed::perf::Perf;

use crate::perf::door;

const FIXED: &str = "EVERHOLD_TEST_FIXED";

/// A test that the others run in a process of its own. Without the environment variable it does
/// nothing.
#[test]
fn child() {
    let Ok(fixed) = std::env::var(FIXED) else { return };
    Perf::new(door(fixed == "yes")).executions(60).run().assert_fast();
}

#[test]
fn unbounded_child() {
    let Ok(fixed) = std::env::var(FIXED) else { return };
    Perf::new(door(fixed == "yes")).run().assert_fast();
}

#[test]
fn measuring_child() {
    let Ok(fixed) = std::env::var(FIXED) else { return };
    println!("{} measured", Perf::new(door(fixed == "yes")).executions(60).measure().len());
}

/// A folder in which the child finds its own source file, as in a workspace.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let folder =
            std::env::temp_dir().join(format!("everhold-slow-{name}-{}", std::process::id()));
        let source = folder.join(file!());
        fs::create_dir_all(source.parent().expect("it has a folder")).expect("a temporary folder");
        fs::write(source, "").expect("a temporary file");
        Place(folder)
    }

    fn regressions(&self) -> PathBuf {
        let source = self.0.join(file!());
        source.parent().expect("it has a folder").join("everhold-regressions/slow.txt")
    }

    fn run(&self, test: &str, fixed: bool, environment: &[(&str, &str)]) -> (bool, String) {
        let exe = std::env::current_exe().expect("tests know themselves");
        let mut command = Command::new(exe);
        command.args(["--exact", test, "--nocapture"]).current_dir(&self.0);
        command.env(FIXED, if fixed { "yes" } else { "no" });
        let Output { status, stdout, stderr } =
            command.envs(environment.iter().copied()).output().expect("the test runs");
        let text = [stdout, stderr].map(|part| String::from_utf8_lossy(&part).into_owned());
        (status.success(), text.concat())
    }

    /// Runs the child, which must fail and print all of these texts.
    fn fails(&self, environment: &[(&str, &str)], says: &[&str]) -> String {
        let (passed, printed) = self.run("slow::child", false, environment);
        assert!(!passed, "{environment:?}: {printed}");
        for part in says {
            assert!(printed.contains(part), "{environment:?}: {part} is not in\n{printed}");
        }
        printed
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The word after a mark.
fn after<'a>(printed: &'a str, mark: &str) -> &'a str {
    let start = printed.find(mark).unwrap_or_else(|| panic!("{mark} is not in\n{printed}"));
    let rest = printed[start + mark.len()..].split_whitespace().next();
    rest.expect("something follows").trim_end_matches(':')
}

#[test]
fn a_slow_execution_fails_its_test_until_it_is_fast() {
    const BECAUSE: &str = "because Open porter → door arrived after Ask guest → door";
    let place = Place::new("again");
    let printed = place.fails(&[], &[BECAUSE, "cargo test slow::child -- --exact", "report.html"]);
    let (token, id) = (after(&printed, "EVERHOLD_REPLAY="), after(&printed, "\nslow execution "));
    assert!(printed.contains("tests/it/slow.rs:"), "the panic names the test's line: {printed}");

    for asked in [token, id] {
        let same = format!("slow execution {id}: ");
        place.fails(&[("EVERHOLD_REPLAY", asked)], &["(replay,", BECAUSE, &same, token]);
    }
    let kept = fs::read_to_string(place.regressions()).expect("it was kept");
    assert!(kept.contains(&format!("slow::child {token} # ")), "{kept}");
    place.fails(&[], &["(a saved execution,", BECAUSE, token]);
    assert_eq!(fs::read_to_string(place.regressions()).expect("it is there"), kept);

    let (passed, printed) = place.run("slow::child", true, &[]);
    assert!(passed, "once it is fast, the test passes: {printed}");
}

/// Where the regressions file cannot be written, nothing says that it was.
#[test]
fn an_execution_that_is_not_kept_is_said_not_to_be() {
    let place = Place::new("not_kept");
    fs::create_dir_all(place.regressions()).expect("a temporary folder in the place of the file");
    let printed = place.fails(&[], &["! not kept   ", "cannot be written", "EVERHOLD_REPLAY="]);
    assert!(!printed.contains("commit it"), "{printed}");
}

#[test]
fn a_damaged_line_is_told_and_an_explorers_schedule_left_alone() {
    let place = Place::new("damaged");
    let file = place.regressions();
    fs::create_dir_all(file.parent().expect("it has a folder")).expect("a temporary folder");
    let lines = "slow::child eh1t-AAAA # cut off\nslow::child eh1-AAAA # a schedule\n";
    fs::write(&file, lines).expect("a temporary file");
    let (passed, printed) = place.run("slow::child", true, &[]);
    assert!(passed, "{printed}");
    assert!(printed.contains("slow.txt:1: ") && !printed.contains("slow.txt:2: "), "{printed}");
}

/// Environment variables count where the code sets nothing.
#[test]
fn the_environment_is_honoured() {
    let place = Place::new("environment");
    let table: [(&str, &str, &str, &str); 9] = [
        ("slow::child", "EVERHOLD_EXECUTIONS", "7", "fewer than 4.9 % of executions are slow"),
        ("slow::unbounded_child", "EVERHOLD_EXECUTIONS", "7", "fewer than 35 % of executions"),
        ("slow::unbounded_child", "EVERHOLD_SEED", "7", "searched     uniform 400"),
        ("slow::unbounded_child", "EVERHOLD_SECONDS", "0", "out of time"),
        ("slow::unbounded_child", "EVERHOLD_TRACES", "2", "traces.jsonl"),
        ("slow::unbounded_child", "EVERHOLD_WORKERS", "0", "at least 1 worker"),
        ("slow::child", "EVERHOLD_SCALE", "4", "uniform 240"),
        ("slow::child", "EVERHOLD_SCALE", "0", "EVERHOLD_SCALE=0 cannot multiply a budget"),
        ("slow::measuring_child", "EVERHOLD_SCALE", "4", "240 measured"),
    ];
    for (test, variable, value, says) in table {
        let (_, printed) = place.run(test, true, &[(variable, value)]);
        assert!(printed.contains(says), "{variable}={value}: {says} is not in\n{printed}");
    }
    // A replay compares with the same executions, so the command contains their settings.
    let slow = [("EVERHOLD_SEED", "11"), ("EVERHOLD_EXECUTIONS", "80")];
    let (_, printed) = place.run("slow::unbounded_child", false, &slow);
    let line = "EVERHOLD_SEED=11 EVERHOLD_EXECUTIONS=80 EVERHOLD_REPLAY=eh1t-";
    assert!(printed.contains(line) && printed.contains("seed 0xb)"), "{printed}");
    let (_, scaled) = place.run("slow::child", false, &[("EVERHOLD_SCALE", "4")]);
    assert!(scaled.contains(" EVERHOLD_SCALE=4 EVERHOLD_REPLAY=eh1t-"), "{scaled}");
    let (_, other) = place.run("slow::child", false, &[("EVERHOLD_SEED", "12")]);
    assert!(other.contains("seed 0xc)"), "{other}");
}
