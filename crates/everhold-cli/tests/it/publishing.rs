//! Every crate can be published: its manifest is complete, its help texts are part of the package,
//! and every dependency has a permissive licence.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The permissive licences. `deny.toml` has the same list.
const PERMISSIVE: [&str; 8] =
    ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unicode-3.0", "Zlib", "0BSD"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All packages that a build with all features can contain, as `cargo metadata` describes them. It
/// downloads the manifests that no build on this machine needed so far.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features"])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let metadata: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{error}"));
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn ours(package: &Value) -> bool {
    package["source"].is_null()
}

/// Whether a licence expression can be satisfied with permissive licences alone: every operand of
/// `AND` must offer one among its alternatives.
fn permissive(expression: &str) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], "");
    plain.split(" AND ").all(|part| {
        let mut alternatives = part.split(" OR ").map(str::trim);
        alternatives.any(|name| PERMISSIVE.contains(&name))
    })
}

#[test]
fn licence_expressions_are_understood() {
    let cases = [
        ("MIT OR Apache-2.0", true),
        ("Apache-2.0/MIT", true),
        ("MIT OR Apache-2.0 OR LGPL-2.1-or-later", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("", false),
    ];
    for (expression, expected) in cases {
        assert_eq!(permissive(expression), expected, "{expression:?}");
    }
}

#[test]
fn dependencies_have_permissive_licences() {
    let packages = packages();
    assert!(packages.len() > 100, "only {} packages are known", packages.len());
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(permissive(licence), "{} is under {licence:?}", package["id"]);
    }
}

#[test]
fn dependencies_come_from_the_registry() {
    for package in packages().iter().filter(|package| !ours(package)) {
        let source = package["source"].as_str().unwrap_or_default();
        assert!(source.starts_with("registry+"), "{} comes from {source}", package["id"]);
    }
}

#[test]
fn manifests_say_what_a_registry_shows() {
    let packages = packages();
    let mine: Vec<&Value> = packages.iter().filter(|package| ours(package)).collect();
    assert!(mine.len() >= 11, "only {} crates are known", mine.len());
    for package in mine {
        let name = &package["name"];
        for field in
            ["description", "license", "repository", "documentation", "readme", "rust_version"]
        {
            assert!(package[field].is_string(), "{name} lacks `{field}`");
        }
        for field in ["keywords", "categories"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} `{field}`");
        }
        assert!(package["publish"].is_null(), "{name} is not published, so nothing may need it");
        let folder = Path::new(package["manifest_path"].as_str().expect("a path")).parent();
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            let path = folder.expect("a folder").join(file);
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(text.lines().count() > 5, "{} is missing or no text", path.display());
        }
    }
}

/// The build of a packaged crate has access only to the crate's own folder. Its tests are not built.
#[test]
fn sources_include_nothing_from_outside_their_crate() {
    let mut files = Vec::new();
    for folder in ["crates", "systems"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 300, "only {} sources are known", files.len());
    for file in files.into_iter().filter(|file| !file.iter().any(|part| part == "tests")) {
        let text = fs::read_to_string(&file).expect("it can be read");
        let mut before = "";
        for line in text.lines() {
            let (_, path) = line.split_once("include_str!(\"").unwrap_or_default();
            let outside = climbs(path) > depth(&file);
            // Files that only documentation tests include are not needed to build the package.
            let tested_only = before.contains("cfg(doctest)") || text.contains("#[cfg(doctest)]");
            assert!(!outside || tested_only, "{}: {line}", file.display());
            before = line;
        }
    }
}

/// The number of folders by which a relative path goes up.
fn climbs(path: &str) -> usize {
    path.split('/').take_while(|part| *part == "..").count()
}

/// The number of folders between a source file and the folder of its crate.
fn depth(file: &Path) -> usize {
    let is_crate = |folder: &&Path| folder.join("Cargo.toml").exists();
    let below = |folder: &Path| file.strip_prefix(folder).map_or(0, |path| path.iter().count() - 1);
    file.ancestors().skip(1).find(is_crate).map_or(0, below)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The help pages are symbolic links to the documents; in a checkout that made plain files of the
/// links, a page would consist of a path.
#[test]
fn help_pages_are_documents() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("help");
    let names: BTreeSet<PathBuf> = fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert!(names.len() >= 11, "{names:?}");
    for path in names {
        let text = fs::read_to_string(&path).expect("it can be read");
        assert!(text.starts_with("# "), "{} does not begin with a title", path.display());
    }
}

/// The names of the metrics in a text, without the prefix.
fn metrics(text: &str) -> BTreeSet<String> {
    let names = text.split("everhold_").skip(1);
    let name = |rest: &str| {
        rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().map(str::to_owned)
    };
    names.filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let dashboard = fs::read_to_string(root().join("docs/grafana.json")).expect("it is there");
    serde_json::from_str::<Value>(&dashboard).expect("it is JSON");
    let source = root().join("crates/everhold-watch/src/export/metrics.rs");
    let source = fs::read_to_string(source).expect("it is there");
    let shown = metrics(&dashboard);
    assert!(shown.len() > 10, "{shown:?}");
    for name in shown {
        assert!(source.contains(&format!("(\"{name}\"")), "no metric is called everhold_{name}");
    }
}
