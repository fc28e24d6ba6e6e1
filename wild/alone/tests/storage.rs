//! Storage engines on real files: killed while they create their files, or with a file as a loss of
//! power may leave it, they do not open again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Creates or opens a store in a folder.
type Open = fn(&Path) -> Result<(), String>;

const ENGINES: [(&str, Open); 3] = [("redb", redb), ("fjall", fjall), ("persy", persy)];
/// Tells the child process which engine creates its store, and where.
const ENGINE: &str = "ALONE_ENGINE";
const FOLDER: &str = "ALONE_FOLDER";

fn redb(folder: &Path) -> Result<(), String> {
    redb::Database::create(folder.join("redb")).map(drop).map_err(|error| error.to_string())
}

fn fjall(folder: &Path) -> Result<(), String> {
    let database = fjall::Database::builder(folder.join("fjall")).open();
    database.map(drop).map_err(|error| error.to_string())
}

fn persy(folder: &Path) -> Result<(), String> {
    let persy = persy::OpenOptions::new().create(true).open(folder.join("persy"));
    persy.map(drop).map_err(|error| error.to_string())
}

/// Opens a store; a panic is a failure like any other.
fn attempt_to(open: Open, folder: &Path) -> Result<(), String> {
    catch_unwind(|| open(folder)).unwrap_or_else(|_| Err("it panics".into()))
}

/// An empty folder of its own for each use.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The child process: creates a store and waits to be killed. Without the variables, nothing.
#[test]
fn child() {
    let (Ok(engine), Some(folder)) = (std::env::var(ENGINE), std::env::var_os(FOLDER)) else {
        return;
    };
    let (_, open) = ENGINES.into_iter().find(|(name, _)| *name == engine).unwrap();
    println!("\nnow");
    open(Path::new(&folder)).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

/// Starts a child that creates a store, and kills it after this time.
fn kill_during_creation(engine: &str, folder: &Path, delay: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .envs([(ENGINE, engine.as_ref()), (FOLDER, folder.as_os_str())])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "now"), "the child does not begin");
    let start = Instant::now();
    while start.elapsed() < delay {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Kills later and later, until a store is left that does not open, however often one tries.
#[test]
fn a_store_killed_during_its_creation_does_not_open_again() {
    for (engine, open) in ENGINES {
        let left = (0..4_000_u64).find_map(|attempt| {
            let folder = folder(engine);
            let delay = Duration::from_micros(attempt % 400 * 10);
            kill_during_creation(engine, &folder, delay);
            let error = attempt_to(open, &folder).err()?;
            assert_eq!(attempt_to(open, &folder), Err(error.clone()), "a second attempt");
            Some((delay, error))
        });
        let (delay, error) = left.unwrap_or_else(|| panic!("{engine}: not affected"));
        println!("{engine}, killed after {delay:?}: {error}");
    }
}

/// `queue-file` creates its file under another name, does not sync it, and renames it. The name and
/// the length may reach the disk before the contents.
#[test]
fn a_queue_of_zeros_does_not_open() {
    let path = folder("queue").join("queue");
    fs::write(&path, [0; 4_096]).unwrap();
    let error = queue_file::QueueFile::open(&path).expect_err("this version is not affected");
    println!("queue-file: {error}");
}
