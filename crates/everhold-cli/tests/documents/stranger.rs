//! The README's dependencies and its first test, in a project that contains nothing else.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::blocks::blocks;
use crate::{read, root};

/// The repository address in the README; here this checkout replaces it.
const REPOSITORY: &str = r#"git = "https://github.com/everhold/everhold""#;

/// A manifest as `cargo new` makes it, with the README's block of dependencies.
fn manifest(dependencies: &str) -> String {
    assert!(
        dependencies.contains(REPOSITORY),
        "the README says where Everhold is:\n{dependencies}"
    );
    let here = root().join("crates/everhold").canonicalize().expect("the library is here");
    let path = format!("path = {:?}", here.display().to_string());
    let package = "[package]\nname = \"stranger\"\nedition = \"2024\"\n\n";
    format!("{package}{}\n[workspace]\n", dependencies.replace(REPOSITORY, &path))
}

/// Tests the project with the versions of the workspace's lock file, so that nothing is downloaded.
fn cargo_test(project: &Path) -> Output {
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).expect("a copy can be made");
    Command::new(env!("CARGO"))
        .args(["test", "--offline", "--quiet", "no_addition_is_lost"])
        .current_dir(project)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("stranger"))
        .env_remove("EVERHOLD_REPLAY")
        .output()
        .expect("cargo runs")
}

#[test]
fn the_first_test_of_the_readme_runs_outside_the_workspace() {
    let readme = blocks(&read("README.md"));
    let first = |kind: &str| readme.iter().find(|b| b.info == kind).map(|b| b.text.as_str());
    let project = std::env::temp_dir().join(format!("everhold-stranger-{}", std::process::id()));
    fs::create_dir_all(project.join("src")).expect("a folder can be made");
    fs::write(project.join("Cargo.toml"), manifest(first("toml").expect("dependencies")))
        .expect("it can be written");
    fs::write(project.join("src/lib.rs"), first("rust").expect("a test")).expect("written");

    let ended = cargo_test(&project);
    let text = [ended.stdout, ended.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let text = text.concat();
    assert_eq!(ended.status.code(), Some(101), "the README's test fails as it says:\n{text}");
    assert!(text.contains("VIOLATED  always \"no addition is lost\""), "{text}");
    let regressions = project.join("src/everhold-regressions");
    assert!(regressions.is_dir(), "the schedule is kept beside the test:\n{text}");
    fs::remove_dir_all(&project).expect("it is ours");
}
