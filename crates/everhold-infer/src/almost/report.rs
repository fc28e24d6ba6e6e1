//! The report as a file of properties: what was measured stands in comments.

use std::fmt;

use everhold_property::print;

use super::{AlmostInvariant, AlmostReport, Episode};

/// Exceptions that are named with each property; `explain` opens them.
const LINKS_MAX: usize = 4;

impl fmt::Display for AlmostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# {} properties judged in {} snapshots of {}: {} always held, {} almost always.",
            grouped(self.properties),
            grouped(self.snapshots),
            counted(self.runs.0, "run"),
            grouped(self.held),
            grouped(self.almost),
        )?;
        for (place, found) in self.found.iter().enumerate() {
            writeln!(f, "\n# {}. {}", place + 1, found.measured())?;
            writeln!(f, "#    {}", found.links())?;
            if !found.equivalent.is_empty() || found.related > 0 {
                writeln!(
                    f,
                    "#    {} more fail in the same snapshots, {} in nearly the same or some of them",
                    found.equivalent.len(),
                    found.related
                )?;
            }
            writeln!(f, "{}", print(&found.property).trim_end())?;
        }
        if self.found.is_empty() {
            writeln!(
                f,
                "# Nothing held in all but a few cases: not enough evidence, or no exceptions."
            )?;
        }
        for note in &self.left_out {
            writeln!(f, "# left out: {note}")?;
        }
        Ok(())
    }
}

impl AlmostInvariant {
    /// How often it held and failed, in words.
    #[must_use]
    pub fn measured(&self) -> String {
        let percent = |rate: f64| format!("{:.3}", (rate * 100_000.0).floor() / 1000.0);
        format!(
            "held in {} % ({} to {} %) of {} evaluations; {} in {}",
            percent(self.rate),
            percent(self.interval.0),
            percent(self.interval.1),
            grouped(self.evaluations),
            counted(usize::try_from(self.exceptions).unwrap_or(usize::MAX), "exception"),
            counted(self.episodes.len(), "episode"),
        )
    }

    /// Where the first exceptions are.
    #[must_use]
    pub fn links(&self) -> String {
        let link = |episode: &Episode| format!("run {} after {}", episode.run + 1, episode.from);
        let links: Vec<String> = self.episodes.iter().take(LINKS_MAX).map(link).collect();
        let more = if self.episodes.len() > LINKS_MAX { ", ..." } else { "" };
        format!("{}{more}", links.join(", "))
    }
}

/// A number with its digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number as u64))
}
