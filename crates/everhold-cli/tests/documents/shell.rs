//! Runs console blocks as a reader would, in a separate folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;
use crate::stranger::of_this_checkout;

/// Commands that are not run here: they make the folder in which the others run, build everything, or
/// are run by continuous integration.
const ELSEWHERE: [&str; 7] = [
    "cargo new --lib counter",
    "cd counter",
    "cargo add --dev everhold --git https://github.com/everhold/everhold --features hosts",
    "cargo test --workspace",
    "cargo install --path crates/everhold-cli",
    "cargo install --locked --git https://github.com/everhold/everhold everhold-cli",
    "cargo test",
];

/// Cargo, but the program is built already.
const CARGO: &str = r#"#!/bin/sh
if [ "$1" = run ]; then shift 4; exec everhold "$@"; fi
exec "$EVERHOLD_CARGO" "$@"
"#;

/// The file by which cargo marks the folder of what it builds.
const MARK: &str = "CACHEDIR.TAG";

pub(crate) struct Shell {
    folder: PathBuf,
}

impl Shell {
    /// A folder of documents that test nothing with cargo.
    pub(crate) fn new(name: &str) -> Shell {
        let shell = Shell::empty(name);
        symlink(target(), shell.folder.join("target")).expect("a link");
        shell
    }

    /// A new project of a library. Its dependencies are those of this checkout.
    pub(crate) fn project(name: &str) -> Shell {
        let shell = Shell::empty(name);
        let cargo = shell.folder.join("bin/cargo");
        fs::write(&cargo, CARGO).expect("it can be written");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("it is ours");
        shell.write("src/lib.rs", "");
        fs::copy(root().join("Cargo.lock"), shell.folder.join("Cargo.lock")).expect("a copy");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&built).expect("a folder can be made");
        // Cargo marks only folders that it makes itself, and findings are written to a marked one.
        fs::copy(target().join(MARK), built.join(MARK)).expect("a copy can be made");
        symlink(built, shell.folder.join("target")).expect("a link");
        shell
    }

    /// The folder in which the commands run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The Rust code of the project.
    pub(crate) fn code(&self) -> String {
        let tests = fs::read_dir(self.folder.join("tests")).into_iter().flatten().flatten();
        let files = tests.map(|entry| entry.path()).chain([self.folder.join("src/lib.rs")]);
        files.filter_map(|file| fs::read_to_string(file).ok()).collect()
    }

    /// The folder lies outside the repository: failing tests look there for their source, and write
    /// regressions beside it.
    fn empty(name: &str) -> Shell {
        let unique = format!("everhold-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(unique);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("a folder can be made");
        symlink(env!("CARGO_BIN_EXE_everhold"), folder.join("bin/everhold")).expect("a link");
        Shell { folder }
    }

    /// Writes a file; a manifest takes Everhold from this checkout.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        let parent = path.parent().expect("it is in the folder");
        fs::create_dir_all(parent).expect("a folder can be made");
        let text = if file == "Cargo.toml" { of_this_checkout(text) } else { text.to_owned() };
        fs::write(path, text).expect("it can be written");
    }

    /// Runs a block; returns how many commands it has.
    pub(crate) fn run(&self, block: &str, place: &str) -> usize {
        let commands: Vec<&str> =
            block.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::trim).collect();
        let here: Vec<(&str, i32)> = commands
            .iter()
            .map(|line| expected(line))
            .filter(|(command, _)| !ELSEWHERE.contains(command))
            .collect();
        let (output, codes) = self.script(&here);
        for ((command, code), ended) in here.iter().zip(codes) {
            assert_eq!(ended, *code, "{place}: {command} ended with {ended}:\n{output}");
        }
        let shown = block.lines().filter(|line| !line.starts_with("$ "));
        for line in shown.map(str::trim).filter(|line| !line.is_empty() && *line != "...") {
            let printed = output.lines().any(|printed| matches(line, printed.trim()));
            assert!(printed, "{place}: {line:?} is not printed:\n{output}");
        }
        commands.len()
    }

    /// Uses one shell for the whole block, so that processes in the background can be waited for.
    fn script(&self, commands: &[(&str, i32)]) -> (String, Vec<i32>) {
        let code = |at: usize| self.folder.join(format!("code.{at}"));
        let mut script = String::new();
        for (at, (command, _)) in commands.iter().enumerate() {
            script += &format!("{command}\necho $? > {}\n", code(at).display());
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("EVERHOLD_CARGO", env!("CARGO"))
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("EVERHOLD_REPLAY")
            .output()
            .expect("there is a shell");
        let codes = (0..commands.len()).map(|at| {
            let text = fs::read_to_string(code(at)).unwrap_or_default();
            text.trim().parse().unwrap_or(-1)
        });
        (String::from_utf8_lossy(&output.stdout).into_owned(), codes.collect())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // After a failure the folder is kept for inspection.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The folder into which tests write their findings.
fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("this is a program");
    let found = exe.ancestors().find(|folder| folder.join(MARK).is_file());
    found.map_or_else(|| Path::new("target").to_owned(), Path::to_path_buf)
}

/// Splits a line into the command and its expected exit code.
fn expected(line: &str) -> (&str, i32) {
    let Some((command, comment)) = line.split_once(" # ") else { return (line, 0) };
    let code = comment.trim().strip_prefix("ends with ");
    let code = code.and_then(|code| code.split([',', ' ']).next()?.parse().ok());
    (command.trim(), code.unwrap_or(0))
}

/// Whether a line matches the one in the document; `...` matches anything.
fn matches(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    let mut parts = shown.split("...").peekable();
    let mut first = true;
    while let Some(part) = parts.next() {
        let Some(at) = rest.find(part.trim()) else { return false };
        if first && at > 0 {
            return false;
        }
        rest = &rest[at + part.trim().len()..];
        first = false;
        if parts.peek().is_none() && !part.is_empty() && !rest.is_empty() {
            return false;
        }
    }
    true
}

#[test]
fn lines_match_as_shown() {
    assert!(matches("a b", "a b") && !matches("a b", "a b c") && !matches("b", "a b"));
    assert!(matches("a ... d", "a b c d") && matches("a ...", "a b") && !matches("a ... d", "a b"));
    assert!(matches("... d", "a d") && expected("x y  # ends with 1, of course") == ("x y", 1));
}
