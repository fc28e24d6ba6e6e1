//! The rules of the workspace, as tests: code does not show that something is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each crate's dependencies within the workspace, of every kind.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let crates = fs::read_dir(root().join("crates")).expect("there are crates");
    let folders = crates.map(|entry| entry.expect("it can be read").path());
    let manifests = folders.chain([root().join("systems")]).map(|f| f.join("Cargo.toml"));
    manifests.map(|manifest| parse(&read(&manifest))).collect()
}

fn parse(manifest: &str) -> (String, BTreeSet<String>) {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
    let key = |line: &str| line.split(['.', '=', ' ']).next().unwrap_or_default().to_owned();
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.contains("dependencies") && line.starts_with("everhold") {
            found.insert(key(line));
        }
    }
    (name.trim_matches('"').to_owned(), found)
}

/// The crates of the workspace, each with those that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("everhold-trace", &[]),
    ("everhold-tls", &[]),
    ("everhold-property", &["everhold-trace"]),
    ("everhold-node", &["everhold-trace"]),
    // For its tests alone, which run programs in the style of C as hosts.
    ("everhold-sys", &["everhold-host", "everhold-sim"]),
    ("everhold-os", &["everhold-node"]),
    (
        "everhold-host",
        &["everhold-node", "everhold-os", "everhold-sim", "everhold-sys", "everhold-trace"],
    ),
    ("everhold-report", &["everhold-property", "everhold-trace"]),
    ("everhold-sim", &["everhold-node", "everhold-property", "everhold-report", "everhold-trace"]),
    (
        "everhold-timed",
        &[
            "everhold-node",
            "everhold-property",
            "everhold-report",
            "everhold-sim",
            "everhold-trace",
        ],
    ),
    ("everhold-instrument", &[]),
    ("everhold-infer", &["everhold-property", "everhold-trace"]),
    ("everhold-live", &["everhold-node", "everhold-property", "everhold-tls", "everhold-trace"]),
    ("everhold-watch", &["everhold-property", "everhold-tls", "everhold-trace"]),
    ("everhold-kernel", &[]),
    ("everhold-attach", &["everhold-kernel", "everhold-live", "everhold-trace", "everhold-watch"]),
    (
        "everhold",
        &[
            "everhold-host",
            "everhold-infer",
            "everhold-live",
            "everhold-node",
            "everhold-property",
            "everhold-report",
            "everhold-sim",
            "everhold-timed",
            "everhold-trace",
            "everhold-watch",
        ],
    ),
    (
        "everhold-systems",
        &[
            "everhold",
            "everhold-infer",
            "everhold-live",
            "everhold-property",
            "everhold-trace",
            "everhold-watch",
        ],
    ),
    (
        "everhold-cli",
        &[
            "everhold",
            "everhold-attach",
            "everhold-host",
            "everhold-infer",
            "everhold-instrument",
            "everhold-live",
            "everhold-property",
            "everhold-report",
            "everhold-systems",
            "everhold-tls",
            "everhold-trace",
            "everhold-watch",
        ],
    ),
];

/// Dependencies point upwards only: each crate may use those named above and no others.
#[test]
fn dependencies_point_upwards() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (name, found) in dependencies() {
        let allowed = allowed.get(name.as_str()).unwrap_or_else(|| {
            panic!("{name} is new: say here, and in ARCHITECTURE.md, what it may depend on")
        });
        for dependency in found {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
        }
    }
}

/// The names of all crates that the library needs with these features.
fn tree(features: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "everhold", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(features)
        .output()
        .expect("cargo starts");
    let text = String::from_utf8(tree.stdout).expect("cargo prints text");
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    let seen: BTreeSet<String> = text.lines().filter_map(name).collect();
    assert!(seen.contains("everhold"), "{text}{}", String::from_utf8_lossy(&tree.stderr));
    seen
}

/// Nobody who did not ask for TLS compiles it.
#[test]
fn the_library_has_no_tls_unasked() {
    let seen = tree(&["--features", "live,infer"]);
    assert!(seen.contains("everhold-tls") && !seen.contains("rustls"), "{seen:?}");
}

/// All crates but two forbid `unsafe`: the machinery under simulated hosts, and the system calls under
/// attach. Those explain each block, which clippy sees to.
#[test]
fn two_crates_have_unsafe() {
    let crates = fs::read_dir(root().join("crates")).expect("there are crates");
    for folder in crates.map(|entry| entry.expect("it can be read").path()) {
        let manifest = read(&folder.join("Cargo.toml"));
        let is_free = manifest.contains("[lints]\nworkspace = true");
        let is_machinery =
            ["everhold-sys", "everhold-kernel"].iter().any(|name| folder.ends_with(name));
        assert_ne!(is_free, is_machinery, "{} has the wrong lints", folder.display());
        assert!(is_free || manifest.contains("undocumented_unsafe_blocks = \"warn\""));
    }
    assert!(read(&root().join("Cargo.toml")).contains("unsafe_code = \"forbid\""));
}

/// Nobody who did not ask for hosts compiles what replaces functions of the C library.
#[test]
fn the_library_has_no_hosts_unasked() {
    assert!(!tree(&[]).contains("everhold-sys"));
    assert!(tree(&["--features", "hosts"]).contains("everhold-sys"));
}

/// The library that a test author compiles stays small.
#[test]
fn the_library_has_few_dependencies() {
    let seen = tree(&[]);
    let foreign: Vec<_> = seen.iter().filter(|name| !name.starts_with("everhold")).collect();
    assert!(foreign.len() <= 20, "{} foreign crates: {foreign:?}", foreign.len());
}

fn sources(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            sources(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// Unfinished code is not merged, and documents do not contain code that is not compiled.
#[test]
fn nothing_is_left_over() {
    let mut files = Vec::new();
    for ending in [".rs", ".md"] {
        sources(&root(), ending, &mut files);
    }
    let marks = ["FIX".to_owned() + "ME", "XX".to_owned() + "X", "todo".to_owned() + "!("];
    let uncompiled = "```".to_owned() + "ignore";
    for file in files {
        let text = read(&file);
        for mark in marks.iter().chain([&uncompiled]) {
            assert!(!text.contains(mark.as_str()), "{} has {mark}", file.display());
        }
    }
}

/// The variables and commands that the documents mention exist.
#[test]
fn documents_name_what_exists() {
    let mut code = Vec::new();
    sources(&root().join("crates"), ".rs", &mut code);
    let code: String = code.iter().map(|file| read(file)).collect();
    for document in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = read(&root().join(document));
        for word in text.split(|c: char| !(c.is_ascii_uppercase() || c == '_')) {
            if word.starts_with("EVERHOLD_") {
                assert!(code.contains(word), "{document} mentions {word}, which does not exist");
            }
        }
    }
}
