//! `everhold init`: writes a first test into the user's crate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::args::InitArgs;
use crate::exit::{BadInput, Code};

/// The test: it is short, it compiles, and it passes.
const TEST: &str = include_str!("init/first_test.rs");

pub(crate) fn run(args: &InitArgs) -> Result<Code> {
    let manifest = args.folder.join("Cargo.toml");
    if !manifest.is_file() {
        let text = format!(
            "there is no {}: run this in a crate's folder, or make one with `cargo new --lib NAME`",
            manifest.display()
        );
        return Err(BadInput(text).into());
    }
    refuse_without_package(&manifest)?;
    let test = args.folder.join("tests/everhold.rs");
    if test.exists() {
        let text = format!("{} already exists; nothing was changed", test.display());
        return Err(BadInput(text).into());
    }
    add_dependency(&manifest, args.library.as_deref())?;
    std::fs::create_dir_all(args.folder.join("tests"))?;
    std::fs::write(&test, TEST).with_context(|| format!("{}", test.display()))?;
    let profile = match add_profile(&manifest)? {
        Some(root) => {
            format!("added  [profile.test] to {}: tests explore optimised\n", root.display())
        }
        None => String::new(),
    };
    println!(
        "\
added  everhold and serde to the dev-dependencies in {}
{profile}wrote  {}: a client, a server, one property, one fault; it passes

  cargo test --test everhold

Then put your own node in place of `Server`: its messages, its state, its `message` handler. Make
the test fail: `Faults::none().duplicate(1)` lets the network deliver a request twice.",
        manifest.display(),
        test.display()
    );
    Ok(Code::Holds)
}

/// Refuses the manifest of a workspace that is no package: its members have the tests.
fn refuse_without_package(manifest: &Path) -> Result<()> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    if text.lines().any(|line| line.trim() == "[package]") {
        return Ok(());
    }
    let members = members(manifest);
    let example = members.first().map_or("crates/NAME", String::as_str);
    let text = format!(
        "{} is a workspace without a package of its own, so it has no tests; nothing was changed. Give \
         the folder of a member: `everhold init {example}`",
        manifest.display()
    );
    Err(BadInput(text).into())
}

/// The folders of a workspace's members, relative to its root.
fn members(manifest: &Path) -> Vec<String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
    let output = cargo.arg(manifest).output().map(|output| output.stdout).unwrap_or_default();
    let metadata: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
    let root = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifests =
        packages.filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent());
    let relative = manifests.filter_map(|folder| folder.strip_prefix(&root).ok());
    relative.map(|folder| folder.display().to_string()).collect()
}

/// Lets tests explore with optimised code, unless the workspace has a profile for tests already.
/// Returns the manifest that was changed.
fn add_profile(manifest: &Path) -> Result<Option<PathBuf>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"]);
    let output =
        cargo.arg(manifest).output().context("cargo cannot be started; is Rust installed?")?;
    let found = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let root = if found.is_file() { found } else { manifest.to_path_buf() };
    let mut text = std::fs::read_to_string(&root).with_context(|| root.display().to_string())?;
    if text.contains("[profile.test") {
        return Ok(None);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push('\n');
    text.push_str(everhold::FASTER_TESTS);
    std::fs::write(&root, text).with_context(|| root.display().to_string())?;
    Ok(Some(root))
}

/// Adds the library as a dependency: from the path that the user gave, from the clone in which this
/// program was built, or else from the repository.
fn add_dependency(manifest: &Path, library: Option<&Path>) -> Result<()> {
    let library = library.map(Path::to_path_buf).or_else(clone_of_library);
    let mut everhold = vec!["add".to_owned(), "--dev".to_owned()];
    match library {
        Some(folder) => everhold.extend(["--path".to_owned(), folder.display().to_string()]),
        None => {
            let git = ["everhold", "--git", env!("CARGO_PKG_REPOSITORY")];
            everhold.extend(git.map(str::to_owned));
        }
    }
    cargo(manifest, &everhold)?;
    cargo(manifest, &["add", "--dev", "serde", "--features", "derive"].map(str::to_owned))
}

/// The library in the clone in which this program was built. What `cargo install` checked out or
/// unpacked belongs to Cargo: its path would be of no use to others who build the user's project.
fn clone_of_library() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../everhold").canonicalize().ok()?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let kept = home.canonicalize().is_ok_and(|home| folder.starts_with(home));
    (!kept).then_some(folder)
}

fn cargo(manifest: &Path, arguments: &[String]) -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(arguments).arg("--quiet").arg("--manifest-path").arg(manifest);
    let output = command.output().context("cargo cannot be started; is Rust installed?")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let text = format!("`cargo {}` failed: {}", arguments.join(" "), said.trim());
        return Err(BadInput(text).into());
    }
    Ok(())
}
