//! The report for continuous integration: JUnit XML, and a summary for services that display one.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use everhold_property::Verdict;

use super::text::write_judgement;
use super::{Judgement, Report};
use crate::args::Color;
use crate::paint::Paint;
use crate::plain::plain;

/// Writes one test case for each property; the text of a failure is the same as on a terminal.
pub(super) fn junit(report: &Report<'_>, path: &Path) -> Result<()> {
    let mut cases = String::new();
    for judgement in &report.judgements {
        let name = escaped(&judgement.rule.property().name);
        let text = escaped(&words(judgement)?);
        let inner = match judgement.verdict() {
            Verdict::Holds if judgement.untested().is_some() => {
                format!("<skipped message=\"never put to the test\">{text}</skipped>")
            }
            Verdict::Holds => String::new(),
            Verdict::Violated => format!("<failure message=\"violated\">{text}</failure>"),
            Verdict::Unknown => format!("<error message=\"unknown\">{text}</error>"),
        };
        let _ = writeln!(
            cases,
            "  <testcase classname=\"everhold.check\" name=\"{name}\">{inner}</testcase>"
        );
    }
    let all = report.judgements.len();
    let (failed, unknown) = (report.count(Verdict::Violated), report.count(Verdict::Unknown));
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"everhold check\" \
         tests=\"{all}\" failures=\"{failed}\" errors=\"{unknown}\">\n{cases}</testsuite>\n"
    );
    std::fs::write(path, xml).with_context(|| format!("{}", path.display()))
}

/// Appends a table to the summary of a GitHub job, if the program runs in one.
pub(super) fn step_summary(report: &Report<'_>) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY") else { return Ok(()) };
    let mut text = "### everhold check\n\n| verdict | property |\n|---|---|\n".to_owned();
    for judgement in &report.judgements {
        let name = plain(&judgement.rule.property().name).replace(['\n', '`'], " ");
        let name = escaped(&name).replace('|', "\\|");
        let _ = writeln!(text, "| {} | {name} |", judgement.verdict());
    }
    for judgement in report.judgements.iter().filter(|j| j.verdict() == Verdict::Violated) {
        let _ = writeln!(
            text,
            "\n```text\n{}\n```",
            plain(words(judgement)?.trim_end()).replace("```", "'''")
        );
    }
    let path = Path::new(&path);
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("the summary {}", path.display()))
}

fn words(judgement: &Judgement<'_>) -> Result<String> {
    let mut text = Vec::new();
    write_judgement(judgement, Paint::new(Color::Never), &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Escapes text for XML, also in attributes; characters that XML forbids become `?`.
fn escaped(text: &str) -> String {
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
