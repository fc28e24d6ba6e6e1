//! The README, followed in a project that contains its dependencies and its first test, and nothing else. The project
//! of the page about hosts is made and run by `.ci/newcomer`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::blocks::blocks;
use crate::shell::Shell;
use crate::{follow, read, root};

/// The repository address in the README; here this checkout replaces it.
const REPOSITORY: &str = r#"git = "https://github.com/everhold/everhold""#;

/// A manifest as `cargo new` makes it, with the README's block of dependencies.
fn manifest(dependencies: &str) -> String {
    assert!(
        dependencies.contains(REPOSITORY),
        "the README says where Everhold is:\n{dependencies}"
    );
    let package = "[package]\nname = \"stranger\"\nedition = \"2024\"\n\n";
    format!("{package}{dependencies}")
}

/// The manifest with this checkout in place of the repository.
pub(crate) fn of_this_checkout(manifest: &str) -> String {
    let here = root().join("crates/everhold").canonicalize().expect("the library is here");
    let path = format!("path = {:?}", here.display().to_string());
    format!("{}\n[workspace]\n", manifest.replace(REPOSITORY, &path))
}

/// Runs a command in a folder of the project, without a network.
fn run(command: &mut Command, folder: &Path) -> Output {
    command
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("EVERHOLD_REPLAY")
        .output()
        .expect("it runs")
}

/// Runs the program in a folder of the project, and checks its exit code and what it prints.
#[track_caller]
fn everhold(folder: &Path, arguments: &[&str], code: i32, prints: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everhold"));
    let ended = run(program.args(arguments), folder);
    let text = [ended.stdout, ended.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let text = text.concat();
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}:\n{text}");
    for expected in prints {
        assert!(text.contains(expected), "{arguments:?} does not print {expected:?}:\n{text}");
    }
    text
}

#[test]
fn the_readme_is_followed_outside_the_workspace() {
    let readme = blocks(&read("README.md"));
    let first = |kind: &str| readme.iter().find(|b| b.info == kind).map(|b| b.text.as_str());
    let shell = Shell::project("stranger");
    shell.write("Cargo.toml", &manifest(first("toml").expect("dependencies")));
    shell.write("src/lib.rs", first("rust").expect("a test"));
    follow("README.md", &shell);

    let project = shell.folder();
    assert!(
        project.join("src/everhold-regressions").is_dir(),
        "the schedule is kept beside the test"
    );
    the_program_finds_it_from_anywhere(&project.join("src"), project);
    what_is_not_replayed_is_no_verdict(project);
}

/// A test that is gone, one that does not compile, and one whose schedule no longer fits.
fn what_is_not_replayed_is_no_verdict(project: &Path) {
    let source = project.join("src/lib.rs");
    let first = fs::read_to_string(&source).expect("it is there");
    let check = |from: &str, to: &str, code: i32, says: &str| {
        assert!(first.contains(from), "{from}");
        fs::write(&source, first.replace(from, to)).expect("written");
        everhold(project, &["replay", "no_addition_is_lost"], code, &[says]);
    };
    check("fn no_addition_is_lost()", "fn none_is_lost()", 64, "ran no exploration in a test");
    check("Msg::Put(value + 1)", "Msg::Put(value + )", 64, "before it replayed the schedule");
    check("in 0..2 {", "in 0..1 {", 3, "no longer fits");
    let safe = "s.get::<Register>(register).is_none_or(|_| true)";
    check(
        "s.get::<Register>(register).is_none_or(|r| r.value == r.puts)",
        safe,
        0,
        "does not fail any more",
    );
}

fn the_program_finds_it_from_anywhere(folder: &Path, project: &Path) {
    let cause = "always \"no addition is lost\"";
    let listed = everhold(folder, &["findings"], 1, &["✗ no_addition_is_lost", cause, "6 steps"]);
    let id =
        listed.split("everhold replay ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let id = id.expect("the list names the finding");
    let digits = id.rsplit('-').next().expect("an id ends in digits");
    everhold(folder, &["replay", digits], 1, &["VIOLATED", cause, "replayed one schedule"]);
    everhold(
        folder,
        &["replay", "nothing"],
        64,
        &["there is no finding `nothing`", "everhold findings"],
    );
    everhold(folder, &["emit-test", id], 0, &["#[test]", "Schedule::parse"]);
    let page = project.join("finding.html");
    let out = page.to_str().expect("a path is text");
    everhold(folder, &["view", id, "--out", out], 0, &["finding.html"]);
    assert!(fs::read_to_string(&page).expect("it was written").contains("no addition is lost"));
    let junit = project.join("tests.xml");
    everhold(folder, &["findings", "--junit", junit.to_str().expect("text")], 1, &[]);
    let xml = fs::read_to_string(&junit).expect("it was written");
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("name=\"no_addition_is_lost\""),
        "{xml}"
    );
}
