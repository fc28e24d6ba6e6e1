//! README and guide, executed.
//!
//! - Rust blocks are parts of `docs/guide/*.rs`, which are compiled here.
//! - Blocks that name a file (`prop counter.prop`) are written to it.
//! - Console blocks are run, in order, in one folder; what they show must be printed, line by line.
//!   `...` stands for anything. A command ends with 0 unless `# ends with CODE` says otherwise.
//!
//! - `blocks`: the blocks of a document; `shell`: how they are run; `stranger`: the README's first
//!   test in a project outside the workspace.

mod blocks;
#[path = "../../../../docs/guide/counter.rs"]
mod counter;
#[path = "../../../../docs/guide/register.rs"]
mod register;
mod shell;
mod stranger;

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
    let code = plain(&(read("docs/guide/register.rs") + &read("docs/guide/counter.rs")));
    let shell = Shell::new(name);
    let mut commands = 0;
    for Block { info, text, line } in blocks(&read(document)) {
        let place = format!("{document}:{line}");
        match info.split_once(' ').map_or((info.as_str(), None), |(kind, file)| (kind, Some(file)))
        {
            ("rust", None) => {
                assert!(code.contains(&plain(&text)), "{place} is not in docs/guide/*.rs:\n{text}");
            }
            ("console", None) => commands += shell.run(&text, &place),
            (_, Some(file)) => shell.write(file, &text),
            ("text" | "toml", None) => {}
            (other, None) => panic!("{place}: nobody executes a block of {other:?}"),
        }
    }
    assert!(commands > 0, "{document} has no commands");
}

/// Code without what formatting and the test harness add.
fn plain(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("#[ignore"));
    let text: String = lines.flat_map(|line| line.chars().filter(|c| !c.is_whitespace())).collect();
    text.replace(",}", "}").replace(",)", ")")
}

#[test]
fn readme() {
    check("README.md", "readme");
}

#[test]
fn guide() {
    check("docs/guide.md", "guide");
}
