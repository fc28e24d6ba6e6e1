//! Variables that interact with the network, found in the source of packages: what is found, what
//! was expected, how long it takes.
//!
//! The packages with a list made by hand are in `crates/everhold-instrument/testdata`. Debian's
//! packages of others' sources (golang-github-hashicorp-raft-dev, golang-etcd-server-dev,
//! golang-github-golang-groupcache-dev) are measured if they are installed, and otherwise their rows say that they are
//! not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use everhold_instrument::facts::Facts;
use everhold_instrument::list::{self, Counts};
use everhold_instrument::{Entries, Slices, go, rust};

use crate::Options;
use crate::measure::{Bound, Scorecard};
use crate::table::Table;

const COLUMNS: [&str; 10] = [
    "package",
    "lines",
    "functions",
    "variables",
    "interacting",
    "received",
    "sent",
    "recall",
    "precision",
    "seconds",
];

/// The folder of Debian's sources in Go.
const GO_SOURCES: &str = "/usr/share/gocode/src";

/// A package: its name, its folder, and what its network is beside the known one.
struct Package {
    name: &'static str,
    folder: PathBuf,
    entries: &'static str,
    /// The list of the variables that an expert expects.
    expected: Option<PathBuf>,
}

fn packages() -> Vec<Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let data = root.join("crates/everhold-instrument/testdata");
    let own = ["tally", "ricart", "chain"].map(|name| Package {
        name,
        folder: data.join(name),
        entries: "",
        expected: Some(data.join(format!("{name}.expected"))),
    });
    let services =
        Package { name: "services", folder: root.join("services"), entries: "", expected: None };
    let debian = [
        ("hashicorp/raft", "github.com/hashicorp/raft", ""),
        ("etcd/raft", "go.etcd.io/etcd/raft", "receive raft.Step\nsend raft.send\n"),
        ("groupcache", "github.com/golang/groupcache", ""),
        ("memberlist", "github.com/hashicorp/memberlist", ""),
    ]
    .map(|(name, folder, entries)| Package {
        name,
        folder: Path::new(GO_SOURCES).join(folder),
        entries,
        expected: None,
    });
    own.into_iter().chain([services]).chain(debian).collect()
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    let mut table = Table::new(&COLUMNS);
    for package in packages().iter().filter(|package| options.wants(package.name)) {
        if !package.folder.exists() {
            let mut row = vec![package.name.to_owned(), "not installed".to_owned()];
            row.resize(COLUMNS.len(), "-".to_owned());
            table.row(row);
            continue;
        }
        let before = Instant::now();
        let facts = match read(package) {
            Ok(facts) => facts,
            Err(error) => {
                println!("{}: {error}", package.name);
                continue;
            }
        };
        let slices = Slices::of(&facts);
        let seconds = before.elapsed().as_secs_f64();
        let counts = Counts::of(&facts, &slices);
        let quality = package.expected.as_ref().map(|path| quality(&facts, &slices, path));
        if let Some((recall, precision)) = quality {
            let name = package.name;
            scores.hold(
                format!("{name}: expected variables that are found"),
                recall,
                Bound::AtLeast(0.9),
            );
            scores.hold(
                format!("{name}: found variables that are expected"),
                precision,
                Bound::AtLeast(0.7),
            );
        }
        let share = |part: Option<f64>| {
            part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0))
        };
        table.row(vec![
            package.name.to_owned(),
            counts.lines.to_string(),
            counts.functions.to_string(),
            counts.variables.to_string(),
            counts.interacting.to_string(),
            counts.received.to_string(),
            counts.sent.to_string(),
            share(quality.map(|(recall, _)| recall)),
            share(quality.map(|(_, precision)| precision)),
            format!("{seconds:.1}"),
        ]);
    }
    table.print("Variables that interact with the network");
    scores
}

fn read(package: &Package) -> Result<Facts, String> {
    let entries = Entries::parse(package.entries)?;
    match package.folder.join("Cargo.toml").exists() {
        true => rust::read(&package.folder, &entries).map_err(|error| error.to_string()),
        false => go::read(&package.folder, &entries),
    }
}

/// Returns the share of the expected variables that are found, and that of the found ones that are
/// expected.
fn quality(facts: &Facts, slices: &Slices, expected: &Path) -> (f64, f64) {
    let found: BTreeSet<String> =
        list::interacting(facts, slices).into_iter().map(|var| list::name(facts, var)).collect();
    let expected = fs::read_to_string(expected).expect("the list is beside the package");
    let expected: BTreeSet<String> = expected.lines().map(str::to_owned).collect();
    let right = found.intersection(&expected).count() as f64;
    (right / expected.len() as f64, right / found.len().max(1) as f64)
}
