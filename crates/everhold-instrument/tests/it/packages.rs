//! Packages in `testdata`, against lists that were made by hand from their sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use everhold_instrument::facts::Facts;
use everhold_instrument::{Entries, go, rust};

use crate::{is_installed, names};

/// Checks that at least 90 % of the expected variables are found, and 70 % of the found ones are
/// expected.
#[track_caller]
fn check(package: &str, read: impl Fn(&PathBuf) -> Facts) {
    let base = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"));
    let found = names(&read(&base.join(package)));
    let expected = fs::read_to_string(base.join(format!("{package}.expected"))).expect("a list");
    let expected: BTreeSet<String> = expected.lines().map(str::to_owned).collect();
    let right = found.intersection(&expected).count();
    let missed: Vec<_> = expected.difference(&found).collect();
    let more: Vec<_> = found.difference(&expected).collect();
    assert!(right * 10 >= expected.len() * 9, "missed {missed:?}");
    assert!(right * 10 >= found.len() * 7, "not expected {more:?}");
}

#[test]
fn the_lists_made_by_hand_are_found() {
    let entries = Entries::default();
    check("tally", |folder| rust::read(folder, &entries).expect("it can be read"));
    if !is_installed("go", "version") {
        return;
    }
    check("ricart", |folder| go::read(folder, &entries).expect("Go is installed"));
    check("chain", |folder| go::read(folder, &entries).expect("Go is installed"));
}
