//! README, guide and the page on security: their blocks are executed.
//!
//! - Rust blocks are parts of the project in which the commands run.
//! - Blocks that name a file (`prop counter.prop`) are written to that file.
//! - Console blocks are run in order, in one folder; the output that they show must be printed,
//!   line by line. `...` matches anything. A command must end with 0 unless `# ends with CODE`
//!   states another code.
//!
//! Every blind spot in the README is pinned by the test that it names, and each such test is named
//! there.
//!
//! - `blocks`: the blocks of a document; `shell`: the execution of console blocks; `stranger`: the
//!   README in a project outside the workspace. The guide is followed in such a project too.

mod blocks;
mod shell;
mod stranger;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use blocks::{Block, blocks};
use shell::Shell;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Executes a document.
fn check(document: &str, name: &str) {
    follow(document, &Shell::new(name));
}

fn follow(document: &str, shell: &Shell) {
    let code = plain(&shell.code());
    let mut commands = 0;
    for Block { info, text, line } in blocks(&read(document)) {
        let place = format!("{document}:{line}");
        match info.split_once(' ').map_or((info.as_str(), None), |(kind, file)| (kind, Some(file)))
        {
            ("rust", None) => {
                assert!(code.contains(&plain(&text)), "{place} is not in the project:\n{text}");
            }
            ("console", None) => commands += shell.run(&text, &place),
            (_, Some(file)) => shell.write(file, &text),
            // Compiled as a doctest of the crate that it is about.
            ("rust,no_run", None) => {}
            ("text" | "toml" | "json", None) => {}
            (other, None) => panic!("{place}: nobody executes a block of {other:?}"),
        }
    }
    assert!(commands > 0, "{document} has no commands");
}

/// Removes the additions of formatting from code.
fn plain(code: &str) -> String {
    let text: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    text.replace(",}", "}").replace(",)", ")")
}

#[test]
fn guide() {
    let shell = Shell::project("guide");
    shell.write("tests/counter.rs", &read("docs/guide/counter.rs"));
    shell.write("counter.prop", &read("docs/guide/counter.prop"));
    follow("docs/guide.md", &shell);
}

/// Rust blocks are doctests of the library, with the features that the page names.
#[test]
fn existing() {
    let shell = Shell::new("existing");
    let mut commands = 0;
    for Block { info, text, line } in blocks(&read("docs/existing.md")) {
        match info.split_once(' ') {
            Some((_, file)) => shell.write(file, &text),
            None if info == "console" => {
                commands += shell.run(&text, &format!("docs/existing.md:{line}"));
            }
            None => {}
        }
    }
    assert!(commands > 0, "the page has no commands");
}

/// Needs `openssl`; where it is missing, only CI fails.
#[test]
fn security() {
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    if std::process::Command::new("openssl").arg("version").output().is_err() && !is_ci {
        return eprintln!("skipped: apt install openssl");
    }
    check("docs/security.md", "security");
}

/// The tests named by the bullets of the README's blind spots, in parentheses at their ends.
fn named_limits() -> BTreeSet<String> {
    let readme = read("README.md");
    let (_, section) = readme.split_once("\n## Blind spots\n").expect("it has blind spots");
    let section = section.split("\n## ").next().expect("a section");
    let bullets = section.split("\n- ").skip(1);
    let names = bullets.flat_map(|bullet| {
        let end = bullet.trim_end().strip_suffix("`)").and_then(|text| text.rsplit_once("(`"));
        let (_, names) = end.unwrap_or_else(|| panic!("no test is named at the end: {bullet}"));
        let names = names.split(['`', ',']).map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    names.collect()
}

/// The tests of `limits.rs`, of both engines that run nodes under control.
fn pinned_limits() -> BTreeSet<String> {
    let code = ["everhold-sim", "everhold-timed"]
        .map(|name| read(&format!("crates/{name}/tests/it/limits.rs")))
        .concat();
    let tests = code.split("#[test]\n").skip(1);
    let name = |test: &str| {
        let name = test.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
        name.expect("a test is a function").0.to_owned()
    };
    tests.map(name).collect()
}

#[test]
fn blind_spots_are_pinned() {
    let (named, pinned) = (named_limits(), pinned_limits());
    assert!(!named.is_empty());
    assert_eq!(named, pinned, "README.md names the left ones, limits.rs has the right ones");
}
