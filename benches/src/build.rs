//! The time of a cold build of a crate with one test, for Everhold and for Shuttle.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs, process};

use crate::Options;
use crate::measure::{Scorecard, Size};
use crate::table::Table;

/// A crate with a minimal test.
struct Cold {
    name: &'static str,
    dependencies: String,
    /// A lock file with the versions to use.
    lock: PathBuf,
    source: &'static str,
}

const OURS: &str = r#"
use everhold::prelude::*;

#[derive(Clone, Serialize)]
struct Counter { total: u32 }

impl Node for Counter {
    type Msg = u32;
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, add: u32) { self.total += add; }
}

#[test]
fn it_counts() {
    explore(|system: &mut everhold::System<u32>| { system.node("counter", Counter { total: 0 }); })
        .assert_holds();
}
"#;

const SHUTTLE: &str = r#"
#[test]
fn it_counts() {
    shuttle::check_random(
        || {
            let (send, receive) = shuttle::sync::mpsc::channel();
            shuttle::thread::spawn(move || send.send(1).unwrap());
            assert_eq!(receive.recv(), Ok(1));
        },
        100,
    );
}
"#;

fn crates() -> [Cold; 2] {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let everhold = benches.join("../crates/everhold");
    let path = everhold.display();
    [
        Cold {
            name: "everhold",
            dependencies: format!(
                "everhold = {{ path = \"{path}\" }}\n\
                 serde = {{ version = \"1\", features = [\"derive\"] }}\n"
            ),
            lock: benches.join("../Cargo.lock"),
            source: OURS,
        },
        Cold {
            name: "shuttle",
            dependencies: "shuttle = \"=0.9.9\"\n".to_owned(),
            lock: benches.join("Cargo.lock"),
            source: SHUTTLE,
        },
    ]
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut table =
        Table::new(&["cold build of a crate with one test", "crates", "wall s", "CPU s"]);
    for args in builds(options.size) {
        for cold in crates() {
            table.row(cold.build(args));
        }
    }
    table.print("Build");
    Scorecard::default()
}

fn builds(size: Size) -> &'static [&'static [&'static str]] {
    match size {
        Size::Smoke => &[&["metadata", "--format-version", "1"]],
        Size::Full => &[&["test", "--no-run"], &["test", "--no-run", "--release"]],
    }
}

impl Cold {
    fn build(&self, args: &[&str]) -> Vec<String> {
        let folder = env::temp_dir().join(format!("cold-{}-{}", self.name, process::id()));
        self.write(&folder).expect("a crate can be written to the temporary folder");
        let (wall, cpu) = (Instant::now(), children_cpu_seconds());
        let said = cargo(&folder, args);
        let (wall, cpu) = (wall.elapsed().as_secs_f64(), children_cpu_seconds() - cpu);
        fs::remove_dir_all(&folder).expect("the temporary folder can be removed");
        let crates = said.lines().filter(|line| line.trim_start().starts_with("Compiling")).count();
        vec![
            format!("{}, cargo {}", self.name, args.join(" ")),
            crates.to_string(),
            format!("{wall:.1}"),
            format!("{cpu:.1}"),
        ]
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        let manifest = format!(
            "[package]\nname = \"cold\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[dependencies]\n{}",
            self.dependencies
        );
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/lib.rs"), self.source)?;
        fs::copy(&self.lock, folder.join("Cargo.lock"))?;
        Ok(())
    }
}

/// Runs cargo in a folder; returns its output.
fn cargo(folder: &Path, args: &[&str]) -> String {
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(args).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    let output = cargo.output().expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// The CPU time of the child processes that have ended.
fn children_cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("builds are measured on Linux");
    // The fields after the program's name, which may contain any character: cutime and cstime are
    // the 14th and the 15th field of the line.
    let fields = stat.rsplit(')').next().expect("the fields follow the name");
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
