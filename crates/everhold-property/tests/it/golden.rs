//! `testdata/ok/*.prop` are printed in canonical form; `testdata/err/*.prop` yield their error
//! messages.

use std::path::{Path, PathBuf};

use everhold_property::{parse, print_all, render_all};

pub(crate) fn testdata(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let mut files: Vec<(PathBuf, String)> = std::fs::read_dir(&folder)
        .expect("testdata is part of the crate")
        .map(|entry| entry.expect("testdata is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "prop"))
        .map(|path| (path.clone(), std::fs::read_to_string(path).expect("testdata is UTF-8")))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {}", folder.display());
    files
}

#[track_caller]
pub(crate) fn check(path: &Path, actual: &str) {
    let expected_path = path.with_extension("out");
    if std::env::var_os("EVERHOLD_UPDATE").is_some() {
        std::fs::write(&expected_path, actual).expect("testdata is writable");
    }
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    assert_eq!(actual, expected, "{} (EVERHOLD_UPDATE=1 accepts it)", expected_path.display());
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("it was listed").to_string_lossy().into_owned()
}

#[test]
fn what_is_right_has_one_form() {
    for (path, source) in testdata("ok") {
        let parsed = parse(&source);
        let complaints = render_all(&parsed.diagnostics, &file_name(&path), &source);
        assert!(complaints.is_empty(), "{complaints}");
        let printed = print_all(&parsed.properties);
        check(&path, &printed);
        let again = parse(&printed);
        assert_eq!(again.properties, parsed.properties, "{}", path.display());
        assert_eq!(print_all(&again.properties), printed, "{}", path.display());
    }
}

#[test]
fn what_is_wrong_is_explained() {
    for (path, source) in testdata("err") {
        let parsed = parse(&source);
        assert!(!parsed.diagnostics.is_empty(), "{} has no error", path.display());
        check(&path, &render_all(&parsed.diagnostics, &file_name(&path), &source));
    }
}
