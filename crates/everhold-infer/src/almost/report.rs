//! The report as a file of properties: what was measured stands in comments.

use std::fmt;

use everhold_property::print;
use everhold_trace::text::thousands;

use super::{AlmostInvariant, AlmostReport, Episode};

/// Exceptions that are named with each property; `explain` opens them.
const LINKS_MAX: usize = 4;

impl fmt::Display for AlmostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quiet = match self.quiet {
            Some(quiet) => format!(" ({} of them quiet)", thousands(quiet)),
            None => String::new(),
        };
        writeln!(
            f,
            "# {} properties, {} of them evaluated, in {} snapshots{quiet} of {}: \
             {} always held, {} almost always held.",
            thousands(self.generated),
            thousands(self.properties),
            thousands(self.snapshots),
            counted(self.runs.0, "run"),
            thousands(self.held),
            thousands(self.almost),
        )?;
        if !self.found.is_empty() {
            writeln!(
                f,
                "# Most worth a look: each of these is either no property, or its exceptions show a bug."
            )?;
        }
        for (place, found) in self.found.iter().enumerate() {
            writeln!(f, "\n# {}. {}", place + 1, found.measured())?;
            writeln!(f, "#    {}: {}", found.spread(self.runs.0), found.links())?;
            if let Some(others) = found.others() {
                writeln!(f, "#    {others}")?;
            }
            writeln!(f, "{}", print(&found.property).trim_end())?;
        }
        if self.found.is_empty() {
            writeln!(
                f,
                "# Nothing held in all but a few cases: there is not enough evidence, or no exceptions."
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
            thousands(self.evaluations),
            counted(usize::try_from(self.exceptions).unwrap_or(usize::MAX), "exception"),
            counted(self.episodes.len(), "episode"),
        )
    }

    /// The number of runs, of `runs`, and the number of nodes in which it failed, in words.
    #[must_use]
    pub fn spread(&self, runs: usize) -> String {
        let mut hit: Vec<usize> = self.episodes.iter().map(|episode| episode.run).collect();
        hit.dedup();
        let nodes = counted(self.nodes.len(), "node");
        format!("in {} of {}, at {nodes}", thousands(hit.len() as u64), counted(runs, "run"))
    }

    /// The properties that it stands for.
    fn others(&self) -> Option<String> {
        let same = self.equivalent.first().map(|first| {
            let more = match self.equivalent.len() - 1 {
                0 => String::new(),
                more => format!(" and {} more", thousands(more as u64)),
            };
            format!("same exceptions: `{}`{more}", first.name)
        });
        let near = (self.related > 0).then(|| {
            format!("{} with nearly the same exceptions", counted(self.related, "related one"))
        });
        same.into_iter().chain(near).reduce(|same, near| format!("{same}; {near}"))
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

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", thousands(number as u64))
}
