//! Executions that failed before, in a file beside the test: they run first.
//!
//! `tests/it/raft.rs` keeps its executions in `tests/it/everhold-regressions/raft.txt`, one per
//! line: the test's name, the token, and after `#` the violation and how it was found. The token is
//! a schedule of the explorer or the draws of a timed execution; each reader ignores the tokens of
//! the other. Tests that fail at the same time, in one process or in several, add their lines under
//! the file's own lock.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::thread;

use crate::artifacts;
use crate::execute::attempt;
use crate::schedule::{Schedule, TokenError, checksum};

const HEADER: &str = "\
# Executions that failed. Everhold runs them first; commit this file.
# To drop one, delete its line. Format: test name, token, # what it violated; how it was found.
";
/// The text between the violation of an execution and how it was found.
pub(crate) const STORY: &str = "; found in ";

/// The file in which an execution is kept, or the reason why it is not kept.
pub type Kept = Result<PathBuf, String>;

/// An execution from a regressions file.
#[derive(Clone, Debug)]
pub struct Known<T> {
    /// The execution.
    pub execution: T,
    /// How it was found, if the file says so.
    pub story: Option<String>,
}

/// An execution as regressions files and `EVERHOLD_REPLAY` name it.
pub trait Token: Sized {
    /// The beginning of the tokens of this kind of execution, such as `eh1-`.
    const PREFIX: &str;

    /// Reads a token.
    ///
    /// # Errors
    ///
    /// If the text is not such a token, or is damaged.
    fn parse_token(text: &str) -> Result<Self, TokenError>;

    /// Whether a text is a token of another kind of execution.
    fn is_others(text: &str) -> bool {
        is_token(text) && !text.trim_start().starts_with(Self::PREFIX)
    }
}

/// Whether a text begins like a token of any engine: `eh1`, letters, `-`.
fn is_token(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix("eh1");
    rest.is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_lowercase()).starts_with('-')
    })
}

impl Token for Schedule {
    const PREFIX: &str = "eh1-";
    fn parse_token(text: &str) -> Result<Self, TokenError> {
        Schedule::parse(text)
    }
}

/// The identity of the test that explores.
#[derive(Clone, Debug)]
pub struct TestId {
    file: String,
    test: Option<String>,
    told: Option<String>,
}

impl TestId {
    /// The test that runs on this thread, with the place of its call and the name that it gave its
    /// exploration, if any.
    #[must_use]
    pub fn new(caller: &Location<'_>, told: Option<String>) -> Self {
        // The test harness names its threads after the tests.
        let thread = thread::current();
        let test = thread.name().filter(|name| *name != "main").map(str::to_owned);
        TestId { file: caller.file().to_owned(), test, told }
    }

    /// The name that people read.
    #[must_use]
    pub fn name(&self) -> &str {
        let told = self.told.as_deref();
        told.or(self.test.as_deref()).unwrap_or("exploration")
    }

    /// The name under which `cargo test` runs it.
    #[must_use]
    pub fn test_name(&self) -> Option<&str> {
        self.test.as_deref()
    }

    /// The source file of its call, as the compiler names it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The name of the file with its last outcome: like a finding's id, but the same for all of
    /// its findings.
    pub(crate) fn outcome_name(&self) -> String {
        format!("{}.json", self.id_of(""))
    }

    /// The key that distinguishes this exploration from others in the same file.
    fn key(&self) -> Option<String> {
        let test = self.test.as_deref()?;
        Some(match &self.told {
            Some(told) => format!("{test}/{}", told.replace(char::is_whitespace, "-")),
            None => test.to_owned(),
        })
    }

    /// A finding's id: the test's name, and digits that depend on its file and on the execution.
    #[must_use]
    pub fn id_of(&self, token: &str) -> String {
        let key = self.key();
        let name = key.as_deref().unwrap_or(self.name());
        let digits = checksum(format!("{} {name} {token}", self.file).as_bytes());
        format!("{}-{digits:08x}", artifacts::file_name(name))
    }

    fn regressions_file(&self) -> Option<PathBuf> {
        let source = find_source(&self.file)?;
        let stem = source.file_stem()?.to_owned();
        let folder = source.parent()?.join("everhold-regressions");
        Some(folder.join(stem).with_extension("txt"))
    }
}

/// Finds a source file: the compiler names it from the workspace's root, tests run in the package's
/// folder.
fn find_source(file: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(file)).find(|path| path.is_file())
}

/// The saved executions of a test, and the problems with its file.
pub fn load<T: Token>(test: &TestId) -> (Vec<Known<T>>, Vec<String>) {
    let (Some(key), Some(file)) = (test.key(), test.regressions_file()) else {
        return (Vec::new(), Vec::new());
    };
    match read(&file) {
        Ok(bytes) => parse(&bytes, &key, &file),
        Err(error) if error.kind() == ErrorKind::NotFound => (Vec::new(), Vec::new()),
        Err(error) => (Vec::new(), vec![format!("{} cannot be read: {error}", file.display())]),
    }
}

/// Reads a file while no process writes to it.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    locked(file.lock_shared())?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Accepts that some file systems have no locks; then a single write at the end has to do.
fn locked(lock: io::Result<()>) -> io::Result<()> {
    match lock {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        other => other,
    }
}

fn parse<T: Token>(bytes: &[u8], key: &str, file: &Path) -> (Vec<Known<T>>, Vec<String>) {
    let (mut known, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let (line, comment) = line.split_once('#').unwrap_or((line, ""));
        let mut words = line.split_whitespace();
        let (Some(name), token) = (words.next(), words.next()) else { continue };
        if name != key || token.is_some_and(T::is_others) {
            continue;
        }
        let place = format!("{}:{}", file.display(), number + 1);
        let story = comment.rsplit_once(STORY).map(|(_, story)| story.to_owned());
        match token.map(T::parse_token) {
            Some(Ok(execution)) => known.push(Known { execution, story }),
            Some(Err(error)) => problems.push(format!("{place}: {error}; the line is left out")),
            None => problems.push(format!("{place}: a token is missing after the test's name")),
        }
    }
    (known, problems)
}

/// Adds a failing execution to the test's file, if there is a test. Returns the file, or the reason
/// why it was not kept.
pub fn keep(test: &TestId, token: &str, violates: &str) -> Option<Kept> {
    let key = test.key()?;
    Some(attempt("keeping the execution", || {
        let file = test.regressions_file().ok_or_else(|| no_source(&test.file))?;
        let start = format!("{key} {token}");
        let line = format!("{start} # {violates}").replace(['\n', '\r'], " ");
        let added = add(&file, &start, &line);
        added.map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        Ok(file)
    }))
}

fn no_source(file: &str) -> String {
    format!(
        "the test's source file {file} is not found from the folder in which the test runs, so there \
         is no place for everhold-regressions/; keep the replay line above instead"
    )
}

fn has_line(known: &[u8], start: &str) -> bool {
    String::from_utf8_lossy(known).lines().any(|line| line.starts_with(start))
}

/// Adds a line to a file to which others may add at the same time, unless a line with this
/// beginning is there already.
fn add(file: &Path, start: &str, line: &str) -> io::Result<()> {
    // This also works where the file can only be read.
    if read(file).is_ok_and(|known| has_line(&known, start)) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(file)?;
    locked(file.lock())?;
    let mut known = Vec::new();
    file.read_to_end(&mut known)?;
    if has_line(&known, start) {
        return Ok(());
    }
    let mut added = if known.is_empty() { HEADER.to_owned() } else { String::new() };
    if !known.is_empty() && !known.ends_with(b"\n") {
        added.push('\n');
    }
    let _ = writeln!(added, "{line}");
    // On a full disk no half-written line stays behind.
    let written = file.write_all(added.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(file.set_len(known.len() as u64)))
}

/// The token of the finding whose id ends in these digits, if there is only one.
fn by_digits(digits: &str) -> Option<PathBuf> {
    let ending = format!("-{digits}");
    let folders = fs::read_dir(artifacts::folder()).ok()?.flatten();
    let mut alike = folders.filter(|one| one.file_name().to_string_lossy().ends_with(&ending));
    let one = alike.next()?;
    alike.next().is_none().then(|| one.path().join("schedule.txt"))
}

/// The execution that `EVERHOLD_REPLAY` names: a token, a file with one, or a finding's id. `None`
/// if it names an execution of the other kind.
///
/// # Errors
///
/// If it cannot be read.
pub fn replay_asked_for<T: Token>() -> Result<Option<T>, String> {
    let Ok(asked) = std::env::var("EVERHOLD_REPLAY") else { return Ok(None) };
    let asked = asked.trim();
    if asked.is_empty() {
        return Ok(None);
    }
    let refused = |error: &dyn std::fmt::Display| format!("EVERHOLD_REPLAY: {error}");
    let Some(token) = token_of(asked) else {
        return Err(refused(&format!(
            "`{asked}` is not a token (they begin with `eh1-` or `eh1t-`), nor a file that can be \
             read, nor the id of a finding under {}",
            artifacts::folder().display()
        )));
    };
    if T::is_others(&token) {
        return Ok(None);
    }
    T::parse_token(&token).map(Some).map_err(|error| refused(&error))
}

fn token_of(asked: &str) -> Option<String> {
    if is_token(asked) {
        return Some(asked.to_owned());
    }
    let mut files = [PathBuf::from(asked), artifacts::folder().join(asked).join("schedule.txt")]
        .into_iter()
        .chain(find_source(asked))
        .chain(by_digits(asked));
    files.find_map(|path| fs::read_to_string(path).ok())
}
