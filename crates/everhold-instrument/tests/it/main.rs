//! The analysis of whole packages.
//!
//! - `slices`: small sources in Rust and Go, with the variables that interact with the network.
//! - `packages`: packages in `testdata`, against lists made by hand.
//! - `bad_input`: sources that cannot be read, and insertions that do not compile.

mod bad_input;
mod packages;
mod slices;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use everhold_instrument::facts::Facts;
use everhold_instrument::{Slices, list};

/// Returns an empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("instrument").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// Writes a file and the folders to it.
fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

/// Returns the names of the variables that interact with the network.
fn names(facts: &Facts) -> BTreeSet<String> {
    let slices = Slices::of(facts);
    list::interacting(facts, &slices).into_iter().map(|var| list::name(facts, var)).collect()
}

/// Returns whether a program is installed. In CI it has to be; elsewhere the test says that it is
/// left out.
fn is_installed(program: &str, word: &str) -> bool {
    let installed = Command::new(program).arg(word).output().is_ok_and(|run| run.status.success());
    assert!(installed || std::env::var_os("CI").is_none(), "install {program}");
    if !installed {
        eprintln!("left out: {program} is not installed");
    }
    installed
}
