//! Storage engines that people use, on simulated hosts: a server commits and acknowledges, a user
//! on another host remembers what was acknowledged, and the server's machine crashes.
//!
//! `docs/found.md` says what was found.

pub mod engines;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use everhold::{Faults, Net};

/// What can go wrong in an engine.
pub type Failure = Box<dyn Error>;
/// Keys and their values.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// A storage engine whose commits are promised to survive a crash.
pub trait Store: Sized {
    /// Creates the store in this folder, or opens it again.
    fn open(folder: &Path) -> Result<Self, Failure>;

    /// Writes these entries, all or none, and returns when they are durable.
    fn commit(&mut self, entries: &Entries) -> Result<(), Failure>;

    /// All entries.
    fn read(&self) -> Result<Entries, Failure>;
}

/// Whether a crash may interrupt the creation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It may, and the next start opens what there is.
    Interrupted,
    /// It may, and the next start removes what there is and begins again. So there are no findings
    /// about creation, and there is room for others.
    Repeated,
}

/// What an acknowledgement promises.
pub const DURABLE: &str = "an acknowledged transaction is lost";
/// What a transaction promises.
pub const WHOLE: &str = "a transaction is torn";
/// What every crash leaves.
pub const OPENS: &str = "the store does not open again";

const FOLDER: &str = "/store";
const TRANSACTIONS: usize = 5;
const ENTRIES: usize = 3;

/// A server with this engine, a user, and the faults that strike the server.
pub fn describe<S: Store + 'static>(net: &mut Net<'_>, creation: Creation, faults: Faults) {
    net.host("server", move || serve::<S>(creation));
    net.client("user", user);
    net.faults(faults);
}

/// The server's program: a request is a line, `commit NUMBER` or `read`, and so is an answer.
fn serve<S: Store>(creation: Creation) {
    let opened = open::<S>(Path::new(FOLDER), creation);
    let mut store = opened.unwrap_or_else(|error| panic!("{OPENS}: {error}"));
    let listener = TcpListener::bind("0.0.0.0:4000").expect("the port is free");
    loop {
        let (stream, _) = listener.accept().expect("the listener listens");
        // A connection that breaks is the user's to repeat.
        let _ = answer(&mut store, stream);
    }
}

fn answer<S: Store>(store: &mut S, mut stream: TcpStream) -> io::Result<()> {
    let mut request = String::new();
    BufReader::new(&stream).read_line(&mut request)?;
    let answer = match request.trim_end().strip_prefix("commit ") {
        Some(number) => {
            let entries = transaction(number.parse().expect("a request has a number"));
            match store.commit(&entries) {
                Ok(()) => "durable".to_owned(),
                Err(error) => format!("refused: {error}"),
            }
        }
        None => kept(&store.read().unwrap_or_else(|error| panic!("{OPENS}: {error}"))),
    };
    writeln!(stream, "{answer}")
}

/// A digit for each transaction: whether the store has it.
fn kept(entries: &Entries) -> String {
    let has = |number| {
        let expected = transaction(number);
        let found = expected.iter().filter(|(key, value)| entries.get(*key) == Some(*value));
        let found = found.count();
        assert!([0, ENTRIES].contains(&found), "{WHOLE}: {found} of the entries of {number}");
        if found == ENTRIES { '1' } else { '0' }
    };
    (0..TRANSACTIONS).map(has).collect()
}

/// The entries of a transaction: a long value, and short ones.
fn transaction(number: usize) -> Entries {
    let entry = |place| {
        let length = if place == 0 { 1_500 } else { 40 };
        let value = (0..length).map(|at| (at * 7 + number * 31 + place + 1) as u8).collect();
        (format!("{number}/{place}"), value)
    };
    (0..ENTRIES).map(entry).collect()
}

fn open<S: Store>(folder: &Path, creation: Creation) -> Result<S, Failure> {
    let whole = folder.with_extension("whole");
    if creation == Creation::Repeated && !whole.exists() {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        create(folder)?;
        drop(S::open(folder)?);
        sync(folder)?;
        File::create(&whole)?.sync_all()?;
        sync_parent(folder)?;
    }
    create(folder)?;
    S::open(folder)
}

fn create(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    sync_parent(folder)
}

fn sync_parent(folder: &Path) -> io::Result<()> {
    File::open(folder.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Syncs a folder with everything in it.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// The user's program.
fn user() {
    let mut acknowledged = Vec::new();
    for number in 0..TRANSACTIONS {
        if ask(&format!("commit {number}")).as_deref() == Some("durable") {
            acknowledged.push(number);
        }
    }
    let kept = loop {
        if let Some(kept) = ask("read") {
            break kept;
        }
    };
    let lost = acknowledged.iter().find(|number| kept.as_bytes()[**number] != b'1');
    assert_eq!(lost, None, "{DURABLE}: {acknowledged:?} were acknowledged, kept: {kept}");
}

/// The answer, unless the connection breaks before it is here.
fn ask(request: &str) -> Option<String> {
    let mut stream = loop {
        match TcpStream::connect("server:4000") {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    writeln!(stream, "{request}").ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    answer.strip_suffix('\n').map(str::to_owned)
}
