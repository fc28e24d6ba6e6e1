//! Reports for continuous integration: JUnit XML, and a summary for services that display one.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

/// A test case of JUnit.
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// The outcome of a test case, with a title and a text unless it passed.
pub(crate) enum Outcome {
    Passed,
    Skipped(&'static str, String),
    Failed(&'static str, String),
    Unknown(&'static str, String),
}

/// Writes a suite of test cases.
pub(crate) fn junit(suite: &str, cases: &[Case], path: &Path) -> Result<()> {
    let failed = cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(..))).count();
    let unknown = cases.iter().filter(|case| matches!(case.outcome, Outcome::Unknown(..))).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{failed}\" errors=\"{unknown}\">\n",
        escaped(suite),
        cases.len(),
    );
    for case in cases {
        let (class, name) = (escaped(&case.class), escaped(&case.name));
        let inner = case.outcome.element();
        let _ =
            writeln!(xml, "  <testcase classname=\"{class}\" name=\"{name}\">{inner}</testcase>");
    }
    xml.push_str("</testsuite>\n");
    std::fs::write(path, xml).with_context(|| format!("{}", path.display()))
}

impl Outcome {
    fn element(&self) -> String {
        let (tag, title, text) = match self {
            Outcome::Passed => return String::new(),
            Outcome::Skipped(title, text) => ("skipped", title, text),
            Outcome::Failed(title, text) => ("failure", title, text),
            Outcome::Unknown(title, text) => ("error", title, text),
        };
        format!("<{tag} message=\"{}\">{}</{tag}>", escaped(title), escaped(text))
    }
}

/// Appends Markdown to the summary of a GitHub job, if the program runs in one.
pub(crate) fn step_summary(make: impl FnOnce() -> Result<String>) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY") else { return Ok(()) };
    let path = Path::new(&path);
    let file = OpenOptions::new().create(true).append(true).open(path);
    let text = make()?;
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("the summary {}", path.display()))
}

/// Escapes text for XML, also in attributes; characters that XML forbids become `?`.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => "?".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}
