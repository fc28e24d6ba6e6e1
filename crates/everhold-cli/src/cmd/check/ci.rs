//! The verdicts for continuous integration.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use everhold_property::Verdict;

use super::text::write_judgement;
use super::{Judgement, Report};
use crate::args::Color;
use crate::ci::{self, Case, Outcome, escaped};
use crate::paint::Paint;
use crate::plain::plain;

/// Writes one test case for each property; the text of a failure is the same as on a terminal.
pub(super) fn junit(report: &Report<'_>, path: &Path) -> Result<()> {
    let cases: Vec<Case> = report.judgements.iter().map(case).collect::<Result<_>>()?;
    ci::junit("everhold check", &cases, path)
}

fn case(judgement: &Judgement<'_>) -> Result<Case> {
    let text = words(judgement)?;
    let outcome = match judgement.verdict() {
        Verdict::Holds if judgement.untested().is_some() => {
            Outcome::Skipped("never put to the test", text)
        }
        Verdict::Holds => Outcome::Passed,
        Verdict::Violated => Outcome::Failed("violated", text),
        Verdict::Unknown => Outcome::Unknown("unknown", text),
    };
    let name = judgement.rule.property().name.clone();
    Ok(Case { class: "everhold.check".to_owned(), name, outcome })
}

/// Appends a table to the summary of a GitHub job, if the program runs in one.
pub(super) fn step_summary(report: &Report<'_>) -> Result<()> {
    ci::step_summary(|| {
        let mut text = "### everhold check\n\n| verdict | property |\n|---|---|\n".to_owned();
        for judgement in &report.judgements {
            let name = plain(&judgement.rule.property().name).replace(['\n', '`'], " ");
            let name = escaped(&name).replace('|', "\\|");
            let _ = writeln!(text, "| {} | {name} |", judgement.verdict());
        }
        for judgement in report.judgements.iter().filter(|j| j.verdict() == Verdict::Violated) {
            let words = plain(words(judgement)?.trim_end()).replace("```", "'''");
            let _ = writeln!(text, "\n```text\n{words}\n```");
        }
        Ok(text)
    })
}

fn words(judgement: &Judgement<'_>) -> Result<String> {
    let mut text = Vec::new();
    write_judgement(judgement, Paint::new(Color::Never), &mut text)?;
    Ok(String::from_utf8(text)?)
}
