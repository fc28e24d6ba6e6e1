//! The two engines share the layers below them and do not use each other.

use std::fs;
use std::path::{Path, PathBuf};

/// All sources of a module: its file and those in its folder and the folders below.
fn sources(module: &str) -> Vec<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![src.join(format!("{module}.rs"))];
    let mut folders = vec![src.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the module has a folder") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The lines of a source that are code and mention a module of the crate.
fn mentions(source: &str, module: &str) -> Vec<String> {
    let code = source.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let path = format!("{module}::");
    let is = |line: &&str| {
        line.match_indices(&path).any(|(at, _)| line[..at].ends_with("crate::"))
            || line.contains("use crate::{") && line.contains(module)
    };
    code.filter(is).map(str::to_owned).collect()
}

#[test]
fn engines_do_not_use_each_other() {
    for (engine, other) in [("always", "almost"), ("almost", "always")] {
        let files = sources(engine);
        assert!(files.len() > 10, "{files:?}");
        for file in files {
            let source = fs::read_to_string(&file).expect("it can be read");
            let found = mentions(&source, other);
            assert!(found.is_empty(), "{} uses {other}: {found:?}", file.display());
        }
    }
    let layers = ["relation", "evaluate"];
    for (layer, engine) in layers.iter().flat_map(|l| ["always", "almost"].map(|e| (l, e))) {
        for file in sources(layer) {
            let source = fs::read_to_string(&file).expect("it can be read");
            let found = mentions(&source, engine);
            assert!(found.is_empty(), "{} uses {engine}: {found:?}", file.display());
        }
    }
    // The check itself finds what it looks for.
    assert_eq!(mentions("use crate::almost::parallel;\n// crate::almost::x", "almost").len(), 1);
}
