//! Executions that failed before, in a file beside the test: they run first.
//!
//! `tests/it/raft.rs` keeps its executions in `tests/it/everhold-regressions/raft.txt`, one per line:
//! the test's name, the token, and after `#` what it violated. The token is a schedule of the explorer
//! or the draws of a timed execution; each reader leaves the tokens of the other alone.

use std::fmt::Write as _;
use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::thread;

use crate::artifacts;
use crate::schedule::{Schedule, TokenError};
use crate::timed::Draws;

const HEADER: &str = "\
# Executions that failed. Everhold runs them first; commit this file.
# To drop one, delete its line. Format: test name, token, # what it violated.
";

/// An execution as regressions files and `EVERHOLD_REPLAY` name it.
pub(crate) trait Token: Sized {
    /// The beginning of the tokens of the other kind of execution.
    const OTHERS: &str;
    fn parse_token(text: &str) -> Result<Self, TokenError>;

    fn is_others(text: &str) -> bool {
        text.trim_start().starts_with(Self::OTHERS)
    }
}

impl Token for Schedule {
    const OTHERS: &str = "eh1t-";
    fn parse_token(text: &str) -> Result<Self, TokenError> {
        Schedule::parse(text)
    }
}

impl Token for Draws {
    const OTHERS: &str = "eh1-";
    fn parse_token(text: &str) -> Result<Self, TokenError> {
        Draws::parse(text)
    }
}

/// The test that explores.
#[derive(Clone, Debug)]
pub(crate) struct TestId {
    file: String,
    test: Option<String>,
    told: Option<String>,
}

impl TestId {
    pub(crate) fn new(caller: &Location<'_>, told: Option<String>) -> Self {
        // The test harness names its threads after the tests.
        let thread = thread::current();
        let test = thread.name().filter(|name| *name != "main").map(str::to_owned);
        TestId { file: caller.file().to_owned(), test, told }
    }

    /// A name for people.
    pub(crate) fn name(&self) -> &str {
        let told = self.told.as_deref();
        told.or(self.test.as_deref()).unwrap_or("exploration")
    }

    /// The name under which `cargo test` knows it.
    pub(crate) fn test_name(&self) -> Option<&str> {
        self.test.as_deref()
    }

    /// What tells this exploration apart from others in the same file.
    fn key(&self) -> Option<String> {
        let test = self.test.as_deref()?;
        Some(match &self.told {
            Some(told) => format!("{test}/{}", told.replace(char::is_whitespace, "-")),
            None => test.to_owned(),
        })
    }

    fn regressions_file(&self) -> Option<PathBuf> {
        let source = find_source(&self.file)?;
        let stem = source.file_stem()?.to_owned();
        let folder = source.parent()?.join("everhold-regressions");
        Some(folder.join(stem).with_extension("txt"))
    }
}

/// The compiler names source files from the workspace's root, tests run in the package's folder.
fn find_source(file: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(file)).find(|path| path.is_file())
}

/// The saved executions of a test, and what is wrong with its file.
pub(crate) fn load<T: Token>(test: &TestId) -> (Vec<T>, Vec<String>) {
    let (Some(key), Some(file)) = (test.key(), test.regressions_file()) else {
        return (Vec::new(), Vec::new());
    };
    match fs::read(&file) {
        Ok(bytes) => parse(&bytes, &key, &file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Vec::new(), Vec::new()),
        Err(error) => (Vec::new(), vec![format!("{} cannot be read: {error}", file.display())]),
    }
}

fn parse<T: Token>(bytes: &[u8], key: &str, file: &Path) -> (Vec<T>, Vec<String>) {
    let (mut executions, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let (Some(name), token) = (words.next(), words.next()) else { continue };
        if name != key || token.is_some_and(T::is_others) {
            continue;
        }
        let place = format!("{}:{}", file.display(), number + 1);
        match token.map(T::parse_token) {
            Some(Ok(execution)) => executions.push(execution),
            Some(Err(error)) => problems.push(format!("{place}: {error}; the line is left out")),
            None => problems.push(format!("{place}: a token is missing after the test's name")),
        }
    }
    (executions, problems)
}

/// Adds a failing execution to the test's file, if there is a test. Says where, or why not.
pub(crate) fn keep(test: &TestId, token: &str, violates: &str) -> Option<Result<PathBuf, String>> {
    let (key, file) = (test.key()?, test.regressions_file()?);
    let known = fs::read_to_string(&file).unwrap_or_default();
    if known.lines().any(|line| line.contains(token)) {
        return Some(Ok(file));
    }
    let mut text = if known.is_empty() { HEADER.to_owned() } else { known };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = writeln!(text, "{key} {token} # {violates}");
    Some(artifacts::write_whole(&file, text.as_bytes()).map(|()| file))
}

/// The execution that `EVERHOLD_REPLAY` names: a token, a file with one, or a finding's id. None if it
/// names an execution of the other kind.
pub(crate) fn replay_asked_for<T: Token>() -> Result<Option<T>, String> {
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
    if Schedule::is_others(asked) || Draws::is_others(asked) {
        return Some(asked.to_owned());
    }
    let mut files = [PathBuf::from(asked), artifacts::folder().join(asked).join("schedule.txt")]
        .into_iter()
        .chain(find_source(asked));
    files.find_map(|path| fs::read_to_string(path).ok())
}
