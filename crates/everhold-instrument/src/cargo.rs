//! Packages of Cargo: their copies, and the errors of their compiler.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::copy::{self, Place, Span};

/// A package and its workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The folder of the package.
    pub folder: PathBuf,
    /// The folder of the workspace, which is copied.
    pub root: PathBuf,
}

impl Package {
    /// Finds the package in a folder.
    ///
    /// # Errors
    ///
    /// If `cargo metadata` does not understand the folder; the message is Cargo's.
    pub fn find(folder: &Path) -> Result<Package, String> {
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let run = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .current_dir(&folder)
            .output()
            .map_err(|error| format!("cargo cannot be run: {error}"))?;
        if !run.status.success() {
            return Err(String::from_utf8_lossy(&run.stderr).trim().to_owned());
        }
        let metadata: Value =
            serde_json::from_slice(&run.stdout).map_err(|error| error.to_string())?;
        let root = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
        let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
        let manifest = folder.join("Cargo.toml");
        let own = packages
            .iter()
            .find(|package| package["manifest_path"].as_str().map(Path::new) == Some(&manifest));
        let name = own.and_then(|package| package["name"].as_str());
        match name {
            Some(name) => Ok(Package { name: name.to_owned(), folder, root }),
            None => {
                let names: Vec<&str> = packages
                    .iter()
                    .filter_map(|package| package["manifest_path"].as_str())
                    .collect();
                let names = names.join(", ");
                Err(format!(
                    "{} is a workspace; name the folder of a package: {names}",
                    folder.display()
                ))
            }
        }
    }

    /// Copies the workspace and gives the package its dependency on the probe, which is in a folder
    /// or, without one, comes from the registry. Returns the folder of the package in the copy.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn copy(&self, to: &Path, probe: Option<&Path>) -> io::Result<PathBuf> {
        copy::tree(&self.root, to)?;
        let inside = self.folder.strip_prefix(&self.root).unwrap_or(Path::new(""));
        manifests(&self.root, &self.root, to)?;
        let package = to.join(inside);
        let manifest = package.join("Cargo.toml");
        let mut text = fs::read_to_string(&manifest)?;
        if !text.contains("everhold-live") {
            let source = match probe {
                Some(folder) => format!("path = {:?}", folder.display().to_string()),
                None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
            };
            text.push_str(&format!("\n[dependencies.everhold-live]\n{source}\n"));
        }
        copy::write_changed(&manifest, text.as_bytes())?;
        let root = to.join("Cargo.toml");
        let text = fs::read_to_string(&root)?;
        if !text.lines().any(|line| line.trim_start().starts_with("[workspace")) {
            // Otherwise a workspace around the copy would claim it.
            fs::write(&root, format!("{text}\n[workspace]\n"))?;
        }
        Ok(package)
    }
}

/// Makes the paths of dependencies outside of the workspace absolute in all manifests of the copy.
fn manifests(root: &Path, folder: &Path, to: &Path) -> io::Result<()> {
    for path in crate::files::with_extension(root, "toml", &mut Vec::new())? {
        if !path.ends_with("Cargo.toml") {
            continue;
        }
        let base = folder.join(&path);
        let base = base.parent().unwrap_or(folder);
        let text = fs::read_to_string(folder.join(&path))?;
        let text: Vec<String> = text.lines().map(|line| absolute(line, base, root)).collect();
        copy::write_changed(&to.join(&path), format!("{}\n", text.join("\n")).as_bytes())?;
    }
    Ok(())
}

/// Makes the path in a line of a manifest absolute if it leads out of the workspace.
fn absolute(line: &str, base: &Path, root: &Path) -> String {
    let Some(key) = line.find("path") else { return line.to_owned() };
    let rest = &line[key + 4..];
    let Some(open) = rest.find('"').filter(|open| rest[..*open].trim() == "=") else {
        return line.to_owned();
    };
    let Some(length) = rest[open + 1..].find('"') else { return line.to_owned() };
    let path = normal(&base.join(&rest[open + 1..open + 1 + length]));
    if path.starts_with(root) {
        return line.to_owned();
    }
    format!(
        "{}{}{}{}",
        &line[..key + 4],
        &rest[..=open],
        path.display(),
        &rest[open + 1 + length..]
    )
}

/// Removes `..` from a path.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// The outcome of a check of a copy.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Whether it compiles.
    pub is_fine: bool,
    /// The places that each error names.
    pub errors: Vec<Vec<Place>>,
    /// The compiler's message, for people.
    pub text: String,
}

/// Checks a package, with its tests and these further arguments of Cargo.
///
/// # Errors
///
/// If Cargo cannot be run.
pub fn check(package: &Path, arguments: &[String]) -> io::Result<Checked> {
    let first = run(package, arguments, true)?;
    // Without the network nothing can be said if a dependency has to be fetched.
    if first.is_fine || !first.errors.is_empty() {
        return Ok(first);
    }
    run(package, arguments, false)
}

fn run(package: &Path, arguments: &[String], is_offline: bool) -> io::Result<Checked> {
    let mut command = Command::new("cargo");
    command.args(["check", "--tests", "--message-format=json", "--keep-going"]);
    command.args(arguments).current_dir(package);
    if is_offline {
        command.arg("--offline");
    }
    let run = command.output()?;
    let mut checked = Checked { is_fine: run.status.success(), ..Checked::default() };
    for line in String::from_utf8_lossy(&run.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        checked.text.push_str(message["rendered"].as_str().unwrap_or_default());
        let mut places = Vec::new();
        spans(message, package, &mut places);
        if !places.is_empty() {
            checked.errors.push(places);
        }
    }
    if checked.text.is_empty() {
        checked.text = String::from_utf8_lossy(&run.stderr).into_owned();
    }
    Ok(checked)
}

/// Collects the places of a message and of its notes, and the calls of macros around them.
fn spans(message: &Value, package: &Path, places: &mut Vec<Place>) {
    for span in message["spans"].as_array().into_iter().flatten() {
        let mut span = span;
        loop {
            let number =
                |key: &str| span[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            let name = Path::new(span["file_name"].as_str().unwrap_or_default());
            let at = Span::Bytes(number("byte_start"), number("byte_end"));
            places.push(Place { path: inside(package, name), at });
            match &span["expansion"]["span"] {
                outer @ Value::Object(_) => span = outer,
                _ => break,
            }
        }
    }
    for child in message["children"].as_array().into_iter().flatten() {
        spans(child, package, places);
    }
}

/// Returns the path of a file in the copy; the compiler names it from the folder of the workspace.
fn inside(package: &Path, name: &Path) -> PathBuf {
    let found = package.ancestors().map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| name.to_owned())
}

/// Checks a copy and leaves out what does not compile, until it does. Returns what the compiler
/// said in the end if it does not compile without insertions either.
///
/// # Errors
///
/// If Cargo cannot be run or a file cannot be written.
pub fn settle(
    copy: &mut copy::Copy<'_>,
    mut check: impl FnMut(&Path) -> io::Result<Checked>,
) -> io::Result<Option<String>> {
    const ROUNDS: usize = 12;
    for round in 0.. {
        let checked = check(&copy.to)?;
        if checked.is_fine {
            return Ok(None);
        }
        let places: Vec<Place> = checked.errors.iter().flatten().cloned().collect();
        let removed = if round < ROUNDS { copy.leave_out(&places)? } else { 0 };
        if removed == 0 && copy.leave_out_files(&places)? == 0 {
            return Ok(Some(checked.text));
        }
    }
    unreachable!("the loop ends when nothing is left to leave out")
}
