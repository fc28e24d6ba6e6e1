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
    let test = args.folder.join("tests/everhold.rs");
    if test.exists() {
        let text = format!("{} already exists; nothing was changed", test.display());
        return Err(BadInput(text).into());
    }
    add_dependency(&manifest, args.library.as_deref())?;
    std::fs::create_dir_all(args.folder.join("tests"))?;
    std::fs::write(&test, TEST).with_context(|| format!("{}", test.display()))?;
    println!(
        "\
added  everhold and serde to the dev-dependencies in {}
wrote  {}: a client, a server, one property, one fault; it passes

  cargo test --test everhold

Then put your own node in place of `Server`: its messages, its state, its `message` handler. Make
the test fail: `Faults::none().duplicate(1)` lets the network deliver a request twice.",
        manifest.display(),
        test.display()
    );
    Ok(Code::Holds)
}

/// Adds the library as a dependency: from the path that the user gave, from the source beside this
/// program, or from the registry.
fn add_dependency(manifest: &Path, library: Option<&Path>) -> Result<()> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../everhold");
    let library = library.map(Path::to_path_buf).or_else(|| source.canonicalize().ok());
    let mut everhold = vec!["add".to_owned(), "--dev".to_owned()];
    match library {
        Some(folder) => everhold.extend(["--path".to_owned(), folder.display().to_string()]),
        None => everhold.push(concat!("everhold@", env!("CARGO_PKG_VERSION")).to_owned()),
    }
    cargo(manifest, &everhold)?;
    cargo(manifest, &["add", "--dev", "serde", "--features", "derive"].map(str::to_owned))
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
