//! Packages of Go: their facts, copies, and the errors of their compiler.
//!
//! The syntax and the types are read by a program in Go (`go/*.go`), since `go/types` knows them
//! exactly and is there wherever Go is. It is compiled when it is first needed.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Entries;
use crate::cargo::{Checked, normal};
use crate::copy::{self, Place, Span};
use crate::facts::Facts;
use crate::insert::Inserted;

/// The source of the program that reads packages.
const FRONT_END: &[(&str, &str)] = &[
    ("main.go", include_str!("go/main.go")),
    ("reader.go", include_str!("go/reader.go")),
    ("walk.go", include_str!("go/walk.go")),
    ("calls.go", include_str!("go/calls.go")),
    ("points.go", include_str!("go/points.go")),
    ("network.go", include_str!("go/network.go")),
];

/// The source of the probe, which becomes an internal package of the copy.
const PROBE: &[(&str, &str)] = &[
    ("wire.go", include_str!("../probe/wire.go")),
    ("probe.go", include_str!("../probe/probe.go")),
    ("link.go", include_str!("../probe/link.go")),
    ("recording.go", include_str!("../probe/recording.go")),
    ("show.go", include_str!("../probe/show.go")),
    ("inserted.go", include_str!("../probe/inserted.go")),
];

/// A module, or a package in a folder of the old kind (`GOPATH`).
#[derive(Clone, Debug)]
pub struct Module {
    /// The folder that is read.
    pub folder: PathBuf,
    root: PathBuf,
    import: String,
    /// The `GOPATH` to which it belongs, if it is not a module.
    gopath: Option<PathBuf>,
}

impl Module {
    /// Finds the module of a folder.
    ///
    /// # Errors
    ///
    /// If the folder does not exist.
    pub fn find(folder: &Path) -> Result<Module, String> {
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let is_off = std::env::var("GO111MODULE").is_ok_and(|word| word == "off");
        let manifest = folder.ancestors().find(|at| at.join("go.mod").exists()).filter(|_| !is_off);
        if let Some(root) = manifest {
            let text =
                fs::read_to_string(root.join("go.mod")).map_err(|error| error.to_string())?;
            let line = text.lines().find_map(|line| line.trim().strip_prefix("module "));
            let import = line.ok_or("go.mod names no module")?.trim().trim_matches('"').to_owned();
            return Ok(Module { root: root.to_owned(), import, folder, gopath: None });
        }
        let text = folder.to_string_lossy().into_owned();
        if let Some(at) = text.rfind("/src/") {
            let (gopath, import) = (PathBuf::from(&text[..at]), text[at + 5..].to_owned());
            return Ok(Module { root: folder.clone(), import, folder, gopath: Some(gopath) });
        }
        let name =
            folder.file_name().map_or_else(|| "package".into(), |name| name.to_string_lossy());
        let import = format!("everhold.local/{name}");
        Ok(Module { root: folder.clone(), import, folder, gopath: None })
    }

    /// Returns the variables of the environment in which the copy in a folder is built.
    #[must_use]
    pub fn environment(&self, to: &Path) -> Vec<(String, String)> {
        let Some(gopath) = &self.gopath else { return Vec::new() };
        let mut path = format!("{}:{}", to.display(), gopath.display());
        if let Ok(more) = std::env::var("GOPATH") {
            path.push_str(&format!(":{more}"));
        }
        vec![("GOPATH".to_owned(), path), ("GO111MODULE".to_owned(), "off".to_owned())]
    }

    /// Copies the module, with the probe as an internal package; returns the folder that was named
    /// in the copy.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn copy(&self, to: &Path) -> io::Result<PathBuf> {
        let root = match self.gopath {
            Some(_) => to.join("src").join(&self.import),
            None => to.to_owned(),
        };
        copy::tree(&self.root, &root)?;
        if self.gopath.is_none() && !self.root.join("go.mod").exists() {
            copy::write_changed(
                &root.join("go.mod"),
                format!("module {}\n", self.import).as_bytes(),
            )?;
        }
        if self.gopath.is_none() {
            self.references(&root)?;
        }
        for (name, text) in PROBE {
            copy::write_changed(&root.join("internal/everhold").join(name), text.as_bytes())?;
        }
        Ok(root.join(self.folder.strip_prefix(&self.root).unwrap_or(Path::new(""))))
    }

    /// Makes the references of the copy to modules outside of it absolute: `replace` in `go.mod`, and the
    /// workspace (`go.work`) of which it is a part.
    fn references(&self, copy: &Path) -> io::Result<()> {
        let own = self.root.join("go.mod");
        if own.exists() {
            let text = fs::read_to_string(own)?;
            let text = lines(&text, |line| replaced(line, &self.root, &self.root));
            copy::write_changed(&copy.join("go.mod"), text.as_bytes())?;
        }
        let is_off = std::env::var("GOWORK").is_ok_and(|word| word == "off");
        let around = self.root.ancestors().find(|at| at.join("go.work").exists());
        let Some(around) = around.filter(|_| !is_off) else { return Ok(()) };
        let text = fs::read_to_string(around.join("go.work"))?;
        let text =
            lines(&text, |line| replaced(&used(line, around, &self.root), around, &self.root));
        copy::write_changed(&copy.join("go.work"), text.as_bytes())?;
        match fs::read(around.join("go.work.sum")) {
            Ok(sums) => copy::write_changed(&copy.join("go.work.sum"), &sums),
            Err(_) => Ok(()),
        }
    }

    /// Returns the import of the probe in the copy.
    #[must_use]
    pub fn probe(&self) -> String {
        format!("{}/internal/everhold", self.import)
    }

    /// Compiles the packages below a folder of the copy.
    ///
    /// # Errors
    ///
    /// If Go cannot be run.
    pub fn check(&self, package: &Path, to: &Path) -> io::Result<Checked> {
        let run = Command::new("go")
            .args(["build", "-gcflags=-e", "-o", "/dev/null", "./..."])
            .current_dir(package)
            .envs(self.environment(to))
            .output()?;
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        let errors = text.lines().filter_map(|line| place(line, package)).map(|place| vec![place]);
        Ok(Checked { is_fine: run.status.success(), errors: errors.collect(), text })
    }
}

fn lines(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

/// A path in a file of Go that is relative to `base`, as the copy of `root` has it: relative to the copy
/// if it is in there, and otherwise absolute.
fn moved(word: &str, base: &Path, root: &Path) -> Option<String> {
    let path = word.trim_matches('"');
    if !matches!(path.split('/').next(), Some("." | "..")) {
        return None;
    }
    let path = normal(&base.join(path));
    Some(match path.strip_prefix(root) {
        Ok(inside) => format!("\"./{}\"", inside.display()),
        Err(_) => format!("{:?}", path.display().to_string()),
    })
}

/// A line with a directive `replace`, whose target may be a folder.
fn replaced(line: &str, base: &Path, root: &Path) -> String {
    let Some((before, after)) = line.split_once("=>") else { return line.to_owned() };
    let word = after.split_whitespace().next().unwrap_or_default();
    match moved(word, base, root) {
        Some(path) => format!("{before}=> {path}{}", after.trim_start().split_at(word.len()).1),
        None => line.to_owned(),
    }
}

/// A line of a workspace that names a module.
fn used(line: &str, base: &Path, root: &Path) -> String {
    let words = line.split("//").next().unwrap_or_default().trim();
    let word = words.strip_prefix("use ").unwrap_or(words).trim();
    if word.contains(char::is_whitespace) {
        return line.to_owned();
    }
    match moved(word, base, root) {
        Some(path) if words.starts_with("use ") => format!("use {path}"),
        Some(path) => format!("\t{path}"),
        None => line.to_owned(),
    }
}

/// Reads the place of an error: `file.go:12:3: text`.
fn place(line: &str, package: &Path) -> Option<Place> {
    let mut parts = line.splitn(4, ':');
    let path = parts.next()?.trim().strip_suffix(".go")?;
    let (line, column) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Place { path: package.join(format!("{path}.go")), at: Span::Line(line, column) })
}

/// Reads a package and returns its facts.
///
/// # Errors
///
/// If Go is not installed, or the package cannot be read.
pub fn read(folder: &Path, entries: &Entries) -> Result<Facts, String> {
    let module = Module::find(folder)?;
    let program = front_end()?;
    let mut command = Command::new(program);
    command.arg(&module.folder).current_dir(&module.folder);
    // Without C, the standard library can be read from its source alone.
    command.env("CGO_ENABLED", "0");
    if let Some(gopath) = &module.gopath {
        command.env("GOPATH", gopath).env("GO111MODULE", "off");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(|error| error.to_string())?;
    let mut lines = entries.lines().join("\n");
    lines.push('\n');
    let mut input = running.stdin.take().ok_or("the front end takes no input")?;
    input.write_all(lines.as_bytes()).map_err(|error| error.to_string())?;
    drop(input);
    let run = running.wait_with_output().map_err(|error| error.to_string())?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).trim().to_owned());
    }
    serde_json::from_slice(&run.stdout).map_err(|error| format!("the front end for Go: {error}"))
}

/// Compiles the program that reads packages, unless that was done before; returns its path.
fn front_end() -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    FRONT_END.hash(&mut hasher);
    let user = std::env::var("USER").unwrap_or_default();
    let name = format!("everhold-go-{user}-{:016x}", hasher.finish());
    let folder = std::env::temp_dir().join(name);
    let program = folder.join("facts");
    if program.exists() {
        return Ok(program);
    }
    let fail = |error: io::Error| format!("{}: {error}", folder.display());
    let source = folder.join("source");
    for (name, text) in FRONT_END {
        copy::write_changed(&source.join(name), text.as_bytes()).map_err(fail)?;
    }
    // Another process or thread may do the same at this moment, so the program appears at once.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let made = folder.join(format!("facts.{}.{number}", std::process::id()));
    let run = Command::new("go")
        .args(["build", "-o"])
        .arg(&made)
        .arg(".")
        .current_dir(&source)
        .env("GO111MODULE", "off")
        .output()
        .map_err(|error| format!("`go` cannot be run ({error}); install Go (Debian: golang-go)"))?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).trim().to_owned());
    }
    fs::rename(&made, &program).map_err(fail)?;
    Ok(program)
}

/// Adds the import of the probe, on the line of the package clause.
pub(crate) fn imported(mut inserted: Inserted, probe: &str) -> Inserted {
    let import = format!("; import everhold {probe:?}");
    let mut at = 0;
    for line in inserted.text.split_inclusive('\n') {
        if line.starts_with("package ") {
            let words: usize = "package ".len();
            let name = line[words..].find(|c: char| !(c.is_alphanumeric() || c == '_'));
            at += words + name.unwrap_or(line.len() - words);
            break;
        }
        at += line.len();
    }
    inserted.text.insert_str(at, &import);
    for (range, _) in &mut inserted.parts {
        *range = range.start + import.len()..range.end + import.len();
    }
    inserted
}
