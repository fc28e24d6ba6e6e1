//! The user's first impression: a cold build of a crate that depends on `everhold`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs, process};

use crate::Options;
use crate::measure::{Scorecard, Size};
use crate::table::Table;

/// A test as small as they come.
const TEST: &str = r#"
use everhold::prelude::*;

#[derive(Clone, Serialize)]
struct Counter { total: u32 }

impl Node for Counter {
    type Msg = u32;
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, add: u32) { self.total += add; }
}

#[test]
fn it_counts() {
    explore(|system: &mut System<u32>| { system.node("counter", Counter { total: 0 }); })
        .assert_holds();
}
"#;

pub(crate) fn run(options: &Options) -> Scorecard {
    let folder = env::temp_dir().join(format!("everhold-cold-build-{}", process::id()));
    write_crate(&folder).expect("a crate can be written to the temporary folder");
    let mut table =
        Table::new(&["cold build of a crate with one test", "crates", "wall s", "CPU s"]);
    for (name, args) in builds(options.size) {
        table.row(row(&folder, name, args));
    }
    table.print("Build");
    fs::remove_dir_all(&folder).expect("the temporary folder can be removed");
    Scorecard::default()
}

fn builds(size: Size) -> Vec<(&'static str, &'static [&'static str])> {
    match size {
        Size::Smoke => vec![("cargo metadata (smoke)", &["metadata", "--format-version", "1"])],
        Size::Full => vec![
            ("cargo test --no-run", &["test", "--no-run"]),
            ("cargo test --no-run --release", &["test", "--no-run", "--release"]),
        ],
    }
}

fn write_crate(folder: &Path) -> std::io::Result<()> {
    let root = root();
    let manifest = format!(
        "[package]\nname = \"cold\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\neverhold = {{ path = \"{}\" }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n",
        root.join("crates/everhold").display()
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), TEST)?;
    // The versions that the product itself is tested with.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn row(folder: &Path, name: &str, args: &[&str]) -> Vec<String> {
    let target = folder.join("target");
    let (wall, cpu) = (Instant::now(), children_cpu_seconds());
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(args).current_dir(folder).env("CARGO_TARGET_DIR", &target);
    let output = cargo.output().expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let crates = said.lines().filter(|line| line.trim_start().starts_with("Compiling")).count();
    vec![
        name.to_owned(),
        crates.to_string(),
        format!("{:.1}", wall.elapsed().as_secs_f64()),
        format!("{:.1}", children_cpu_seconds() - cpu),
    ]
}

/// CPU time of the processes that this one started and that have ended.
fn children_cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("builds are measured on Linux");
    // After the program's name, which may contain anything: cutime and cstime are the 14th and
    // the 15th field.
    let fields = stat.rsplit(')').next().expect("the fields follow the name");
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
